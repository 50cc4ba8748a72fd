r"""The `openai` engine: any server with OpenAI's API, such as vLLM serve, SGLang or a provider.

    OpenAIEngine(params.sample.openai, "qwen-7b").complete(requests, decoding)

A sample is one blocking request with its own seed; the caller's threads keep many requests in flight. The `openai`
package retries what may succeed later (lost connections, timeouts, 429, 5xx) with growing pauses, and obeys the
server's Retry-After.

The text of a reasoning model begins with its thoughts, as `<think>\n…\n</think>\n`: servers send them beside the answer
(`reasoning_content` or `reasoning`). Thoughts that were cut off have no closing tag. Images are sent as data: URLs.

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
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from leash import install_hints
from leash.engines.cut_thoughts import mark_cut_thought
from leash.engines.protocol import Completion, Decoding, PrefixNotSupportedError, Request
from leash.engines.stop_strings import split_at_stop
from leash.errors import LeashError, NotInstalledError
from leash.finish import (
    CUT_IN_THOUGHT,
    REFUSAL,
    STOP,
    THINK_CLOSE_TAG,
    THINK_OPEN_TAG,
    UNKNOWN,
    has_failed,
    may_succeed_again,
    was_cut_off,
)
from leash.formatting import escape_controls, truncate
from leash.image_type import detect_image_format
from leash.params.groups import MAX_INT32
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
# Before a completion that the server broke off is drawn again: as long as the package waits after an HTTP error.
REDRAW_PAUSE_S, MAX_REDRAW_PAUSE_S = 0.5, 8.0
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

            from leash.engines.bounded_http import BoundedClient
        except ImportError:
            raise NotInstalledError("The package openai", install_hints.install_command("openai")) from None
        self._client = openai.OpenAI(
            base_url=settings.url,
            api_key=key or PLACEHOLDER_KEY,
            max_retries=settings.retries,
            http_client=BoundedClient(),
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
        body = self._build_body(request, sample, decoding, is_chat)
        choice, drawn_text, finish, tokens = self._draw(body, is_chat)
        logprob = None if has_failed(finish) else self._sum_logprobs(choice, is_chat, tokens)
        ids = None
        if request.prefix:
            drawn_text, ids = self._add_prefix(request.prefix, choice)
            tokens = None if tokens is None else tokens + len(request.prefix)
        text, tail, finish = split_at_stop(drawn_text, finish, decoding.stop)
        if not is_chat:
            finish = mark_cut_thought(finish, text, request.prompt, self._tokenizer)
        return Completion(request.problem_id, sample, text, tokens, finish, logprob, ids, tail)

    def _build_body(self, request: Request, sample: int, decoding: Decoding, is_chat: bool) -> dict[str, Any]:
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
        return body

    def _draw(self, body: Mapping[str, Any], is_chat: bool) -> tuple[Any, str, str, int | None]:
        """The server's choice, its text, its finish and its number of tokens. A completion that the server broke off is
        drawn again with its own seed, as often as `retries` allows. One that breaks off every time is kept as it is:
        its finish says so, and verify does not score it."""
        endpoint: Any = self._client.chat.completions if is_chat else self._client.completions
        continues = isinstance(body.get("prompt"), list)  # token ids: a prompt with a prefix
        for attempt in range(self.settings.retries + 1):
            if attempt:
                time.sleep(min(REDRAW_PAUSE_S * 2 ** (attempt - 1), MAX_REDRAW_PAUSE_S))
            response = self._send(lambda: endpoint.create(**body), continues=continues)
            if not getattr(response, "choices", None):
                raise ServerResponseError(
                    self.server,
                    f"{self.server} does not answer as an OpenAI-compatible server. Correct `sample.openai.url` (most "
                    f"end in /v1).",
                )
            usage = getattr(response, "usage", None)
            if continues:
                self._check_prompt(len(body["prompt"]), getattr(usage, "prompt_tokens", None))
            choice = response.choices[0]
            text, finish = _parse_choice(choice, is_chat)
            if not may_succeed_again(finish):
                break
        tokens = getattr(usage, "completion_tokens", None)
        if not isinstance(text, str):
            raise ServerResponseError(
                self.server,
                f"The server at {self.server} gives a completion that is not a text. Use a server, or its setting, "
                f"that gives texts.",
            )
        if has_failed(finish):
            return choice, text, finish, tokens if _is_count(tokens) else None
        if not _is_count(tokens):
            raise ServerResponseError(
                self.server,
                f"The server at {self.server} does not report how many tokens a completion has (`usage`), which the "
                f"tables need. Use a server that does.",
            )
        return choice, text, finish, tokens

    def _sum_logprobs(self, choice: Any, is_chat: bool, tokens: int | None) -> float | None:
        """The log-probability of a completion, or None if it was not asked for, or if the server leaves out tokens (end
        of text, thoughts): the sum is then not that of the completion."""
        if not self.settings.logprobs:
            return None
        given = choice.logprobs and (choice.logprobs.content if is_chat else choice.logprobs.token_logprobs)
        if not given:
            raise ServerResponseError(
                self.server,
                f"The server at {self.server} gives no log-probabilities. Set `sample.openai.logprobs: false`.",
            )
        values = [token.logprob for token in given] if is_chat else given
        numbers = [value for value in values if isinstance(value, int | float)]
        return sum(numbers) if len(numbers) == tokens else None

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
        """A server's message as one short line without control codes, and without the key and the URL's password, which
        servers may repeat."""
        for secret in (self._key, urlsplit(self.settings.url).password):
            message = message.replace(secret, "…") if secret else message
        return truncate(escape_controls(" ".join(message.split())).rstrip("."), MAX_MESSAGE_CHARS)


def _image_part(image: bytes) -> dict[str, Any]:
    image_format = detect_image_format(image)
    if image_format is None:
        what = "An image in the problems table is not a PNG, JPEG, GIF or WebP file"
        raise UnsupportedImageError(f"{what}. Convert it to one.")
    return {"type": "image_url", "image_url": {"url": f"data:image/{image_format};base64,{b64encode(image).decode()}"}}


def _parse_choice(choice: Any, is_chat: bool) -> tuple[Any, str]:
    """The text, with a reasoning model's thoughts before the answer, and the finish. Thoughts have ended if a reply
    follows, or if the model ended the completion; otherwise their closing tag would say what is not known."""
    finish = choice.finish_reason if isinstance(choice.finish_reason, str) else UNKNOWN
    if not is_chat:
        return choice.text or "", finish
    message = choice.message
    text, refusal = message.content or "", getattr(message, "refusal", None)
    if refusal and not text:
        return refusal, finish if has_failed(finish) else REFUSAL
    thoughts = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    if not thoughts:
        return text, finish
    if not text and finish != STOP:
        return f"{THINK_OPEN_TAG}\n{thoughts}", CUT_IN_THOUGHT if was_cut_off(finish) else finish
    return f"{THINK_OPEN_TAG}\n{thoughts}\n{THINK_CLOSE_TAG}\n{text}" if isinstance(text, str) else text, finish


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value <= MAX_INT32


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
