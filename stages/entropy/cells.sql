-- cells: each problem's steps by the length of their completion and their position in it, both in powers of two
-- (1, 2 and 3, 4 to 7, ...; the numbers of the bins are the exponents). A step of a completion with T tokens has the
-- weight 1/T, so the weights of a problem add up to 1, and its entropies to its token entropy by the paper's averaging.
-- A completion without tokens is a cell of its own (length -1) with an entropy of 0. Left out: problems with a sample
-- that is longer than the model's context window.
with enough as (
    select model, dataset, problem_id, count(*) as samples
    from entropy
    group by model, dataset, problem_id
    having count(*) = count(position_sums)
),

steps as (
    select
        entropy.*,
        enough.samples,
        unnest(range(greatest(len(position_sums), 1))) as position
    from entropy
    inner join enough using (model, dataset, problem_id)
)

select
    model,
    dataset,
    problem_id,
    cast(len(position_sums) - 1 as integer) as length,
    cast(position as integer) as position,
    sum(
        if(tokens = 0, 1.0, (least(tokens + 1, pow(2, position + 1)) - pow(2, position)) / tokens) order by sample
    ) / any_value(samples) as weight,
    sum(coalesce(position_sums[position + 1], 0) / greatest(tokens, 1) order by sample) / any_value(samples) as entropy
from steps
group by model, dataset, problem_id, length, position
order by model, dataset, problem_id, length, position
