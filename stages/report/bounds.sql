-- bounds: the total exact probability of the correct completions that a model wrote, under the decoding they were
-- sampled with. This is a lower bound of the mass of all correct completions. Beside it, the share of correct samples
-- (null if a problem lacks some of its k samples). Both are means over problems.
with exact as (
    select model, dataset, problem_id, sum(exp(-decoding_nll) order by completion) as bound, count(*) as completions
    from mass
    group by model, dataset, problem_id
),

counted as (
    select model, dataset, problem_id, count(*) as n, count(*) filter (where correct) as c
    from verdicts
    group by model, dataset, problem_id
),

means as (
    select
        counted.model,
        case when grouping(counted.dataset) = 1 then 'all' else counted.dataset end as dataset,
        count(*) as problems,
        cast(sum(coalesce(exact.completions, 0)) as bigint) as completions,
        avg(coalesce(exact.bound, 0) order by counted.dataset, counted.problem_id) as bound,
        if(bool_and(n = k), avg(c / n order by counted.dataset, counted.problem_id), null) as sampled
    from counted
    inner join weighed using (model, dataset)
    left join exact using (model, dataset, problem_id)
    group by grouping sets ((counted.model, counted.dataset), (counted.model))
)

select *, bound / sampled as share
from means
order by model, dataset = 'all' desc, dataset
