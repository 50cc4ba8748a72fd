-- correct: the distinct correct completions of both models of the pairs to the problems in `tasks`, within the samples
-- that count. The text is all that was drawn: with the tail that begins at a stop string. `cut` says that a stop string
-- ended it. How often a model wrote it is `times`. `answer` is what the reading found in it.
with wanted as (
    select pair, dataset, problem_id, target as model, k from tasks
    union
    select pair, dataset, problem_id, donor as model, k from tasks
)

select
    wanted.pair,
    wanted.dataset,
    wanted.problem_id,
    wanted.model,
    completions.text || coalesce(tail, '') as text,
    finish = 'stop' as ended,
    tail is not null as cut,
    token_ids,
    min(verdicts.answer) as answer,
    count(*) as times
from wanted
inner join verdicts using (model, dataset, problem_id)
inner join completions using (model, dataset, problem_id, sample)
where verdicts.correct and sample < wanted.k
group by all
order by wanted.pair, wanted.dataset, wanted.problem_id, wanted.model, min(sample)
