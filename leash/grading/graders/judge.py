r"""`judge`: a language model decides whether a free-form answer says what the gold says (SimpleQA).

    grade_all([GradeRequest("q1", "It was Michio Sugeno.", ("Michio Sugeno",), {"question": "Who …?"})], verify)
        ->  {"answer_class": "it was michio sugeno", "correct": True, "score": 1.0, "status": "ok"}

The judge is any server with OpenAI's API. At temperature 0 it replies with one of three words, CORRECT, INCORRECT or
NOT_ATTEMPTED. The prompt is judge_prompt.txt, or the file `verify.judge.prompt`. data/judge/grades.jsonl keeps each
grade under a hash of everything it depends on (judge, prompt, question, gold, answer), so nothing is paid for twice,
whichever model, run or pair it comes from. The grader prints the estimated cost before it sends anything, and stops if
that exceeds `verify.judge.budget`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leash import atomic_io, tables
from leash.engines.protocol import Decoding
from leash.grading.graders.types import BatchOnlyGraderError, Grade, GradeRequest, replace_surrogates, unscored_grade
from leash.grading.judge_words import WordReader
from leash.grading.judging import (
    CHARS_PER_TOKEN,
    JudgeBudgetError,
    JudgeCase,
    JudgePromptError,
    JudgeServer,
    WordCache,
    fill_prompt,
    load_prompt_template,
    query_judge,
)
from leash.grading.run_on import cut_run_on
from leash.grading.thinking import strip_thinking
from leash.params.groups import Judge, Verify

__all__ = ["JudgeBudgetError", "JudgePromptError"]  # what its callers catch

PAID = True
DEFAULT_PROMPT_PATH = Path(__file__).parent.parent / "judge_prompt.txt"
MAX_ANSWER_CHARS = 2000  # of the end of a completion, where the answer is
TOKENS_PER_REPLY = 8  # for the estimate of the cost: a reply is one word
# Enough tokens for a judge that thinks before it replies.
JUDGE_DECODING = Decoding(temperature=0.0, top_p=1.0, max_tokens=2048)
NOT_ATTEMPTED_CLASS = "(not attempted)"
GRADE_SCORES = {"CORRECT": 1.0, "INCORRECT": 0.0, "NOT_ATTEMPTED": 0.0}

GROUP, PROMPT_FIELDS = "verify.judge", ("question", "gold", "answer")
GRADES = WordReader(yes="CORRECT", no="INCORRECT", others=("NOT_ATTEMPTED",))


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    raise BatchOnlyGraderError("judge")


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    """The answer in lower case, without extra white space and without punctuation around it."""
    return " ".join(answer.casefold().split()).strip(" .,;:!?\"'*()[]")


def extract(text: str) -> str | None:
    """The end of the reply after the thinking; None if there is none."""
    return " ".join(strip_thinking(cut_run_on(text)).split())[-MAX_ANSWER_CHARS:] or None


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    if not str(meta.get("question") or "").strip():
        return "there is no question to show to the judge"
    return None if gold and all(g.strip() for g in gold) else "there is no gold"


def grade_all(requests: Sequence[GradeRequest], verify: Verify) -> Iterator[Grade]:
    """Yield the grades of the requests, in order, after the judge has graded those that are not in the cache."""
    judge = verify.judge
    template = _load_prompt_template(judge)
    cases = [_build_case(judge, template, request) for request in requests]
    cache = WordCache(tables.DATA_DIR / "judge" / "grades.jsonl", "grade", GRADE_SCORES)
    unknown = list({case.key: case for case in cases if case.key not in cache.words}.values())
    if unknown:
        _report_cost(judge, unknown, len(requests))
        query_judge(_server(judge), unknown, cache, GRADES.read, JUDGE_DECODING, "answers")
    for request, case in zip(requests, cases, strict=True):
        answer, grade = request.answer, cache.words.get(case.key)
        if grade is None:
            yield unscored_grade(answer, "error")
            continue
        attempted, score = grade != "NOT_ATTEMPTED", GRADE_SCORES[grade]
        answer_class = replace_surrogates(canonical(answer, request.meta)) if attempted else NOT_ATTEMPTED_CLASS
        yield {"answer_class": answer_class, "correct": score == 1, "score": score, "status": "ok"}


def refuse_budget(judge: Judge, answers: int) -> None:
    """Raise, before anything is sampled, if the prompt is unusable or the budget cannot pay for this many answers.
    Their texts are not known yet, so the estimate counts the prompt without them: the true cost is higher."""
    characters = answers * len(_load_prompt_template(judge))
    cost = _server(judge).cost_usd(characters, TOKENS_PER_REPLY * answers)
    if cost > judge.budget:
        what = f"one answer to each of {answers:,} problems costs at least ${max(cost, 0.01):,.2f}"
        raise JudgeBudgetError(judge.budget, cost, what, "Raise it, or set the prices to 0 if you run the server.")


def _server(judge: Judge) -> JudgeServer:
    costs = judge.model_dump(exclude={"prompt"})
    return JudgeServer(group=GROUP, model_key=f"{GROUP}.model", **costs)


def _load_prompt_template(judge: Judge) -> str:
    return load_prompt_template(Path(judge.prompt) if judge.prompt else DEFAULT_PROMPT_PATH, PROMPT_FIELDS, GROUP)


def _build_case(judge: Judge, template: str, request: GradeRequest) -> JudgeCase:
    texts = {"question": str(request.meta["question"]), "gold": " or ".join(request.gold), "answer": request.answer}
    texts = {name: replace_surrogates(text) for name, text in texts.items()}
    key = atomic_io.hash_strings(json.dumps([judge.model, template, *texts.values()]))
    return JudgeCase(key, fill_prompt(template, texts), {"gold": request.gold, "answer": request.answer})


def _report_cost(judge: Judge, cases: Sequence[JudgeCase], answers: int) -> None:
    """Print the estimated cost, or raise if it exceeds the budget."""
    characters, replies = sum(len(case.prompt) for case in cases), TOKENS_PER_REPLY * len(cases)
    cost = _server(judge).cost_usd(characters, replies)
    price = f"about ${max(cost, 0.01):,.2f}" if cost else "free of charge"
    what = (
        f"grading {len(cases):,} of {answers:,} answers by {judge.model} takes about "
        f"{characters // CHARS_PER_TOKEN:,} tokens in (at {CHARS_PER_TOKEN} characters each) and {replies:,} out, "
        f"{price}"
    )
    if cost > judge.budget:
        enough = math.ceil(cost * 120) / 100  # 20% above the estimate
        remedy = f"Set it to {enough:.2f} or more, or set the prices to 0 if you run the server."
        raise JudgeBudgetError(judge.budget, cost, what, remedy)
    print(f"{what[0].upper()}{what[1:]}.", file=sys.stderr, flush=True)
