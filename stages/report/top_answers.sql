-- top_answers: the $most most frequent answers of each model to each problem, and one more row (answer and correct are
-- null) with the number of samples that gave any other. Only samples that the run counts: the view `verdicts` ends at
-- each model's k. Answers of one class are one answer, shown in its most frequent spelling over all models, so that a
-- class has one name for both models of a pair. Output without an answer is a class, and an answer without a class
-- (imported) is its own class. A class is correct if more than half of its scored samples are, and null if none was
-- scored.
-- The verdicts are scanned once; the rest works on distinct answers. Answers are cut to $longest characters: enough to
-- show, and thousands of programs fit in memory.
with given as materialized (
    select
        model,
        dataset,
        problem_id,
        answer_class,
        left(answer, $longest) as answer,
        count(*) as samples,
        count(correct) as scored,
        count(*) filter (where correct) as hits
    from verdicts
    group by all
),

classed as (
    select *, coalesce(answer_class, answer) as class from given
),

spelled as (
    select dataset, problem_id, class, answer
    from (
        select dataset, problem_id, class, answer, sum(samples) as times
        from classed
        group by all
    )
    qualify row_number() over (partition by dataset, problem_id, class order by times desc, answer) = 1
),

counted as (
    select
        model,
        dataset,
        problem_id,
        class,
        sum(samples) as count,
        case when sum(scored) > 0 then 2 * sum(hits) > sum(scored) end as correct
    from classed
    group by all
),

ranked as (
    select
        *,
        least(
            row_number() over (partition by model, dataset, problem_id order by count desc, class nulls last),
            $most + 1
        ) as rank
    from counted
)

select
    ranked.model,
    ranked.dataset,
    ranked.problem_id,
    if(ranked.rank <= $most, coalesce(any_value(spelled.answer), 'no answer'), null) as answer,
    if(ranked.rank <= $most, any_value(ranked.correct), null) as correct,
    cast(sum(ranked.count) as bigint) as count,
    cast(ranked.rank as integer) as rank
from ranked
left join spelled
    on ranked.dataset = spelled.dataset and ranked.problem_id = spelled.problem_id
    and ranked.class is not distinct from spelled.class
group by ranked.model, ranked.dataset, ranked.problem_id, ranked.rank
order by ranked.model, ranked.dataset, ranked.problem_id, ranked.rank
