-- counts: for each pair and problem, how many of the first k samples of each model were drawn, scored (n)
-- and correct (c), and how its sampling ended. A sample that could not be scored is neither right nor wrong: it is
-- not in n, but it has its place in the order, by which an adaptive budget stops (at the first place from the floor
-- on with $stop_after hits behind it).
-- ended: 'k' all k samples are there and no stop came before; 'hit' the last sample is the $stop_after-th hit (c is
-- $stop_after, and the last of n is a hit); 'floor' the hits were there by the floor (c is $stop_after or more);
-- null: samples are missing.
with rule as (
    select cast($stop_after as integer) as stop_after, cast($floor as integer) as floor
),

roles as (
    select pair, dataset, k, epsilon, 'base' as role, base as model from plan
    union all
    select pair, dataset, k, epsilon, 'rlvr' as role, rlvr as model from plan
),

tallies as (
    select
        roles.pair,
        roles.dataset,
        roles.role,
        roles.k,
        verdicts.problem_id,
        count(*) as drawn,
        max(verdicts.sample) + 1 as reach,
        count(verdicts.correct) as n,
        count(*) filter (where verdicts.correct) as c
    from roles
    inner join verdicts using (model, dataset)
    where verdicts.sample < roles.k
    group by all
),

endings as (
    select
        tallies.*,
        case
            when stop_after is null or floor >= k or c < stop_after then if(drawn >= k, 'k', null)
            when drawn < reach then null -- a sample before the stop is missing
            when drawn > floor then 'hit'
            when drawn = floor then 'floor'
        end as ended
    from tallies
    cross join rule
)

select
    plan.pair,
    plan.dataset,
    problems.problem_id,
    plan.k,
    plan.epsilon,
    coalesce(base.n, 0) as n_base,
    coalesce(base.c, 0) as c_base,
    base.ended as ended_base,
    coalesce(rlvr.n, 0) as n_rlvr,
    coalesce(rlvr.c, 0) as c_rlvr,
    rlvr.ended as ended_rlvr
from plan
inner join problems using (dataset)
left join endings as base
    on base.pair = plan.pair and base.dataset = plan.dataset and base.role = 'base'
    and base.problem_id = problems.problem_id
left join endings as rlvr
    on rlvr.pair = plan.pair and rlvr.dataset = plan.dataset and rlvr.role = 'rlvr'
    and rlvr.problem_id = problems.problem_id
order by plan.pair, plan.dataset, problems.problem_id
