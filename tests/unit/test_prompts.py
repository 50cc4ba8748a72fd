"""What a model is asked: whose word counts, and what a real tokenizer makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from stages import fetch, prompts, tables
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
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(ROOT / "models" / "embedded" / "base")
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


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


IMAGE = {"type": "image"}


@pytest.mark.parametrize(
    ("question", "images", "content"),
    [
        ("Which?", [], "Which?"),
        ("Which is <image1>?", [], "Which is <image1>?"),  # no image, no mark
        ("Which?", [b"1"], [IMAGE, text("Which?")]),
        ("Which?", [b"1", b"2"], [IMAGE, IMAGE, text("Which?")]),
        ("Which is <image1>?", [b"1"], [text("Which is "), IMAGE, text("?")]),
        ("<image1> <image2>\nWhich?", [b"1", b"2"], [IMAGE, IMAGE, text("\nWhich?")]),
        ("Like <image1>, <image1>?", [b"1"], [text("Like "), IMAGE, text(", <image1>?")]),  # shown once
        ("Is <image2> right?", [b"1", b"2"], [IMAGE, text("Is "), IMAGE, text(" right?")]),
        ("Is <image3> right?", [b"1"], [IMAGE, text("Is <image3> right?")]),  # no such image
    ],
)
def test_an_image_stands_where_its_mark_is_or_before_the_text(
    question: str, images: list[bytes], content: str | list[dict[str, str]]
) -> None:
    assert Prompt(question, chat=True, images=tuple(images)).messages == [{"role": "user", "content": content}]


def test_images_come_in_the_order_of_their_marks() -> None:
    prompt = Prompt("From <image2> to <image10> to <image1>", images=tuple(b"%d" % n for n in range(1, 11)))
    assert prompt.parts == [b"3", b"4", b"5", b"6", b"7", b"8", b"9", "From ", b"2", " to ", b"10", " to ", b"1"]


def test_a_system_prompt_beside_images_is_a_part_too() -> None:
    messages = Prompt("Which?", "Be brief.", chat=True, images=(b"1",)).messages
    assert messages[0] == {"role": "system", "content": [text("Be brief.")]}


def test_images_are_asked_in_a_chat_alone(tmp_path: Path) -> None:
    chat = params(tmp_path, {}, {"chat": True, "instruction": "d"})
    assert prompts.asked(chat, "base", "chain", "Which?", [b"1"]) == Prompt("Which?\n\nd", None, True, (b"1",))
    with pytest.raises(LeashError, match=r"^The questions of chain have images, .*; set `chat: true` in .*\.$"):
        prompts.asked(params(tmp_path, {}, {}), "base", "chain", "Which?", [b"1"])


def test_images_of_a_data_set_are_those_in_its_table(project: Params) -> None:
    fetch.run(project, "chain")
    assert prompts.images_of("chain") == {}
    path = tables.problems_path("chain")
    rows = tables.read(path, tables.PROBLEMS, "").to_pylist()
    rows[0]["images"], rows[1]["images"] = [b"1", b"2"], []
    tables.write(path, tables.table(rows, tables.PROBLEMS), tables.PROBLEMS)
    assert prompts.images_of("chain") == {rows[0]["problem_id"]: (b"1", b"2")}


PARTS = (
    "{% for message in messages %}{% for part in message['content'] %}"
    "{{ '<image>' if part['type'] == 'image' else part['text'] | trim }}{% endfor %};{% endfor %}"
)


def test_a_template_writes_a_token_in_the_place_of_an_image(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = PARTS
    prompt = Prompt("Which is <image1> ?", "Be brief.", chat=True, images=(b"1",))
    assert prompts.rendered(prompt, tokenizer) == "Be brief.;Which is<image>?;"


def test_a_template_that_drops_a_text_gets_a_sentence(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = PARTS.replace("in messages", "in messages[-1:]")
    prompt = Prompt("Which?", chat=True, images=(b"1",))
    assert prompts.rendered(prompt, tokenizer) == "<image>Which?;"
    with pytest.raises(LeashError, match="leaves out a part of a prompt with images"):
        prompts.rendered(Prompt("Which?", "Be brief.", chat=True, images=(b"1",)), tokenizer)


def test_a_template_that_refuses_gets_a_sentence(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = "{{ raise_exception('System role not supported') }}"
    with pytest.raises(LeashError, match=r"refuses the prompt: System role not supported\.$"):
        prompts.rendered(Prompt("Which?", "Be brief.", chat=True), tokenizer)
