"""The judge of working: is every step of a correct completion right?

    case_of(settings, template, question, text, vote=0)  ->  JudgeCase, one question to the judge
    combine_votes(2, 3, "majority")  ->  True

The prompt is reasoning_prompt.txt, or the file `reasoning.prompt`. The judge replies with SOUND or UNSOUND after its
thinking. data/judge/reasoning.jsonl keeps each vote under a hash of everything it depends on (judge, prompt, question,
text, temperature, number of the vote), so nothing is paid for twice. Which completions to ask about, and the planted
errors, are the stage's business (stages/reasoning).
"""

from __future__ import annotations

import json
from pathlib import Path

from leash import atomic_io, tables
from leash.engines.protocol import Decoding
from leash.grading.graders.types import replace_surrogates
from leash.grading.judge_words import WordReader
from leash.grading.judging import JudgeCase, JudgeServer, WordCache, fill_prompt, load_prompt_template
from leash.params.groups import Reasoning

DEFAULT_PROMPT_PATH = Path(__file__).parent / "reasoning_prompt.txt"
GROUP, PROMPT_FIELDS = "reasoning", ("question", "working")
VOTES = WordReader(yes="SOUND", no="UNSOUND")
TOKENS_PER_REPLY = 500  # for the estimate of the cost: a judge thinks before it replies
MAX_REPLY_TOKENS = 8192
VOTE_TEMPERATURE = 0.7  # of several votes; a single one is asked at 0


def server_of(settings: Reasoning) -> JudgeServer:
    names = ("url", "key", "concurrency", "retries", "timeout", "price_in", "price_out", "budget")
    values = {name: getattr(settings, name) for name in names}
    return JudgeServer(group=GROUP, model_key="reasoning.judge", model=settings.judge or "", **values)


def load_template(settings: Reasoning) -> str:
    path = Path(settings.prompt) if settings.prompt else DEFAULT_PROMPT_PATH
    return load_prompt_template(path, PROMPT_FIELDS, GROUP)


def decoding_of(settings: Reasoning) -> Decoding:
    return Decoding(0.0 if settings.votes == 1 else VOTE_TEMPERATURE, top_p=1.0, max_tokens=MAX_REPLY_TOKENS)


def open_cache() -> WordCache:
    return WordCache(tables.DATA_DIR / "judge" / "reasoning.jsonl", "vote", VOTES.words)


def case_of(settings: Reasoning, template: str, question: str, text: str, vote: int) -> JudgeCase:
    """One vote on one text. Nothing in it tells whether an error was planted."""
    texts = {"question": replace_surrogates(question), "working": replace_surrogates(text)}
    what = [settings.judge, template, *texts.values(), decoding_of(settings).temperature, vote]
    return JudgeCase(atomic_io.hash_strings(json.dumps(what)), fill_prompt(template, texts), {"number": vote})


def parse_vote(reply: str) -> str | None:
    """The vote in a reply; None if it has none, or none that is clear."""
    return VOTES.read(reply)


def combine_votes(sound: int, votes: int, rule: str) -> bool | None:
    """Whether votes call a text sound; None if there is none. A tie is no majority."""
    if not votes:
        return None
    return sound > 0 if rule == "any" else sound == votes if rule == "all" else 2 * sound > votes
