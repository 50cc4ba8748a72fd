r"""`judge`: a language model says whether a free answer says what the gold says (SimpleQA).

    grade_all([Asked("q1", "It was Michio Sugeno.", ("Michio Sugeno",), {"question": "Who received …?"})], verify)
        ->  {"answer_class": "it was michio sugeno", "correct": True, "score": 1.0, "status": "ok"}

The judge is any server that speaks OpenAI's API. It is asked at temperature 0 for one of three words, CORRECT,
INCORRECT or NOT_ATTEMPTED, with the prompt of judge_prompt.txt or of a file of your own. Each grade is kept in
data/judge/grades.jsonl under a hash of all that it depends on (the judge, the prompt, question, gold and answer), so
that nothing is asked twice, whichever model, run or pair it comes from. What asking would cost is said before it is
asked, and above `verify.judge.budget` it is not.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from stages import disk, tables
from stages.errors import LeashError
from stages.params import Judge, OpenAI, Verify
from stages.progress import Progress
from stages.prompts import Prompt
from stages.sample.engine import Completion, Decoding, Request
from stages.sample.openai_engine import OpenAIEngine
from stages.verify.extract import reply_in
from stages.verify.graders import Asked, Grade, storable, unscored
from stages.work import Crew, Feed, over_threads

PAID = True
PROMPT = Path(__file__).parent.parent / "judge_prompt.txt"
LONGEST = 2000  # characters of a reply: its end, where the answer is
CHARACTERS = 4  # that a token has, about: enough for an estimate
WORD = 8  # tokens of a reply that is one word
DECODING = Decoding(temperature=0.0, top_p=1.0, max_tokens=2048)  # room for a judge that thinks before it says its word
NOT_ATTEMPTED = "(not attempted)"
SCORES = {"CORRECT": 1.0, "INCORRECT": 0.0, "NOT_ATTEMPTED": 0.0}

PLACES = re.compile(r"\{(question|gold|answer)\}")
GRADE = re.compile(r"\b(NOT[_ ]ATTEMPTED|INCORRECT|CORRECT)\b")
# The engine's sentences name its own parameters.
RENAMED = {"`sample.openai.": "`verify.judge.", "the model's `served` name": "`verify.judge.model`"}


@dataclass(frozen=True)
class Case:
    """A question to the judge: the hash of all that its grade depends on, and the prompt."""

    key: str
    prompt: str
    asked: Asked


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    raise LeashError(
        "The grader `judge` asks a model about many answers together, after its cost was said: use `leash verify`."
    )


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    """Case, white space and the punctuation around it aside."""
    return " ".join(answer.casefold().split()).strip(" .,;:!?\"'*()[]")


def extract(text: str) -> str | None:
    """The end of what was said after the thoughts; None where nothing was."""
    return " ".join(reply_in(text).split())[-LONGEST:] or None


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    if not str(meta.get("question") or "").strip():
        return "there is no question to show to the judge"
    return None if gold and all(g.strip() for g in gold) else "there is no gold"


def grade_all(asked: Sequence[Asked], verify: Verify) -> Iterator[Grade]:
    """The grades of these answers, in order. What is not known yet is asked first, and kept as it comes."""
    judge = verify.judge
    template = _template(judge)
    cases = [_case(judge, template, a) for a in asked]
    known = Known(tables.DATA / "judge" / "grades.jsonl")
    unknown = {case.key: case for case in cases if case.key not in known.grades}
    if unknown:
        _say_cost(judge, list(unknown.values()), len(asked))
        _ask(judge, list(unknown.values()), known)
    for case in cases:
        yield _grade(case.asked, known.grades.get(case.key))


class Known:
    """The grades that were paid for: a line of JSON each, written whole; half a line that a crash left is skipped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.grades: dict[str, str] = dict(_lines(path))

    def keep(self, judge: Judge, case: Case, grade: str) -> None:
        self.grades[case.key] = grade
        row = {
            "key": case.key,
            "grade": grade,
            "judge": judge.model,
            "gold": case.asked.gold,
            "answer": case.asked.answer,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # One write to a file opened for appending: lines of runs side by side do not mix.
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(handle, (_missing_end(handle) + json.dumps(row) + "\n").encode())
        finally:
            os.close(handle)


def _missing_end(handle: int) -> str:
    """What ends the line before: nothing, or a line break where a crash left half a line."""
    size = os.fstat(handle).st_size
    return "\n" if size and os.pread(handle, 1, size - 1) != b"\n" else ""


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                row = json.loads(line)
                key, grade = row["key"], row["grade"]
            except (ValueError, TypeError, KeyError):
                continue
            if grade in SCORES:
                yield key, grade


def _template(judge: Judge) -> str:
    path = Path(judge.prompt) if judge.prompt else PROMPT
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise LeashError(f"`verify.judge.prompt` is {path}, which is no text that can be read; correct it.") from None
    missing = {"question", "gold", "answer"} - set(PLACES.findall(text))
    if missing:
        raise LeashError(f"{path} does not say where {{{min(missing)}}} goes; put that into it.")
    return text


def _case(judge: Judge, template: str, asked: Asked) -> Case:
    """Texts are put in as JSON strings, all at once: none can end its own quotes or name another's place."""
    texts = {"question": str(asked.meta["question"]), "gold": " or ".join(asked.gold), "answer": asked.answer}
    texts = {name: storable(text) for name, text in texts.items()}
    prompt = PLACES.sub(lambda place: json.dumps(texts[place[1]], ensure_ascii=False), template)
    key = disk.hash_of(json.dumps([judge.model, template, *texts.values()]))
    return Case(key, prompt, asked)


def _dollars(judge: Judge, characters: int, tokens_out: int) -> float:
    return (characters / CHARACTERS * judge.price_in + tokens_out * judge.price_out) / 1e6


def refuse_budget(judge: Judge, answers: int) -> None:
    """Raise, before anything is sampled, if the prompt cannot be read or if so many answers cannot be paid for. Their
    texts are not known yet, so the prompt counts without them: the true cost is higher."""
    characters, replies = answers * len(_template(judge)), WORD * answers
    if (cost := _dollars(judge, characters, replies)) > judge.budget:
        raise LeashError(
            f"`verify.judge.budget` allows ${judge.budget:,.2f}, but one answer to each of {answers:,} problems costs "
            f"at least ${max(cost, 0.01):,.2f}; raise it, or set the prices to 0 if the server is your own."
        )


def _say_cost(judge: Judge, cases: Sequence[Case], wanted: int) -> None:
    """Say what asking will cost, about; refuse where that is more than is allowed."""
    characters, replies = sum(len(case.prompt) for case in cases), WORD * len(cases)
    cost = _dollars(judge, characters, replies)
    price = f"about ${max(cost, 0.01):,.2f}" if cost else "at no price"
    what = f"{len(cases):,} of {wanted:,} answers are to be graded by {judge.model}"
    tokens = f"some {characters // CHARACTERS:,} tokens in (at {CHARACTERS} characters each) and {replies:,} out"
    if cost > judge.budget:
        raise LeashError(
            f"{what}: {tokens}, {price}, but `verify.judge.budget` allows ${judge.budget:,.2f}; set it to "
            f"{math.ceil(cost * 120) / 100:.2f} or more to spend that, or the prices to 0 if the server is your own."
        )
    print(f"{what}: {tokens}, {price}.", file=sys.stderr, flush=True)


@dataclass
class Purse:
    """What was spent, by the same prices; the first thing that went wrong, after which no more is asked."""

    spent: float = 0.0
    failure: LeashError | None = None


def _ask(judge: Judge, cases: Sequence[Case], known: Known) -> None:
    """Ask about these, many at a time. After a failure what is under way is still awaited, and kept: it is paid for."""
    purse = Purse()
    settings = OpenAI(url=judge.url, key=judge.key, retries=judge.retries, timeout=judge.timeout)
    feed = Feed(case for case in cases if purse.failure is None)
    crew = Crew(at_once=judge.concurrency)
    with Progress(len(cases), f"judge by {judge.model}", "answers") as progress:
        for case, replies in over_threads(feed, partial(_engine, settings, judge.model), _replies, crew):
            if isinstance(replies, LeashError):
                purse.failure = purse.failure or replies
                continue
            _enter(judge, purse, case, replies)
            if (grade := _said(replies[-1].text)) is not None:
                known.keep(judge, case, grade)
            progress.add()
    if purse.failure:
        raise purse.failure


def _enter(judge: Judge, purse: Purse, case: Case, replies: Sequence[Completion]) -> None:
    tokens = sum(reply.tokens or 0 for reply in replies)
    purse.spent += _dollars(judge, len(case.prompt) * len(replies), tokens)
    if purse.spent > judge.budget and purse.failure is None:
        purse.failure = LeashError(
            f"{judge.model} says more than was estimated: `verify.judge.budget` (${judge.budget:,.2f}) is spent; what "
            f"was graded is kept: raise it and run again to go on."
        )


def _engine(settings: OpenAI, model: str) -> OpenAIEngine:
    try:
        return OpenAIEngine(settings, model)
    except LeashError as error:
        raise _renamed(error) from None


def _replies(engine: OpenAIEngine, case: Case) -> list[Completion] | LeashError:
    """What the judge says; a second time if the first is no grade. A failure is a result too: the others' come in."""
    replies: list[Completion] = []
    try:
        for turn in range(2):
            request = Request(case.key, Prompt(case.prompt, chat=True), range(turn, turn + 1), ("judge",))
            replies += engine.complete([request], DECODING)
            if _said(replies[-1].text) is not None:
                break
    except LeashError as error:
        return _renamed(error)
    return replies


def _renamed(error: LeashError) -> LeashError:
    sentence = str(error)
    for theirs, ours in RENAMED.items():
        sentence = sentence.replace(theirs, ours)
    return LeashError(sentence)


def _said(reply: str) -> str | None:
    """The grade that a reply says, after its thoughts; None where it says none, or several."""
    words = {word.replace(" ", "_") for word in GRADE.findall(reply_in(reply))}
    return words.pop() if len(words) == 1 else None


def _grade(asked: Asked, grade: str | None) -> Grade:
    if grade is None:
        return unscored(asked.answer, "error")
    attempted = grade != "NOT_ATTEMPTED"
    return {
        "answer_class": storable(canonical(asked.answer, asked.meta)) if attempted else NOT_ATTEMPTED,
        "correct": SCORES[grade] == 1,
        "score": SCORES[grade],
        "status": "ok",
    }
