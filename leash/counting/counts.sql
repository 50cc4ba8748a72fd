-- counts: for each pair and problem, how many of the first k samples of each model were drawn, scored (n) and correct
-- (c), and how sampling ended. An unscored sample is neither right nor wrong, so it is not in n. It keeps its place in
-- the order, by which an adaptive budget stops: at the first place, from the floor on, by which there are $stop_after
-- hits.
-- ended: 'k' all k samples are there and no stop came before; 'hit' the last sample is the $stop_after-th hit (c is
-- $stop_after, and the last of n is a hit); 'floor' the hits were there by the floor (c is $stop_after or more);
-- null: samples are missing.
-- hit: the number of the first correct sample. n and c with `_first`: those of the first eighth of the k samples.
with rule as (
    select cast($stop_after as integer) as stop_after, cast($floor as integer) as floor
),

roles as (
    select pair, dataset, k, eighth, 'base' as role, base as model from plan
    union all
    select pair, dataset, k, eighth, 'rlvr' as role, rlvr as model from plan
),

drawn as (
    select
        roles.pair,
        roles.dataset,
        roles.role,
        roles.k,
        tallies.problem_id,
        sum(samples) as drawn,
        max(last) + 1 as reach,
        sum(samples) filter (where correct is not null) as n,
        sum(samples) filter (where correct) as c,
        sum(samples) filter (where correct is not null and upto <= eighth) as n_first,
        sum(samples) filter (where correct and upto <= eighth) as c_first,
        min(first) filter (where correct) as hit
    from roles
    inner join tallies using (model, dataset)
    where tallies.upto <= roles.k
    group by all
),

endings as (
    select
        drawn.*,
        case
            when stop_after is null or floor >= k or coalesce(c, 0) < stop_after then if(drawn >= k, 'k', null)
            when drawn < reach then null -- a sample before the stop is missing
            when drawn > floor then 'hit'
            when drawn = floor then 'floor'
        end as ended
    from drawn
    cross join rule
)

select
    plan.pair,
    plan.dataset,
    plan.domain,
    problems.problem_id,
    'problem' as unit,
    problems.problem_id as unit_key,
    plan.k,
    plan.epsilon,
    cast(coalesce(base.n, 0) as bigint) as n_base,
    cast(coalesce(base.c, 0) as bigint) as c_base,
    base.ended as ended_base,
    cast(coalesce(rlvr.n, 0) as bigint) as n_rlvr,
    cast(coalesce(rlvr.c, 0) as bigint) as c_rlvr,
    rlvr.ended as ended_rlvr,
    base.hit as hit_base,
    rlvr.hit as hit_rlvr,
    cast(coalesce(base.n_first, 0) as bigint) as n_base_first,
    cast(coalesce(base.c_first, 0) as bigint) as c_base_first,
    cast(coalesce(rlvr.n_first, 0) as bigint) as n_rlvr_first,
    cast(coalesce(rlvr.c_first, 0) as bigint) as c_rlvr_first,
    problems.level,
    if($clusters = 'auto', problems.cluster, null) as cluster
from plan
inner join problems using (dataset)
left join endings as base
    on base.pair = plan.pair and base.dataset = plan.dataset and base.role = 'base'
    and base.problem_id = problems.problem_id
left join endings as rlvr
    on rlvr.pair = plan.pair and rlvr.dataset = plan.dataset and rlvr.role = 'rlvr'
    and rlvr.problem_id = problems.problem_id
order by plan.pair, plan.dataset, problems.problem_id
