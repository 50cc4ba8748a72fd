-- guesses: the counts with the guess floor of both models: the chance that an answer that the model gave to another
-- problem of the data set is correct here. Every other problem is equally likely, then each of its answers. An answer
-- is correct if a verdict on the first k samples of either model is; without one there are no hits to explain, and the
-- chance is null.
with roles as (
    select pair, dataset, k, 'base' as role, base as model from plan
    union all
    select pair, dataset, k, 'rlvr' as role, rlvr as model from plan
),

given as (
    select
        roles.pair,
        roles.dataset,
        roles.role,
        tallies.problem_id,
        tallies.answer_class,
        sum(samples) as times,
        coalesce(bool_or(correct), false) as correct
    from roles
    inner join tallies using (model, dataset)
    where tallies.upto <= roles.k and tallies.answer_class is not null
    group by all
),

shares as (
    select
        *,
        times / sum(times) over (partition by pair, dataset, role, problem_id) as share
    from given
),

right_answers as (
    select distinct pair, dataset, problem_id, answer_class from given where correct
),

pooled as (
    select pair, dataset, role, answer_class, sum(share order by problem_id) as share
    from shares
    semi join right_answers using (pair, dataset, answer_class)
    group by all
),

answering as (
    select pair, dataset, role, count(distinct problem_id) as problems from given group by all
),

present as (
    select distinct pair, dataset, role, problem_id from given
),

floors as (
    select
        answering.pair,
        answering.dataset,
        answering.role,
        right_answers.problem_id,
        least(
            greatest(
                sum(coalesce(pooled.share, 0) - coalesce(own.share, 0) order by right_answers.answer_class)
                / nullif(answering.problems - if(any_value(present.problem_id) is null, 0, 1), 0),
                0
            ),
            1
        ) as guess
    from right_answers
    inner join answering using (pair, dataset)
    left join present
        on present.pair = answering.pair and present.dataset = answering.dataset and present.role = answering.role
        and present.problem_id = right_answers.problem_id
    left join pooled
        on pooled.pair = answering.pair and pooled.dataset = answering.dataset and pooled.role = answering.role
        and pooled.answer_class = right_answers.answer_class
    left join shares as own
        on own.pair = answering.pair and own.dataset = answering.dataset and own.role = answering.role
        and own.problem_id = right_answers.problem_id and own.answer_class = right_answers.answer_class
    group by answering.pair, answering.dataset, answering.role, answering.problems, right_answers.problem_id
)

select counts.*, base.guess as guess_base, rlvr.guess as guess_rlvr
from counts
left join floors as base
    on base.pair = counts.pair and base.dataset = counts.dataset and base.role = 'base'
    and base.problem_id = counts.problem_id
left join floors as rlvr
    on rlvr.pair = counts.pair and rlvr.dataset = counts.dataset and rlvr.role = 'rlvr'
    and rlvr.problem_id = counts.problem_id
order by counts.pair, counts.dataset, counts.problem_id
