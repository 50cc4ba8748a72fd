-- given: how often each model of each pair gave each answer to each problem in its first k samples (times), and how many
-- of these samples have a score and are right. Samples without an answer are left out.
with roles as (
    select pair, dataset, k, 'base' as role, base as model from plan
    union all
    select pair, dataset, k, 'rlvr' as role, rlvr as model from plan
)

select
    roles.pair,
    roles.dataset,
    roles.role,
    tallies.problem_id,
    tallies.answer_class,
    sum(samples) as times,
    coalesce(sum(samples) filter (where correct is not null), 0) as scored,
    coalesce(sum(samples) filter (where correct), 0) as hits
from roles
inner join tallies using (model, dataset)
where tallies.upto <= roles.k and tallies.answer_class is not null
group by all
