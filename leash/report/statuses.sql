-- statuses: how the completions of each model ended, per data set and over all. A model that is cut off more often than
-- another loses problems to max_tokens, not to training.
select
    model,
    case when grouping(dataset) = 1 then 'all' else dataset end as dataset,
    count(*) as completions,
    count(*) filter (where correct) as correct,
    count(*) filter (where status = 'ok' and not correct) as wrong,
    count(*) filter (where status = 'no_answer') as no_answer,
    count(*) filter (where status = 'truncated') as truncated,
    count(*) filter (where status = 'timeout') as timeout,
    count(*) filter (where status = 'error') as error,
    count(*) filter (where status = 'truncated') / count(*) as truncated_share
from verdicts
group by grouping sets ((model, dataset), (model))
order by model, grouping(dataset) desc, dataset
