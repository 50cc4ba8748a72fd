-- summary: each model's share of correct samples, response length, mean token entropy of its own distribution and of
-- the one it was sampled from (over steps, then samples, then problems), share of forks, answer entropies and mass of
-- unseen answers, per data set and over all problems. A mean is null if a problem has no value: problems that stopped
-- early are the easy ones, so a mean over the others would be that of another data set.
select
    model,
    case when grouping(dataset) = 1 then 'all' else dataset end as dataset,
    count(*) as problems,
    min(samples) as samples,
    if(count(*) = count(average), avg(average order by problem_id, dataset), null) as average,
    if(count(*) = count(tokens), avg(tokens order by problem_id, dataset), null) as tokens,
    if(count(*) = count(token_entropy), avg(token_entropy order by problem_id, dataset), null) as token_entropy,
    if(count(*) = count(decoding_entropy), avg(decoding_entropy order by problem_id, dataset), null)
        as decoding_entropy,
    if(count(*) = count(forks), avg(forks order by problem_id, dataset), null) as forks,
    if(count(*) = count(answer_entropy), avg(answer_entropy order by problem_id, dataset), null) as answer_entropy,
    if(count(*) = count(answer_entropy_mm), avg(answer_entropy_mm order by problem_id, dataset), null)
        as answer_entropy_mm,
    if(count(*) = count(unseen), avg(unseen order by problem_id, dataset), null) as unseen
from measured
group by grouping sets ((model, dataset), (model))
order by model, grouping(dataset) desc, dataset
