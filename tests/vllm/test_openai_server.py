"""The openai engine against a real vLLM server on the embedded base model.

Run by `make test-vllm` in an environment of its own, with vLLM's CPU build.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from leash import weights
from leash.datasets import embedded_tasks
from leash.engines.openai_engine import OpenAIEngine, ServedModelError, ServerRequestError
from leash.engines.protocol import Completion, Decoding, Request
from leash.engines.torch_engine import TorchEngine
from leash.params.groups import OpenAI
from leash.prompts import Prompt
from leash.statistics import seeds
from tests.conftest import ROOT
from tests.served import drawn_here

pytestmark = pytest.mark.vllm

BASE = str(ROOT / "models" / "embedded" / "base")
START_TIMEOUT_S = 300  # half a minute is usual
GREEDY = Decoding(temperature=0.0, top_p=1.0, max_tokens=72)
PLAIN = Decoding(temperature=1.0, top_p=1.0, max_tokens=72)
# The question as it is, so that a chat and a plain text are the same tokens.
TEMPLATE = "{{ bos_token }}{% for message in messages %}{{ message['content'] }}{% endfor %}"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("vllm", reason="vLLM is not installed; `make test-vllm` installs it")
    folder = tmp_path_factory.mktemp("server")
    port = free_port()
    with (folder / "log").open("w") as log:
        # In its own session, so that the processes that it starts end with it.
        server = subprocess.Popen(
            command(folder, port), cwd=folder, env=environment(), stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_until_healthy(server, port, folder / "log")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def command(folder: Path, port: int) -> list[str]:
    (folder / "chat.jinja").write_text(TEMPLATE)
    options = {
        "model": BASE,
        "served-model-name": "base",
        "dtype": "float32",
        "max-model-len": 128,
        "max-num-seqs": 64,
        "chat-template": folder / "chat.jinja",
        "generation-config": "vllm",
        "host": "127.0.0.1",
        "port": port,
    }
    module = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager"]
    return [*module, *(f"--{name}={value}" for name, value in options.items())]


def environment() -> dict[str, str]:
    return os.environ | {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


def wait_until_healthy(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"vLLM's server did not start:\n{log.read_text()[-5000:]}")


@pytest.fixture(scope="module")
def torch_engine() -> TorchEngine:
    engine = TorchEngine(*weights.load_model(weights.Weights("base", BASE, None, "float32")))
    engine.tokenizer.chat_template = TEMPLATE
    return engine


def engine_at(url: str, name: str = "base", **settings: Any) -> OpenAIEngine:
    return OpenAIEngine(OpenAI(url=url, key="LEASH_TEST_KEY", **settings), name)


def requests(samples: range, *, chat: bool) -> list[Request]:
    """One sample per request, as the sample stage sends them."""
    rng = seeds.stream("test", "vllm server")
    kinds = [("chain", 5), ("chain", 8), ("make", 3), ("make", 8)]
    batch = [
        Prompt(embedded_tasks.draw_problem(rng, *kind, held_out=True).prompt, chat=chat)
        for kind in kinds
        for _ in range(2)
    ]
    return [
        Request(str(i), prompt, range(sample, sample + 1), ("test",))
        for i, prompt in enumerate(batch)
        for sample in samples
    ]


def complete(engine: OpenAIEngine, batch: list[Request], decoding: Decoding) -> list[Completion]:
    with ThreadPoolExecutor(32) as pool:
        return list(pool.map(lambda request: next(engine.complete([request], decoding)), batch))


@pytest.mark.parametrize("chat", [False, True])
def test_greedy_completions_are_the_torch_engines(url: str, torch_engine: TorchEngine, chat: bool) -> None:
    batch = requests(range(1), chat=chat)
    theirs = complete(engine_at(url, logprobs=True), batch, GREEDY)
    for their, our in zip(theirs, drawn_here(torch_engine, batch, GREEDY), strict=True):
        # vLLM's detokenizer puts a space before the first word.
        assert (their.problem_id, their.text.split()) == (our.problem_id, our.text.split())
        assert (their.tokens, their.finish) == (our.tokens, our.finish)
        assert their.logprob == pytest.approx(our.logprob, abs=1e-3)


def test_logprobs_are_untempered(url: str, torch_engine: TorchEngine) -> None:
    """At temperature 0.5 the texts that both engines happened to draw have the torch engine's log-probabilities,
    which are those at temperature 1."""
    decoding = Decoding(temperature=0.5, top_p=1.0, max_tokens=72)
    many = [Request(r.problem_id, r.prompt, range(64), r.name) for r in requests(range(1), chat=False)]
    ours = logprobs(drawn_here(torch_engine, many, decoding))
    theirs = logprobs(complete(engine_at(url, logprobs=True), requests(range(4), chat=False), decoding))
    shared = ours.keys() & theirs.keys()
    assert len(shared) >= 4
    for key in shared:
        assert theirs[key] == pytest.approx(ours[key], abs=1e-3)


def logprobs(completions: list[Completion]) -> dict[tuple[str, str], float | None]:
    return {(c.problem_id, " ".join(c.text.split())): c.logprob for c in completions}


@pytest.mark.parametrize("chat", [False, True])
def test_seeded_samples_are_the_same_twice_and_differ(url: str, chat: bool) -> None:
    batch = requests(range(64), chat=chat)[:64]
    first, second = (complete(engine_at(url), batch, PLAIN) for _ in range(2))
    assert [c.text for c in first] == [c.text for c in second]
    assert [c.sample for c in first] == list(range(64))
    assert len({c.text for c in first}) > 1


def test_a_model_that_is_not_served_is_refused_with_the_servers_reason(url: str) -> None:
    with pytest.raises(ServedModelError, match=r"\(404 The model `other` does not exist"):
        complete(engine_at(url, "other"), requests(range(1), chat=False)[:1], GREEDY)


def test_a_refused_request_gets_the_servers_reason(url: str) -> None:
    with pytest.raises(ServerRequestError, match=r"\(400 .*max_model_len=128"):
        complete(engine_at(url), requests(range(1), chat=False)[:1], Decoding(0.0, 1.0, 1000))
