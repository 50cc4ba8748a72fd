-- measured: every measure of every model and problem, as means over samples (of means over steps). If a sample lacks
-- its entropies, because it is longer than the model's window, the mean is null. entropy_sum: the mean over samples of
-- the sum over steps; divided by `tokens` it is the entropy pooled over tokens. token_entropy_long: the mean over the
-- samples of at least 16 tokens; null if a problem has none. long_share: the share of samples that are so long.
with scored as (
    select
        model,
        dataset,
        problem_id,
        avg(tokens order by sample) as tokens,
        if(count(*) = count(token_entropy), avg(token_entropy order by sample), null) as token_entropy,
        if(count(*) = count(token_entropy), avg(tokens * token_entropy order by sample), null) as entropy_sum,
        if(count(*) = count(token_entropy), avg(token_entropy order by sample) filter (where tokens >= 16), null)
            as token_entropy_long,
        if(count(*) = count(token_entropy), avg(cast(tokens >= 16 as integer)), null) as long_share,
        if(count(*) = count(decoding_entropy), avg(decoding_entropy order by sample), null) as decoding_entropy,
        if(count(*) = count(forks), avg(forks order by sample), null) as forks
    from entropy
    group by model, dataset, problem_id
),

wanted as (
    select models.model, problems.dataset, problems.problem_id, problems.cluster
    from (select distinct model from answers) as models
    cross join problems
)

select
    model,
    dataset,
    problem_id,
    wanted.cluster,
    coalesce(answers.samples, 0) as samples,
    answers.average,
    scored.tokens,
    scored.token_entropy,
    scored.entropy_sum,
    scored.token_entropy_long,
    scored.long_share,
    scored.decoding_entropy,
    scored.forks,
    answers.answer_entropy,
    answers.answer_entropy_mm,
    answers.answer_entropy_adjusted,
    answers.unseen,
    answers.all_samples,
    answers.answer_entropy_all,
    answers.answer_entropy_mm_all,
    answers.answer_entropy_adjusted_all,
    answers.unseen_all
from wanted
left join answers using (model, dataset, problem_id)
left join scored using (model, dataset, problem_id)
order by model, dataset, problem_id
