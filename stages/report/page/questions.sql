-- questions: what every problem asks and accepts, and how many images come with it.
select dataset, problem_id, question, gold, coalesce(len(images), 0) as images
from problems
order by dataset, problem_id
