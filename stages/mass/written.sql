-- written: the distinct correct completions of the models $writers on a data set, each with its question, how often
-- $model wrote it, and in which sample first.
select
    problem_id,
    substr(md5(concat(finish = 'stop', ' ', text)), 1, 16) as completion,
    any_value(question) as question,
    text,
    finish = 'stop' as ended,
    count(*) filter (where model = $model) as hits,
    min(sample) filter (where model = $model) as first
from verdicts
inner join completions using (model, dataset, problem_id, sample)
inner join problems using (dataset, problem_id)
where dataset = $dataset and list_contains($writers, model) and correct
group by problem_id, text, finish = 'stop'
order by problem_id, completion
