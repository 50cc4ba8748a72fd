-- decisive_hits: the hits that decide a category. A model's support depends on h hits if without h of them its mass
-- would no longer exceed epsilon. If h is at most $most, a few grading errors could have made the category. E depends
-- on hits of the RLVR model, S on hits of the base, P on both: without the base's hits it is E, without the other's S.
with sides as (
    select
        pair, dataset, problem_id, category, k, epsilon, 'base' as role, c_base as hits,
        if(ended_base = 'k', n_base, k) as out_of, if(category = 'P', 'E', 'O') as otherwise
    from support
    where category in ('P', 'S')
    union all
    select
        pair, dataset, problem_id, category, k, epsilon, 'rlvr' as role, c_rlvr as hits,
        if(ended_rlvr = 'k', n_rlvr, k) as out_of, if(category = 'P', 'S', 'O') as otherwise
    from support
    where category in ('P', 'E')
),

few as (
    select unnest(range(1, cast($most as bigint) + 1)) as hangs_on
),

decisive as (
    select sides.*, min(few.hangs_on) as hangs_on
    from sides
    inner join few on (sides.hits - few.hangs_on) / sides.out_of <= sides.epsilon
    group by all
)

select
    decisive.pair,
    decisive.dataset,
    decisive.problem_id,
    decisive.category,
    decisive.otherwise,
    decisive.role,
    roles.model,
    decisive.hits,
    decisive.hangs_on,
    verdicts.sample,
    verdicts.answer,
    verdicts.process,
    verdicts.flaw,
    problems.gold,
    problems.grader,
    problems.meta
from decisive
inner join roles using (pair, role)
inner join verdicts
    on verdicts.model = roles.model and verdicts.dataset = decisive.dataset
    and verdicts.problem_id = decisive.problem_id and verdicts.sample < decisive.k and verdicts.correct
inner join problems on problems.dataset = decisive.dataset and problems.problem_id = decisive.problem_id
order by decisive.pair, decisive.dataset, decisive.problem_id, decisive.role, verdicts.sample
