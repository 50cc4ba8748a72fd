-- answers: each problem's answer entropy, -sum f ln f over its answer classes in $samples samples, from number $first
-- on: as it is (plug-in), and with the Miller-Madow correction for classes that few samples miss. Output without an
-- answer, cut off or not, is one class. An answer that could not be scored keeps its class. Also: the share of correct
-- samples, and the Good-Turing estimate of the mass of unseen answers, which is the share of samples whose class no
-- other sample has. All problems are measured on the same number of samples: with fewer, these numbers are null. Sums
-- of reals have a stated order, here and elsewhere, so that the number of threads changes no digit.
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
