-- questions: the question of every problem, its accepted answers, and its number of images.
select dataset, problem_id, question, gold, coalesce(len(images), 0) as images
from problems
order by dataset, problem_id
