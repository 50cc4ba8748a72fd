-- examples: for every model and problem, the first $most samples of each kind: correct (also by the kind of their
-- working), wrong, unscored, and those that only lenient reading calls correct.
with first_ones as (
    select
        model,
        dataset,
        problem_id,
        correct,
        if(correct, process = 'unsound', correct_lenient) as apart,
        min_by(
            {
                'sample': sample,
                'status': status,
                'process': process,
                'flaw': flaw,
                'candidate': candidate,
                'correct_lenient': correct_lenient
            },
            sample,
            $most
        ) as samples
    from verdicts
    inner join limits using (model, dataset)
    where sample < k
    group by all
)

select
    model,
    dataset,
    problem_id,
    correct,
    unnest(samples, recursive := true),
    unnest(range(len(samples))) as place
from first_ones
order by model, dataset, problem_id, correct, apart, place
