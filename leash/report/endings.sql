-- endings: how often completions of both models of a pair had no answer or were cut off, and on how many problems each
-- model's did so more often than the other's. Only the first k samples of problems with a category count.
with per_problem as (
    select
        support.pair,
        support.dataset,
        support.problem_id,
        roles.role,
        count(*) as completions,
        count(*) filter (where verdicts.status = 'no_answer') as no_answer,
        count(*) filter (where verdicts.status = 'truncated') as truncated
    from support
    inner join roles using (pair)
    inner join verdicts
        on verdicts.model = roles.model and verdicts.dataset = support.dataset
        and verdicts.problem_id = support.problem_id and verdicts.sample < support.k
    where support.category is not null
    group by all
),

long as (unpivot per_problem on no_answer, truncated into name status value ended),

paired as (
    select
        base.pair,
        base.status,
        base.completions as completions_base,
        rlvr.completions as completions_rlvr,
        base.ended as ended_base,
        rlvr.ended as ended_rlvr
    from long as base
    inner join long as rlvr using (pair, dataset, problem_id, status)
    where base.role = 'base' and rlvr.role = 'rlvr'
)

select
    pair,
    status,
    sum(ended_base) / sum(completions_base) as share_base,
    sum(ended_rlvr) / sum(completions_rlvr) as share_rlvr,
    count(*) filter (where ended_base / completions_base > ended_rlvr / completions_rlvr) as more_base,
    count(*) filter (where ended_base / completions_base < ended_rlvr / completions_rlvr) as more_rlvr
from paired
group by pair, status
order by pair, status
