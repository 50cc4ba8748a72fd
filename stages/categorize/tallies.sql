-- tallies: the one pass over the verdicts; everything else is computed from it. How often each model gave each answer
-- to each problem, right, wrong or unscored (correct is null), and the first and last sample that did.
-- upto(sample), a macro: the smallest of the numbers of samples that anyone asks for which a sample lies within. So the
-- first k samples are those with upto <= k; a sample beyond the largest k has none, and is in no count.
select
    model,
    dataset,
    problem_id,
    upto(sample) as upto,
    answer_class,
    correct,
    count(*) as samples,
    min(sample) as first,
    max(sample) as last
from verdicts
group by all
