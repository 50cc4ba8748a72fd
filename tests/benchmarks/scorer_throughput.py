"""Traces per second of the scorer on many short traces against scoring them one at a time, on one thread.

Both score the same 4,096 solutions of the embedded tasks, every other one worked step by step (36 tokens on average
with their prompts), with the embedded base model in float32, from texts to log-likelihoods. They take turns, 1,024
traces at a time (a unit of the scoring stages), three times over; compared is the sum of their processor time, so that
a machine that grows slower does so for both. The figures of both must be the same. One at a time is a loop over the
traces: tokenizer, forward pass through transformers, log-softmax of the text's steps.

The shape matters: what is saved is the fixed cost of a pass, so the shorter the traces the larger the ratio. `--worked`
takes worked solutions alone, which are longer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from result import tell

from leash import weights
from leash.datasets import embedded_tasks
from leash.prompts import Prompt
from leash.scoring.torch_scorer import Scorer, tokenize_traces
from leash.scoring.traces import Trace
from leash.statistics import seeds

ROOT = Path(__file__).parent.parent.parent
TRACES, UNIT, TURNS, GOAL = 4096, 1024, 3, 3.0
KINDS = [("chain", 5), ("chain", 8), ("make", 3), ("make", 5), ("make", 8)]


def traces(worked: bool) -> list[Trace]:
    rng = seeds.stream("benchmark", "scorer throughput")
    problems = [embedded_tasks.draw_problem(rng, *KINDS[i % len(KINDS)], held_out=True) for i in range(TRACES)]
    texts = [
        embedded_tasks.write_solution(rng, problem, worked=worked or i % 2 == 0, slip=False)
        for i, problem in enumerate(problems)
    ]
    return [Trace(Prompt(problem.prompt), text, ended=True) for problem, text in zip(problems, texts, strict=True)]


def ours(scorer: Scorer, wanted: list[Trace]) -> list[float]:
    return [score.nll for score in scorer.score(wanted) if score.nll is not None]


@torch.inference_mode()
def one_at_a_time(scorer: Scorer, wanted: list[Trace]) -> list[float]:
    found = []
    for trace in wanted:
        [(asked, told)] = tokenize_traces([trace], scorer.tokenizer)
        logits = scorer.model(input_ids=torch.tensor([asked + told]), use_cache=False).logits[0, len(asked) - 1 : -1]
        found.append(-float(logits.log_softmax(-1).gather(1, torch.tensor(told)[:, None]).sum()))
    return found


def main() -> None:
    scorer = Scorer(
        *weights.load_model(weights.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float32"))
    )
    wanted = traces("--worked" in sys.argv)
    sides: dict[str, Callable[[Scorer, list[Trace]], list[float]]] = {"ours": ours, "theirs": one_at_a_time}
    for side in sides.values():
        side(scorer, wanted[:64])
    seconds = dict.fromkeys(sides, 0.0)
    worst = 0.0
    for begin in list(range(0, TRACES, UNIT)) * TURNS:
        figures = []
        for name, side in sides.items():
            begun = time.process_time()
            figures.append(side(scorer, wanted[begin : begin + UNIT]))
            seconds[name] += time.process_time() - begun
        worst = max(worst, *(abs(one - other) for one, other in zip(*figures, strict=True)))
    speed = {name: TRACES * TURNS / spent for name, spent in seconds.items()}
    ratio = speed["ours"] / speed["theirs"]
    print(f"log-likelihoods differ by at most {worst:.1e}")
    tell(
        "scorer vs one at a time, short traces/s, 1 thread",
        ours=speed["ours"],
        theirs=speed["theirs"],
        ratio=ratio,
        goal=f">= {GOAL:g}x",
        ok=ratio >= GOAL and worst < 1e-3,
    )


if __name__ == "__main__":
    main()
