-- by_category: perplexity of reference traces under both models of a pair, token-weighted (exp of total
-- negative log-likelihood over total tokens) and as the mean of the traces' own perplexities.
with traces as (
    select
        pairs.pair,
        support.dataset,
        support.problem_id,
        support.category,
        base.source,
        base.tokens,
        base.nll as nll_base,
        rlvr.nll as nll_rlvr
    from pairs
    inner join support using (pair)
    inner join perplexity as base
        on base.model = pairs.base and base.dataset = support.dataset and base.problem_id = support.problem_id
    inner join perplexity as rlvr
        on rlvr.model = pairs.rlvr and rlvr.dataset = support.dataset and rlvr.problem_id = support.problem_id
        and rlvr.source = base.source
    where support.category is not null and base.tokens > 0
)

select
    pair,
    case when grouping(dataset) = 1 then 'all' else dataset end as dataset,
    source,
    category,
    count(*) as traces,
    sum(tokens) as tokens,
    exp(sum(nll_base order by problem_id) / sum(tokens)) as perplexity_base,
    exp(sum(nll_rlvr order by problem_id) / sum(tokens)) as perplexity_rlvr,
    avg(exp(nll_base / tokens) order by problem_id) as mean_perplexity_base,
    avg(exp(nll_rlvr / tokens) order by problem_id) as mean_perplexity_rlvr
from traces
group by grouping sets ((pair, source, category, dataset), (pair, source, category))
order by pair, dataset = 'all' desc, dataset, source, category
