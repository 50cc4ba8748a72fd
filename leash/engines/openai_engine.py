r"""The `openai` engine: any server with OpenAI's API, such as vLLM serve, SGLang or a provider.

    OpenAIEngine(params.sample.openai, "qwen-7b").complete(requests, decoding)

A sample is one blocking request with its own seed; the caller's threads keep many requests in flight. The `openai`
package retries what may succeed later (lost connections, timeouts, 429, 5xx) with growing pauses, and obeys the
server's Retry-After.

The text of a reasoning model begins with its thoughts, as `<think>\n…\n</think>\n`: servers send them beside the answer
(`reasoning_content` or `reasoning`). Images are sent as data: URLs.

A server's own `stop` would cut formulas too, so it is not sent: the server draws to the end, the text ends at the stop
string, and the tail is the rest. Tokens, log-probability and finish are then those of the whole completion.

A prefix needs the model's tokenizer: the token ids of prompt (as a chat: in the tokenizer's template) and prefix are
sent to the completions endpoint. vLLM returns the ids that it drew; for other servers they are those that the text
splits into.

This module cannot see what the server adds. vLLM serve takes top_k and penalties from the model's
generation_config.json unless it runs with `--generation-config vllm`, SGLang with `--sampling-defaults openai`.
"""

from __future__ import annotations

import os
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from leash import install_hints
from leash.engines.protocol import Completion, Decoding, PrefixNotSupportedError, Request
from leash.engines.stop_strings import split_at_stop
from leash.errors import LeashError, NotInstalledError
from leash.formatting import truncate
from leash.image_type import detect_image_format
from leash.params.groups import OpenAI as Settings
from leash.prompts import tokenize_prompt
from leash.token_ids import tokenize_texts

if TYPE_CHECKING:
    import openai
    from transformers import PreTrainedTokenizerBase

Reply = TypeVar("Reply")

# The package insists on a key. Servers that need none accept this one.
PLACEHOLDER_KEY = "none"
# What servers answer that take no prompt of token ids: no such endpoint, or not with such a body.
PREFIX_REFUSALS = (400, 404, 422)
# `sample.openai.timeout` is for completions. A server that is up accepts a connection within this time.
CONNECT_TIMEOUT_S = 30
MAX_MESSAGE_CHARS = 200
NO_SERVER_HINT = "Use vLLM, or set `reach.rollouts: 0`"
RERUN_HINT = "Finished work is kept: run the command again to continue"


class ServerError(LeashError):
    """The server did not give a usable completion. `status` is the HTTP status, or None if there was none."""

    def __init__(self, server: str, problem: str, status: int | None = None) -> None:
        self.server, self.status = server, status
        super().__init__(problem)


class ServerUnreachableError(ServerError):
    """Nothing listens at the address."""


class ServerKeyError(ServerError):
    """The server needs a key, or another one."""


class ServedModelError(ServerError):
    """The server does not have the model under this name."""


class ServerRequestError(ServerError):
    """The server refuses the request itself; repeating it would not help."""


class ServerUnavailableError(ServerError):
    """The server failed, is overloaded, took too long, or broke the connection. Running again may help."""


class ServerResponseError(ServerError):
    """The server's response lacks something, or is not a response of OpenAI's API at all."""


class ServerUrlError(LeashError):
    """`sample.openai.url` is not an http address. The address is not a fact of the error: it may hold a password."""


class InvalidKeyError(LeashError):
    """The environment variable holds something that is not a key. The value is not shown."""

    def __init__(self, variable: str) -> None:
        self.variable = variable
        super().__init__(
            f"The value of the environment variable {variable} is not a key: keys have no spaces or accents."
        )


class UnsupportedImageError(LeashError):
    """An image in the problems table has a format that servers do not accept."""


class OpenAIEngine:
    """The key is read from the environment when the engine is created. No error, log or file ever holds it. Without a
    tokenizer, the engine continues no prefixes."""

    def __init__(self, settings: Settings, model_name: str, tokenizer: PreTrainedTokenizerBase | None = None) -> None:
        self.settings, self.model_name = settings, model_name
        self._tokenizer = tokenizer
        self._tokenizer_lock = threading.Lock()  # a tokenizer is not made for several threads
        self.server = _public_url(settings.url)
        key = os.environ.get(settings.key, "").strip()
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise InvalidKeyError(settings.key)
        self._key = key or None
        try:
            import openai
        except ImportError:
            raise NotInstalledError("The package openai", install_hints.install_command("openai")) from None
        self._client = openai.OpenAI(
            base_url=settings.url,
            api_key=key or PLACEHOLDER_KEY,
            max_retries=settings.retries,
            timeout=openai.Timeout(settings.timeout, connect=min(CONNECT_TIMEOUT_S, settings.timeout)),
        )

    def complete(self, requests: Iterable[Request], decoding: Decoding) -> Iterator[Completion]:
        for request in requests:
            for sample in request.samples:
                yield self._sample(request, sample, decoding)

    def close(self) -> None:
        self._client.close()

    def ask_models(self) -> str:
        """Check that the server is up and has the model, and describe that in a few words. The request is free."""
        client = self._client.with_options(max_retries=0, timeout=CONNECT_TIMEOUT_S)
        try:
            names = self._send(lambda: [model.id for model in client.models.list()])
        except ServedModelError:  # 404: not every server has this endpoint
            return f"{self.server} answers, but lists no models"
        if self.model_name in names:
            return f"{self.server} has {self.model_name}"
        raise ServedModelError(
            self.server,
            f"{self.server} has no {self.model_name}, but {', '.join(names) or 'no model at all'}. Correct the "
            f"model's `served` name or `sample.openai.url`.",
        )

    def _sample(self, request: Request, sample: int, decoding: Decoding) -> Completion:
        is_chat = request.prompt.chat and not request.prefix
        body: dict[str, Any] = {
            "model": self.model_name,
            "n": 1,
            "seed": request.seed(sample),
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "max_tokens": request.tokens_to_draw(decoding.max_tokens),
        }
        if self.settings.logprobs:
            body["logprobs"] = True if is_chat else 1
        if request.prefix:
            body["prompt"] = self._tokenize(request)
            body["extra_body"] = {"return_token_ids": True}  # servers other than vLLM do not know it
        elif is_chat:
            body["messages"] = request.prompt.messages_with(_image_part)
        else:
            body["prompt"] = request.prompt.plain
        endpoint: Any = self._client.chat.completions if is_chat else self._client.completions
        response = self._send(lambda: endpoint.create(**body), continues=bool(request.prefix))
        if not getattr(response, "choices", None):
            raise ServerResponseError(
                self.server,
                f"{self.server} does not answer as an OpenAI-compatible server. Correct `sample.openai.url` (most end "
                f"in /v1).",
            )
        usage = getattr(response, "usage", None)
        if usage is None or usage.completion_tokens is None:
            raise ServerResponseError(
                self.server,
                f"The server at {self.server} does not report how many tokens a completion has (`usage`), which the "
                f"tables need. Use a server that does.",
            )
        if request.prefix:
            self._check_prompt(len(body["prompt"]), usage.prompt_tokens)
        choice, tokens = response.choices[0], usage.completion_tokens
        drawn_text, logprobs = _parse_choice(choice, is_chat)
        logprob = None
        if self.settings.logprobs:
            if not logprobs:
                raise ServerResponseError(
                    self.server,
                    f"The server at {self.server} gives no log-probabilities. Set `sample.openai.logprobs: false`.",
                )
            # Some servers leave out tokens (end of text, thoughts): then the sum is not that of the completion.
            values = [value for value in logprobs if value is not None]
            logprob = sum(values) if len(values) == tokens else None
        ids = None
        if request.prefix:
            drawn_text, ids = self._add_prefix(request.prefix, choice)
            tokens += len(request.prefix)
        text, tail, finish = split_at_stop(drawn_text, choice.finish_reason or "unknown", decoding.stop)
        return Completion(request.problem_id, sample, text, tokens, finish, logprob, ids, tail)

    def _tokenize(self, request: Request) -> list[int]:
        """The tokens of a request's prompt and prefix."""
        if self._tokenizer is None:
            remedy = "Set `path` or `hub` of the model, or use the engine `torch` or `vllm`"
            raise PrefixNotSupportedError("openai", f"it has no tokenizer of {self.model_name}", remedy)
        if request.prompt.images:
            raise PrefixNotSupportedError("openai", "the prompt has images", "Use the engine `vllm`")
        with self._tokenizer_lock:
            return [*tokenize_prompt(request.prompt, self._tokenizer), *request.prefix]

    def _check_prompt(self, sent: int, read: int | None) -> None:
        """A server that cuts the beginning of a prompt off, or puts a token before it, continues something else."""
        if read not in (None, sent):
            raise ServerResponseError(
                self.server,
                f"The server at {self.server} continued {read:,} tokens where {sent:,} were sent, so its rollouts "
                f"prove nothing. {NO_SERVER_HINT}.",
            )

    def _add_prefix(self, prefix: tuple[int, ...], choice: Any) -> tuple[str, list[int]]:
        """The text and the tokens of a completion whose prefix the server has continued."""
        tokenizer: Any = self._tokenizer
        with self._tokenizer_lock:
            begin = str(tokenizer.decode(list(prefix), skip_special_tokens=True))
            if drawn := getattr(choice, "token_ids", None):
                ids = [*prefix, *drawn]
                return str(tokenizer.decode(ids, skip_special_tokens=True)), ids
            text, ended = begin + (choice.text or ""), choice.finish_reason == "stop"
            (ids,) = tokenize_texts([text], [ended], tokenizer)
            if tuple(ids[: len(prefix)]) != prefix:  # the whole splits otherwise: split what was drawn
                ids = [*prefix, *tokenize_texts([choice.text or ""], [ended], tokenizer)[0]]
            return text, ids

    def _send(self, call: Callable[[], Reply], *, continues: bool = False) -> Reply:
        import openai

        failure: LeashError
        try:
            return call()
        except openai.APIStatusError as error:
            failure = self._describe_status(error, continues)
        except openai.APIConnectionError as error:
            failure = self._describe_connection(error, timed_out=isinstance(error, openai.APITimeoutError))
        except (openai.OpenAIError, ValueError) as error:  # ValueError: a response that is not JSON
            problem = f"The server at {self.server} gave a response that cannot be read ({self._shorten(str(error))})."
            failure = ServerResponseError(self.server, f"{problem} {RERUN_HINT}.")
        # Raised outside the `except` blocks, so that it does not carry the package's error as its context: that holds
        # the request with the key in its headers.
        raise failure

    def _describe_status(self, error: openai.APIStatusError, continues: bool) -> LeashError:
        """The server answers, but not with a completion."""
        status, variable, server = error.status_code, self.settings.key, f"The server at {self.server}"
        body: Any = error.body
        if isinstance(body, dict):
            body = body.get("message") or body.get("detail")  # `detail` is FastAPI's
        is_message = isinstance(body, str) and not body.lstrip().startswith("<")  # a web page says nothing
        reason = self._shorten(f"{status} {body if is_message else ''}")
        if continues and status in PREFIX_REFUSALS:
            refusal = f"the server at {self.server} refuses a prompt of token ids ({reason})"
            return PrefixNotSupportedError("openai", refusal, NO_SERVER_HINT)
        kind: type[ServerError] = ServerRequestError
        problem = f"{server} refuses the request ({reason}). Change what it names, or use another server."
        if status == 401 and self._key is None:
            # Without the server's message, here and below: many servers show a part of the key in it.
            kind, problem = ServerKeyError, f"{server} needs a key. Set the environment variable {variable} to one."
        elif status == 401:
            kind = ServerKeyError
            problem = f"{server} does not accept the key in the environment variable {variable}. Set it to a valid key."
        elif status == 403:
            kind, holder = ServerKeyError, f"the key in the environment variable {variable}"
            problem = f"{server} denies {self.model_name} to {holder} ({reason}). Use a key that may use this model."
        elif status == 404:
            kind, remedy = ServedModelError, "Correct the model's `served` name or the path in `sample.openai.url`"
            problem = f"{server} has no {self.model_name} ({reason}). {remedy}."
        elif status in (408, 409, 429) or status >= 500:
            kind, problem = ServerUnavailableError, f"{server} is overloaded or broken ({reason}). {RERUN_HINT}."
        return kind(self.server, problem, status)

    def _describe_connection(self, error: openai.APIConnectionError, timed_out: bool) -> ServerError:
        """The server does not answer."""
        cause = error.__cause__
        reason = self._shorten(str(cause) or type(cause).__name__)
        if type(cause).__name__ in ("ConnectError", "ConnectTimeout"):
            problem = f"No server answers at {self.server} ({reason}). Start it, or correct `sample.openai.url`."
            return ServerUnreachableError(self.server, problem)
        problem = f"The connection to the server at {self.server} broke ({reason}). {RERUN_HINT}."
        if timed_out:
            problem = (
                f"The server at {self.server} took longer than {self.settings.timeout} s for a completion. "
                f"{RERUN_HINT}, with a higher `sample.openai.timeout` if completions take that long."
            )
        return ServerUnavailableError(self.server, problem)

    def _shorten(self, message: str) -> str:
        """A server's message as one short line, without the key and the URL's password, which servers may repeat."""
        for secret in (self._key, urlsplit(self.settings.url).password):
            message = message.replace(secret, "…") if secret else message
        return truncate(" ".join(message.split()).rstrip("."), MAX_MESSAGE_CHARS)


def _image_part(image: bytes) -> dict[str, Any]:
    image_format = detect_image_format(image)
    if image_format is None:
        what = "An image in the problems table is not a PNG, JPEG, GIF or WebP file"
        raise UnsupportedImageError(f"{what}. Convert it to one.")
    return {"type": "image_url", "image_url": {"url": f"data:image/{image_format};base64,{b64encode(image).decode()}"}}


def _parse_choice(choice: Any, chat: bool) -> tuple[str, list[float | None]]:
    """The text, with a reasoning model's thoughts before the answer, and the log-probabilities of its tokens."""
    if not chat:
        return choice.text or "", (choice.logprobs and choice.logprobs.token_logprobs) or []
    message = choice.message
    thoughts = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    text = message.content or ""
    logprobs = (choice.logprobs and choice.logprobs.content) or []
    return f"<think>\n{thoughts}\n</think>\n{text}" if thoughts else text, [token.logprob for token in logprobs]


def _public_url(url: str) -> str:
    """The URL without user name, password and query, for messages."""
    try:
        parts = urlsplit(url)
        is_usable = bool(parts.hostname) and parts.port != 0 and parts.scheme in ("http", "https")
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ServerUrlError("`sample.openai.url` is not an address such as http://localhost:8000/v1. Correct it.")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
