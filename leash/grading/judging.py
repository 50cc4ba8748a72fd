"""Ask a model on an OpenAI-compatible server for one word per case, pay for each case once, and keep what is paid for.

    query_judge(server, cases, cache, parse_word)

Shared by the judge of answers (graders/judge.py) and the judge of working (reasoning.py). A case has a key, a hash of
all that its word depends on. The cache is a file of JSON lines, one per word. The caller prints the estimated cost
before it sends anything. The API key is read from the environment by the engine, and is in no case, cache or error.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from leash import json_checksum
from leash.engines.openai_engine import OpenAIEngine
from leash.engines.protocol import Completion, Decoding, Request
from leash.errors import LeashError
from leash.finish import has_failed, was_cut_off
from leash.params.groups import OpenAI
from leash.progress import Progress
from leash.prompts import Prompt
from leash.scheduler.run import run_in_threads
from leash.scheduler.worker_plan import UnitQueue, WorkerPlan

# For the estimate of the cost.
CHARS_PER_TOKEN = 4


class JudgeBudgetError(LeashError):
    """Judging costs more than the budget of its group of parameters allows. `cost` is in dollars."""

    def __init__(self, budget: float, cost: float, what: str, remedy: str, group: str = "verify.judge") -> None:
        self.budget, self.cost = budget, cost
        super().__init__(f"`{group}.budget` allows ${budget:,.2f}, but {what}. {remedy}")


class JudgePromptError(LeashError):
    def __init__(self, path: Path, reason: str, group: str, fields: Sequence[str]) -> None:
        self.path, self.reason = path, reason
        named = [f"{{{name}}}" for name in fields]
        super().__init__(
            f"Cannot use the prompt {path} of `{group}.prompt`: {reason}. Name a text file that contains "
            f"{', '.join(named[:-1])} and {named[-1]}."
        )


@dataclass(frozen=True)
class JudgeServer:
    """Where the judge is and what it costs. `group` and `model_key` are the parameters that messages name."""

    group: str
    model_key: str
    model: str
    url: str
    key: str
    concurrency: int
    retries: int
    timeout: int
    price_in: float
    price_out: float
    budget: float

    def cost_usd(self, characters: int, tokens_out: int) -> float:
        return (characters / CHARS_PER_TOKEN * self.price_in + tokens_out * self.price_out) / 1e6

    def rename_params(self, error: LeashError) -> LeashError:
        """Make the engine's error name the judge's parameters. It keeps its class and its facts."""
        renames = {"`sample.openai.": f"`{self.group}.", "the model's `served` name": f"`{self.model_key}`"}
        for engine_name, judge_name in renames.items():
            error.args = (str(error).replace(engine_name, judge_name),)
        return error


class JudgeCase(NamedTuple):
    """One question to the judge. `record` is stored beside its word, for people who read the cache."""

    key: str
    prompt: str
    record: Mapping[str, Any]


class WordCache:
    """The words that are paid for, one JSON line each under `field`, with its checksum. A partial line that a crash
    left is skipped, and so is a damaged one: its case is asked again. Lines of earlier versions have no checksum."""

    def __init__(self, path: Path, field: str, words: Collection[str]) -> None:
        self._path, self._field = path, field
        self.words: dict[str, str] = {}
        if not path.is_file():
            return
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    row, valid = json_checksum.check(line)
                    if valid is not False and row[field] in words:
                        self.words[row["key"]] = row[field]
                except (ValueError, TypeError, KeyError):
                    continue

    def add(self, model: str, case: JudgeCase, word: str) -> None:
        self.words[case.key] = word
        row = {"key": case.key, self._field: word, "judge": model, **case.record}
        line = json.dumps(json_checksum.with_checksum(row)) + "\n"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # A single write to a file opened for appending: lines of concurrent runs do not mix.
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            size = os.fstat(handle).st_size
            ends_in_partial_line = size and os.pread(handle, 1, size - 1) != b"\n"
            os.write(handle, (("\n" if ends_in_partial_line else "") + line).encode())
        finally:
            os.close(handle)


def load_prompt_template(path: Path, fields: Sequence[str], group: str) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise JudgePromptError(path, "it is not a readable text file", group, fields) from None
    if missing := [name for name in sorted(fields) if f"{{{name}}}" not in text]:
        raise JudgePromptError(path, f"it has no {{{missing[0]}}}", group, fields)
    return text


def fill_prompt(template: str, texts: Mapping[str, str]) -> str:
    """The template with its fields filled in as JSON strings and in a single pass: no text can end its own quotes, or
    contain a field that is filled in later."""
    field = re.compile(r"\{(" + "|".join(texts) + r")\}")
    return field.sub(lambda found: json.dumps(texts[found[1]], ensure_ascii=False), template)


def query_judge(
    server: JudgeServer,
    cases: Sequence[JudgeCase],
    cache: WordCache,
    parse_word: Callable[[str], str | None],
    decoding: Decoding,
    unit: str,
) -> None:
    """Send these cases to the judge, several at a time, and cache its words. After a failure no new case is sent, but
    the replies under way are awaited and kept, because they are paid for. A case whose two replies have no word stays
    without one."""
    failure: LeashError | None = None
    spent = 0.0

    def create_engine() -> OpenAIEngine:
        try:
            settings = OpenAI(url=server.url, key=server.key, retries=server.retries, timeout=server.timeout)
            return OpenAIEngine(settings, server.model)
        except LeashError as error:
            raise server.rename_params(error) from None

    def read_word(reply: Completion) -> str | None:
        # A reply that did not come to its end: a word in it is not the judge's last.
        return None if was_cut_off(reply.finish) or has_failed(reply.finish) else parse_word(reply.text)

    def request_replies(engine: OpenAIEngine, case: JudgeCase) -> list[Completion] | LeashError:
        """The judge's reply, and a second one if the first has no word. An error is returned, not raised, so that the
        replies of other threads still come in."""
        replies: list[Completion] = []
        try:
            for attempt in range(2):
                request = Request(case.key, Prompt(case.prompt, chat=True), range(attempt, attempt + 1), ("judge",))
                replies += engine.complete([request], decoding)
                if read_word(replies[-1]) is not None:
                    break
        except LeashError as error:
            return server.rename_params(error)
        return replies

    # Evaluated as threads become free, so nothing is sent after the first failure.
    queue = UnitQueue(case for case in cases if failure is None)
    plan = WorkerPlan(at_once=server.concurrency)
    with Progress(len(cases), f"judge by {server.model}", unit) as progress:
        for case, replies in run_in_threads(queue, create_engine, request_replies, plan):
            if isinstance(replies, LeashError):
                failure = failure or replies
                continue
            spent += server.cost_usd(len(case.prompt) * len(replies), sum(reply.tokens or 0 for reply in replies))
            if spent > server.budget and failure is None:
                what = f"{server.model} writes more than estimated, and ${spent:,.2f} is spent"
                remedy = "Finished grades are kept: raise the budget and run the command again."
                failure = JudgeBudgetError(server.budget, spent, what, remedy, server.group)
            if (word := read_word(replies[-1])) is not None:
                cache.add(server.model, case, word)
            progress.add()
    if failure:
        raise failure
