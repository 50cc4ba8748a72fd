-- the answers of a problem share its hits: each answer has a hit, and their hits add up to the problem's
select problem.pair, problem.problem_id
from support as problem
inner join support_by_answer as answer using (pair, dataset, problem_id)
group by problem.pair, problem.dataset, problem.problem_id, problem.c_base, problem.c_rlvr, problem.n_base
having count(*) < 2
    or sum(answer.c_base) <> problem.c_base or sum(answer.c_rlvr) <> problem.c_rlvr
    or min(answer.c_base + answer.c_rlvr) < 1 or any_value(answer.n_base) <> problem.n_base
