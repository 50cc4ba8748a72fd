-- floors: the noise floor of each measure of a model: how much it typically differs between two runs of half the
-- samples. A smaller change may be luck. If the halves of problems differ by d, the means over n problems differ by
-- sqrt(sum d^2) / n (root mean square). Null if a problem is not measured in both halves: measured.sql has no mean then, either.
with scored as (
    select
        model,
        dataset,
        problem_id,
        sample >= $half as later,
        if(count(*) = $half, avg(tokens order by sample), null) as tokens,
        if(count(token_entropy) = $half, avg(token_entropy order by sample), null) as token_entropy,
        if(count(decoding_entropy) = $half, avg(decoding_entropy order by sample), null) as decoding_entropy,
        if(count(forks) = $half, avg(forks order by sample), null) as forks
    from entropy
    where sample < 2 * $half
    group by model, dataset, problem_id, later
),

wanted as (
    select models.model, problems.dataset, problems.problem_id, times.later
    from (select distinct model from answers) as models
    cross join problems
    cross join (select unnest([false, true]) as later) as times
),

measured as (
    select
        model,
        dataset,
        problem_id,
        later,
        halves.average,
        scored.tokens,
        scored.token_entropy,
        scored.decoding_entropy,
        scored.forks,
        halves.answer_entropy,
        halves.answer_entropy_mm,
        halves.answer_entropy_adjusted,
        halves.unseen
    from wanted
    left join halves using (model, dataset, problem_id, later)
    left join scored using (model, dataset, problem_id, later)
),

measures as (
    select *
    from measured
    unpivot include nulls (
        value for measure in (
            average, tokens, token_entropy, decoding_entropy, forks,
            answer_entropy, answer_entropy_mm, answer_entropy_adjusted, unseen
        )
    )
),

differences as (
    select
        model,
        dataset,
        problem_id,
        measure,
        max(value) filter (where later) - max(value) filter (where not later) as difference
    from measures
    group by model, dataset, problem_id, measure
)

select
    model,
    case when grouping(dataset) = 1 then 'all' else dataset end as dataset,
    measure,
    if(
        count(*) = count(difference),
        sqrt(sum(difference * difference order by problem_id, dataset)) / count(*),
        null
    ) as floor
from differences
group by grouping sets ((model, dataset, measure), (model, measure))
order by model, grouping(dataset) desc, dataset, measure
