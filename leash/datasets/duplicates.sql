-- duplicates: pairs of problems, within or across data sets, whose questions are equal or nearly so.
-- Questions are compared by their runs of five words. A word is a run of letters and digits in lower case, or a sign, so
-- LaTeX spacing and punctuation do not count. Questions of fewer than five words must be equal. A run that occurs in many
-- problems of a data set belongs to its template ("Give your answer as …") and is ignored, and so is a run that occurs in
-- more than 50 problems overall.
-- Questions with different numbers are different problems: generated ones often differ in nothing else.
with questions as (
    select
        dataset,
        problem_id,
        row_number() over (order by dataset, problem_id) as number,
        trim(regexp_replace(lower(coalesce(meta ->> '$.question', question)), '\s+', ' ', 'g')) as question
    from problems
),
keyed as (
    select
        *,
        regexp_extract_all(question, '[\p{L}\p{N}]+|[-+*/^=<>]') as words,
        list_sort(regexp_extract_all(question, '\d+')) as numbers
    from questions
),
runs as (
    select distinct
        number,
        dataset,
        unnest(list_transform(range(1, len(words) - 3), lambda i: hash(words[i : i + 4]))) as run
    from keyed
),
sizes as (select dataset, count(*) as problems from keyed group by dataset),
common as (
    select runs.dataset, runs.run
    from runs join sizes using (dataset)
    group by runs.dataset, runs.run, sizes.problems
    having count(*) > greatest(5, sizes.problems * 0.1)
),
crowded as (select run from runs group by run having count(*) > 50),
telling as (
    select number, run
    from runs anti join common using (dataset, run) anti join crowded using (run)
),
lengths as (select number, count(*) as length from telling group by number),
shared as (
    select a.number as first, b.number as second, count(*) as common_runs
    from telling as a join telling as b on a.run = b.run and a.number < b.number
    group by a.number, b.number
),
alike as (
    select first, second, common_runs / (a.length + b.length - common_runs) as likeness
    from shared join lengths as a on a.number = first join lengths as b on b.number = second
    where common_runs / (a.length + b.length - common_runs) >= $likeness
    union all
    select a.number, b.number, 1.0
    from keyed as a join keyed as b on a.question = b.question and a.number < b.number
)
select
    a.dataset as dataset,
    a.problem_id as problem_id,
    b.dataset as other_dataset,
    b.problem_id as other_problem_id,
    a.question = b.question as same,
    max(likeness) as likeness
from alike join keyed as a on a.number = first join keyed as b on b.number = second
where a.numbers = b.numbers
group by all
order by all
