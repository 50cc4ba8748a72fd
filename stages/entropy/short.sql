-- short: the models and data sets in which some problem has fewer samples than entropies are measured on.
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
