r"""What a model is asked: the question, an answer instruction below it, a system prompt before it, as a chat or as
plain text. The same for sampling and for scoring.

    asked(params, "tuned", "exam", "What is 2 + 2?")
      ->  Prompt("What is 2 + 2?\n\nPut your final answer within \\boxed{}.", system=None, chat=True)

Images stand where the question marks their place, <image1> for the first, and before it where it does not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stages import tables
from stages.errors import LeashError
from stages.params import Asking, Params

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, ProcessorMixin

    Templated = PreTrainedTokenizerBase | ProcessorMixin

Message = dict[str, Any]
NO_EYES = "only the engines `vllm` and `openai` can show images to a model; set `sample.engine` to one of them"


@dataclass(frozen=True)
class Prompt:
    """The images are the bytes of their files; where there are some, messages have parts instead of one text."""

    user: str
    system: str | None = None
    chat: bool = False
    images: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def messages(self) -> list[Message]:
        return self.messages_with(lambda image: {"type": "image"})

    def messages_with(self, image_part: Callable[[bytes], Message]) -> list[Message]:
        """The messages of a chat, with images as whoever reads them wants them."""

        def content(text: str, parts: Sequence[str | bytes]) -> str | list[Message]:
            if not self.images:
                return text
            return [{"type": "text", "text": part} if isinstance(part, str) else image_part(part) for part in parts]

        system = [{"role": "system", "content": content(self.system, [self.system])}] if self.system else []
        return [*system, {"role": "user", "content": content(self.user, self.parts)}]

    @property
    def parts(self) -> list[str | bytes]:
        """The user's text with each image where its mark first stands, <image1> and so on; those without one come
        first."""
        parts: list[str | bytes] = [self.user]
        unmarked = []
        for number, image in enumerate(self.images, start=1):
            mark = f"<image{number}>"
            place = next((i for i, part in enumerate(parts) if isinstance(part, str) and mark in part), None)
            if place is None:
                unmarked.append(image)
            else:
                before, _, after = str(parts[place]).partition(mark)
                parts[place : place + 1] = [before, image, after]
        return [*unmarked, *(part for part in parts if part.strip())]

    @property
    def plain(self) -> str:
        return f"{self.system}\n\n{self.user}" if self.system else self.user


def asking(params: Params, model: str, dataset: str) -> Asking:
    """How this model is asked the questions of this data set: the model's own word first, then the data set's, then
    the instruction that the data set's family usually comes with."""
    from stages.fetch.benchmarks import usual_instruction

    first, second = params.models[model], params.datasets[dataset]
    third = Asking(chat=False, instruction=usual_instruction(second.family))
    said = (first, second, third)
    return Asking(
        chat=next(x.chat for x in said if x.chat is not None),
        system=next((x.system for x in said if x.system is not None), None),
        instruction=next((x.instruction for x in said if x.instruction is not None), None),
    )


def refuse_images(params: Params, model: str, dataset: str, engine: str) -> None:
    """Raise if this engine cannot show the images of a data set to a model. Call it only for data sets with images."""
    if engine == "torch":
        raise LeashError(f"The questions of {dataset} have images, and {NO_EYES}.")
    if not asking(params, model, dataset).chat:
        raise LeashError(_needs_chat(model, dataset))


def _needs_chat(model: str, dataset: str) -> str:
    return (
        f"The questions of {dataset} have images, which only a chat can show; set `chat: true` in "
        f"`datasets.{dataset}` or `models.{model}`."
    )


def asked(params: Params, model: str, dataset: str, question: str, images: Sequence[bytes] = ()) -> Prompt:
    how = asking(params, model, dataset)
    if images and not how.chat:
        raise LeashError(_needs_chat(model, dataset))
    user = f"{question}\n\n{how.instruction}" if how.instruction else question
    return Prompt(user, how.system or None, bool(how.chat), tuple(images))


def images_of(dataset: str) -> dict[str, tuple[bytes, ...]]:
    """The images of each problem that has some. They are megabytes: only who shows them reads them."""
    columns = pa.schema([tables.PROBLEMS.field(name) for name in ("problem_id", "images")])
    rows = tables.read(tables.problems_path(dataset), columns, f"leash fetch {dataset}").to_pylist()
    return {row["problem_id"]: tuple(row["images"]) for row in rows if row["images"]}


def rendered(prompt: Prompt, tokenizer: Templated) -> str:
    """The text that the model sees, special tokens of a chat template and all. Images need the model's processor, whose
    template writes a token in the place of each."""
    from jinja2 import TemplateError

    if not prompt.chat:
        return prompt.plain
    words: Any = getattr(tokenizer, "tokenizer", tokenizer)
    if not tokenizer.chat_template:
        way_out = "ask a model that has one" if prompt.images else "ask in plain text with `chat: false`"
        raise LeashError(f"The tokenizer of {words.name_or_path} has no chat template; {way_out}.")
    try:
        text = str(tokenizer.apply_chat_template(prompt.messages, tokenize=False, add_generation_prompt=True))
    except TemplateError as error:
        raise LeashError(f"The chat template of {words.name_or_path} refuses the prompt: {error}.") from None
    if prompt.images:
        _refuse_loss(prompt, text, words.name_or_path)
    return text


def _refuse_loss(prompt: Prompt, text: str, name: str) -> None:
    """Templates that know no parts, or none in a system prompt, leave texts out without a word."""
    said = [part for part in (prompt.system, *prompt.parts) if isinstance(part, str)]
    if not all(part.strip() in text for part in said):
        raise LeashError(
            f"The chat template of {name} leaves out a part of a prompt with images; ask without a `system` prompt, or "
            f"ask another model."
        )


def token_ids(prompt: Prompt, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    return tokens_of([prompt], tokenizer)[prompt]


def tokens_of(prompts: Iterable[Prompt], tokenizer: PreTrainedTokenizerBase) -> dict[Prompt, list[int]]:
    """The tokens of each prompt. A chat template writes its own special tokens; a plain text gets those that its
    tokenizer adds."""
    found: dict[Prompt, list[int]] = {}
    for chat, alike in groupby(sorted(set(prompts), key=lambda prompt: prompt.chat), key=lambda prompt: prompt.chat):
        some = list(alike)
        if any(prompt.images for prompt in some):
            raise LeashError(f"There are images in the prompt, and {NO_EYES}.")
        texts = [rendered(prompt, tokenizer) for prompt in some]
        found.update(zip(some, tokenizer(texts, add_special_tokens=not chat)["input_ids"], strict=True))
    return found


def shown(prompt: Prompt, tokenizer: Templated | None) -> str:
    """A prompt in full, for people: what the model reads, or what a server is sent (it has the template)."""
    if tokenizer is not None:
        return rendered(prompt, tokenizer)
    return json.dumps(prompt.messages, indent=2, ensure_ascii=False) if prompt.chat else prompt.plain
