-- support: every unit's masses and category. A model supports a problem (or an answer) when its mass exceeds epsilon,
-- strictly. One that stopped early has had more than epsilon * k hits, whatever the rest of its k samples would be:
-- its category is that of the full run. The tested category calls E or S only where Fisher's test, corrected for the
-- number of problems, finds a difference, and P only where both intervals lie above epsilon; what is left is
-- undetermined. Fisher's test is for fixed numbers of samples: where either model stopped early, E and S have no
-- tested category.
-- mass: c/n, except where sampling ended at a hit. That last sample was bound to be one, so it says nothing of the
-- mass: (c - 1)/(n - 1) is unbiased, and with one hit alone there is no sensible estimate (null; the interval stands).
with masses as (
    select
        *,
        case
            when ended_base = 'hit' then case when c_base > 1 then (c_base - 1) / (n_base - 1) end
            else c_base / nullif(n_base, 0)
        end as mass_base,
        case
            when ended_rlvr = 'hit' then case when c_rlvr > 1 then (c_rlvr - 1) / (n_rlvr - 1) end
            else c_rlvr / nullif(n_rlvr, 0)
        end as mass_rlvr,
        c_base / nullif(if(ended_base = 'k', n_base, k), 0) > epsilon as base_supports,
        c_rlvr / nullif(if(ended_rlvr = 'k', n_rlvr, k), 0) > epsilon as rlvr_supports
    from tested
),

categories as (
    select
        *,
        case
            when ended_base is null or ended_rlvr is null or base_supports is null or rlvr_supports is null then null
            when base_supports and rlvr_supports then 'P'
            when rlvr_supports then 'E'
            when base_supports then 'S'
            else 'O'
        end as category
    from masses
)

select
    * exclude (base_supports, rlvr_supports),
    case
        when category in ('E', 'S') and q_value is null then null
        when category in ('E', 'S') and q_value < $alpha then category
        when category = 'P' and low_base > epsilon and low_rlvr > epsilon then 'P'
        when category = 'O' then 'O'
        when category is not null then 'undetermined'
    end as tested_category
from categories
order by pair, dataset, problem_id, unit_key
