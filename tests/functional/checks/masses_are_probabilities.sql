-- no problem's correct completions weigh more than everything, none weighs more than it may, each was written by
-- somebody, and none has a sample that its hits don't have
select model, dataset, problem_id
from mass
group by all
having sum(exp(-nll)) > 1 + 1e-5 or min(nll) < 0 or bool_or(hits > 0 and first is null) or bool_or(hits = 0 and first >= 0)
