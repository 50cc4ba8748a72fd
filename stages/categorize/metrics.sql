-- metrics: P, E, S, O and the four ratios of Definition 2.3, per pair and data set, over all data sets, and over those
-- of each domain where there are several ('all math'); at the chosen epsilon and at epsilon = 0 (the paper's counting).
-- 0/0 is null, and so is a count of tested categories where one was not tested. short: problems with fewer than k
-- samples, which are in no category.
with readings as (
    select pair, dataset, domain, problem_id, 'chosen' as reading, k, epsilon, category, tested_category from support
    union all
    select
        pair,
        dataset,
        domain,
        problem_id,
        'any hit' as reading,
        k,
        0 as epsilon,
        case
            when category is null then null
            when c_base > 0 and c_rlvr > 0 then 'P'
            when c_rlvr > 0 then 'E'
            when c_base > 0 then 'S'
            else 'O'
        end as category,
        null as tested_category
    from support
),

domains as (
    select pair, count(distinct domain) as domains from support group by pair
),

counted as (
    select
        pair,
        case when grouping(dataset) = 0 then dataset when grouping(domain) = 0 then 'all ' || domain else 'all' end
            as dataset,
        reading,
        min(k) as k,
        max(epsilon) as epsilon,
        count(distinct (dataset, problem_id)) as problems,
        count(distinct (dataset, problem_id)) filter (where category is null) as short,
        count(*) filter (where category = 'P') as P,
        count(*) filter (where category = 'E') as E,
        count(*) filter (where category = 'S') as S,
        count(*) filter (where category = 'O') as O,
        count(*) filter (where category = 'E' and tested_category is null) as E_untested,
        count(*) filter (where category = 'S' and tested_category is null) as S_untested,
        count(*) filter (where tested_category = 'E') as E_tested,
        count(*) filter (where tested_category = 'S') as S_tested
    from readings
    inner join domains using (pair)
    group by grouping sets ((pair, reading, dataset), (pair, reading, domain), (pair, reading))
    having grouping(domain) = 1 or max(domains) > 1
),

ratios as (
    select
        *,
        P / nullif(P + S, 0) as SRR,
        E / nullif(P + E, 0) as NDR,
        (E - S) / nullif(P + E + S, 0) as NSCR
    from counted
)

select
    pair,
    dataset,
    reading,
    k,
    epsilon,
    problems,
    P,
    E,
    S,
    O,
    SRR,
    NDR,
    2 * SRR * NDR / nullif(SRR + NDR, 0) as SDS,
    NSCR,
    if(E_untested = 0, E_tested, null) as E_tested,
    if(S_untested = 0, S_tested, null) as S_tested,
    short
from ratios
order by pair, reading desc, dataset = 'all' desc, starts_with(dataset, 'all ') desc, dataset
