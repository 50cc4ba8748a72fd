-- hits: for every model, problem and k of the page's slider, how many of the first k samples were scored (n) and
-- correct (c), and how sampling had ended by then.
select
    plan.base as model,
    plan.k,
    counts.dataset,
    counts.problem_id,
    counts.n_base as n,
    counts.c_base as c,
    counts.ended_base as ended
from counts
inner join plan using (pair, dataset)
