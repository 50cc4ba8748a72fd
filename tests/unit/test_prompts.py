"""What a model is asked: whose word counts, and what a real tokenizer makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from stages import prompts
from stages.errors import LeashError
from stages.params import Params
from stages.prompts import Prompt
from tests.conftest import ROOT, small, write_params

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerBase:
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(ROOT / "models" / "base")
    return loaded


def params(folder: Path, model: dict[str, Any], dataset: dict[str, Any]) -> Params:
    raw = small()
    raw["models"]["base"] |= model
    raw["datasets"]["chain"] |= dataset
    return write_params(folder, raw)


def test_nothing_said_is_the_question_alone(tmp_path: Path) -> None:
    assert prompts.asked(params(tmp_path, {}, {}), "base", "chain", "2 + 2?") == Prompt("2 + 2?", None, chat=False)


@pytest.mark.parametrize(
    ("model", "dataset", "expected"),
    [
        ({}, {"chat": True, "system": "D", "instruction": "d"}, Prompt("2 + 2?\n\nd", "D", chat=True)),
        ({"chat": True, "system": "M", "instruction": "m"}, {}, Prompt("2 + 2?\n\nm", "M", chat=True)),
        (
            {"chat": False, "system": "M", "instruction": "m"},
            {"chat": True, "system": "D", "instruction": "d"},
            Prompt("2 + 2?\n\nm", "M", chat=False),
        ),
        # Each field by itself.
        ({"chat": True}, {"system": "D", "instruction": "d"}, Prompt("2 + 2?\n\nd", "D", chat=True)),
        ({"instruction": "m"}, {"chat": True, "instruction": "d"}, Prompt("2 + 2?\n\nm", None, chat=True)),
        # An empty word is a word: it takes away what the data set says.
        ({"system": "", "instruction": ""}, {"system": "D", "instruction": "d"}, Prompt("2 + 2?", None, chat=False)),
    ],
)
def test_the_models_word_goes_before_the_data_sets(
    tmp_path: Path, model: dict[str, Any], dataset: dict[str, Any], expected: Prompt
) -> None:
    assert prompts.asked(params(tmp_path, model, dataset), "base", "chain", "2 + 2?") == expected


def test_other_models_and_data_sets_are_not_touched(tmp_path: Path) -> None:
    own = params(tmp_path, {"system": "M"}, {"instruction": "d"})
    assert prompts.asked(own, "rlvr", "chain", "2 + 2?") == Prompt("2 + 2?\n\nd")
    assert prompts.asked(own, "base", "make", "2 + 2?") == Prompt("2 + 2?", "M")


def test_plain_text_has_the_system_prompt_above(tokenizer: PreTrainedTokenizerBase) -> None:
    assert prompts.rendered(Prompt("compute 3 + 4 :", "Be brief."), tokenizer) == "Be brief.\n\ncompute 3 + 4 :"
    assert prompts.rendered(Prompt("compute 3 + 4 :"), tokenizer) == "compute 3 + 4 :"


def test_a_chat_is_what_the_template_makes_of_it(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = TEMPLATE
    chat = Prompt("compute 3 + 4 :", "Be brief.", chat=True)
    assert prompts.rendered(chat, tokenizer) == "<s>[system] Be brief.\n[user] compute 3 + 4 :\n[assistant] "
    alone = Prompt("compute 3 + 4 :", chat=True)
    assert prompts.rendered(alone, tokenizer) == "<s>[user] compute 3 + 4 :\n[assistant] "


def test_a_template_is_left_alone_where_the_prompt_is_plain(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = TEMPLATE
    assert prompts.rendered(Prompt("compute 3 + 4 :"), tokenizer) == "compute 3 + 4 :"


def test_a_chat_without_a_template_gets_a_sentence(tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(LeashError, match=r"has no chat template; ask in plain text with `chat: false`\.$"):
        prompts.rendered(Prompt("compute 3 + 4 :", chat=True), tokenizer)


@pytest.mark.parametrize("chat", [False, True])
def test_the_text_begins_once(tokenizer: PreTrainedTokenizerBase, chat: bool) -> None:
    """The plain text gets its first token from the tokenizer, the chat from its template, never from both."""
    tokenizer.chat_template = TEMPLATE
    ids = prompts.token_ids(Prompt("compute 3 + 4 :", chat=chat), tokenizer)
    assert ids[0] == tokenizer.bos_token_id
    assert ids.count(tokenizer.bos_token_id) == 1


def test_a_template_without_a_first_token_gets_none(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = TEMPLATE.removeprefix("{{ bos_token }}")
    assert tokenizer.bos_token_id not in prompts.token_ids(Prompt("compute 3 + 4 :", chat=True), tokenizer)


def test_people_are_shown_what_the_model_reads_or_the_server_is_sent(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = TEMPLATE
    chat = Prompt("Was ist größer?", "Kurz.", chat=True)
    assert prompts.shown(chat, tokenizer) == prompts.rendered(chat, tokenizer)
    assert '"content": "Was ist größer?"' in prompts.shown(chat, None)
    assert prompts.shown(Prompt("Was ist größer?", "Kurz."), None) == "Kurz.\n\nWas ist größer?"
