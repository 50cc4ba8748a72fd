-- repeats: pairs of samples of one problem with the same text, among texts that are unlikely to come twice, and how many
-- such pairs their own probabilities imply: each of the n - 1 other samples has a text of probability p with
-- probability p. A sample whose probability is not known, or not that of the decoding ($exact is false), has no p. Its
-- text counts as unlikely to come twice if it is long, and implies nothing.
with samples as (
    select
        problem_id,
        text || coalesce(tail, '') as text,
        case when $exact then exp(logprob) end as p,
        tokens,
        count(*) over (partition by problem_id) as n
    from completions
    where model = $model and dataset = $dataset
),

unlikely as (
    select * from samples where coalesce(p < 1 / n, tokens >= $long)
),

texts as (
    select
        problem_id,
        md5(text) as text,
        count(*) as times,
        coalesce(sum(p * (n - 1) / 2), 0) as implied,
        count(p) > 0 as known
    from unlikely
    group by problem_id, md5(text)
),

problems as (
    select
        problem_id,
        sum(times * (times - 1) / 2) as pairs,
        sum(implied) as implied,
        bool_or(known and times > 1) as known
    from texts
    group by problem_id
)

select
    cast(coalesce(sum(pairs), 0) as bigint) as pairs,
    coalesce(sum(implied), 0) as implied,
    coalesce(bool_or(known), false) as known,
    arg_max(problem_id, pairs) as worst
from problems
