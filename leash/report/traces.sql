-- traces: every reference trace of a problem that has a category, with its total negative log-likelihood under both
-- models of a pair (nll_end is the part of the end-of-text token, which has no bytes), and for the style control
-- (leash/statistics/style.py) sums over its tokens and over those of its shuffled version, if there is one. s is the
-- base's surprise at a token, h its entropy, d how much the surprise grew from base to trained model. Tokens that
-- surprise the base more than the share $quantile of the controls' tokens do are left out: there the controls show
-- nothing.
with scored as (
    select
        pairs.pair,
        support.dataset,
        support.problem_id,
        support.cluster,
        support.category,
        controls.control,
        base.source,
        base.trace,
        base.shuffled,
        base.bytes,
        base.tokens as tokens_base,
        rlvr.tokens as tokens_rlvr,
        base.nll as nll_base,
        rlvr.nll as nll_rlvr,
        if(base.ended, coalesce(base.token_nlls[-1], 0), 0) as nll_end_base,
        if(rlvr.ended, coalesce(rlvr.token_nlls[-1], 0), 0) as nll_end_rlvr,
        base.token_nlls as surprise,
        -- A shuffled version may be split into other tokens, or be too long, for one of the models.
        if(
            len(base.token_nlls) = len(base.token_entropies) and len(base.token_nlls) = len(rlvr.token_nlls),
            list_zip(base.token_nlls::double[], base.token_entropies::double[], rlvr.token_nlls::double[]),
            null
        ) as steps
    from pairs
    inner join support using (pair)
    inner join controls using (pair, dataset, problem_id)
    inner join perplexity as base
        on base.model = pairs.base and base.dataset = support.dataset and base.problem_id = support.problem_id
    inner join perplexity as rlvr
        on rlvr.model = pairs.rlvr and rlvr.dataset = support.dataset and rlvr.problem_id = support.problem_id
        and rlvr.source = base.source and rlvr.trace = base.trace and rlvr.shuffled = base.shuffled
    where support.category is not null and base.nll is not null and rlvr.nll is not null
        and base.tokens > 0 and base.bytes > 0
        and (base.source in (pairs.base, pairs.rlvr) or not list_contains($models, base.source))
),

limits as (
    select pair, dataset, source, shuffled, quantile_disc(step[1], $quantile) as most
    from (select pair, dataset, source, shuffled, unnest(steps) as step from scored where control)
    group by pair, dataset, source, shuffled
),

kept as (
    select
        scored.* exclude (surprise, steps),
        len(steps) as steps,
        list_filter(steps, lambda step: step[1] <= most) as inside
    from scored
    left join limits using (pair, dataset, source, shuffled)
),

summed as (
    select
        * exclude (inside),
        len(inside) as n,
        list_sum(list_transform(inside, lambda step: step[1])) as s,
        list_sum(list_transform(inside, lambda step: step[2])) as h,
        list_sum(list_transform(inside, lambda step: step[1] * step[1])) as ss,
        list_sum(list_transform(inside, lambda step: step[1] * step[2])) as sh,
        list_sum(list_transform(inside, lambda step: step[2] * step[2])) as hh,
        list_sum(list_transform(inside, lambda step: step[3] - step[1])) as d,
        list_sum(list_transform(inside, lambda step: step[1] * (step[3] - step[1]))) as sd,
        list_sum(list_transform(inside, lambda step: step[2] * (step[3] - step[1]))) as hd
    from kept
)

select
    straight.* exclude (shuffled),
    shuffled.n as shuffled_n,
    shuffled.s as shuffled_s,
    shuffled.h as shuffled_h,
    shuffled.ss as shuffled_ss,
    shuffled.sh as shuffled_sh,
    shuffled.hh as shuffled_hh,
    shuffled.d as shuffled_d,
    shuffled.sd as shuffled_sd,
    shuffled.hd as shuffled_hd
from summed as straight
left join summed as shuffled
    on shuffled.shuffled and shuffled.pair = straight.pair and shuffled.dataset = straight.dataset
    and shuffled.problem_id = straight.problem_id and shuffled.source = straight.source
    and shuffled.trace = straight.trace
where not straight.shuffled
order by straight.pair, straight.dataset, straight.problem_id, straight.source, straight.trace
