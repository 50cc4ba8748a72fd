-- samples: the first $samples completions of each problem with its question. Problems with fewer are left out: their
-- numbers could not be used. The text has the tail from a stop string on. `drawn` is as in stages/mass/written.sql: with how many tokens how many samples were drawn.
with enough as (
    select problem_id
    from verdicts
    where model = $model and dataset = $dataset and sample < $samples
    group by problem_id
    having count(*) = $samples
)

select
    completions.problem_id,
    completions.sample,
    problems.question,
    completions.text || coalesce(completions.tail, '') as text,
    completions.finish = 'stop' as ended,
    completions.token_ids,
    if(completions.tokens is null, null, map([completions.tokens], [1])) as drawn,
    1 as samples
from completions
inner join problems using (dataset, problem_id)
inner join enough using (problem_id)
where completions.model = $model and completions.dataset = $dataset and completions.sample < $samples
order by completions.problem_id, completions.sample
