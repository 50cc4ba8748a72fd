-- long: models and data sets with samples that are longer than the model's context window.
select model, dataset, count(*) filter (where token_entropy is null) as long, count(*) as samples
from entropy
group by model, dataset
having long > 0
order by model, dataset
