-- candidates: for each pair and data set, the problems on which one model (the target) has at most $hits hits and the
-- other (the donor) at least one, with the counts of both in the first k samples that both can have. Both directions.
-- Under an adaptive budget ($stop_after), a problem that stopped at its last hit may have had more: it is no target.
with counted as (
    select
        roles.pair,
        roles.dataset,
        roles.role,
        roles.model,
        problem_id,
        count(correct) as n,
        count(*) filter (where correct) as c,
        count(*) as drawn
    from roles
    inner join verdicts using (model, dataset)
    where sample < roles.k
    group by all
)

select
    target.pair,
    target.dataset,
    target.problem_id,
    target.role,
    target.model as target,
    donor.model as donor,
    target.n as n_target,
    target.c as c_target,
    donor.n as n_donor,
    donor.c as c_donor,
    coalesce(donor.c >= $stop_after and donor.drawn > $floor, false) as donor_stopped
from counted as target
inner join counted as donor using (pair, dataset, problem_id)
where
    target.role <> donor.role
    and target.n > 0
    and target.c <= $hits
    and donor.c > 0
    and coalesce(target.c < $stop_after, true)
order by target.pair, target.dataset, target.problem_id, target.role
