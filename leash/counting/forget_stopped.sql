-- forget_stopped: the counts of a control without those of pairs in which a problem has not all its samples. Under an
-- adaptive budget, which samples are missing depends on the hits of the run's own reading: the mean of the others, and
-- the hits among the samples that were drawn, say nothing about all of them. So these problems have no samples.
with incomplete as (
    select distinct pair from counts where ended_base is null or ended_rlvr is null
)

select
    counts.* replace (
        if(incomplete.pair is null, n_base, 0) as n_base,
        if(incomplete.pair is null, c_base, 0) as c_base,
        if(incomplete.pair is null, ended_base, null) as ended_base,
        if(incomplete.pair is null, n_rlvr, 0) as n_rlvr,
        if(incomplete.pair is null, c_rlvr, 0) as c_rlvr,
        if(incomplete.pair is null, ended_rlvr, null) as ended_rlvr,
        if(incomplete.pair is null, hit_base, null) as hit_base,
        if(incomplete.pair is null, hit_rlvr, null) as hit_rlvr,
        if(incomplete.pair is null, n_base_first, 0) as n_base_first,
        if(incomplete.pair is null, c_base_first, 0) as c_base_first,
        if(incomplete.pair is null, n_rlvr_first, 0) as n_rlvr_first,
        if(incomplete.pair is null, c_rlvr_first, 0) as c_rlvr_first
    )
from counts
left join incomplete using (pair)
order by counts.pair, counts.dataset, counts.problem_id
