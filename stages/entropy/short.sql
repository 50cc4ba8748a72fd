-- short: models and data sets with problems that have fewer than $samples samples.
with wanted as (
    select models.model, problems.dataset, problems.problem_id
    from (select unnest($models) as model) as models
    cross join problems
)

select
    model,
    dataset,
    count(*) filter (where coalesce(answers.samples, 0) < $samples) as short,
    count(*) as problems
from wanted
left join answers using (model, dataset, problem_id)
group by model, dataset
having short > 0
order by model, dataset
