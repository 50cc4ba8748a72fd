-- tallies: the one pass over the verdicts; everything else is computed from it. How often each model gave each answer
-- to each problem, right, wrong or unscored (correct is null), and the first and last sample that did.
-- upto: the smallest of the numbers of samples that anyone asks for (`bands`) that a sample lies within. So the first k
-- samples are those with upto <= k, and samples beyond the largest k are in none.
select
    verdicts.model,
    verdicts.dataset,
    verdicts.problem_id,
    bands.upto,
    verdicts.answer_class,
    verdicts.correct,
    count(*) as samples,
    min(verdicts.sample) as first,
    max(verdicts.sample) as last
from verdicts
inner join bands using (sample)
group by all
