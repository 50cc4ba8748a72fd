-- guesses: the counts with what guessing would give, for both models. Guesses are the wrong answers that a model gave to
-- the other problems of the data set where the answers that are right here are wrong, too. Each of these problems is
-- equally likely, then each of its wrong answers: the mean of their shares is the guess floor (guess). Sums of the shares,
-- of their squares, of their sampling noise and of 1 / wrong answers say how much they vary (leash/statistics/guessing.py).
-- A problem with one wrong answer shows no share. An answer is right if a verdict on the first k samples of either model
-- says so; without one there are no hits to test, and all is null.
-- answered and answered_hits count samples that have an answer and a score; distinct_hits are the right answers that
-- the model gave, right_answers those that either gave.
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
        coalesce(sum(samples) filter (where correct is not null), 0) as scored,
        coalesce(sum(samples) filter (where correct), 0) as hits
    from roles
    inner join tallies using (model, dataset)
    where tallies.upto <= roles.k and tallies.answer_class is not null
    group by all
),

answered as (
    select
        pair,
        dataset,
        role,
        problem_id,
        sum(scored) as answered,
        sum(hits) as answered_hits,
        count(*) filter (where hits > 0) as distinct_hits
    from given
    group by all
),

right_answers as (
    select distinct pair, dataset, problem_id, answer_class from given where hits > 0
),

-- Problems with the same right answers share their floor. A group has the name of its first problem.
right_sets as (
    select
        pair,
        dataset,
        problem_id,
        right_answers,
        min(problem_id) over (partition by pair, dataset, classes) as right_set
    from (
        select pair, dataset, problem_id, count(*) as right_answers, list(answer_class order by answer_class) as classes
        from right_answers
        group by all
    )
),

set_answers as (
    select pair, dataset, right_set, answer_class
    from right_sets
    inner join right_answers using (pair, dataset, problem_id)
    where right_sets.problem_id = right_set
),

wrong as (
    select
        given.*,
        sum(times) over (partition by pair, dataset, role, problem_id) as wrong_answers
    from given
    anti join right_answers using (pair, dataset, problem_id, answer_class)
    qualify wrong_answers > 1
),

guessed as (
    select distinct pair, dataset, role, problem_id, wrong_answers from wrong
),

-- Problems where one of these answers is right.
overlapping as (
    select distinct set_answers.pair, set_answers.dataset, set_answers.right_set, right_answers.problem_id
    from set_answers
    inner join right_answers using (pair, dataset, answer_class)
),

all_guessed as (
    select pair, dataset, role, count(*) as problems, sum(1 / wrong_answers order by problem_id) as one_hit
    from guessed
    group by all
),

not_others as (
    select
        pair, dataset, role, right_set, count(*) as problems, sum(1 / wrong_answers order by problem_id) as one_hit
    from overlapping
    inner join guessed using (pair, dataset, problem_id)
    group by all
),

shares as (
    select
        pair,
        dataset,
        role,
        right_set,
        problem_id,
        any_value(wrong_answers) as wrong_answers,
        sum(times) / any_value(wrong_answers) as share
    from set_answers
    inner join wrong using (pair, dataset, answer_class)
    anti join overlapping using (pair, dataset, right_set, problem_id)
    group by pair, dataset, role, right_set, problem_id
),

sums as (
    select
        pair,
        dataset,
        role,
        right_set,
        sum(share order by problem_id) as shares,
        sum(share * share order by problem_id) as squares,
        sum(share * (1 - share) / (wrong_answers - 1) order by problem_id) as noise
    from shares
    group by all
),

floors as (
    select
        right_sets.pair,
        right_sets.dataset,
        all_guessed.role,
        right_sets.problem_id,
        right_sets.right_answers,
        all_guessed.problems - coalesce(not_others.problems, 0) as others,
        all_guessed.one_hit - coalesce(not_others.one_hit, 0) as one_hit,
        coalesce(sums.shares, 0) as shares,
        coalesce(sums.squares, 0) as squares,
        coalesce(sums.noise, 0) as noise
    from right_sets
    inner join all_guessed using (pair, dataset)
    left join not_others using (pair, dataset, role, right_set)
    left join sums using (pair, dataset, role, right_set)
),

by_role as (
    select
        pair,
        dataset,
        role,
        problem_id,
        least(shares / nullif(others, 0), 1) as guess,
        others,
        shares,
        squares,
        noise,
        one_hit,
        right_answers,
        coalesce(answered, 0) as answered,
        coalesce(answered_hits, 0) as answered_hits,
        coalesce(distinct_hits, 0) as distinct_hits
    from floors
    left join answered using (pair, dataset, role, problem_id)
)

select counts.*, columns(base.* exclude (pair, dataset, role, problem_id)) as '\0_base',
    columns(rlvr.* exclude (pair, dataset, role, problem_id)) as '\0_rlvr'
from counts
left join by_role as base
    on base.pair = counts.pair and base.dataset = counts.dataset and base.role = 'base'
    and base.problem_id = counts.problem_id
left join by_role as rlvr
    on rlvr.pair = counts.pair and rlvr.dataset = counts.dataset and rlvr.role = 'rlvr'
    and rlvr.problem_id = counts.problem_id
order by counts.pair, counts.dataset, counts.problem_id
