"""What a model is asked: whose word counts, and what a real tokenizer makes of it."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from leash import chat_template, prompts, tables
from leash.params.groups import Params
from leash.prompts import ChatTemplateError, ImagesNeedChatError, Prompt
from stages.fetch import stage
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


def test_without_options_the_prompt_is_the_question(tmp_path: Path) -> None:
    assert prompts.build_prompt(params(tmp_path, {}, {}), "base", "chain", "2 + 2?") == Prompt(
        "2 + 2?", None, chat=False
    )


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
        # Each field on its own.
        ({"chat": True}, {"system": "D", "instruction": "d"}, Prompt("2 + 2?\n\nd", "D", chat=True)),
        ({"instruction": "m"}, {"chat": True, "instruction": "d"}, Prompt("2 + 2?\n\nm", None, chat=True)),
        # An empty text counts: it removes the data set's.
        ({"system": "", "instruction": ""}, {"system": "D", "instruction": "d"}, Prompt("2 + 2?", None, chat=False)),
    ],
)
def test_options_of_the_model_override_those_of_the_data_set(
    tmp_path: Path, model: dict[str, Any], dataset: dict[str, Any], expected: Prompt
) -> None:
    assert prompts.build_prompt(params(tmp_path, model, dataset), "base", "chain", "2 + 2?") == expected


def test_options_do_not_affect_other_models_and_data_sets(tmp_path: Path) -> None:
    own = params(tmp_path, {"system": "M"}, {"instruction": "d"})
    assert prompts.build_prompt(own, "rlvr", "chain", "2 + 2?") == Prompt("2 + 2?\n\nd")
    assert prompts.build_prompt(own, "base", "make", "2 + 2?") == Prompt("2 + 2?", "M")


def test_a_plain_prompt_begins_with_the_system_prompt(tokenizer: PreTrainedTokenizerBase) -> None:
    assert prompts.render_prompt(Prompt("compute 3 + 4 :", "Be brief."), tokenizer) == "Be brief.\n\ncompute 3 + 4 :"
    assert prompts.render_prompt(Prompt("compute 3 + 4 :"), tokenizer) == "compute 3 + 4 :"


def test_a_chat_is_rendered_by_the_template(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = TEMPLATE
    chat = Prompt("compute 3 + 4 :", "Be brief.", chat=True)
    assert prompts.render_prompt(chat, tokenizer) == "<s>[system] Be brief.\n[user] compute 3 + 4 :\n[assistant] "
    alone = Prompt("compute 3 + 4 :", chat=True)
    assert prompts.render_prompt(alone, tokenizer) == "<s>[user] compute 3 + 4 :\n[assistant] "


def test_a_plain_prompt_does_not_use_the_template(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = TEMPLATE
    assert prompts.render_prompt(Prompt("compute 3 + 4 :"), tokenizer) == "compute 3 + 4 :"


def test_a_chat_needs_a_template(tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(ChatTemplateError, match=r"has no chat template\. .*`chat: false`"):
        prompts.render_prompt(Prompt("compute 3 + 4 :", chat=True), tokenizer)


ENDLESS = {
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}": "takes longer than 0.5 seconds",
    "{% for i in range(10**12) %}{% endfor %}": "Range too big",
    "{{ 9**(9**9) }}": "takes longer than 0.5 seconds",
    "{{ 'a' * 10**12 }}": "takes more than 1,024 MiB of memory",
    "{{ 'a' * 20000000 }}": "makes a prompt of 20,000,000 characters",
    "{{ 1/0 }}": "division by zero",
    "{% for": "unexpected",
}


@pytest.mark.parametrize(("template", "fault"), ENDLESS.items(), ids=list(ENDLESS.values()))
def test_a_template_cannot_hold_the_process_or_fill_the_memory(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch, template: str, fault: str
) -> None:
    chat = Prompt("compute 3 + 4 :", chat=True)
    if fault.startswith("takes longer"):
        monkeypatch.setattr(chat_template, "RENDER_TIMEOUT_S", 0.5)
    tokenizer.chat_template = template
    with pytest.raises(ChatTemplateError, match=fault) as error:
        prompts.render_prompt(chat, tokenizer)
    assert "\n" not in str(error.value)
    monkeypatch.undo()
    tokenizer.chat_template = TEMPLATE  # another template, another process
    assert prompts.render_prompt(chat, tokenizer).endswith("[assistant] ")


def test_the_process_that_renders_keeps_no_lock(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    """It outlives the command's use of a file, for instance of a ledger, which the next run must be able to lock."""
    tokenizer.chat_template = TEMPLATE
    with (tmp_path / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        prompts.render_prompt(Prompt("2 + 2?", chat=True), tokenizer)
    with (tmp_path / "lock").open("w") as again:
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("chat", [False, True])
def test_the_first_token_comes_once(tokenizer: PreTrainedTokenizerBase, chat: bool) -> None:
    """A plain text gets it from the tokenizer, a chat from its template, never from both."""
    tokenizer.chat_template = TEMPLATE
    ids = prompts.tokenize_prompt(Prompt("compute 3 + 4 :", chat=chat), tokenizer)
    assert ids[0] == tokenizer.bos_token_id
    assert ids.count(tokenizer.bos_token_id) == 1


def test_a_template_without_a_first_token_does_not_get_one(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = TEMPLATE.removeprefix("{{ bos_token }}")
    assert tokenizer.bos_token_id not in prompts.tokenize_prompt(Prompt("compute 3 + 4 :", chat=True), tokenizer)


def test_a_prompt_is_shown_as_the_model_reads_it_or_the_server_gets_it(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = TEMPLATE
    chat = Prompt("Was ist größer?", "Kurz.", chat=True)
    assert prompts.format_prompt_for_display(chat, tokenizer) == prompts.render_prompt(chat, tokenizer)
    assert '"content": "Was ist größer?"' in prompts.format_prompt_for_display(chat, None)
    assert prompts.format_prompt_for_display(Prompt("Was ist größer?", "Kurz."), None) == "Kurz.\n\nWas ist größer?"


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


IMAGE = {"type": "image"}


@pytest.mark.parametrize(
    ("question", "images", "content"),
    [
        ("Which?", [], "Which?"),
        ("Which is <image1>?", [], "Which is <image1>?"),  # without images, marks are text
        ("Which?", [b"1"], [IMAGE, text("Which?")]),
        ("Which?", [b"1", b"2"], [IMAGE, IMAGE, text("Which?")]),
        ("Which is <image1>?", [b"1"], [text("Which is "), IMAGE, text("?")]),
        ("<image1> <image2>\nWhich?", [b"1", b"2"], [IMAGE, IMAGE, text("\nWhich?")]),
        ("Like <image1>, <image1>?", [b"1"], [text("Like "), IMAGE, text(", <image1>?")]),  # only the first mark
        ("Is <image2> right?", [b"1", b"2"], [IMAGE, text("Is "), IMAGE, text(" right?")]),
        ("Is <image3> right?", [b"1"], [IMAGE, text("Is <image3> right?")]),  # no such image
    ],
)
def test_an_image_replaces_its_mark_or_comes_before_the_text(
    question: str, images: list[bytes], content: str | list[dict[str, str]]
) -> None:
    assert Prompt(question, chat=True, images=tuple(images)).messages == [{"role": "user", "content": content}]


def test_images_come_in_the_order_of_their_marks() -> None:
    prompt = Prompt("From <image2> to <image10> to <image1>", images=tuple(b"%d" % n for n in range(1, 11)))
    assert prompt.parts == [b"3", b"4", b"5", b"6", b"7", b"8", b"9", "From ", b"2", " to ", b"10", " to ", b"1"]


def test_a_system_prompt_beside_images_is_a_part_too() -> None:
    messages = Prompt("Which?", "Be brief.", chat=True, images=(b"1",)).messages
    assert messages[0] == {"role": "system", "content": [text("Be brief.")]}


def test_images_need_a_chat(tmp_path: Path) -> None:
    chat = params(tmp_path, {}, {"chat": True, "instruction": "d"})
    assert prompts.build_prompt(chat, "base", "chain", "Which?", [b"1"]) == Prompt("Which?\n\nd", None, True, (b"1",))
    with pytest.raises(ImagesNeedChatError, match=r"Set `chat: true` in `datasets\.chain`") as error:
        prompts.build_prompt(params(tmp_path, {}, {}), "base", "chain", "Which?", [b"1"])
    assert (error.value.model, error.value.dataset) == ("base", "chain")


def test_images_are_read_from_the_problems_table(project: Params) -> None:
    stage.run(project, "chain")
    assert prompts.load_problem_images("chain") == {}
    path = tables.problems_path("chain")
    rows = tables.read(path, tables.PROBLEMS_SCHEMA, "").to_pylist()
    rows[0]["images"], rows[1]["images"] = [b"1", b"2"], []
    tables.write(path, tables.table_from_rows(rows, tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA)
    assert prompts.load_problem_images("chain") == {rows[0]["problem_id"]: (b"1", b"2")}


PARTS = (
    "{% for message in messages %}{% for part in message['content'] %}"
    "{{ '<image>' if part['type'] == 'image' else part['text'] | trim }}{% endfor %};{% endfor %}"
)


def test_a_template_writes_a_token_for_an_image(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = PARTS
    prompt = Prompt("Which is <image1> ?", "Be brief.", chat=True, images=(b"1",))
    assert prompts.render_prompt(prompt, tokenizer) == "Be brief.;Which is<image>?;"


def test_a_template_that_drops_a_text_is_refused(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = PARTS.replace("in messages", "in messages[-1:]")
    prompt = Prompt("Which?", chat=True, images=(b"1",))
    assert prompts.render_prompt(prompt, tokenizer) == "<image>Which?;"
    with pytest.raises(ChatTemplateError, match="leaves out a part of a prompt with images"):
        prompts.render_prompt(Prompt("Which?", "Be brief.", chat=True, images=(b"1",)), tokenizer)


def test_an_error_of_the_template_is_shown(tokenizer: PreTrainedTokenizerBase) -> None:
    tokenizer.chat_template = "{{ raise_exception('System role not supported') }}"
    with pytest.raises(ChatTemplateError, match=r"refuses the prompt: System role not supported\."):
        prompts.render_prompt(Prompt("Which?", "Be brief.", chat=True), tokenizer)
