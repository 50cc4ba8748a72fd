-- answers: the counts of counts.sql, one row for each distinct correct answer of a problem that has several: n is the
-- problem's, c is how often this answer was given. Only answers among the first k samples of either model of the pair
-- are known. Problems where a model stopped early are left out: the answers it would have given later are unknown.
with roles as (
    select pair, dataset, k, eighth, 'base' as role, base as model from plan
    union all
    select pair, dataset, k, eighth, 'rlvr' as role, rlvr as model from plan
),

given as (
    select
        roles.pair,
        roles.dataset,
        tallies.problem_id,
        tallies.answer_class,
        sum(samples) filter (where role = 'base') as c_base,
        sum(samples) filter (where role = 'rlvr') as c_rlvr,
        min(first) filter (where role = 'base') as hit_base,
        min(first) filter (where role = 'rlvr') as hit_rlvr,
        sum(samples) filter (where role = 'base' and upto <= eighth) as c_base_first,
        sum(samples) filter (where role = 'rlvr' and upto <= eighth) as c_rlvr_first
    from roles
    inner join tallies using (model, dataset)
    where tallies.upto <= roles.k and tallies.correct and tallies.answer_class is not null
    group by all
),

several as (
    select * from given
    qualify count(*) over (partition by pair, dataset, problem_id) > 1
)

select
    counts.* replace (
        'answer' as unit,
        several.answer_class as unit_key,
        cast(coalesce(several.c_base, 0) as bigint) as c_base,
        cast(coalesce(several.c_rlvr, 0) as bigint) as c_rlvr,
        several.hit_base as hit_base,
        several.hit_rlvr as hit_rlvr,
        cast(coalesce(several.c_base_first, 0) as bigint) as c_base_first,
        cast(coalesce(several.c_rlvr_first, 0) as bigint) as c_rlvr_first
    )
from counts
inner join several using (pair, dataset, problem_id)
where counts.ended_base = 'k' and counts.ended_rlvr = 'k'
-- by first appearance, which does not depend on how answers are spelled: intervals depend on the order
order by pair, dataset, problem_id, several.hit_base nulls last, several.hit_rlvr nulls last, unit_key
