-- a guess floor is a probability and exists for every problem with a hit; only hits can be lucky
select * from support
where not (guess_base between 0 and 1) or not (guess_rlvr between 0 and 1)
    or (guess_base is null) <> (c_base + c_rlvr = 0)
    or (lucky_base is null) <> (c_base = 0) or (lucky_rlvr is null) <> (c_rlvr = 0)
