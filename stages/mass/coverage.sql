-- coverage: for each model and data set, how much of the correct mass the seen correct completions cover. The share of
-- correct samples whose completion was written only once estimates the unseen part (Good-Turing); coverage is the rest.
-- The first $samples suffice: this query reads texts, and there may be many.
with written as (
    select model, dataset, problem_id, md5(text) as text, finish, count(*) as times
    from verdicts
    inner join completions using (model, dataset, problem_id, sample)
    where verdicts.correct and sample < $samples
    group by all
)

select
    model,
    dataset,
    cast(sum(times) as bigint) as correct,
    count(*) filter (where times = 1) as once,
    1 - once / correct as coverage
from written
group by model, dataset
order by model, dataset
