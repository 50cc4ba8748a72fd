-- every model scored both solutions of every problem, and the worked one in another order too; all values are positive
select problems.problem_id, perplexity.model
from problems
left join perplexity using (dataset, problem_id)
where source in ('worked', 'direct')
group by all
having count(*) filter (where not shuffled) <> 2 or count(*) filter (where shuffled and source = 'worked') <> 1
    or min(nll) <= 0 or min(tokens) <= 0 or min(bytes) <= 0
