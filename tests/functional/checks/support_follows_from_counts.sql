-- a category is what the counts and epsilon say, and intervals hold their estimates
select * from support
where category <> case
        when c_base > epsilon * n_base and c_rlvr > epsilon * n_rlvr then 'P'
        when c_rlvr > epsilon * n_rlvr then 'E'
        when c_base > epsilon * n_base then 'S'
        else 'O'
    end
    or category is null or n_base <> k or n_rlvr <> k
    or not (low_base <= mass_base and mass_base <= high_base)
    or not (low_rlvr <= mass_rlvr and mass_rlvr <= high_rlvr)
    or q_value < p_value
