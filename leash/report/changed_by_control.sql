-- changed_by_control: the problems that are E or S by the run's own reading or by a control, and something else by the
-- other, with the hits of both models in both, and whether those of the control are shown to be above guessing.
select
    control.pair,
    control.dataset,
    control.problem_id,
    control.control as view,
    support.category,
    control.category as category_by_control,
    support.c_base as hits_base,
    control.c_base as hits_base_by_control,
    support.c_rlvr as hits_rlvr,
    control.c_rlvr as hits_rlvr_by_control,
    control.above_guessing_base,
    control.above_guessing_rlvr
from support_by_control as control
inner join support using (pair, dataset, problem_id)
where
    support.category <> control.category
    and (support.category in ('E', 'S') or control.category in ('E', 'S'))
order by all
