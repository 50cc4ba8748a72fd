-- coverage: for each model and data set, how much of the correct mass the seen correct completions cover: the mean over
-- the problems with hits, so that a few problems with many hits do not decide for the others. The share of a problem's
-- correct samples whose completion was written only once estimates the unseen part (Good-Turing); coverage is the rest.
-- The first $samples suffice: this query reads texts, and there may be many.
with written as (
    select model, dataset, problem_id, md5(text || coalesce(tail, '')) as text, finish, count(*) as times
    from verdicts
    inner join completions using (model, dataset, problem_id, sample)
    where verdicts.correct and sample < $samples
    group by all
),

covered as (
    select model, dataset, problem_id, 1 - count(*) filter (where times = 1) / sum(times) as coverage
    from written
    group by model, dataset, problem_id
)

select model, dataset, count(*) as problems, avg(coverage order by problem_id) as coverage
from covered
group by model, dataset
order by model, dataset
