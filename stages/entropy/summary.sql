-- summary: each model's mean token entropy (over steps, then samples, then problems), answer entropy, share of
-- correct samples and response length, per data set and over all problems. A mean that lacks a problem is null: those
-- that stopped early are the easy ones, and a mean over the others is that of another data set.
with per_problem as (
    select
        model,
        dataset,
        problem_id,
        avg(token_entropy order by sample) as token_entropy,
        avg(tokens order by sample) as tokens
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
    case when grouping(dataset) = 1 then 'all' else dataset end as dataset,
    count(*) as problems,
    min(coalesce(answers.samples, 0)) as samples,
    if(count(*) = count(average), avg(average order by problem_id), null) as average,
    if(count(*) = count(tokens), avg(tokens order by problem_id), null) as tokens,
    if(count(*) = count(token_entropy), avg(token_entropy order by problem_id), null) as token_entropy,
    if(count(*) = count(answer_entropy), avg(answer_entropy order by problem_id), null) as answer_entropy
from wanted
left join answers using (model, dataset, problem_id)
left join per_problem using (model, dataset, problem_id)
group by grouping sets ((model, dataset), (model))
order by model, grouping(dataset) desc, dataset
