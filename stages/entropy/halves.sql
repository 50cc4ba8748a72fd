-- halves: the answer entropies of each half of the first `entropy.samples` samples; `later` marks the second half.
select estimates.*, windows.use = 'late' as later
from estimates
inner join windows using (model, dataset, first, last)
where windows.use in ('early', 'late')
order by model, dataset, problem_id, later
