-- repeats: pairs of samples of one problem with the same text, among texts that are unlikely to come twice, and how many
-- such pairs their own probabilities imply: each of the n - 1 other samples has a text of probability p with
-- probability p. If probabilities are not those of the decoding ($exact is false), long texts count as unlikely to come
-- twice, and nothing is implied.
with samples as (
    select
        problem_id,
        text || coalesce(tail, '') as text,
        exp(logprob) as p,
        count(*) over (partition by problem_id) as n
    from completions
    where model = $model and dataset = $dataset
        and case when $exact then logprob is not null else tokens >= $long end
),

unlikely as (
    select * from samples where not $exact or p < 1 / n
),

texts as (
    select
        problem_id,
        md5(text) as text,
        count(*) as times,
        sum(p * (n - 1) / 2) as implied
    from unlikely
    group by problem_id, md5(text)
),

problems as (
    select
        problem_id,
        sum(times * (times - 1) / 2) as pairs,
        sum(implied) as implied
    from texts
    group by problem_id
)

select
    cast(coalesce(sum(pairs), 0) as bigint) as pairs,
    coalesce(sum(implied), 0) as implied,
    arg_max(problem_id, pairs) as worst
from problems
