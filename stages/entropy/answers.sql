-- answers: each problem's answer entropy, -sum f ln f over the classes of its answers in so many samples, from the
-- first that is asked for on, as it is (plug-in) and with Miller and Madow's correction for the classes that so few
-- samples miss. Output without an answer, cut off or not, is one class; an answer that could not be scored keeps its
-- own. Beside them: how often those samples were correct, and Good and Turing's estimate of the mass of answers not seen
-- yet, the share of samples whose class no other sample has. All problems are measured on the same number of samples:
-- one that has fewer, or stopped before, has none of these numbers. Sums of reals are taken in a stated order, here and
-- elsewhere, so that the same tables give the same digits whatever the threads.
with classes as (
    select
        model,
        dataset,
        problem_id,
        answer_class,
        count(*) as hits,
        count(*) filter (where correct) as correct,
        sum(count(*)) over (partition by model, dataset, problem_id) as samples
    from verdicts
    where sample >= $first and sample < $first + $samples
    group by model, dataset, problem_id, answer_class
),

measured as (
    select
        model,
        dataset,
        problem_id,
        cast(any_value(samples) as integer) as samples,
        count(*) as answers,
        cast(sum(correct) / any_value(samples) as double) as average,
        -sum((hits / samples) * ln(hits / samples) order by hits) as answer_entropy,
        cast(count(*) filter (where hits = 1) / any_value(samples) as double) as unseen
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
    if(samples = $samples, answer_entropy, null) as answer_entropy,
    if(samples = $samples, answer_entropy + (answers - 1) / (2 * samples), null) as answer_entropy_mm,
    if(samples = $samples, unseen, null) as unseen
from measured
order by model, dataset, problem_id
