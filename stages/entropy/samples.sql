-- samples: the first completions of each problem with the prompt that they follow.
select completions.problem_id, completions.sample, problems.question, completions.text, completions.finish
from completions
inner join problems using (dataset, problem_id)
where completions.model = $model and completions.dataset = $dataset and completions.sample < $samples
order by completions.problem_id, completions.sample
