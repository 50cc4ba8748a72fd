-- by_epsilon: P, E, S, O and the ratios of correct completions at several epsilons, per pair and data set and over all.
-- Their masses are exact, so that every epsilon is as good as another; at 0 all are in both supports.
with judged as (
    select
        pair,
        dataset,
        asked.epsilon,
        case
            when mass_base > asked.epsilon and mass_rlvr > asked.epsilon then 'P'
            when mass_rlvr > asked.epsilon then 'E'
            when mass_base > asked.epsilon then 'S'
            else 'O'
        end as category
    from support
    cross join (select unnest($epsilons) as epsilon) as asked
),

counted as (
    select
        pair,
        case when grouping(dataset) = 1 then 'all' else dataset end as dataset,
        epsilon,
        count(*) as completions,
        count(*) filter (where category = 'P') as P,
        count(*) filter (where category = 'E') as E,
        count(*) filter (where category = 'S') as S,
        count(*) filter (where category = 'O') as O
    from judged
    group by grouping sets ((pair, epsilon, dataset), (pair, epsilon))
)

select
    *,
    P / nullif(P + S, 0) as SRR,
    E / nullif(P + E, 0) as NDR,
    2 * SRR * NDR / nullif(SRR + NDR, 0) as SDS,
    (E - S) / nullif(P + E + S, 0) as NSCR
from counted
order by pair, dataset = 'all' desc, dataset, epsilon
