-- The correct completions of a model on a data set, with their texts.
select v.*, c.text
from verdicts as v
join completions as c using (model, dataset, problem_id, sample)
where v.correct and v.model = $model and v.dataset = $dataset
order by v.problem_id, v.sample
