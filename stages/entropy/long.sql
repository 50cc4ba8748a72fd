-- long: the models and data sets in which some sample was too long for its model to be scored.
select model, dataset, count(*) filter (where token_entropy is null) as long, count(*) as samples
from entropy
group by model, dataset
having long > 0
order by model, dataset
