"""A real HTTP server on localhost that speaks OpenAI's API, with an embedded model and the torch engine behind it.

    with Served(engine) as served:
        OpenAIEngine(settings(url=served.url), "base")

For a seed in `served.names`, it draws from the stream of that name, so that its completions are those of the torch
engine. Prompts can be token ids. It answers the next requests with `served.faults`, passes good answers through
`served.edit`, and records requests in `served.seen`.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from leash import prompts
from leash.engines.protocol import Completion, Decoding, Request
from leash.engines.torch_engine import SampledTokens, SampleRow, TorchEngine
from leash.statistics import seeds

Json = dict[str, Any]
OWN_FINISH = "own"


@dataclass(frozen=True)
class Fault:
    """A status with a body and headers, or a dropped connection (status 0)."""

    status: int
    body: str = "{}"
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # many threads connect at once


class Served:
    def __init__(self, engine: TorchEngine) -> None:
        self.engine, self._lock = engine, threading.Lock()
        self.faults: deque[Fault] = deque()
        self.seen: list[tuple[str, dict[str, str], Json]] = []
        self.models, self.listed = ["base"], 0  # what it lists, and how often
        self.names: dict[int, tuple[seeds.NamePart, ...]] = {}
        self.returns_ids = False  # whether it can return token ids, as vLLM does
        self.finish: str | None = OWN_FINISH  # else what it says of every completion
        self.edit: Callable[[Json], Json] = lambda answer: answer
        self._server = Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Served:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def bodies(self) -> list[Json]:
        return [body for _, _, body in self.seen]

    def knows(self, requests: Iterable[Request]) -> None:
        """Draw the samples of these requests from their own streams."""
        self.names |= {r.seed(sample): r.stream_name(sample) for r in requests for sample in r.samples}

    def answer(self, path: str, body: Json) -> Json:
        chat = path.endswith("/chat/completions")
        tokenizer, begin = self.engine.tokenizer, body.get("prompt")
        if isinstance(begin, list):  # token ids: the text is what comes after theirs
            drawn = self._draw(begin, body)
            sent = len(begin)
            texts = (str(tokenizer.decode(ids, skip_special_tokens=True)) for ids in (begin, begin + drawn.ids))
            begin_text, whole_text = texts
            text = whole_text[len(begin_text) :]
        else:
            ids = prompts.tokenize_prompt(prompts.Prompt(**_prompt_fields(body, chat=chat)), tokenizer)
            drawn, sent = self._draw(ids, body), len(ids)
            text = decoded(self.engine, drawn)
        choice = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        finish = drawn.finish if self.finish == OWN_FINISH else self.finish
        # Equal shares: the torch engine keeps only the sum.
        shares = [drawn.logprob / len(drawn.ids)] * len(drawn.ids)
        logprobs = {"content": [{"token": "", "logprob": x} for x in shares]} if chat else {"token_logprobs": shares}
        return {
            "id": "1",
            "choices": [
                {"index": 0, "finish_reason": finish, "logprobs": logprobs if body.get("logprobs") else None}
                | choice
                | ({"token_ids": drawn.ids} if self.returns_ids and body.get("return_token_ids") else {})
            ],
            "usage": {
                "prompt_tokens": sent,
                "completion_tokens": len(drawn.ids),
                "total_tokens": sent + len(drawn.ids),
            },
        }

    def _draw(self, prompt: list[int], body: Json) -> SampledTokens:
        assert body["n"] == 1
        name = self.names.get(body["seed"], ("served", body["seed"]))
        decoding = Decoding(body["temperature"], body["top_p"], body["max_tokens"])
        with self._lock:
            return self.engine.draw([prompt], [SampleRow(0, name)], decoding)[0]


def decoded(engine: TorchEngine, drawn: SampledTokens) -> str:
    return str(engine.tokenizer.decode(drawn.ids, skip_special_tokens=True))


def drawn_here(engine: TorchEngine, requests: Iterable[Request], decoding: Decoding) -> list[Completion]:
    """The torch engine's own completions, without a server."""
    completions = []
    for request in requests:
        rows = [SampleRow(0, request.stream_name(sample)) for sample in request.samples]
        ids = prompts.tokenize_prompt(request.prompt, engine.tokenizer)
        for sample, drawn in zip(request.samples, engine.draw([ids], rows, decoding), strict=True):
            text, tokens = decoded(engine, drawn), len(drawn.ids)
            completions.append(Completion(request.problem_id, sample, text, tokens, drawn.finish, drawn.logprob))
    return completions


def _prompt_fields(body: Json, *, chat: bool) -> Json:
    if not chat:
        return {"user": body["prompt"]}
    by_role = {message["role"]: message["content"] for message in body["messages"]}
    return {"user": by_role["user"], "system": by_role.get("system"), "chat": True}


def _handler(served: Served) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """/v1/models"""
            served.listed += 1
            listing = {"object": "list", "data": [{"id": name, "object": "model"} for name in served.models]}
            self._send(served.faults.popleft() if served.faults else Fault(200, json.dumps(listing)))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            served.seen.append((self.path, headers, body))
            try:
                fault = served.faults.popleft()
            except IndexError:
                fault = Fault(200, json.dumps(served.edit(served.answer(self.path, body))))
            self.close_connection = not fault.status
            if fault.status:
                self._send(fault)

        def _send(self, fault: Fault) -> None:
            content = fault.body.encode()
            self.send_response(fault.status)
            for name, value in {
                "Content-Type": fault.content_type,
                "Content-Length": str(len(content)),
                **fault.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
