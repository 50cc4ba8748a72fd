-- changes: how much each problem's entropies changed from the base of a pair to its second model; null if one of the
-- two is not measured. Answer entropies are on the first `entropy.samples` samples and, with `_all`, on all samples
-- that both models have of every problem (the use `common`). With `_early`, `_late` and `_later` they are on parts of
-- the samples, so that a token entropy can be compared with answers of other samples.
with answered as (
    select windows.pair, windows.use, windows.last as window_end, estimates.*
    from windows
    inner join estimates using (model, dataset, first, last)
),

halves as (
    select
        model,
        dataset,
        problem_id,
        if(
            count(token_entropy) filter (where sample < $half) = $half,
            avg(token_entropy order by sample) filter (where sample < $half),
            null
        ) as early,
        if(
            count(token_entropy) filter (where sample >= $half and sample < 2 * $half) = $half,
            avg(token_entropy order by sample) filter (where sample >= $half and sample < 2 * $half),
            null
        ) as late
    from entropy
    group by model, dataset, problem_id
),

roles as (
    select pair, 'base' as role, base as model from pairs
    union all
    select pair, 'rlvr' as role, rlvr as model from pairs
),

numbers as (
    select
        roles.pair,
        roles.role,
        measured.*,
        halves.early as token_entropy_early,
        halves.late as token_entropy_late,
        common.window_end as common_samples,
        common.answer_entropy as answer_entropy_common,
        common.answer_entropy_mm as answer_entropy_mm_common,
        common.answer_entropy_adjusted as answer_entropy_adjusted_common,
        common.unseen as unseen_common,
        early.answer_entropy_adjusted as answer_early,
        late.answer_entropy_adjusted as answer_late,
        later.answer_entropy_adjusted as answer_later
    from roles
    inner join measured using (model)
    left join halves using (model, dataset, problem_id)
    left join (select * from answered where "use" = 'common') as common using (pair, model, dataset, problem_id)
    left join (select * from answered where "use" = 'early') as early using (model, dataset, problem_id)
    left join (select * from answered where "use" = 'late') as late using (model, dataset, problem_id)
    left join (select * from answered where "use" = 'later') as later using (pair, model, dataset, problem_id)
)

select
    pairs.pair,
    problems.dataset,
    problems.problem_id,
    problems.cluster,
    base.common_samples,
    base.tokens as base_tokens,
    rlvr.tokens as rlvr_tokens,
    base.entropy_sum as base_entropy_sum,
    rlvr.entropy_sum as rlvr_entropy_sum,
    base.unseen as base_unseen,
    rlvr.unseen as rlvr_unseen,
    base.unseen_common as base_unseen_all,
    rlvr.unseen_common as rlvr_unseen_all,
    rlvr.token_entropy - base.token_entropy as token_entropy,
    rlvr.token_entropy_long - base.token_entropy_long as token_entropy_long,
    rlvr.decoding_entropy - base.decoding_entropy as decoding_entropy,
    rlvr.answer_entropy - base.answer_entropy as answer_entropy,
    rlvr.answer_entropy_mm - base.answer_entropy_mm as answer_entropy_mm,
    rlvr.answer_entropy_adjusted - base.answer_entropy_adjusted as answer_entropy_adjusted,
    rlvr.answer_entropy_common - base.answer_entropy_common as answer_entropy_all,
    rlvr.answer_entropy_mm_common - base.answer_entropy_mm_common as answer_entropy_mm_all,
    rlvr.answer_entropy_adjusted_common - base.answer_entropy_adjusted_common as answer_entropy_adjusted_all,
    rlvr.token_entropy_early - base.token_entropy_early as token_early,
    rlvr.token_entropy_late - base.token_entropy_late as token_late,
    rlvr.answer_early - base.answer_early as answer_early,
    rlvr.answer_late - base.answer_late as answer_late,
    rlvr.answer_later - base.answer_later as answer_later
from pairs
cross join problems
left join numbers as base
    on base.pair = pairs.pair
    and base.role = 'base'
    and base.dataset = problems.dataset
    and base.problem_id = problems.problem_id
left join numbers as rlvr
    on rlvr.pair = pairs.pair
    and rlvr.role = 'rlvr'
    and rlvr.dataset = problems.dataset
    and rlvr.problem_id = problems.problem_id
order by pairs.pair, problems.dataset, problems.problem_id
