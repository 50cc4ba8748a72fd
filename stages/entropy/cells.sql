-- cells: each problem's steps by the length of their completion, in quarters of powers of two (`length` is the whole part
-- of 4 log2 T), and by half: the first half of its steps, with the middle one (tenths 0 to 4 of `profile`), or the second
-- (`late`). A step of a completion with T tokens has the weight 1/T, so the weights of a problem add up to 1, and its
-- entropies to its token entropy by the paper's averaging. A completion without tokens has the length -4, a weight of 1
-- in its first half, and an entropy of 0. Left out: problems with a sample that is longer than the model's context window.
with enough as (
    select model, dataset, problem_id, count(*) as samples
    from entropy
    group by model, dataset, problem_id
    having count(*) = count(token_entropy)
),

-- Tenth t of T steps has those from ceil(t T / 10) to before ceil((t + 1) T / 10).
halves as (
    select
        entropy.*,
        enough.samples,
        if(tokens = 0, -4, cast(floor(4 * log2(greatest(tokens, 1))) as integer)) as length,
        if(tokens = 0, 1.0, ceil(tokens / 2) / tokens) as early_weight,
        list_sum([
            coalesce(profile[t + 1], 0) * (ceil((t + 1) * tokens / 10) - ceil(t * tokens / 10)) for t in range(5)
        ]) / greatest(tokens, 1) as early_entropy
    from entropy
    inner join enough using (model, dataset, problem_id)
)

select
    model,
    dataset,
    problem_id,
    length,
    late,
    sum(if(late, 1 - early_weight, early_weight) order by sample) / any_value(samples) as weight,
    sum(if(late, token_entropy - early_entropy, early_entropy) order by sample) / any_value(samples) as entropy
from halves
cross join (select unnest([false, true]) as late) as parts
group by model, dataset, problem_id, length, late
order by model, dataset, problem_id, length, late
