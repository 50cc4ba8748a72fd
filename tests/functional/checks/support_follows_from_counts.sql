-- categories follow from the counts, the end of sampling and epsilon; intervals contain their estimates
select * from support
where category <> case
        when c_base > epsilon * if(ended_base = 'k', n_base, k) and c_rlvr > epsilon * if(ended_rlvr = 'k', n_rlvr, k)
            then 'P'
        when c_rlvr > epsilon * if(ended_rlvr = 'k', n_rlvr, k) then 'E'
        when c_base > epsilon * if(ended_base = 'k', n_base, k) then 'S'
        else 'O'
    end
    or category is null or ended_base is null or ended_rlvr is null
    or n_base > k or (ended_base = 'k' and n_base <> k) or (ended_base <> 'k' and c_base = 0)
    or n_rlvr > k or (ended_rlvr = 'k' and n_rlvr <> k) or (ended_rlvr <> 'k' and c_rlvr = 0)
    or (mass_base is null) <> (ended_base = 'hit' and c_base = 1)
    or (mass_rlvr is null) <> (ended_rlvr = 'hit' and c_rlvr = 1)
    or not (low_base <= mass_base and mass_base <= high_base)
    or not (low_rlvr <= mass_rlvr and mass_rlvr <= high_rlvr)
    or not (low_base < high_base and low_rlvr < high_rlvr)
    or (p_value is null) <> (category not in ('E', 'S')) or (q_value is null) <> (p_value is null)
    or q_value < p_value
