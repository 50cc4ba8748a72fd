-- profile: each model's mean token entropy along its completions, by tenths of their length, per data set and over all
-- problems: the mean over the samples with a step in that tenth, then over the problems with such a sample. Null if the
-- summary's token entropy is null: the curve would be of other problems.
with steps as (
    select entropy.model, entropy.dataset, entropy.problem_id, entropy.sample, tenths.tenth,
        entropy.profile[tenths.tenth + 1] as token_entropy
    from entropy
    cross join range(10) as tenths (tenth)
),

by_problem as (
    select model, dataset, problem_id, tenth, avg(token_entropy order by sample) as token_entropy
    from steps
    group by model, dataset, problem_id, tenth
)

select
    measured.model,
    case when grouping(measured.dataset) = 1 then 'all' else measured.dataset end as dataset,
    cast(tenths.tenth as integer) as tenth,
    count(by_problem.token_entropy) as problems,
    if(
        count(*) = count(measured.token_entropy),
        avg(by_problem.token_entropy order by measured.problem_id, measured.dataset),
        null
    ) as token_entropy
from measured
cross join range(10) as tenths (tenth)
left join by_problem
    on by_problem.model = measured.model
    and by_problem.dataset = measured.dataset
    and by_problem.problem_id = measured.problem_id
    and by_problem.tenth = tenths.tenth
group by grouping sets ((measured.model, measured.dataset, tenths.tenth), (measured.model, tenths.tenth))
order by measured.model, grouping(measured.dataset) desc, measured.dataset, tenths.tenth
