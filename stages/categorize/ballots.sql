-- ballots: how often each model gave each answer among the first k scored samples of a problem that has all of them,
-- the most frequent first, and whether it is correct. Samples without an answer (answer_class is null) have no vote.
with wanted as (
    select distinct base as model, dataset, k from plan
    union
    select distinct rlvr as model, dataset, k from plan
),

votes as (
    select
        wanted.model,
        wanted.dataset,
        wanted.k,
        tallies.problem_id,
        tallies.answer_class,
        sum(samples) filter (where correct is not null) as times,
        sum(samples) filter (where correct) as right_times,
        sum(samples) as drawn
    from wanted
    inner join tallies using (model, dataset)
    where tallies.upto <= wanted.k
    group by all
),

complete as (
    select * from votes
    qualify sum(drawn) over (partition by model, dataset, k, problem_id) >= k
)

select
    model,
    dataset,
    k,
    problem_id,
    cast(times as bigint) as times,
    answer_class is not null as votes,
    coalesce(2 * right_times > times, false) as correct
from complete
where times > 0
-- not by the spelling of an answer: equal rows are equal to the draws that this order decides
order by model, dataset, k, problem_id, votes desc, times desc, correct desc
