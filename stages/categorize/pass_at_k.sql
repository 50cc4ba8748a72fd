-- pass_at_k: the share of sequences with a hit among their first k samples, of all those, equally likely, that end
-- where this problem's ended; averaged over problems. It is unbiased for every k up to the most that was allowed,
-- whether a problem used it up or stopped early.
-- Of n samples with c hits, m are free to be in any order, d of them hits: all, but for a stop at a hit the ones
-- before it (m = n - 1, d = c - 1). Then it is 1 - C(m - k, d) / C(m, d) = 1 - C(m - d, k) / C(m, k).
-- Beyond m, what stopped early has its hit; what did not has too few scored samples: null.
-- Logarithms of the gamma function keep large n exact.
with models as (
    select pair, dataset, domain, problem_id, k as allowed, 'base' as role, n_base as n, c_base as c, ended_base as ended
    from support
    union all
    select pair, dataset, domain, problem_id, k as allowed, 'rlvr' as role, n_rlvr as n, c_rlvr as c, ended_rlvr as ended
    from support
),

free as (
    select
        *,
        n - if(ended = 'hit', 1, 0) as m,
        c - if(ended = 'hit', 1, 0) as d,
        max(allowed) over (partition by pair) as most,
        min(domain) over (partition by pair) <> max(domain) over (partition by pair) as domains
    from models
),

budgets as (
    select unnest(cast($budgets as bigint[])) as k
),

estimates as (
    select
        free.*,
        cast(budgets.k as integer) as k,
        case
            when budgets.k > allowed then null
            when budgets.k > m then if(ended in ('hit', 'floor'), 1, null)
            when d = 0 then 0
            when m - d < budgets.k then 1
            else 1 - exp(
                lgamma(m - d + 1) - lgamma(m - d - budgets.k + 1) - lgamma(m + 1) + lgamma(m - budgets.k + 1)
            )
        end as estimate
    from free
    inner join budgets on budgets.k <= most
)

select
    pair,
    case when grouping(dataset) = 0 then dataset when grouping(domain) = 0 then 'all ' || domain else 'all' end
        as dataset,
    role,
    k,
    case when count(*) = count(estimate) then avg(estimate order by problem_id) end as pass_at_k
from estimates
group by grouping sets ((pair, role, k, dataset), (pair, role, k, domain), (pair, role, k))
having grouping(domain) = 1 or bool_or(domains)
order by pair, dataset, role, k
