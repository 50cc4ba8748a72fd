"""Render chat templates in a child process, since they come with models: a template can loop for ever, raise 9 to the
9 to the 9, or double a text until the memory is full, and nothing in its own process could stop that.

    render(tokenizer, [{"role": "user", "content": "What is 2 + 2?"}])  ->  "<|user|>What is 2 + 2?<|assistant|>"

There is one child for each tokenizer and process. It is a fork, so that it needs no imports and has the tokenizer. It
ends when its parent does, or when the tokenizer is no longer used.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

RENDER_TIMEOUT_S = 20.0
MAX_MEMORY_BYTES = 1 << 30  # beside what the process had before
MAX_TEXT_BYTES = 1 << 24


class TemplateRenderError(Exception):
    """A template that cannot be rendered. Its text completes "The chat template …"."""


class Renderer:
    """The child process that renders the template of a tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self.template, self.owner, self._pid = tokenizer.chat_template, os.getpid(), 0
        self._connection, theirs = Pipe()
        try:
            self._pid = os.fork()
        except OSError as error:
            raise TemplateRenderError(f"needs a process of its own, which cannot start ({error.strerror})") from None
        if self._pid == 0:
            _serve(tokenizer, theirs)
        theirs.close()

    def render(self, messages: list[dict[str, Any]]) -> str:
        try:
            self._connection.send_bytes(json.dumps(messages).encode())
            if not self._connection.poll(RENDER_TIMEOUT_S):
                self.close()
                raise TemplateRenderError(f"takes longer than {RENDER_TIMEOUT_S:g} seconds")
            reply = json.loads(self._connection.recv_bytes(2 * MAX_TEXT_BYTES))
        except (OSError, EOFError):
            self.close()
            raise TemplateRenderError("ended the process that rendered it, or is too long") from None
        if "fault" in reply:
            raise TemplateRenderError(reply["fault"])
        return str(reply["text"])

    def close(self) -> None:
        """End the child. Only the process that made it can."""
        if self.owner == os.getpid() and self._pid:
            with suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
            self._connection.close()
            self._pid = 0

    __del__ = close

    @property
    def is_usable(self) -> bool:
        return self.owner == os.getpid() and bool(self._pid)


_renderers: WeakKeyDictionary[Any, Renderer] = WeakKeyDictionary()


def render(tokenizer: Any, messages: list[dict[str, Any]]) -> str:
    """The messages in the chat template of a tokenizer or processor, with the start of a reply. TemplateRenderError if
    the template refuses them, or needs too much time or memory."""
    renderer = _renderers.get(tokenizer)
    if renderer is None or not renderer.is_usable or renderer.template != tokenizer.chat_template:
        renderer = _renderers[tokenizer] = Renderer(tokenizer)
    return renderer.render(messages)


def _serve(tokenizer: Any, connection: Connection) -> None:
    """What the child does, until its parent is gone. It never returns."""
    try:
        gc.disable()  # nothing of the parent, such as a GPU's memory, must be released here
        kept = connection.fileno()
        os.closerange(3, kept)  # locks on files, and this connection's other end
        os.closerange(kept + 1, 1 << 16)
        with suppress(OSError, ValueError):  # not Linux, or less memory is allowed already
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + MAX_MEMORY_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
        while True:
            reply = _render_here(tokenizer, json.loads(connection.recv_bytes()))
            connection.send_bytes(json.dumps(reply).encode())
    except BaseException:
        pass
    finally:
        os._exit(0)


def _render_here(tokenizer: Any, messages: list[dict[str, Any]]) -> dict[str, str]:
    try:
        text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except MemoryError:
        return {"fault": f"takes more than {MAX_MEMORY_BYTES >> 20:,} MiB of memory"}
    except Exception as error:  # a template can fail in every way
        return {"fault": f"refuses the prompt: {str(error)[:500] or type(error).__name__}"}
    if len(text) > MAX_TEXT_BYTES:
        return {"fault": f"makes a prompt of {len(text):,} characters"}
    return {"text": text}
