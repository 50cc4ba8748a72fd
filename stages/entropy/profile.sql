-- profile: each model's mean token entropy along its completions, by tenths of their length, per data set and over all
-- problems: over the samples that have a step there, then over the problems that have one, which are counted. Null
-- where the summary's token entropy is: a curve of other problems is no part of it.
with steps as (
    select entropy.model, entropy.dataset, entropy.problem_id, entropy.sample, tenths.tenth,
        entropy.profile[tenths.tenth + 1] as token_entropy
    from entropy
    cross join range(10) as tenths (tenth)
),

there as (
    select model, dataset, problem_id, tenth, avg(token_entropy order by sample) as token_entropy
    from steps
    group by model, dataset, problem_id, tenth
)

select
    measured.model,
    case when grouping(measured.dataset) = 1 then 'all' else measured.dataset end as dataset,
    cast(tenths.tenth as integer) as tenth,
    count(there.token_entropy) as problems,
    if(
        count(*) = count(measured.token_entropy),
        avg(there.token_entropy order by measured.problem_id, measured.dataset),
        null
    ) as token_entropy
from measured
cross join range(10) as tenths (tenth)
left join there
    on there.model = measured.model
    and there.dataset = measured.dataset
    and there.problem_id = measured.problem_id
    and there.tenth = tenths.tenth
group by grouping sets ((measured.model, measured.dataset, tenths.tenth), (measured.model, tenths.tenth))
order by measured.model, grouping(measured.dataset) desc, measured.dataset, tenths.tenth
