-- control_tallies: the tallies with the answer and the verdict of one control ($control): 'chosen' is the reading of the
-- run; 'strict' and 'lenient' are both readings; 'sound' counts a hit only if its working was checked and is right, and
-- 'unrefuted' if its working was not found to be wrong. An unscored sample is unscored to every control.
select
    model,
    dataset,
    problem_id,
    upto,
    case $control
        when 'strict' then if(candidate_class is null, answer_class, null)
        when 'lenient' then coalesce(candidate_class, answer_class)
        else answer_class
    end as answer_class,
    case
        when $control = 'strict' then correct_strict
        when $control = 'lenient' then correct_lenient
        when $control = 'sound' and correct then coalesce(process = 'sound', false)
        when $control = 'unrefuted' and correct then coalesce(process <> 'unsound', true)
        else correct
    end as correct,
    sum(samples) as samples,
    min(first) as first,
    max(last) as last
from all_tallies
group by all
