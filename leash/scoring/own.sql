-- own: the first correct completions of each model to each problem of a data set, each text once. A text before a stop
-- string has not ended: the model went on.
with correct as (
    select model, problem_id, text, finish = 'stop' and tail is null as ended, min(sample) as sample
    from verdicts
    inner join completions using (model, dataset, problem_id, sample)
    where dataset = $dataset and list_contains($models, model) and correct
    group by model, problem_id, text, finish = 'stop' and tail is null
)

select model, problem_id, text, ended
from correct
qualify row_number() over (partition by model, problem_id order by sample) <= $own
order by model, problem_id, sample
