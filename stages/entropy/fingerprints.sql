-- fingerprints: for each window (the samples of a model from `first` to before `last`) and problem, how many answer
-- classes occur once, twice, and so on. All estimates of the answer entropy are made from these numbers.
with distinct_windows as (
    select distinct model, dataset, first, last from windows
),

in_window as (
    select
        distinct_windows.model,
        distinct_windows.dataset,
        distinct_windows.first,
        distinct_windows.last,
        classes.problem_id,
        classes.answer_class,
        sum(classes.hits) as hits,
        sum(classes.correct) as correct
    from distinct_windows
    inner join classes using (model, dataset)
    where classes.stretch >= distinct_windows.first and classes.stretch < distinct_windows.last
    group by all
)

select
    model,
    dataset,
    first,
    last,
    problem_id,
    cast(hits as bigint) as hits,
    count(*) as classes,
    cast(sum(correct) as bigint) as correct
from in_window
group by model, dataset, first, last, problem_id, hits
order by model, dataset, first, last, problem_id, hits
