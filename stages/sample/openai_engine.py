r"""The `openai` engine: any server that speaks OpenAI's API, such as vLLM serve, SGLang or a provider.

    OpenAIEngine(params.sample.openai, "qwen-7b").complete(requests, decoding)

A sample is one blocking request with a seed of its own; the caller brings the threads that keep many in flight.
The package repeats what may succeed later (lost connections, timeouts, 429, 5xx) with growing pauses, and waits as
long as the server's Retry-After says.

A reasoning model's thoughts, which servers hand over beside the answer (`reasoning_content` or `reasoning`), stand
before it in the text as `<think>\n…\n</think>\n`, so that nothing paid for is lost. Images are sent as data: URLs.

What the server adds on its own can't be seen from here. vLLM serve takes top_k and penalties from the model's
generation_config.json unless started with `--generation-config vllm`, SGLang with `--sampling-defaults openai`.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stages import hints
from stages.errors import LeashError
from stages.fetch.images import kind_of
from stages.params import OpenAI as Settings
from stages.prompts import Prompt
from stages.sample.engine import Completion, Decoding, Request

if TYPE_CHECKING:
    import openai
    from openai.types import CompletionChoice
    from openai.types.chat.chat_completion import Choice

NO_KEY = "none"  # what a server that asks for no key is sent: the package insists on one
CONNECT = 30  # seconds; `timeout` is for completions, and a server that is there accepts within this
BRIEF = 200  # characters of a server's message that a sentence has room for
KEPT = "what was finished is kept; run again"


@dataclass(frozen=True)
class Answer:
    """What chat and plain answers have in common."""

    text: str
    finish: str
    logprobs: Sequence[float | None]


class OpenAIEngine:
    """The key is read from the environment when the engine is made and lives in the client alone."""

    def __init__(self, settings: Settings, model_name: str) -> None:
        self.settings, self.model_name = settings, model_name
        self.server = _address(settings.url)
        self._key = _key(settings.key)
        self._client = _client(settings, self._key or NO_KEY)

    def complete(self, requests: Iterable[Request], decoding: Decoding) -> Iterator[Completion]:
        for request in requests:
            for sample in request.samples:
                yield self._sample(request, sample, decoding)

    def close(self) -> None:
        self._client.close()

    def ask_models(self) -> str:
        """What the server says of its models, for a dry start; asking costs nothing. Raise if it does not answer."""
        import openai

        try:
            names = [model.id for model in self._client.with_options(max_retries=0, timeout=CONNECT).models.list()]
        except openai.NotFoundError:
            return f"{self.server} answers, but lists no models"
        except (openai.OpenAIError, ValueError) as error:
            sentence = self._sentence(error)
        else:
            if self.model_name in names:
                return f"{self.server} has {self.model_name}"
            sentence = (
                f"{self.server} has no {self.model_name}, but {', '.join(names) or 'nothing'}; correct the model's "
                f"`served` name, or `sample.openai.url`."
            )
        # Out here, so that the package's error, which holds the request with the key in its headers, is let go.
        raise LeashError(sentence)

    def _sample(self, request: Request, sample: int, decoding: Decoding) -> Completion:
        said = self._ask(request.prompt, request.seed(sample), decoding)
        usage = getattr(said, "usage", None)
        if not getattr(said, "choices", None):
            raise LeashError(
                f"What answers at {self.server} is not an OpenAI-compatible server; correct `sample.openai.url` "
                f"(most end in /v1)."
            )
        if usage is None or usage.completion_tokens is None:
            raise LeashError(
                f"The server at {self.server} does not tell how many tokens a completion has (`usage`), "
                f"which the tables need; use one that does."
            )
        answer = _chat_answer(said.choices[0]) if request.prompt.chat else _plain_answer(said.choices[0])
        logprob = self._logprob(answer.logprobs, usage.completion_tokens) if self.settings.logprobs else None
        return Completion(request.problem_id, sample, answer.text, usage.completion_tokens, answer.finish, logprob)

    def _ask(self, prompt: Prompt, seed: int, decoding: Decoding) -> Any:
        import openai

        endpoint = self._client.chat.completions if prompt.chat else self._client.completions
        try:
            return endpoint.create(**self._body(prompt, seed, decoding))
        except (openai.OpenAIError, ValueError) as error:  # ValueError: an answer that is not JSON
            sentence = self._sentence(error)
        # Out here, so that the package's error, which holds the request with the key in its headers, is let go.
        raise LeashError(sentence)

    def _body(self, prompt: Prompt, seed: int, decoding: Decoding) -> dict[str, Any]:
        body = {
            "model": self.model_name,
            "n": 1,
            "seed": seed,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "max_tokens": decoding.max_tokens,
        }
        logprobs: dict[str, Any] = {"logprobs": True if prompt.chat else 1} if self.settings.logprobs else {}
        chat = {"messages": prompt.messages_with(_image_part)}
        asked: dict[str, Any] = chat if prompt.chat else {"prompt": prompt.plain}
        return body | logprobs | asked

    def _logprob(self, logprobs: Sequence[float | None], tokens: int) -> float | None:
        """The sum over the completion's tokens; None where the server leaves some out (the end of text, thoughts)."""
        if not logprobs:
            raise LeashError(
                f"The server at {self.server} gives no log-probabilities; set `sample.openai.logprobs: false`."
            )
        known = [logprob for logprob in logprobs if logprob is not None]
        return sum(known) if len(known) == tokens else None

    def _sentence(self, error: Exception) -> str:
        import openai

        if isinstance(error, openai.APIStatusError):
            return self._refusal(error)
        if isinstance(error, openai.APIConnectionError):
            return self._silence(error)
        return f"The server at {self.server} gave an answer that can't be read ({self._brief(str(error))}); {KEPT}."

    def _refusal(self, error: openai.APIStatusError) -> str:
        """A server that answers, but not with a completion."""
        status, variable, server = error.status_code, self.settings.key, f"The server at {self.server}"
        said = self._brief(f"{status} {_message(error.body)}")
        if status == 401 and self._key is None:
            return f"{server} asks for a key; set the environment variable {variable} to one."
        if status == 401:  # not a word of the server's: many show a part of the key
            return f"{server} does not accept the key in the environment variable {variable}; set it to one it accepts."
        if status == 403:
            return f"{server} denies {self.model_name} to the key in the environment variable {variable} ({said})."
        if status == 404:
            return (
                f"{server} has no {self.model_name} ({said}); correct the model's `served` name, "
                f"or the path in `sample.openai.url`."
            )
        if status in (408, 409, 429) or status >= 500:
            return f"{server} is overloaded or broken ({said}); {KEPT}."
        return f"{server} refuses the request ({said}); change what it complains about, or ask another server."

    def _silence(self, error: openai.APIConnectionError) -> str:
        """A server that does not answer."""
        import openai

        cause = error.__cause__
        why = self._brief(str(cause) or type(cause).__name__)
        if type(cause).__name__ in ("ConnectError", "ConnectTimeout"):
            return f"No server answers at {self.server} ({why}); start it, or correct `sample.openai.url`."
        if isinstance(error, openai.APITimeoutError):
            return (
                f"The server at {self.server} took longer than {self.settings.timeout} s for a completion; {KEPT}, "
                f"with a higher `sample.openai.timeout` if completions take that long."
            )
        return f"The connection to the server at {self.server} broke ({why}); {KEPT}."

    def _brief(self, message: str) -> str:
        """A message in one short line, without the key and the url's password, which servers may echo."""
        for secret in (self._key, urlsplit(self.settings.url).password):
            message = message.replace(secret, "…") if secret else message
        line = " ".join(message.split()).rstrip(".")
        return line if len(line) <= BRIEF else f"{line[:BRIEF]}…"


def _image_part(image: bytes) -> dict[str, Any]:
    kind = kind_of(image)
    if kind is None:
        raise LeashError("An image in the problems table is no PNG, JPEG, GIF or WebP file; convert it to one.")
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{b64encode(image).decode()}"}}


def _chat_answer(choice: Choice) -> Answer:
    message = choice.message
    thoughts = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    text = message.content or ""
    logprobs = (choice.logprobs and choice.logprobs.content) or []
    return Answer(
        f"<think>\n{thoughts}\n</think>\n{text}" if thoughts else text,
        choice.finish_reason or "unknown",
        [token.logprob for token in logprobs],
    )


def _plain_answer(choice: CompletionChoice) -> Answer:
    logprobs = (choice.logprobs and choice.logprobs.token_logprobs) or []
    return Answer(choice.text or "", choice.finish_reason or "unknown", logprobs)


def _message(body: object) -> str:
    """What a server says about its refusal: {"message": …}, FastAPI's {"detail": …} or a text that is no web page."""
    if isinstance(body, dict):
        body = body.get("message") or body.get("detail")
    return body if isinstance(body, str) and not body.lstrip().startswith("<") else ""


def _address(url: str) -> str:
    """The url as people may see it: without name, password and query."""
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0 and parts.scheme in ("http", "https")
    except ValueError:
        usable = False
    if not usable:
        raise LeashError("`sample.openai.url` is not an address such as http://localhost:8000/v1; correct it.")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _key(variable: str) -> str | None:
    """The key, or None where there is none, as most servers of one's own want it."""
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise LeashError(f"What the environment variable {variable} holds is no key: keys have no spaces or accents.")
    return key or None


def _client(settings: Settings, key: str) -> openai.OpenAI:
    try:
        import openai
    except ImportError:
        raise LeashError(
            f"The engine openai needs the package openai; install it with {hints.install('openai')}."
        ) from None
    return openai.OpenAI(
        base_url=settings.url,
        api_key=key,
        max_retries=settings.retries,
        timeout=openai.Timeout(settings.timeout, connect=min(CONNECT, settings.timeout)),
    )
