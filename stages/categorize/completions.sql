-- completions: a row for each distinct correct completion that a model of the pair wrote in its first k samples, with
-- its mass under both models from the exact log-probability. This is Definition 2.1 taken literally. Nothing is
-- estimated, so there are no counts, intervals or tests. No softmax is 0: at epsilon = 0 every completion is in every
-- support.
-- stage.py adds the category, by the rule of leash/statistics/categories.py, and the chance that the completion was seen
-- (leash/statistics/completions.py), from its probability as sampled and the number of samples of each model (drawn).
-- That number is null if samples are missing, or if sampling stopped early: then it depends on the hits.
with masses as (
    select
        plan.pair,
        plan.dataset,
        plan.domain,
        plan.k,
        plan.epsilon,
        base.problem_id,
        base.completion,
        base.first as first_base,
        rlvr.first as first_rlvr,
        exp(-base.nll) as mass_base,
        exp(-rlvr.nll) as mass_rlvr,
        exp(-base.decoding_nll) as sampled_base,
        exp(-rlvr.decoding_nll) as sampled_rlvr
    from plan
    inner join mass as base on base.model = plan.base and base.dataset = plan.dataset
    inner join mass as rlvr
        on rlvr.model = plan.rlvr and rlvr.dataset = plan.dataset
        and rlvr.problem_id = base.problem_id and rlvr.completion = base.completion
    where least(base.first, rlvr.first) < plan.k and base.nll is not null and rlvr.nll is not null
)

select
    pair,
    dataset,
    masses.domain,
    problem_id,
    'completion' as unit,
    completion as unit_key,
    masses.k,
    masses.epsilon,
    0 as n_base,
    0 as c_base,
    null as ended_base,
    0 as n_rlvr,
    0 as c_rlvr,
    null as ended_rlvr,
    mass_base,
    null as low_base,
    null as high_base,
    mass_rlvr,
    null as low_rlvr,
    null as high_rlvr,
    null as support_base,
    null as support_rlvr,
    null as tested_category,
    null as p_value,
    null as q_value,
    null as hit_base,
    null as hit_rlvr,
    0 as n_base_first,
    0 as c_base_first,
    0 as n_rlvr_first,
    0 as c_rlvr_first,
    null as guess_base,
    null as guess_rlvr,
    null as guess_p_base,
    null as guess_p_rlvr,
    null as above_guessing_base,
    null as above_guessing_rlvr,
    counts.level,
    counts.cluster,
    sampled_base,
    sampled_rlvr,
    if(counts.ended_base = 'k' and counts.ended_rlvr = 'k', masses.k, null) as drawn
from masses
left join counts using (pair, dataset, problem_id)
-- by first appearance, which does not depend on how completions are named: intervals depend on the order
order by pair, dataset, problem_id, first_base nulls last, first_rlvr nulls last, completion
