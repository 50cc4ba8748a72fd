-- statuses_by_category: how the completions of both models of a pair ended, per category of its problems. If the RLVR
-- model is cut off on problems that only the base solved (S), a larger max_tokens may give them back.
select
    support.pair,
    support.category,
    roles.role,
    roles.model,
    count(distinct (support.dataset, support.problem_id)) as problems,
    count(*) as completions,
    count(*) filter (where verdicts.correct) as correct,
    count(*) filter (where verdicts.status = 'no_answer') as no_answer,
    count(*) filter (where verdicts.status = 'truncated') as truncated,
    count(*) filter (where verdicts.correct is null) as unscored,
    count(*) filter (where verdicts.status = 'truncated') / count(*) as truncated_share
from support
inner join roles using (pair)
inner join verdicts
    on verdicts.model = roles.model and verdicts.dataset = support.dataset
    and verdicts.problem_id = support.problem_id and verdicts.sample < support.k
where support.category is not null
group by all
order by pair, category, role
