-- working: for each pair, data set and model, the hits among its first k samples by either reading (strict, lenient), and
-- by the reading of the run (hits) with their working: sound, unsound, direct (none is shown) or unchecked.
with roles as (
    select pair, dataset, k, 'base' as role, base as model from plan
    union all
    select pair, dataset, k, 'rlvr' as role, rlvr as model from plan
)

select
    roles.pair,
    roles.dataset,
    any_value(problems.domain) as domain,
    roles.role,
    cast(coalesce(sum(samples) filter (where correct_strict), 0) as bigint) as strict,
    cast(coalesce(sum(samples) filter (where correct_lenient), 0) as bigint) as lenient,
    cast(coalesce(sum(samples) filter (where correct), 0) as bigint) as hits,
    cast(coalesce(sum(samples) filter (where correct and process = 'sound'), 0) as bigint) as sound,
    cast(coalesce(sum(samples) filter (where correct and process = 'unsound'), 0) as bigint) as unsound,
    cast(coalesce(sum(samples) filter (where correct and process = 'direct'), 0) as bigint) as direct,
    cast(coalesce(sum(samples) filter (where correct and process = 'unchecked'), 0) as bigint) as unchecked
from roles
inner join all_tallies as tallies using (model, dataset)
inner join plan as problems using (pair, dataset)
where tallies.upto <= roles.k
group by all
order by all
