-- examples: for every model and problem, the first $most samples that are correct, wrong, and unscored.
with first_ones as (
    select
        model,
        dataset,
        problem_id,
        correct,
        min_by({'sample': sample, 'status': status}, sample, $most) as samples
    from verdicts
    inner join reach using (model, dataset)
    where sample < k
    group by all
)

select
    model,
    dataset,
    problem_id,
    correct,
    unnest(samples).sample as sample,
    unnest(samples).status as status,
    unnest(range(len(samples))) as place
from first_ones
order by model, dataset, problem_id, correct, place
