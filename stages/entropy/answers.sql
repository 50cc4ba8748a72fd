-- answers: each problem's answer entropy, -sum f ln f over the classes of its first answers; output without
-- an answer is a class of its own. Beside it: how often those samples were correct. All problems are measured on the
-- same number of samples: one that has fewer, or stopped before, has none of these numbers. Sums of reals are taken
-- in a stated order, here and elsewhere, so that the same tables give the same digits whatever the threads.
with classes as (
    select
        model,
        dataset,
        problem_id,
        coalesce(answer_class, '(none)') as answer_class,
        count(*) as hits,
        count(*) filter (where correct) as correct,
        sum(count(*)) over (partition by model, dataset, problem_id) as samples
    from verdicts
    where sample < $samples
    group by model, dataset, problem_id, coalesce(answer_class, '(none)')
),

measured as (
    select
        model,
        dataset,
        problem_id,
        cast(any_value(samples) as integer) as samples,
        count(*) as answers,
        cast(sum(correct) / any_value(samples) as double) as average,
        -sum((hits / samples) * ln(hits / samples) order by hits) as answer_entropy
    from classes
    group by model, dataset, problem_id
)

select
    model,
    dataset,
    problem_id,
    samples,
    if(samples = $samples, answers, null) as answers,
    if(samples = $samples, average, null) as average,
    if(samples = $samples, answer_entropy, null) as answer_entropy
from measured
order by model, dataset, problem_id
