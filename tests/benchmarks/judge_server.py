"""A judge on localhost that tosses a coin for each vote: it calls sound working sound with one known chance, and
unsound working unsound with another. It knows the truth from the deterministic checker of steps."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from leash.engines.torch_engine import TorchEngine
from leash.grading.extraction import extract
from leash.grading.process.checkers import check_working
from leash.params.groups import Params
from leash.problems import Problem, load_problems
from leash.statistics import seeds
from tests.served import Json, Served

FIELDS = re.compile(r'^Question: (".*")\nSolution: (".*")$', re.MULTILINE)


class CoinJudge(Served):
    def __init__(self, sensitivity: float, specificity: float, seed: int = 0) -> None:
        super().__init__(cast(TorchEngine, None))
        self.sensitivity, self.specificity, self.seed = sensitivity, specificity, seed
        self.problems: dict[str, Problem] = {}

    def learn(self, params: Params) -> None:
        """Read the problems of a run: a question leads to what the checker needs."""
        for dataset in params.run.datasets:
            self.problems |= {problem["question"]: problem for problem in load_problems(dataset).values()}

    def answer(self, path: str, body: Json) -> Json:
        found = FIELDS.search(body["messages"][0]["content"])
        assert found
        question, text = (json.loads(part) for part in found.groups())
        is_sound = check_working(self.problems[question], text, extract(text)).process == "sound"
        coin = seeds.stream("coin", self.seed, body["seed"], text).random()
        says_sound = coin < (self.sensitivity if is_sound else 1 - self.specificity)
        content = f"<think>SOUND or UNSOUND?</think>\n{'SOUND' if says_sound else 'UNSOUND'}"
        message: dict[str, Any] = {"role": "assistant", "content": content}
        usage = {"prompt_tokens": 400, "completion_tokens": 12, "total_tokens": 412}
        return {"id": "1", "choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": usage}
