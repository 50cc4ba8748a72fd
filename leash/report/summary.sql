-- summary: each model's share of correct samples, response length, token entropy, share of forks, answer entropies and
-- mass of unseen answers, per data set and over all problems. Token entropy: the mean over steps, then samples, then
-- problems (the paper's); pooled over tokens; and among completions of at least 16 tokens, over the problems that have
-- one (long_problems). A mean is null if a problem has no value: problems that stopped early are the easy ones, so a
-- mean over the others would be that of another data set. Answer entropies are on `samples` samples and, with `_all`, on
-- `all_samples`.
select
    model,
    case when grouping(dataset) = 1 then 'all' else dataset end as dataset,
    count(*) as problems,
    min(samples) as samples,
    if(count(*) = count(all_samples), min(all_samples), null) as all_samples,
    if(count(*) = count(all_samples), max(all_samples), null) as all_samples_most,
    if(count(*) = count(average), avg(average order by problem_id, dataset), null) as average,
    if(count(*) = count(tokens), avg(tokens order by problem_id, dataset), null) as tokens,
    if(count(*) = count(token_entropy), avg(token_entropy order by problem_id, dataset), null) as token_entropy,
    if(
        count(*) = count(token_entropy),
        sum(entropy_sum order by problem_id, dataset) / sum(tokens order by problem_id, dataset),
        null
    ) as token_entropy_pooled,
    if(count(*) = count(token_entropy), avg(token_entropy_long order by problem_id, dataset), null)
        as token_entropy_long,
    if(count(*) = count(token_entropy), count(token_entropy_long), null) as long_problems,
    if(count(*) = count(long_share), avg(long_share order by problem_id, dataset), null) as long_share,
    if(count(*) = count(decoding_entropy), avg(decoding_entropy order by problem_id, dataset), null)
        as decoding_entropy,
    if(count(*) = count(forks), avg(forks order by problem_id, dataset), null) as forks,
    if(count(*) = count(answer_entropy), avg(answer_entropy order by problem_id, dataset), null) as answer_entropy,
    if(count(*) = count(answer_entropy_mm), avg(answer_entropy_mm order by problem_id, dataset), null)
        as answer_entropy_mm,
    if(count(*) = count(answer_entropy_adjusted), avg(answer_entropy_adjusted order by problem_id, dataset), null)
        as answer_entropy_adjusted,
    if(count(*) = count(unseen), avg(unseen order by problem_id, dataset), null) as unseen,
    if(count(*) = count(answer_entropy_all), avg(answer_entropy_all order by problem_id, dataset), null)
        as answer_entropy_all,
    if(count(*) = count(answer_entropy_mm_all), avg(answer_entropy_mm_all order by problem_id, dataset), null)
        as answer_entropy_mm_all,
    if(
        count(*) = count(answer_entropy_adjusted_all),
        avg(answer_entropy_adjusted_all order by problem_id, dataset),
        null
    ) as answer_entropy_adjusted_all,
    if(count(*) = count(unseen_all), avg(unseen_all order by problem_id, dataset), null) as unseen_all
from measured
group by grouping sets ((model, dataset), (model))
order by model, grouping(dataset) desc, dataset
