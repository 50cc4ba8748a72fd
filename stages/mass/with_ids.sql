-- with_ids: which of the models $writers have stored token ids on a data set.
select distinct model
from completions
where dataset = $dataset and list_contains($writers, model) and token_ids is not null
order by model
