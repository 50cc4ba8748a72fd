-- summary: each model's mean token entropy (over steps, then samples, then problems), answer entropy, share of
-- correct samples and response length, per data set and over all problems.
with per_problem as (
    select
        model,
        dataset,
        problem_id,
        avg(token_entropy order by sample) as token_entropy,
        avg(tokens order by sample) as tokens
    from entropy
    group by model, dataset, problem_id
)

select
    model,
    case when grouping(dataset) = 1 then 'all' else dataset end as dataset,
    count(*) as problems,
    min(answers.samples) as samples,
    avg(answers.average order by problem_id) as average,
    avg(per_problem.tokens order by problem_id) as tokens,
    avg(per_problem.token_entropy order by problem_id) as token_entropy,
    avg(answers.answer_entropy order by problem_id) as answer_entropy
from per_problem
inner join answers using (model, dataset, problem_id)
group by grouping sets ((model, dataset), (model))
order by model, dataset = 'all' desc, dataset
