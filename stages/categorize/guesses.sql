-- guesses: the counts with what guessing would give, for both models. Guesses are the wrong answers that a model gave to
-- the other problems of the data set where the answers that are right here are wrong, too. Each of these problems is
-- equally likely, then each of its wrong answers: the mean of their shares is the guess floor (guess). Sums of the shares,
-- of their squares, of their sampling noise and of 1 / wrong answers say how much they vary (leash/statistics/guessing.py);
-- they come in the table `floors` (leash/statistics/other_shares.py).
-- A problem with one wrong answer shows no share. An answer is right if a verdict on the first k samples of either model
-- says so; without one there are no hits to test, and all is null.
-- answered and answered_hits count samples that have an answer and a score; distinct_hits are the right answers that
-- the model gave, right_answers those that either gave.
with answered as (
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
