-- traces: every reference trace of a problem that has a category, with its total negative log-likelihood under both
-- models of a pair and that of each token, and the latter for its shuffled version, if there is one. nll_end is the part
-- of the end-of-text token, which has no bytes.
with scored as (
    select
        pairs.pair,
        support.dataset,
        support.problem_id,
        support.cluster,
        support.category,
        support.low_base,
        support.high_base,
        support.low_rlvr,
        support.high_rlvr,
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
        base.token_entropies as entropy,
        rlvr.token_nlls as surprise_rlvr
    from pairs
    inner join support using (pair)
    inner join perplexity as base
        on base.model = pairs.base and base.dataset = support.dataset and base.problem_id = support.problem_id
    inner join perplexity as rlvr
        on rlvr.model = pairs.rlvr and rlvr.dataset = support.dataset and rlvr.problem_id = support.problem_id
        and rlvr.source = base.source and rlvr.trace = base.trace and rlvr.shuffled = base.shuffled
    where support.category is not null and base.nll is not null and rlvr.nll is not null
        and base.tokens > 0 and base.bytes > 0
        and (base.source in (pairs.base, pairs.rlvr) or not list_contains($models, base.source))
)

select
    straight.* exclude (shuffled),
    crooked.surprise as shuffled_surprise,
    crooked.entropy as shuffled_entropy,
    crooked.surprise_rlvr as shuffled_surprise_rlvr
from scored as straight
left join scored as crooked
    on crooked.shuffled and crooked.pair = straight.pair and crooked.dataset = straight.dataset
    and crooked.problem_id = straight.problem_id and crooked.source = straight.source
    and crooked.trace = straight.trace
where not straight.shuffled
order by straight.pair, straight.dataset, straight.problem_id, straight.source, straight.trace
