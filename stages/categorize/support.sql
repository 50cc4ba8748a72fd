-- support: every problem's masses and category. A model supports a problem when its mass exceeds epsilon,
-- strictly. The tested category calls E or S only where Fisher's test, corrected for the number of problems,
-- finds a difference, and P only where both intervals lie above epsilon; what is left is undetermined.
with masses as (
    select
        *,
        c_base / nullif(n_base, 0) as mass_base,
        c_rlvr / nullif(n_rlvr, 0) as mass_rlvr,
        drawn_base >= k and drawn_rlvr >= k as complete
    from tested
),

categories as (
    select
        *,
        case
            when not complete or mass_base is null or mass_rlvr is null then null
            when mass_base > epsilon and mass_rlvr > epsilon then 'P'
            when mass_rlvr > epsilon then 'E'
            when mass_base > epsilon then 'S'
            else 'O'
        end as category
    from masses
)

select
    pair,
    dataset,
    problem_id,
    'problem' as unit,
    problem_id as unit_key,
    k,
    epsilon,
    n_base,
    c_base,
    n_rlvr,
    c_rlvr,
    mass_base,
    low_base,
    high_base,
    mass_rlvr,
    low_rlvr,
    high_rlvr,
    category,
    case
        when category in ('E', 'S') and q_value < $alpha then category
        when category = 'P' and low_base > epsilon and low_rlvr > epsilon then 'P'
        when category = 'O' then 'O'
        when category is not null then 'undetermined'
    end as tested_category,
    p_value,
    q_value
from categories
order by pair, dataset, problem_id
