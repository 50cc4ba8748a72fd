-- classes: the pass over the answers of the verdicts (reach.sql only counts samples). How often each answer class of
-- each problem occurs in each stretch of samples, and how many of these samples are correct. The macro
-- stretch_of(sample) is the first sample of its stretch; no window cuts one. Output without an answer, cut off or not, is
-- one class (null). An answer that could not be scored keeps its class.
select
    model,
    dataset,
    problem_id,
    stretch_of(sample) as stretch,
    answer_class,
    count(*) as hits,
    count(*) filter (where correct) as correct
from verdicts
group by all
