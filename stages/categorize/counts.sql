-- counts: for each pair and problem, how many of the first k samples of each model were drawn, scored (n)
-- and correct (c). A sample that could not be scored is neither right nor wrong: it is not in n.
with roles as (
    select pair, dataset, k, epsilon, 'base' as role, base as model from plan
    union all
    select pair, dataset, k, epsilon, 'rlvr' as role, rlvr as model from plan
),

tallies as (
    select
        roles.pair,
        roles.dataset,
        roles.role,
        verdicts.problem_id,
        count(*) as drawn,
        count(verdicts.correct) as n,
        count(*) filter (where verdicts.correct) as c
    from roles
    inner join verdicts using (model, dataset)
    where verdicts.sample < roles.k
    group by all
)

select
    plan.pair,
    plan.dataset,
    problems.problem_id,
    plan.k,
    plan.epsilon,
    coalesce(base.drawn, 0) as drawn_base,
    coalesce(base.n, 0) as n_base,
    coalesce(base.c, 0) as c_base,
    coalesce(rlvr.drawn, 0) as drawn_rlvr,
    coalesce(rlvr.n, 0) as n_rlvr,
    coalesce(rlvr.c, 0) as c_rlvr
from plan
inner join problems using (dataset)
left join tallies as base
    on base.pair = plan.pair and base.dataset = plan.dataset and base.role = 'base'
    and base.problem_id = problems.problem_id
left join tallies as rlvr
    on rlvr.pair = plan.pair and rlvr.dataset = plan.dataset and rlvr.role = 'rlvr'
    and rlvr.problem_id = problems.problem_id
order by plan.pair, plan.dataset, problems.problem_id
