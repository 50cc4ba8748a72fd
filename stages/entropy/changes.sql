-- changes: how much each problem's entropies changed from the base of a pair to its second model; null if one of the
-- two is not measured.
select
    pairs.pair,
    problems.dataset,
    problems.problem_id,
    rlvr.token_entropy - base.token_entropy as token_entropy,
    rlvr.decoding_entropy - base.decoding_entropy as decoding_entropy,
    rlvr.answer_entropy - base.answer_entropy as answer_entropy,
    rlvr.answer_entropy_mm - base.answer_entropy_mm as answer_entropy_mm
from pairs
cross join problems
left join measured as base
    on base.model = pairs.base and base.dataset = problems.dataset and base.problem_id = problems.problem_id
left join measured as rlvr
    on rlvr.model = pairs.rlvr and rlvr.dataset = problems.dataset and rlvr.problem_id = problems.problem_id
order by pairs.pair, problems.dataset, problems.problem_id
