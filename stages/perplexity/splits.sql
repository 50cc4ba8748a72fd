-- splits: pairs whose models tokenize a reference trace into different numbers of tokens.
select distinct pairs.pair
from pairs
inner join perplexity as base on base.model = pairs.base
inner join perplexity as rlvr
    on rlvr.model = pairs.rlvr and rlvr.dataset = base.dataset and rlvr.problem_id = base.problem_id
    and rlvr.source = base.source and rlvr.trace = base.trace and rlvr.shuffled = base.shuffled
where not base.shuffled and base.nll is not null and rlvr.nll is not null and base.tokens <> rlvr.tokens
