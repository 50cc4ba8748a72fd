-- wrong: the table `given` with a number for each answer that is right on some problem of the data set (class; the other
-- answers count together, as null), and whether it is right on this one. An answer is right if a verdict on the first k
-- samples of either model says so.
with right_answers as (
    select distinct pair, dataset, problem_id, answer_class from given where hits > 0
),

classes as (
    select pair, dataset, answer_class, row_number() over (partition by pair, dataset order by answer_class) - 1 as class
    from (select distinct pair, dataset, answer_class from right_answers)
)

select
    given.pair,
    given.dataset,
    given.role,
    given.problem_id,
    classes.class,
    right_answers.problem_id is not null as is_right,
    cast(sum(given.times) as bigint) as times
from given
left join classes using (pair, dataset, answer_class)
left join right_answers using (pair, dataset, problem_id, answer_class)
group by all
order by all
