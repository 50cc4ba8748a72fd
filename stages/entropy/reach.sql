-- reach: the first sample number that a problem of a model and data set lacks: every problem has all samples before it.
with numbered as (
    select
        model,
        dataset,
        problem_id,
        sample,
        row_number() over (partition by model, dataset, problem_id order by sample) - 1 as position
    from verdicts
),

-- From the first gap on, sample numbers are larger than positions.
drawn as (
    select model, dataset, problem_id, count(*) filter (where sample = position) as samples
    from numbered
    group by model, dataset, problem_id
)

select model, dataset, min(samples) as reach
from drawn
group by model, dataset
order by model, dataset
