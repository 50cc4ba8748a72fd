-- tallies: the one pass over the verdicts; everything else is computed from it. How often each model gave each answer
-- to each problem, correct, wrong or unscored (correct is null) by either reading and with which kind of working, and the
-- first and last sample that did.
-- The macro upto(sample) is the smallest k of the plans that includes the sample, so the first k samples are those with
-- upto <= k. It is null for a sample beyond the largest k, which is in no count.
select
    model,
    dataset,
    problem_id,
    upto(sample) as upto,
    answer_class,
    candidate_class,
    correct,
    correct_strict,
    correct_lenient,
    process,
    count(*) as samples,
    min(sample) as first,
    max(sample) as last
from verdicts
group by all
