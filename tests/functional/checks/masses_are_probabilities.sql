-- the masses of a problem's correct completions are at most 1, alone and together; a completion has a first sample if
-- and only if it has hits
select model, dataset, problem_id
from mass
group by all
having sum(exp(-nll)) > 1 + 1e-5 or min(nll) < 0 or bool_or(hits > 0 and first is null) or bool_or(hits = 0 and first >= 0)
