-- pass_at_k: the unbiased estimator 1 - C(n - c, k) / C(n, k) for every power of two, averaged over problems;
-- null where a problem has fewer than k scored samples. Logarithms of the gamma function keep large n exact.
with models as (
    select pair, dataset, problem_id, 'base' as role, n_base as n, c_base as c from support
    union all
    select pair, dataset, problem_id, 'rlvr' as role, n_rlvr as n, c_rlvr as c from support
),

bounded as (
    select *, max(n) over (partition by pair) as most from models
),

budgets as (
    select unnest([cast(2 as bigint) ** i for i in range(0, 25)]) as k
),

estimates as (
    select
        bounded.*,
        cast(budgets.k as integer) as k,
        case
            when budgets.k > n then null
            when c = 0 then 0
            when n - c < budgets.k then 1
            else 1 - exp(
                lgamma(n - c + 1) - lgamma(n - c - budgets.k + 1) - lgamma(n + 1) + lgamma(n - budgets.k + 1)
            )
        end as estimate
    from bounded
    inner join budgets on budgets.k <= most
)

select
    pair,
    case when grouping(dataset) = 1 then 'all' else dataset end as dataset,
    role,
    k,
    case when count(*) = count(estimate) then avg(estimate order by problem_id) end as pass_at_k
from estimates
group by grouping sets ((pair, role, k, dataset), (pair, role, k))
order by pair, dataset, role, k
