-- every completion has exactly one verdict, and every verdict a completion
select completions.model, completions.problem_id, verdicts.sample
from completions
full join verdicts using (model, dataset, problem_id, sample)
where completions.text is null or verdicts.status is null
