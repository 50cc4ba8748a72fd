-- answers: each problem's answer entropies, share of correct samples and mass of unseen answers, on the first
-- `entropy.samples` samples (the use `first`), and the entropies again on all samples that every problem of the model
-- has (the use `all`). All problems are measured on the same number of samples: with fewer, these numbers are null.
select
    model,
    dataset,
    problem_id,
    early.samples,
    early.answers,
    early.average,
    early.answer_entropy,
    early.answer_entropy_mm,
    early.answer_entropy_adjusted,
    early.unseen,
    if(every.answer_entropy is null, null, every.last) as all_samples,
    every.answer_entropy as answer_entropy_all,
    every.answer_entropy_mm as answer_entropy_mm_all,
    every.answer_entropy_adjusted as answer_entropy_adjusted_all,
    every.unseen as unseen_all
from (select * from estimates inner join windows using (model, dataset, first, last) where "use" = 'first') as early
left join (select * from estimates inner join windows using (model, dataset, first, last) where "use" = 'all') as every
    using (model, dataset, problem_id)
order by model, dataset, problem_id
