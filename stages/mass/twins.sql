-- twins: the texts of correct completions to one problem that differ in white space alone. Engines decode tokens with
-- or without a leading space, and some tokenizers ignore it: then such texts are the same tokens.
with written as (
    select problem_id, text || coalesce(tail, '') as text
    from verdicts
    inner join completions using (model, dataset, problem_id, sample)
    where dataset = $dataset and list_contains($writers, model) and correct
)

select problem_id, list_sort(list(distinct text)) as texts
from written
group by problem_id, md5(regexp_replace(text, '\s', '', 'g'))
having count(distinct text) > 1
order by problem_id, texts
