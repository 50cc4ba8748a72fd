-- coverage: of the correct samples of each model on each data set, how many are of a completion that was written only
-- once. By Good and Turing their share is the mass of correct completions not seen yet, among all correct ones; what
-- is left is how much of it the seen ones cover. The first samples tell: text is read, and there may be much of it.
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
