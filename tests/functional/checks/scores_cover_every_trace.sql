-- every problem has its reference traces scored by every model, and likelihoods are likelihoods
select problems.problem_id, perplexity.model
from problems
left join perplexity using (dataset, problem_id)
group by all
having count(*) <> 2 or min(nll) <= 0 or min(tokens) <= 0
