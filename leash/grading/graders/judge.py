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
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leash import atomic_io, tables
from leash.engines.openai_engine import OpenAIEngine
from leash.engines.protocol import Completion, Decoding, Request
from leash.errors import LeashError
from leash.grading.extraction import strip_thinking
from leash.grading.graders.types import BatchOnlyGraderError, Grade, GradeRequest, replace_surrogates, unscored_grade
from leash.grading.run_on import cut_run_on
from leash.params.groups import Judge, OpenAI, Verify
from leash.progress import Progress
from leash.prompts import Prompt
from leash.scheduler.run import run_in_threads
from leash.scheduler.worker_plan import UnitQueue, WorkerPlan

PAID = True
DEFAULT_PROMPT_PATH = Path(__file__).parent.parent / "judge_prompt.txt"
MAX_ANSWER_CHARS = 2000  # of the end of a completion, where the answer is
# For the estimate of the cost; a reply is one word.
CHARS_PER_TOKEN = 4
TOKENS_PER_REPLY = 8
# Enough tokens for a judge that thinks before it replies.
JUDGE_DECODING = Decoding(temperature=0.0, top_p=1.0, max_tokens=2048)
NOT_ATTEMPTED_CLASS = "(not attempted)"
GRADE_SCORES = {"CORRECT": 1.0, "INCORRECT": 0.0, "NOT_ATTEMPTED": 0.0}

PROMPT_FIELD = re.compile(r"\{(question|gold|answer)\}")
GRADE_WORD = re.compile(r"\b(NOT[_ ]ATTEMPTED|INCORRECT|CORRECT)\b")
# The engine's errors name the parameters of `sample.openai`; the judge has its own.
PARAM_RENAMES = {"`sample.openai.": "`verify.judge.", "the model's `served` name": "`verify.judge.model`"}


class JudgeBudgetError(LeashError):
    """Judging costs more than `verify.judge.budget` allows. `cost` is in dollars."""

    def __init__(self, budget: float, cost: float, what: str, remedy: str) -> None:
        self.budget, self.cost = budget, cost
        super().__init__(f"`verify.judge.budget` allows ${budget:,.2f}, but {what}. {remedy}")


class JudgePromptError(LeashError):
    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"Cannot use the prompt {path} of `verify.judge.prompt`: {reason}. Name a text file that contains "
            f"{{question}}, {{gold}} and {{answer}}."
        )


class JudgeCase(NamedTuple):
    """One question to the judge. `key` is a hash of everything that its grade depends on."""

    key: str
    prompt: str
    request: GradeRequest


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
    cache = GradeCache(tables.DATA_DIR / "judge" / "grades.jsonl")
    unknown = list({case.key: case for case in cases if case.key not in cache.grades}.values())
    if unknown:
        _report_cost(judge, unknown, len(requests))
        _query_judge(judge, unknown, cache)
    for case in cases:
        answer, grade = case.request.answer, cache.grades.get(case.key)
        if grade is None:
            yield unscored_grade(answer, "error")
            continue
        attempted, score = grade != "NOT_ATTEMPTED", GRADE_SCORES[grade]
        answer_class = replace_surrogates(canonical(answer, case.request.meta)) if attempted else NOT_ATTEMPTED_CLASS
        yield {"answer_class": answer_class, "correct": score == 1, "score": score, "status": "ok"}


def refuse_budget(judge: Judge, answers: int) -> None:
    """Raise, before anything is sampled, if the prompt is unusable or the budget cannot pay for this many answers.
    Their texts are not known yet, so the estimate counts the prompt without them: the true cost is higher."""
    characters = answers * len(_load_prompt_template(judge))
    cost = _estimate_cost_usd(judge, characters, TOKENS_PER_REPLY * answers)
    if cost > judge.budget:
        what = f"one answer to each of {answers:,} problems costs at least ${max(cost, 0.01):,.2f}"
        raise JudgeBudgetError(judge.budget, cost, what, "Raise it, or set the prices to 0 if you run the server.")


class GradeCache:
    """The grades that are paid for, one JSON line each. A partial line that a crash left is skipped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.grades: dict[str, str] = {}
        if not path.is_file():
            return
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    row = json.loads(line)
                    if row["grade"] in GRADE_SCORES:
                        self.grades[row["key"]] = row["grade"]
                except (ValueError, TypeError, KeyError):
                    continue

    def add(self, judge: Judge, case: JudgeCase, grade: str) -> None:
        self.grades[case.key] = grade
        row = {"key": case.key, "grade": grade, "judge": judge.model}
        line = json.dumps(row | {"gold": case.request.gold, "answer": case.request.answer}) + "\n"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # A single write to a file opened for appending: lines of concurrent runs do not mix.
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            size = os.fstat(handle).st_size
            ends_in_partial_line = size and os.pread(handle, 1, size - 1) != b"\n"
            os.write(handle, (("\n" if ends_in_partial_line else "") + line).encode())
        finally:
            os.close(handle)


def _load_prompt_template(judge: Judge) -> str:
    path = Path(judge.prompt) if judge.prompt else DEFAULT_PROMPT_PATH
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise JudgePromptError(path, "it is not a readable text file") from None
    if missing := {"question", "gold", "answer"} - set(PROMPT_FIELD.findall(text)):
        raise JudgePromptError(path, f"it has no {{{min(missing)}}}")
    return text


def _build_case(judge: Judge, template: str, request: GradeRequest) -> JudgeCase:
    texts = {"question": str(request.meta["question"]), "gold": " or ".join(request.gold), "answer": request.answer}
    texts = {name: replace_surrogates(text) for name, text in texts.items()}
    # As JSON strings and in a single pass: no text can end its own quotes, or contain a field that is filled in later.
    prompt = PROMPT_FIELD.sub(lambda field: json.dumps(texts[field[1]], ensure_ascii=False), template)
    key = atomic_io.hash_strings(json.dumps([judge.model, template, *texts.values()]))
    return JudgeCase(key, prompt, request)


def _estimate_cost_usd(judge: Judge, characters: int, tokens_out: int) -> float:
    return (characters / CHARS_PER_TOKEN * judge.price_in + tokens_out * judge.price_out) / 1e6


def _report_cost(judge: Judge, cases: Sequence[JudgeCase], answers: int) -> None:
    """Print the estimated cost, or raise if it exceeds the budget."""
    characters, replies = sum(len(case.prompt) for case in cases), TOKENS_PER_REPLY * len(cases)
    cost = _estimate_cost_usd(judge, characters, replies)
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


def _query_judge(judge: Judge, cases: Sequence[JudgeCase], cache: GradeCache) -> None:
    """Send these cases to the judge, several at a time, and cache the grades. After a failure no new case is sent, but
    the replies under way are awaited and kept, because they are paid for."""
    failure: LeashError | None = None
    spent = 0.0

    def create_engine() -> OpenAIEngine:
        try:
            settings = OpenAI(url=judge.url, key=judge.key, retries=judge.retries, timeout=judge.timeout)
            return OpenAIEngine(settings, judge.model)
        except LeashError as error:
            raise _rename_params(error) from None

    # Evaluated as threads become free, so nothing is sent after the first failure.
    queue = UnitQueue(case for case in cases if failure is None)
    plan = WorkerPlan(at_once=judge.concurrency)
    with Progress(len(cases), f"judge by {judge.model}", "answers") as progress:
        for case, replies in run_in_threads(queue, create_engine, _request_replies, plan):
            if isinstance(replies, LeashError):
                failure = failure or replies
                continue
            tokens = sum(reply.tokens or 0 for reply in replies)
            spent += _estimate_cost_usd(judge, len(case.prompt) * len(replies), tokens)
            if spent > judge.budget and failure is None:
                what = f"{judge.model} writes more than estimated, and ${spent:,.2f} is spent"
                remedy = "Finished grades are kept: raise the budget and run the command again."
                failure = JudgeBudgetError(judge.budget, spent, what, remedy)
            if (grade := _parse_grade(replies[-1].text)) is not None:
                cache.add(judge, case, grade)
            progress.add()
    if failure:
        raise failure


def _request_replies(engine: OpenAIEngine, case: JudgeCase) -> list[Completion] | LeashError:
    """Get the judge's reply, and a second one if the first is not a grade. An error is returned, not raised, so that
    the replies of other threads still come in."""
    replies: list[Completion] = []
    try:
        for attempt in range(2):
            request = Request(case.key, Prompt(case.prompt, chat=True), range(attempt, attempt + 1), ("judge",))
            replies += engine.complete([request], JUDGE_DECODING)
            if _parse_grade(replies[-1].text) is not None:
                break
    except LeashError as error:
        return _rename_params(error)
    return replies


def _rename_params(error: LeashError) -> LeashError:
    """Make the engine's error name the judge's parameters. It keeps its class and its facts."""
    for engine_name, judge_name in PARAM_RENAMES.items():
        error.args = (str(error).replace(engine_name, judge_name),)
    return error


def _parse_grade(reply: str) -> str | None:
    """The grade in a reply, after its thinking; None if it has none, or several."""
    words = {word.replace(" ", "_") for word in GRADE_WORD.findall(strip_thinking(reply))}
    return words.pop() if len(words) == 1 else None
