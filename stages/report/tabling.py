"""The tables of the report: which there are, in the order a sceptic asks for them, and what each says.

contents.py has what is in them, cells.py how they look.
"""

from __future__ import annotations

from dataclasses import dataclass

FLOOR = (
    "The floor is what the base gives against itself, no change at all, at half of its samples; what the pair gives at "
    "as many stands beside it."
)
PAPER = "Where the models and the problems are the paper's, its row stands below ours."


@dataclass(frozen=True)
class Table:
    """What stands above a table: its title, and what a row of it is."""

    title: str
    note: str


TABLES = {
    "by_domain": Table(
        "What became of the problems, by domain",
        f"A row is a pair on all problems, or on those of a domain where there are several. {FLOOR} Tested are E and S "
        f"that Fisher's test sees. {PAPER}",
    ),
    "by_dataset": Table(
        "What became of the problems, by data set",
        f"A row is a pair on a data set, with pass@1 and pass@k of both models. {FLOOR} {PAPER}",
    ),
    "pass_at_k": Table(
        "pass@k",
        "A row is a model of a pair at so many samples: the unbiased estimate with its interval over problems, the "
        "plain hit rate of the first k, and majority voting.",
    ),
    "statuses_by_category": Table(
        "How completions ended, by category",
        "A row is a model of a pair on the problems of a category: what is cut off may not be lost.",
    ),
    "statuses": Table(
        "How completions ended",
        "A row is a model on a data set: right, wrong, without an answer, cut off, not graded in time, not gradable.",
    ),
    "answers": Table(
        "Support of each distinct correct answer",
        "A row is a pair on the problems that have several correct answers, which are what is counted here.",
    ),
    "completions": Table(
        "Support of each distinct correct completion",
        "A row is a pair at an epsilon; a completion's mass is its exact probability, so there is no noise to floor.",
    ),
    "masses": Table(
        "What the correct completions seen weigh together",
        "A row is a model on a data set: a lower bound of its mass of correct completions, beside the sampled share.",
    ),
    "trainings": Table(
        "Different trainings of one base",
        f"A row is the last pair of a training, at the k that all pairs have. {FLOOR} Below ours is the paper's own "
        f"training of that kind, where the base and the data set are its.",
    ),
    "paired": Table(
        "Trained models of one base against each other",
        "A row is two trained models on the same problems: what both solve, or one alone; p is McNemar's, for as many "
        "being the first's alone as the second's.",
    ),
    "trajectory": Table(
        "Along the training",
        f"A row is a pair at the k that all pairs have, by training and step. {FLOOR} Below ours is the paper's "
        f"own training at that step, where the base and the data set are its.",
    ),
    "perplexity": Table(
        "Perplexity of solutions, by category",
        "A row is a pair on the traces of one source for the problems of a category. Style moves all perplexities: the "
        "floor of a change is the change on preserved problems, in the next table.",
    ),
    "style": Table(
        "How much log-perplexity grew, and how much of that is more than a change of style",
        "A row is a pair on the traces of one source; the change on preserved problems is its floor: what became "
        "stranger there has not become harder to solve.",
    ),
    "entropy": Table(
        "Entropies, share of correct samples and response length",
        "A row is a model on a data set, in nats. The floor is by how much two runs of half the samples typically "
        f"differ (root mean square, from the two halves of the model's own). {PAPER}",
    ),
    "decoupling": Table(
        "How token and answer entropy changed, and whether they went together",
        "A row is a pair on a data set: mean changes over problems, and the shares of problems that go each way.",
    ),
    "profile": Table(
        "Token entropy along the completions",
        "A row is a model at a tenth of the length of its completions.",
    ),
}
