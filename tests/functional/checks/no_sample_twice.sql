-- no sample exists twice
select model, dataset, problem_id, sample from completions group by all having count(*) > 1
