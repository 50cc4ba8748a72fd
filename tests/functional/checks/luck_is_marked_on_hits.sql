-- a guess floor and its p-value are probabilities, a floor exists for every problem with a hit, only hits are tested, and
-- the mark follows the p-value
select * from support
where not (guess_base between 0 and 1) or not (guess_rlvr between 0 and 1)
    or not (guess_p_base between 0 and 1) or not (guess_p_rlvr between 0 and 1)
    or (guess_base is null) <> (c_base + c_rlvr = 0)
    or (guess_p_base is not null and c_base = 0) or (guess_p_rlvr is not null and c_rlvr = 0)
    or above_guessing_base is distinct from (guess_p_base < 0.05)
    or above_guessing_rlvr is distinct from (guess_p_rlvr < 0.05)
