r"""What a model is asked: the question, an answer instruction below it, a system prompt before it, as a chat or as
plain text. The same for sampling and for scoring.

    asked(params, "tuned", "exam", "What is 2 + 2?")
      ->  Prompt("What is 2 + 2?\n\nPut your final answer within \\boxed{}.", system=None, chat=True)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stages.errors import LeashError
from stages.params import Asking, Params

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Prompt:
    user: str
    system: str | None = None
    chat: bool = False

    @property
    def messages(self) -> list[dict[str, str]]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": self.user}]

    @property
    def plain(self) -> str:
        return f"{self.system}\n\n{self.user}" if self.system else self.user


def asking(params: Params, model: str, dataset: str) -> Asking:
    """How this model is asked the questions of this data set: the model's own word first, then the data set's."""
    first, second = params.models[model], params.datasets[dataset]
    return Asking(
        chat=next((x.chat for x in (first, second) if x.chat is not None), False),
        system=next((x.system for x in (first, second) if x.system is not None), None),
        instruction=next((x.instruction for x in (first, second) if x.instruction is not None), None),
    )


def asked(params: Params, model: str, dataset: str, question: str) -> Prompt:
    how = asking(params, model, dataset)
    user = f"{question}\n\n{how.instruction}" if how.instruction else question
    return Prompt(user, how.system or None, bool(how.chat))


def rendered(prompt: Prompt, tokenizer: PreTrainedTokenizerBase) -> str:
    """The text that the model sees, special tokens of a chat template and all."""
    if not prompt.chat:
        return prompt.plain
    if not tokenizer.chat_template:
        raise LeashError(
            f"The tokenizer of {tokenizer.name_or_path} has no chat template; ask in plain text with `chat: false`."
        )
    return str(tokenizer.apply_chat_template(prompt.messages, tokenize=False, add_generation_prompt=True))


def token_ids(prompt: Prompt, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """A chat template writes its own special tokens; a plain text gets those that its tokenizer adds."""
    ids: list[int] = tokenizer(rendered(prompt, tokenizer), add_special_tokens=not prompt.chat)["input_ids"]
    return ids


def shown(prompt: Prompt, tokenizer: PreTrainedTokenizerBase | None) -> str:
    """A prompt in full, for people: what the model reads, or what a server is sent (it has the template)."""
    if tokenizer is not None:
        return rendered(prompt, tokenizer)
    return json.dumps(prompt.messages, indent=2, ensure_ascii=False) if prompt.chat else prompt.plain
