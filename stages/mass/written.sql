-- written: the distinct correct completions of the models $writers on a data set, each with its question, how often
-- $model wrote it (hits, samples), in which sample first, and with how many tokens how many of these samples were drawn.
-- A completion is a sequence of tokens: the same text in other tokens is another one. Only the ids of the writers $same
-- count; for all others the text stands for the tokens that it splits into, in one spelling (table `spellings`).
-- The text here is all that was drawn: with the tail that begins at a stop string.
-- Both models of a pair must give a completion the same name, so $same and the spellings are those of all models that
-- pairs link (stage.py). Without ids, the name of a completion is what it was before there were ids.
with drawn_texts as (
    select * exclude (text), text || coalesce(tail, '') as text
    from completions
    where dataset = $dataset and list_contains($writers, model)
),

samples as (
    select
        model,
        problem_id,
        sample,
        question,
        coalesce(spellings.spelling, drawn_texts.text) as text,
        tokens,
        finish = 'stop' as ended,
        if(list_contains($same, model), token_ids, null) as token_ids
    from verdicts
    inner join drawn_texts using (model, dataset, problem_id, sample)
    inner join problems using (dataset, problem_id)
    left join spellings on spellings.problem_id = drawn_texts.problem_id and spellings.text = drawn_texts.text
    where dataset = $dataset and list_contains($writers, model) and correct
)

select
    problem_id,
    substr(md5(concat('ids ' || token_ids::varchar || ' ', ended, ' ', text)), 1, 16) as completion,
    any_value(question) as question,
    text,
    ended,
    token_ids,
    count(*) filter (where model = $model) as hits,
    min(sample) filter (where model = $model) as first,
    histogram(tokens) filter (where model = $model) as drawn,
    count(*) filter (where model = $model) as samples
from samples
group by problem_id, text, ended, token_ids
order by problem_id, completion
