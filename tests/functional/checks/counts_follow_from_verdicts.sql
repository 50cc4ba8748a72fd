-- the hits in the support table are the correct verdicts
with hits as (
    select dataset, problem_id, model, count(*) filter (where correct) as c from verdicts group by all
)

select * from support
inner join hits as base on base.model = 'base' and base.dataset = support.dataset and base.problem_id = support.problem_id
inner join hits as rlvr on rlvr.model = 'rlvr' and rlvr.dataset = support.dataset and rlvr.problem_id = support.problem_id
where support.c_base <> base.c or support.c_rlvr <> rlvr.c
