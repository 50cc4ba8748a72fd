"""The openai engine against a real HTTP server that runs the embedded base model: each sample is requested once and
comes back complete, failures are retried or become clear errors, and the key is never shown."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import traceback
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leash import weights
from leash.datasets import embedded_tasks
from leash.engines.openai_engine import (
    InvalidKeyError,
    OpenAIEngine,
    ServedModelError,
    ServerError,
    ServerKeyError,
    ServerRequestError,
    ServerResponseError,
    ServerUnavailableError,
    ServerUnreachableError,
    ServerUrlError,
    UnsupportedImageError,
)
from leash.engines.protocol import Completion, Decoding, PrefixNotSupportedError, PrefixTooLongError, Request
from leash.engines.selection import build_engine_spec
from leash.engines.torch_engine import TorchEngine
from leash.grading.graders.types import no_answer_grade
from leash.grading.reading import read_answer
from leash.params.groups import OpenAI
from leash.prompts import Prompt, tokenize_prompt
from leash.sampling import sampler
from leash.statistics import seeds
from tests.conftest import ROOT, small, write_params
from tests.served import Fault, Json, Served, drawn_here

PLAIN = Decoding(temperature=1.0, top_p=1.0, max_tokens=12)
KEY = "sk-planted-0123456789"
TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'user' %}{{ bos_token + message['content'] }}"
    "{% endif %}{% endfor %}"
)
GOOD: Json = {
    "id": "1",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "A"}}],
    "usage": {"prompt_tokens": 0, "completion_tokens": 2, "total_tokens": 2},
}


@pytest.fixture(scope="module")
def torch_engine() -> TorchEngine:
    engine = TorchEngine(
        *weights.load_model(weights.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float64"))
    )
    engine.tokenizer.chat_template = TEMPLATE
    return engine


@pytest.fixture
def served(torch_engine: TorchEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.setattr("leash.engines.openai_engine.REDRAW_PAUSE_S", 0.0)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with Served(torch_engine) as server:
        yield server


def engine_for(served: Served, **settings: Any) -> OpenAIEngine:
    return OpenAIEngine(OpenAI(url=served.url, **settings), "base")


def requests(count: int, samples: range, *, chat: bool = False) -> list[Request]:
    rng = seeds.stream("test", "openai")
    problems = [embedded_tasks.draw_problem(rng, ("chain", "make")[i % 2], 3, held_out=True) for i in range(count)]
    return [Request(f"p{i}", Prompt(p.prompt, chat=chat), samples, ("test",)) for i, p in enumerate(problems)]


def everything_in(error: BaseException) -> str:
    """Everything that a log, a terminal or another process could show of an exception."""
    texts = ["".join(traceback.format_exception(error)), repr(error), str(vars(error))]
    while (context := error.__cause__ or error.__context__) is not None:
        texts += [repr(context), str(vars(context))]
        error = context
    return "\n".join(texts)


def failure(engine: OpenAIEngine) -> ServerError:
    with pytest.raises(ServerError) as caught:
        list(engine.complete(requests(1, range(1)), PLAIN))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    return caught.value


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("decoding", [PLAIN, Decoding(0.7, 0.9, 40)])
def test_a_server_that_draws_by_seed_gives_the_torch_engines_samples(
    served: Served, torch_engine: TorchEngine, chat: bool, decoding: Decoding
) -> None:
    sent = requests(4, range(3, 9), chat=chat)
    served.knows(sent)
    theirs = list(engine_for(served, logprobs=True).complete(sent, decoding))
    ours = drawn_here(torch_engine, sent, decoding)
    for completion, same in zip(theirs, ours, strict=True):
        assert (completion.problem_id, completion.sample) == (same.problem_id, same.sample)
        assert (completion.text, completion.tokens, completion.finish) == (same.text, same.tokens, same.finish)
        assert completion.logprob == pytest.approx(same.logprob, abs=1e-9)
    assert "stop" in {c.finish for c in theirs}
    assert {path for path, _, _ in served.seen} == {"/v1/chat/completions" if chat else "/v1/completions"}


def test_a_truncated_completion_finishes_with_length(served: Served) -> None:
    (completion,) = engine_for(served).complete(requests(1, range(1)), Decoding(1.0, 1.0, 2))
    assert (completion.finish, completion.tokens) == ("length", 2)


def test_each_sample_is_one_request_with_its_own_seed(served: Served) -> None:
    sent = requests(2, range(10))
    list(engine_for(served).complete(sent, PLAIN))
    assert [body["seed"] for body in served.bodies] == [r.seed(sample) for r in sent for sample in r.samples]
    assert len({body["seed"] for body in served.bodies}) == 20
    assert all(0 <= body["seed"] < 2**63 and body["n"] == 1 for body in served.bodies)


def test_a_request_has_no_parameters_that_could_cut_an_answer_short(served: Served) -> None:
    list(engine_for(served).complete(requests(1, range(1)), PLAIN))
    assert served.bodies[0].keys() == {"model", "prompt", "n", "seed", "temperature", "top_p", "max_tokens"}


def test_a_chat_is_sent_as_messages_and_a_plain_prompt_as_text(served: Served) -> None:
    engine = engine_for(served)
    for chat in (True, False):
        list(engine.complete([Request("p", Prompt("compute 3 + 4 :", "Be brief.", chat), range(1), ("t",))], PLAIN))
    assert served.bodies[0]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "compute 3 + 4 :"},
    ]
    assert served.bodies[1]["prompt"] == "Be brief.\n\ncompute 3 + 4 :"


@pytest.mark.parametrize(
    ("begin", "kind"),
    [(b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff\xe0", "jpeg"), (b"GIF89a", "gif"), (b"RIFF\0\0\0\0WEBP", "webp")],
)
def test_images_are_sent_as_data_urls_in_their_place(served: Served, begin: bytes, kind: str) -> None:
    served.answer = lambda path, body: GOOD  # type: ignore[method-assign]  # the embedded models cannot see
    prompt = Prompt("Is <image1> a square?", "Be brief.", chat=True, images=(begin + b"\0rest",))
    list(engine_for(served).complete([Request("p", prompt, range(1), ("t",))], PLAIN))
    url = f"data:image/{kind};base64,{b64encode(begin + bytes(1) + b'rest').decode()}"
    assert served.bodies[0]["messages"] == [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Is "},
                {"type": "image_url", "image_url": {"url": url}},
                {"type": "text", "text": " a square?"},
            ],
        },
    ]


def test_an_image_of_another_format_is_refused(served: Served) -> None:
    prompt = Prompt("Which?", chat=True, images=(b"BM of sorts",))
    with pytest.raises(UnsupportedImageError):
        list(engine_for(served).complete([Request("p", prompt, range(1), ("t",))], PLAIN))
    assert served.bodies == []


@pytest.mark.parametrize("returns_ids", [False, True])
@pytest.mark.parametrize("chat", [False, True])
def test_a_prefix_is_continued_from_its_token_ids(
    served: Served, torch_engine: TorchEngine, chat: bool, returns_ids: bool
) -> None:
    """The rollouts are the torch engine's, whole, whether the server returns token ids or not. A chat is rendered by
    the tokenizer's template and goes to the completions endpoint too."""
    served.returns_ids = returns_ids
    decoding = Decoding(0.7, 0.9, 40)
    whole = drawn_here(torch_engine, requests(4, range(1), chat=chat), decoding)
    ids = [torch_engine.tokenizer(c.text, add_special_tokens=False)["input_ids"] for c in whole]
    sent = [
        replace(request, samples=range(5), prefix=tuple(own[: 3 + i]))
        for i, (request, own) in enumerate(zip(requests(4, range(1), chat=chat), ids, strict=True))
    ]
    served.knows(sent)
    engine = OpenAIEngine(OpenAI(url=served.url, logprobs=True), "base", torch_engine.tokenizer)
    theirs = {(c.problem_id, c.sample): c for c in engine.complete(sent, decoding)}
    ours = {(c.problem_id, c.sample): c for c in torch_engine.complete(sent, decoding)}
    assert theirs.keys() == ours.keys()
    for key, c in theirs.items():
        same = ours[key]
        assert (c.text, c.tokens, c.token_ids) == (same.text, same.tokens, same.token_ids)
        assert (c.finish, c.tail) == (same.finish, same.tail)
        assert c.logprob == pytest.approx(same.logprob, abs=1e-6)
    assert {path for path, _, _ in served.seen} == {"/v1/completions"}
    for body, request in zip(served.bodies, [r for r in sent for _ in r.samples], strict=True):
        assert body["prompt"] == [*tokenize_prompt(request.prompt, torch_engine.tokenizer), *request.prefix]
        assert body["max_tokens"] == 40 - len(request.prefix)


def test_a_prefix_needs_a_tokenizer_and_room_and_no_images(served: Served, torch_engine: TorchEngine) -> None:
    (request,) = requests(1, range(1))
    with pytest.raises(PrefixNotSupportedError, match="no tokenizer of base"):
        list(engine_for(served).complete([replace(request, prefix=(5, 6))], PLAIN))
    engine = OpenAIEngine(OpenAI(url=served.url), "base", torch_engine.tokenizer)
    seen = Prompt("compute", chat=True, images=(b"an image",))
    with pytest.raises(PrefixNotSupportedError, match="images"):
        list(engine.complete([replace(request, prompt=seen, prefix=(5, 6))], PLAIN))
    with pytest.raises(PrefixTooLongError):
        list(engine.complete([replace(request, prefix=(5,) * 12)], PLAIN))
    assert served.bodies == []


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_server_that_takes_no_token_ids_is_refused_as_an_engine_for_prefixes(
    served: Served, torch_engine: TorchEngine, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    engine = OpenAIEngine(OpenAI(url=served.url), "base", torch_engine.tokenizer)
    request = replace(requests(1, range(1))[0], prefix=(5, 6))
    served.faults.append(Fault(status, '{"error": {"message": "prompt must be a string"}}'))
    with pytest.raises(PrefixNotSupportedError, match=f"{status} prompt must be a string") as caught:
        list(engine.complete([request], PLAIN))
    assert "`reach.rollouts: 0`" in str(caught.value)
    assert KEY not in everything_in(caught.value)
    assert len(served.seen) == 1
    served.faults.append(Fault(status))  # without a prefix it is an error of the request, as ever
    assert failure(engine).status == status


def test_a_server_that_continues_something_else_is_refused(served: Served, torch_engine: TorchEngine) -> None:
    """It may cut the beginning of a prompt, put a token before it, or take it for text."""
    engine = OpenAIEngine(OpenAI(url=served.url), "base", torch_engine.tokenizer)
    request = replace(requests(1, range(1))[0], prefix=(5, 6))
    sent = len(tokenize_prompt(request.prompt, torch_engine.tokenizer)) + 2

    def count(tokens: int | None) -> None:
        served.edit = lambda answer: answer | {"usage": answer["usage"] | {"prompt_tokens": tokens}}

    for other in (0, sent - 1, sent + 1):
        count(other)
        with pytest.raises(ServerResponseError, match=f"continued {other} tokens where {sent} were sent"):
            list(engine.complete([request], PLAIN))
    count(sent + 1)
    assert list(engine.complete([replace(request, prefix=())], PLAIN))  # a prompt of text may split in many ways
    for same in (sent, None):
        count(same)
        assert list(engine.complete([request], PLAIN))


def test_an_engine_for_prefixes_has_the_models_tokenizer(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    raw = small(sample={"k": 2, "engine": "openai", "openai": {"url": served.url}, "max_tokens": 12})
    raw["models"]["base"] = {"served": "base", "path": str(ROOT / "models" / "embedded" / "base")}
    raw["models"]["rlvr"] = {"served": "rlvr"}
    params = write_params(tmp_path, raw)
    request = replace(requests(1, range(2))[0], prefix=(5, 6))
    plain, continuing = (build_engine_spec(params, "base", prefixes=each).make() for each in (False, True))
    with pytest.raises(PrefixNotSupportedError):
        list(plain.complete([request], PLAIN))
    assert [c.token_ids[:2] for c in continuing.complete([request], PLAIN) if c.token_ids] == [[5, 6]] * 2
    build_engine_spec(params, "rlvr")
    with pytest.raises(weights.MissingWeightsError):
        build_engine_spec(params, "rlvr", prefixes=True)


def test_many_threads_get_the_same_samples_as_one(served: Served) -> None:
    engine = engine_for(served)
    sent = [
        Request(r.problem_id, r.prompt, range(sample, sample + 1), r.name)
        for r in requests(2, range(12))
        for sample in r.samples
    ]
    alone = [next(engine.complete([request], PLAIN)) for request in sent]
    with ThreadPoolExecutor(24) as pool:
        together = list(pool.map(lambda request: next(engine.complete([request], PLAIN)), sent))
    assert together == alone
    assert len({c.text for c in alone}) > 1


FAULTS = [
    Fault(429, headers={"Retry-After": "0"}),
    Fault(429, headers={"retry-after-ms": "1"}),
    Fault(500, "<html>oops</html>", content_type="text/html"),
    Fault(503),
    Fault(0),
]


@pytest.mark.parametrize("chat", [False, True])
def test_temporary_failures_are_retried_and_each_sample_comes_once(
    served: Served, torch_engine: TorchEngine, chat: bool
) -> None:
    sent = requests(1, range(4), chat=chat)
    served.knows(sent)
    served.faults.extend(FAULTS)
    theirs = list(engine_for(served, logprobs=True).complete(sent, PLAIN))
    assert [c.sample for c in theirs] == [0, 1, 2, 3]
    assert [c.text for c in theirs] == [c.text for c in drawn_here(torch_engine, sent, PLAIN)]
    # The first sample was requested six times, always with its own seed.
    assert len(served.seen) == len(FAULTS) + 4
    assert len({body["seed"] for body in served.bodies}) == 4


def test_failures_in_many_threads_at_once_are_retried(served: Served) -> None:
    engine = engine_for(served, retries=20)
    served.faults.extend(FAULTS * 6)
    (problem,) = requests(1, range(32))
    each = [Request("p", problem.prompt, range(sample, sample + 1), ("test",)) for sample in problem.samples]
    with ThreadPoolExecutor(16) as pool:
        drawn = [c for part in pool.map(lambda request: list(engine.complete([request], PLAIN)), each) for c in part]
    assert [c.sample for c in drawn] == list(range(32))
    assert len(served.seen) == 32 + len(FAULTS) * 6


@pytest.mark.parametrize(
    ("fault", "kind", "reason"),
    [
        (Fault(429, '{"error": {"message": "Slow down."}}'), ServerUnavailableError, "(429 Slow down)"),
        (Fault(500, "<html>"), ServerUnavailableError, "(500)"),
        (Fault(0), ServerUnavailableError, "(Server disconnected without sending a response)"),
        (Fault(404, '{"error": {"message": "No model `base`."}}'), ServedModelError, "(404 No model `base`)"),
        (Fault(404, '{"detail": "Not Found"}'), ServedModelError, "(404 Not Found). Correct the model's `served` name"),
        (Fault(400, '{"error": "prompt too long"}'), ServerRequestError, "(400 prompt too long)"),
        (Fault(403, '{"error": {"message": "Not in your country"}}'), ServerKeyError, "(403 Not in your country)"),
        (Fault(200, "<html>", content_type="text/html"), ServerResponseError, "OpenAI-compatible"),
        (Fault(200, "{"), ServerResponseError, "cannot be read"),
        (Fault(200, "{}"), ServerResponseError, "OpenAI-compatible"),
        (Fault(400, '{"error": "' + "long " * 1000 + '"}'), ServerRequestError, "long…)"),
    ],
)
def test_a_lasting_failure_is_an_error_with_the_servers_reason(
    served: Served, fault: Fault, kind: type[ServerError], reason: str
) -> None:
    served.faults.extend([fault] * 3)
    error = failure(engine_for(served, retries=2))
    assert type(error) is kind
    assert error.status == (fault.status if fault.status >= 400 else None)
    assert error.server == served.url
    assert reason in str(error)
    assert ("run the command again" in str(error)) == (kind is ServerUnavailableError or fault.body == "{")


def test_a_servers_message_holds_no_control_codes(served: Served) -> None:
    served.faults.append(Fault(400, json.dumps({"error": "\x1b]0;hi\x07 \x9b2J \x1b[2J \u202eno"})))
    error = failure(engine_for(served))
    assert str(error).isprintable()
    assert r"\x1b]0;hi\x07 \x9b2J" in str(error)


def test_permanent_failures_are_not_retried(served: Served) -> None:
    for status in (400, 401, 403, 404):
        served.faults.append(Fault(status))
        failure(engine_for(served))
    assert len(served.seen) == 4


def test_a_server_that_does_not_run_is_named_without_its_password(served: Served) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused, and nothing else takes the port
        port = free.getsockname()[1]
        engine = OpenAIEngine(OpenAI(url=f"http://me:hunter2@127.0.0.1:{port}/v1?token=t0k", retries=1), "base")
        error = failure(engine)
    assert isinstance(error, ServerUnreachableError)
    assert error.server == f"http://127.0.0.1:{port}/v1"
    assert "refused" in str(error)
    assert "hunter2" not in everything_in(error)
    assert "t0k" not in everything_in(error)


def test_a_server_that_is_too_slow_is_an_error_with_the_timeout(served: Served) -> None:
    with socket.socket() as mute:  # the system accepts connections, but nothing answers
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        engine = OpenAIEngine(OpenAI(url=f"http://127.0.0.1:{mute.getsockname()[1]}/v1", retries=1), "base")
        engine._client.timeout = 0.05
        error = failure(engine)
    assert isinstance(error, ServerUnavailableError)
    assert "longer than 3600 s" in str(error)
    assert "`sample.openai.timeout`" in str(error)


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"])
def test_a_server_that_never_stops_sending_is_too_slow(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every byte comes in time, be they of the headers or of the body, but the last one never does."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    over = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(begin or b"HTTP/1.1 200 OK\r\nX-Header: ")
            while not over.wait(0.01):
                connection.sendall(b" ")

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = threading.Thread(target=drip, args=(listener,))
        server.start()
        engine = OpenAIEngine(OpenAI(url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1", retries=0), "base")
        engine._client.timeout = 0.2
        try:
            error = failure(engine)
        finally:
            over.set()
            server.join()
    assert isinstance(error, ServerUnavailableError)
    assert "`sample.openai.timeout`" in str(error)


def test_a_reply_without_end_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leash.engines.bounded_http.MAX_RESPONSE_BYTES", 10_000)
    served.faults.extend([Fault(200, " " * 10_001), Fault(200, " " * 10_001)])
    error = failure(engine_for(served, retries=1))
    assert isinstance(error, ServerUnavailableError)
    assert "10,000 bytes" in str(error)


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://host/v1", "http://", "http://host:port/v1", "http://[::1"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ServerUrlError, match=r"`sample\.openai\.url`"):
        OpenAIEngine(OpenAI(url=url), "base")


def test_the_key_comes_from_the_environment(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")
    engine = engine_for(served, key="MY_KEY")
    monkeypatch.delenv("MY_KEY")
    list(engine.complete(requests(1, range(1)), PLAIN))
    list(engine_for(served, key="MY_KEY").complete(requests(1, range(1)), PLAIN))
    assert [headers["authorization"] for _, headers, _ in served.seen] == [f"Bearer {KEY}", "Bearer none"]


def test_a_refused_key_is_named_by_its_variable(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.faults.extend([Fault(401)] * 2)
    missing = failure(engine_for(served, key="MY_KEY"))
    monkeypatch.setenv("MY_KEY", KEY)
    wrong = failure(engine_for(served, key="MY_KEY"))
    assert isinstance(missing, ServerKeyError)
    assert isinstance(wrong, ServerKeyError)
    assert "needs a key. Set the environment variable MY_KEY" in str(missing)
    assert "does not accept the key in the environment variable MY_KEY" in str(wrong)


@pytest.mark.parametrize("key", [f"{KEY} two", f"{KEY}\x00", f"{KEY}é"])
def test_an_invalid_key_is_not_sent(served: Served, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr("os.environ", {"MY_KEY": key})  # a real environment cannot hold a null character
    with pytest.raises(InvalidKeyError) as caught:
        engine_for(served, key="MY_KEY")
    assert caught.value.variable == "MY_KEY"
    assert KEY not in everything_in(caught.value)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
@pytest.mark.parametrize(
    "body",
    [
        f'{{"error": {{"message": "Incorrect key provided: {KEY}."}}}}',
        f'{{"error": "Bearer {KEY}"}}',
        f'{{"detail": "{"x" * 180} {KEY}"}}',
        f"{KEY} is no good",
    ],
)
def test_a_key_in_a_servers_message_is_not_shown(
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    status: int,
    body: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    served.faults.extend([Fault(status, body)] * 2)
    engine = engine_for(served, retries=1)
    error = failure(engine)
    assert served.seen[-1][1]["authorization"] == f"Bearer {KEY}"
    written = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    for text in (everything_in(error), caplog.text, *capfd.readouterr(), written, repr(engine)):
        assert KEY[:12] not in text


def sample_one_problem(served: Served, folder: Path, monkeypatch: pytest.MonkeyPatch, *, k: int) -> list[str]:
    """Run the stages fetch and sample on one problem of a served model, one request after the other; return the texts
    that are on disk."""
    from leash.sample_ledger import Ledger
    from stages.fetch import stage as fetch
    from stages.sample import stage as sample

    monkeypatch.chdir(folder)
    openai = {"url": served.url, "concurrency": 1}
    raw = small(sample={"k": k, "engine": "openai", "openai": openai, "max_tokens": 12})
    raw["datasets"]["chain"] |= {"levels": [2], "per_level": 1}
    raw["models"]["base"] = {"served": "base"}
    raw["models"]["rlvr"] = {"served": "rlvr"}
    params = write_params(folder, raw)
    fetch.run(params, "chain")
    sample.run(params, "base", "chain")
    return [row["text"] for row in Ledger(Path("data/completions/base/chain")).texts()]


def edited(served: Served, **message: Any) -> Completion:
    """A chat completion whose message the server changed."""

    def edit(answer: Json) -> Json:
        answer["choices"][0]["message"] |= message
        return answer

    served.edit = edit
    return next(engine_for(served).complete(requests(1, range(1), chat=True), PLAIN))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_come_before_the_answer(served: Served, field: str) -> None:
    completion = edited(served, content="It is 7.", **{field: "3 + 4 = 7"})
    assert completion.text == "<think>\n3 + 4 = 7\n</think>\nIt is 7."


def test_thoughts_that_the_model_ended_itself_are_closed(served: Served) -> None:
    served.finish = "stop"
    assert edited(served, content=None, reasoning_content="3 + 4 =").text == "<think>\n3 + 4 =\n</think>\n"
    assert edited(served, content=None).text == ""


def test_thoughts_that_were_cut_off_hold_no_answer(served: Served) -> None:
    """Neither a box nor tags in them count, for any grader, and the verdict says that the text was cut off."""
    served.finish = "length"
    for thoughts in ("Maybe \\boxed{7}, but", "Maybe <answer>7</answer>, but"):
        completion = edited(served, content=None, reasoning_content=thoughts)
        assert completion.text == f"<think>\n{thoughts}"
        for grader in ("math", "choice", "numeric", "exact", "judge"):
            assert read_answer(completion.text, grader, completion.finish).answer is None
        assert no_answer_grade(completion.finish)["status"] == "truncated"


def test_a_reply_that_was_cut_off_after_its_thoughts_keeps_them_closed(served: Served) -> None:
    served.finish = "length"
    completion = edited(served, content="So it", reasoning_content="3 + 4 is \\boxed{7}")
    assert (completion.text, completion.finish) == ("<think>\n3 + 4 is \\boxed{7}\n</think>\nSo it", "length")
    assert read_answer(completion.text, "math", completion.finish).answer == "7"


@pytest.mark.parametrize("finish", ["content_filter", "unknown"])
def test_thoughts_whose_end_is_not_known_stay_open(served: Served, finish: str) -> None:
    served.finish = finish
    completion = edited(served, content=None, reasoning_content="Maybe \\boxed{7}")
    assert completion.finish == finish
    assert read_answer(completion.text, "math", completion.finish).answer is None


def test_a_plain_prompt_that_begins_a_thought_marks_completions_that_do_not_end_it(served: Served) -> None:
    prompt = Prompt("compute 3 + 4 :\n<think>\n")
    engine = engine_for(served)
    for text, finish, kept in [
        ("7", "length", "length_in_thought"),
        ("7 </think>", "length", "length"),
        ("7", "stop", "stop"),
    ]:
        served.answer = lambda path, body, text=text, finish=finish: {  # type: ignore[method-assign,misc]
            **GOOD,
            "choices": [{"index": 0, "finish_reason": finish, "text": text}],
        }
        (completion,) = engine.complete([Request("p", prompt, range(1), ("t",))], PLAIN)
        assert completion.finish == kept


def test_the_torch_engine_marks_chats_whose_template_begins_a_thought(torch_engine: TorchEngine) -> None:
    chat = [Request("p", Prompt("compute 3 + 4 :", chat=True), range(4), ("t",))]
    short = Decoding(1.0, 1.0, 2)
    assert {c.finish for c in torch_engine.complete(chat, short)} == {"length"}
    torch_engine.tokenizer.chat_template = TEMPLATE + "{{ '<think>\n' }}"
    try:
        assert {c.finish for c in torch_engine.complete(chat, short)} == {"length_in_thought"}
    finally:
        torch_engine.tokenizer.chat_template = TEMPLATE


def test_other_finish_reasons_are_kept(served: Served) -> None:
    for given, kept in [("content_filter", "content_filter"), (None, "unknown")]:
        served.finish = given
        (completion,) = engine_for(served).complete(requests(1, range(1)), PLAIN)
        assert completion.finish == kept


@pytest.mark.parametrize(
    "finish", ["abort", "ABORTED", "insufficient_system_resource", "timeout", "server_error", "other"]
)
def test_a_completion_that_the_server_broke_off_is_drawn_again_with_its_seed(
    served: Served, torch_engine: TorchEngine, finish: str
) -> None:
    sent = requests(1, range(3))
    served.knows(sent)
    broken = iter([finish, finish])

    def break_off(answer: Json) -> Json:
        answer["choices"][0]["finish_reason"] = next(broken, answer["choices"][0]["finish_reason"])
        return answer

    served.edit = break_off
    theirs = list(engine_for(served).complete(sent, PLAIN))
    ours = drawn_here(torch_engine, sent, PLAIN)
    assert [(c.sample, c.text, c.finish) for c in theirs] == [(c.sample, c.text, c.finish) for c in ours]
    seeds_sent = [body["seed"] for body in served.bodies]
    assert seeds_sent == [sent[0].seed(0)] * 3 + [sent[0].seed(1), sent[0].seed(2)]


def test_a_completion_that_always_breaks_off_is_kept_and_not_drawn_for_ever(served: Served) -> None:
    served.finish = "error"
    served.edit = lambda answer: answer | {"usage": None}
    (completion,) = engine_for(served, retries=2, logprobs=True).complete(requests(1, range(1)), PLAIN)
    assert (completion.finish, completion.tokens, completion.logprob) == ("error", None, None)
    assert len(served.bodies) == 3


@pytest.mark.parametrize(("finish", "refusal"), [("content_filter", None), ("stop", "I can't help with that.")])
def test_what_a_server_withholds_is_not_asked_for_again(served: Served, finish: str, refusal: str | None) -> None:
    served.finish = finish
    completion = edited(served, content=None, refusal=refusal)
    assert completion.finish == ("refusal" if refusal else "content_filter")
    assert completion.text == (refusal or "")
    assert len(served.bodies) == 1


def test_half_a_character_in_one_reply_costs_no_other_reply(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = iter(["\ud83d half", *map(str, range(59))])

    def halve(answer: Json) -> Json:
        answer["choices"][0]["text"] = next(replies)
        return answer

    served.edit = halve
    assert sample_one_problem(served, tmp_path, monkeypatch, k=60) == ["\ufffd half", *map(str, range(59))]


@pytest.mark.parametrize("text", [["parts"], {"text": "7"}, 7])
def test_a_completion_that_is_no_text_is_refused(served: Served, text: Any) -> None:
    def replace_text(answer: Json) -> Json:
        answer["choices"][0]["text"] = text
        return answer

    served.edit = replace_text
    assert isinstance(failure(engine_for(served)), ServerResponseError)


@pytest.mark.parametrize("tokens", [-1, 2**31, "12", 1.5])
def test_a_token_count_that_no_table_can_hold_is_refused(served: Served, tokens: Any) -> None:
    served.edit = lambda answer: answer | {"usage": {"completion_tokens": tokens}}
    assert isinstance(failure(engine_for(served)), ServerResponseError)


def test_completions_that_the_server_broke_off_are_not_scored_and_are_reported(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the server to the verdicts: neither right nor wrong, whatever the text says, and counted."""
    from leash import tables
    from leash.params.loading import load
    from stages.sample import stage as sample
    from stages.verify import stage as verify

    finishes = iter(["content_filter", "stop", "content_filter", "stop"])

    def finish_otherwise(answer: Json) -> Json:
        answer["choices"][0] |= {"finish_reason": next(finishes), "text": "It is \\boxed{1}"}
        return answer

    served.edit = finish_otherwise
    sample_one_problem(served, tmp_path, monkeypatch, k=4)
    params = load(tmp_path / "params.yaml")
    verify.run(params, "base", "chain")
    (shard,) = tables.shards(tables.verdicts_folder("base", "chain"))
    rows = tables.read(shard, tables.VERDICTS_SCHEMA, "").to_pylist()
    assert [row["status"] for row in rows] == ["error", "ok", "error", "ok"]
    assert [row["correct"] is None for row in rows] == [True, False, True, False]
    assert [row["answer"] for row in rows] == [None, "1", None, "1"]
    finishes = iter(["content_filter"])
    served.edit = finish_otherwise
    stats = sample.run(params.model_copy(update={"sample": params.sample.model_copy(update={"k": 5})}), "base", "chain")
    warning = sampler.describe_failures("base", "chain", stats.failed) or ""
    assert "1 completion (content_filter 1)" in warning
    assert sampler.describe_failures("base", "chain", Counter()) is None


def test_a_response_without_a_token_count_is_refused(served: Served) -> None:
    served.edit = lambda answer: answer | {"usage": None}
    error = failure(engine_for(served))
    assert isinstance(error, ServerResponseError)
    assert "`usage`" in str(error)


@pytest.mark.parametrize("chat", [False, True])
def test_logprobs_are_absent_by_default(served: Served, chat: bool) -> None:
    (completion,) = engine_for(served).complete(requests(1, range(1), chat=chat), PLAIN)
    assert completion.logprob is None
    assert "logprobs" not in served.bodies[0]


@pytest.mark.parametrize("chat", [False, True])
def test_a_logprob_that_misses_tokens_is_dropped(served: Served, chat: bool) -> None:
    """A sum without the end of text would look like that of a likelier completion."""

    def shorten(answer: Json) -> Json:
        (answer["choices"][0]["logprobs"]["content" if chat else "token_logprobs"]).pop()
        return answer

    served.edit = shorten
    (completion,) = engine_for(served, logprobs=True).complete(requests(1, range(1), chat=chat), PLAIN)
    assert completion.logprob is None


def test_a_server_without_logprobs_is_an_error_with_the_setting_to_change(served: Served) -> None:
    def drop(answer: Json) -> Json:
        answer["choices"][0]["logprobs"] = None
        return answer

    served.edit = drop
    assert "Set `sample.openai.logprobs: false`" in str(failure(engine_for(served, logprobs=True)))


def test_the_stage_samples_a_served_model_and_writes_no_key(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With faults on the way: the samples are those of the torch engine, and no file contains the key."""
    from leash import tables
    from leash.sample_ledger import Ledger
    from stages.fetch import stage
    from stages.sample import stage as sample

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A_API_KEY", KEY)
    openai = {"url": served.url, "key": "A_API_KEY", "concurrency": 8}
    raw = small(sample={"k": 6, "engine": "openai", "openai": openai, "max_tokens": 12})
    raw["models"]["base"] = {"served": "base", "dtype": "float64"}
    raw["models"]["rlvr"] = {"served": "rlvr", "dtype": "float64"}
    params = write_params(tmp_path, raw)
    stage.run(params, "chain")
    problems = tables.read(tables.problems_path("chain"), tables.PROBLEMS_SCHEMA, "").to_pylist()
    sent = [
        Request(p["problem_id"], Prompt(p["question"]), range(6), (params.sample.seed, "base", "chain"))
        for p in problems
    ]
    served.knows(sent)
    served.faults.extend([Fault(500), Fault(429)])
    assert sample.run(params, "base", "chain").samples == 4 * 6
    ours = {(c.problem_id, c.sample): c.text for c in drawn_here(served.engine, sent, PLAIN)}
    theirs = {(r["problem_id"], r["sample"]): r["text"] for r in Ledger(Path("data/completions/base/chain")).texts()}
    assert theirs == ours
    assert all(KEY.encode() not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
