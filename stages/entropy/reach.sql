-- reach: the number of samples that every problem of a model and data set has.
with drawn as (
    select model, dataset, problem_id, count(*) as samples
    from verdicts
    group by model, dataset, problem_id
)

select model, dataset, min(samples) as reach
from drawn
group by model, dataset
order by model, dataset
