-- measured: every measure of every model and problem, as means over samples (of means over steps). If a sample lacks
-- its entropies, because it is longer than the model's window, the mean is null.
with scored as (
    select
        model,
        dataset,
        problem_id,
        avg(tokens order by sample) as tokens,
        if(count(*) = count(token_entropy), avg(token_entropy order by sample), null) as token_entropy,
        if(count(*) = count(decoding_entropy), avg(decoding_entropy order by sample), null) as decoding_entropy,
        if(count(*) = count(forks), avg(forks order by sample), null) as forks
    from entropy
    group by model, dataset, problem_id
),

wanted as (
    select models.model, problems.dataset, problems.problem_id
    from (select distinct model from answers) as models
    cross join problems
)

select
    model,
    dataset,
    problem_id,
    coalesce(answers.samples, 0) as samples,
    answers.average,
    scored.tokens,
    scored.token_entropy,
    scored.decoding_entropy,
    scored.forks,
    answers.answer_entropy,
    answers.answer_entropy_mm,
    answers.unseen
from wanted
left join answers using (model, dataset, problem_id)
left join scored using (model, dataset, problem_id)
order by model, dataset, problem_id
