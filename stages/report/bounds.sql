-- bounds: the total exact probability of the distinct correct completions that were seen, under the decoding they were
-- sampled with: of those that the model wrote itself, and with those that the other models of its pairs wrote. Both are
-- lower bounds of the mass of all correct completions. Beside them, the share of correct samples (null if a problem
-- lacks some of its k samples). All are means over problems.
-- barely_covered: the problems with hits of which the model's own completions cover less than $covered of the correct
-- mass. The share of correct samples whose completion was written only once estimates the rest (Good-Turing).
with exact as (
    select
        model,
        dataset,
        problem_id,
        count(*) filter (where hits > 0) as completions,
        count(*) as completions_with_partners,
        sum(exp(-decoding_nll) order by decoding_nll) filter (where hits > 0) as bound,
        sum(exp(-decoding_nll) order by decoding_nll) as bound_with_partners,
        1 - count(*) filter (where hits = 1) / nullif(sum(hits), 0) as coverage
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
        count(*) filter (where c > 0) as with_hits,
        count(*) filter (where c > 0 and coalesce(coverage, 0) < $covered) as barely_covered,
        cast(sum(coalesce(completions, 0)) as bigint) as completions,
        avg(coalesce(bound, 0) order by counted.dataset, counted.problem_id) as bound,
        cast(sum(coalesce(completions_with_partners, 0)) as bigint) as completions_with_partners,
        avg(coalesce(bound_with_partners, 0) order by counted.dataset, counted.problem_id) as bound_with_partners,
        if(bool_and(n = k), avg(c / n order by counted.dataset, counted.problem_id), null) as sampled
    from counted
    inner join weighed using (model, dataset)
    left join exact using (model, dataset, problem_id)
    group by grouping sets ((counted.model, counted.dataset), (counted.model))
)

select *
from means
order by model, dataset = 'all' desc, dataset
