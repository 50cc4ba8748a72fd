r"""The prompt of a problem: the question, an answer instruction below it, a system prompt before it, as a chat or as
plain text. Sampling and scoring use the same prompts.

    build_prompt(params, "tuned", "exam", "What is 2 + 2?")
      ->  Prompt("What is 2 + 2?\n\nPut your final answer within \\boxed{}.", system=None, chat=True)

An image stands where the question marks it (<image1> is the first), or before the question if there is no mark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from leash import chat_template, tables
from leash.errors import LeashError
from leash.instructions import default_instruction
from leash.params.groups import Params, PromptOptions

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, ProcessorMixin

    Templated = PreTrainedTokenizerBase | ProcessorMixin

Message = dict[str, Any]


class ImagesNotSupportedError(LeashError):
    """The engine cannot show images to a model. `dataset` is None if only a prompt is known."""

    def __init__(self, dataset: str | None = None) -> None:
        self.dataset = dataset
        subject = f"The questions of {dataset} have images" if dataset else "The prompt has images"
        super().__init__(
            f"{subject}, and only the engines `vllm` and `openai` can show images to a model. Set `sample.engine` to "
            f"one of them."
        )


class ImagesNeedChatError(LeashError):
    """Only a chat can show images, and the prompts of a model on a data set are plain text."""

    def __init__(self, model: str, dataset: str) -> None:
        self.model, self.dataset = model, dataset
        super().__init__(
            f"The questions of {dataset} have images, which only a chat can show. Set `chat: true` in "
            f"`datasets.{dataset}` or `models.{model}`."
        )


class ChatTemplateError(LeashError):
    """A tokenizer has no chat template, or its template cannot render the prompt."""

    def __init__(self, tokenizer: str, problem: str) -> None:
        self.tokenizer = tokenizer
        super().__init__(problem)


@dataclass(frozen=True)
class Prompt:
    """`images` are the bytes of image files. With images, messages have parts instead of one text."""

    user: str
    system: str | None = None
    chat: bool = False
    images: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def messages(self) -> list[Message]:
        return self.messages_with(lambda image: {"type": "image"})

    def messages_with(self, image_part: Callable[[bytes], Message]) -> list[Message]:
        """The messages of a chat. `image_part` turns an image into the part that the reader expects."""

        def content(text: str, parts: Sequence[str | bytes]) -> str | list[Message]:
            if not self.images:
                return text
            return [{"type": "text", "text": part} if isinstance(part, str) else image_part(part) for part in parts]

        system = [{"role": "system", "content": content(self.system, [self.system])}] if self.system else []
        return [*system, {"role": "user", "content": content(self.user, self.parts)}]

    @property
    def parts(self) -> list[str | bytes]:
        """The user's text, split at the first mark of each image (<image1>, <image2>, …), with the image in its place.
        Images without a mark come first."""
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


def resolve_prompt_options(params: Params, model: str, dataset: str) -> PromptOptions:
    """The options of a model's prompts on a data set. The model's options come first, then those of the data set, then
    the default instruction of its family. An empty text counts: it removes what a later source sets."""
    of_dataset = params.datasets[dataset]
    defaults = PromptOptions(chat=False, instruction=default_instruction(of_dataset.family))
    sources = (params.models[model], of_dataset, defaults)
    return PromptOptions(
        chat=next(source.chat for source in sources if source.chat is not None),
        system=next((source.system for source in sources if source.system is not None), None),
        instruction=next((source.instruction for source in sources if source.instruction is not None), None),
    )


def refuse_images(params: Params, model: str, dataset: str, engine: str) -> None:
    """Raise if this engine cannot show the images of a data set to a model. Call it only for data sets with images."""
    if engine == "torch":
        raise ImagesNotSupportedError(dataset)
    if not resolve_prompt_options(params, model, dataset).chat:
        raise ImagesNeedChatError(model, dataset)


def build_prompt(params: Params, model: str, dataset: str, question: str, images: Sequence[bytes] = ()) -> Prompt:
    options = resolve_prompt_options(params, model, dataset)
    if images and not options.chat:
        raise ImagesNeedChatError(model, dataset)
    user = f"{question}\n\n{options.instruction}" if options.instruction else question
    return Prompt(user, options.system or None, bool(options.chat), tuple(images))


def load_problem_images(dataset: str) -> dict[str, tuple[bytes, ...]]:
    """The images of each problem that has some. They can be large, so `load_problems` does not read them."""
    columns = pa.schema([tables.PROBLEMS_SCHEMA.field(name) for name in ("problem_id", "images")])
    rows = tables.read(tables.problems_path(dataset), columns, f"leash fetch {dataset}").to_pylist()
    return {row["problem_id"]: tuple(row["images"]) for row in rows if row["images"]}


def render_prompt(prompt: Prompt, tokenizer: Templated) -> str:
    """The text that the model reads, including the special tokens of a chat template. A prompt with images needs the
    model's processor, whose template writes a token for each image."""
    if not prompt.chat:
        return prompt.plain
    own_tokenizer: Any = getattr(tokenizer, "tokenizer", tokenizer)  # that of a processor
    name: str = own_tokenizer.name_or_path
    if not tokenizer.chat_template:
        remedy = "Use a model that has one" if prompt.images else "Use plain text with `chat: false`"
        raise ChatTemplateError(name, f"The tokenizer of {name} has no chat template. {remedy}.")
    try:
        text = chat_template.render(tokenizer, prompt.messages)
    except chat_template.TemplateRenderError as error:
        remedy = "Change `system`, or set `chat: false`"
        raise ChatTemplateError(name, f"The chat template of {name} {str(error).rstrip('.')}. {remedy}.") from None
    # Templates that do not know message parts, or none in a system prompt, silently leave texts out.
    texts = [part for part in (prompt.system, *prompt.parts) if isinstance(part, str)]
    if prompt.images and not all(part.strip() in text for part in texts):
        raise ChatTemplateError(
            name,
            f"The chat template of {name} leaves out a part of a prompt with images. Remove the `system` prompt, or "
            f"use another model.",
        )
    return text


def tokenize_prompt(prompt: Prompt, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    return tokenize_prompts([prompt], tokenizer)[prompt]


def tokenize_prompts(prompts: Iterable[Prompt], tokenizer: PreTrainedTokenizerBase) -> dict[Prompt, list[int]]:
    """The token ids of each prompt."""
    distinct, ids = set(prompts), dict[Prompt, list[int]]()
    if any(prompt.images for prompt in distinct):
        raise ImagesNotSupportedError
    for chat in (False, True):
        if batch := [prompt for prompt in distinct if prompt.chat == chat]:
            texts = [render_prompt(prompt, tokenizer) for prompt in batch]
            # A chat template writes its own special tokens. A plain text gets those that the tokenizer adds.
            ids.update(zip(batch, tokenizer(texts, add_special_tokens=not chat)["input_ids"], strict=True))
    return ids


def format_prompt_for_display(prompt: Prompt, tokenizer: Templated | None) -> str:
    """A prompt for people: the text that the model reads, or without a tokenizer the messages that a server gets."""
    if tokenizer is not None:
        return render_prompt(prompt, tokenizer)
    return json.dumps(prompt.messages, indent=2, ensure_ascii=False) if prompt.chat else prompt.plain
