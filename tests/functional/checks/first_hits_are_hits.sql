-- the first hit is the first correct sample, and counts of the first eighth agree with it
with firsts as (
    select dataset, problem_id, model, min(sample) filter (where correct) as hit from verdicts group by all
)

select support.problem_id, support.hit_base, base.hit, support.hit_rlvr, rlvr.hit
from support
inner join firsts as base on base.model = 'base' and base.dataset = support.dataset and base.problem_id = support.problem_id
inner join firsts as rlvr on rlvr.model = 'rlvr' and rlvr.dataset = support.dataset and rlvr.problem_id = support.problem_id
where support.hit_base is distinct from base.hit or support.hit_rlvr is distinct from rlvr.hit
    or (support.c_base_first > 0) <> coalesce(support.hit_base < k // 8, false)
    or (support.c_rlvr_first > 0) <> coalesce(support.hit_rlvr < k // 8, false)
    or n_base_first > k // 8 or n_rlvr_first > k // 8
