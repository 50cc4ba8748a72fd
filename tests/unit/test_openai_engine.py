"""The openai engine against a real HTTP server with the embedded base model behind it: each sample is asked for once
and comes back whole; what goes wrong is repeated or becomes a sentence; the key stays where it was."""

from __future__ import annotations

import logging
import socket
import traceback
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from stages import models, seeds
from stages.errors import LeashError
from stages.params import OpenAI
from stages.prompts import Prompt
from stages.sample.engine import Completion, Decoding, Request
from stages.sample.openai_engine import OpenAIEngine
from stages.sample.torch_engine import TorchEngine
from stages.train import tasks
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
        *models.load(models.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float64"))
    )
    engine.tokenizer.chat_template = TEMPLATE
    return engine


@pytest.fixture
def served(torch_engine: TorchEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with Served(torch_engine) as server:
        yield server


def engine_for(served: Served, **settings: Any) -> OpenAIEngine:
    return OpenAIEngine(OpenAI(url=served.url, **settings), "base")


def requests(count: int, samples: range, *, chat: bool = False) -> list[Request]:
    rng = seeds.stream("test", "openai")
    problems = [tasks.draw(rng, ("chain", "make")[i % 2], 3, held_out=True) for i in range(count)]
    return [Request(f"p{i}", Prompt(p.prompt, chat=chat), samples, ("test",)) for i, p in enumerate(problems)]


def said(error: BaseException) -> str:
    """All that a log, a terminal or another process could learn from an exception."""
    texts = ["".join(traceback.format_exception(error)), repr(error), str(vars(error))]
    while (context := error.__cause__ or error.__context__) is not None:
        texts += [repr(context), str(vars(context))]
        error = context
    return "\n".join(texts)


def failure(engine: OpenAIEngine) -> LeashError:
    with pytest.raises(LeashError) as caught:
        list(engine.complete(requests(1, range(1)), PLAIN))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    return caught.value


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("decoding", [PLAIN, Decoding(0.7, 0.9, 40)])
def test_samples_are_the_torch_engines_when_the_server_draws_by_seed(
    served: Served, torch_engine: TorchEngine, chat: bool, decoding: Decoding
) -> None:
    asked = requests(4, range(3, 9), chat=chat)
    served.knows(asked)
    theirs = list(engine_for(served, logprobs=True).complete(asked, decoding))
    ours = drawn_here(torch_engine, asked, decoding)
    for completion, same in zip(theirs, ours, strict=True):
        assert (completion.problem_id, completion.sample) == (same.problem_id, same.sample)
        assert (completion.text, completion.tokens, completion.finish) == (same.text, same.tokens, same.finish)
        assert completion.logprob == pytest.approx(same.logprob, abs=1e-9)
    assert "stop" in {c.finish for c in theirs}
    assert {path for path, _, _ in served.seen} == {"/v1/chat/completions" if chat else "/v1/completions"}


def test_a_completion_that_is_cut_off_says_so(served: Served) -> None:
    (completion,) = engine_for(served).complete(requests(1, range(1)), Decoding(1.0, 1.0, 2))
    assert (completion.finish, completion.tokens) == ("length", 2)


def test_each_sample_is_one_request_with_a_seed_of_its_own(served: Served) -> None:
    asked = requests(2, range(10))
    list(engine_for(served).complete(asked, PLAIN))
    assert [body["seed"] for body in served.bodies] == [r.seed(sample) for r in asked for sample in r.samples]
    assert len({body["seed"] for body in served.bodies}) == 20
    assert all(0 <= body["seed"] < 2**63 and body["n"] == 1 for body in served.bodies)


def test_nothing_is_asked_that_could_cut_an_answer_short(served: Served) -> None:
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
def test_images_are_sent_as_data_where_they_belong(served: Served, begin: bytes, kind: str) -> None:
    served.answer = lambda path, body: GOOD  # type: ignore[method-assign]  # the embedded models have no eyes
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


def test_a_file_that_is_no_image_gets_a_sentence(served: Served) -> None:
    prompt = Prompt("Which?", chat=True, images=(b"BM of sorts",))
    with pytest.raises(LeashError, match=r"^An image in the problems table is no PNG, JPEG, GIF or WebP file"):
        list(engine_for(served).complete([Request("p", prompt, range(1), ("t",))], PLAIN))
    assert served.bodies == []


def test_many_threads_get_what_one_gets(served: Served) -> None:
    engine = engine_for(served)
    asked = [
        Request(r.problem_id, r.prompt, range(sample, sample + 1), r.name)
        for r in requests(2, range(12))
        for sample in r.samples
    ]
    alone = [next(engine.complete([request], PLAIN)) for request in asked]
    with ThreadPoolExecutor(24) as pool:
        together = list(pool.map(lambda request: next(engine.complete([request], PLAIN)), asked))
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
def test_what_fails_for_a_while_is_asked_again_and_comes_once(
    served: Served, torch_engine: TorchEngine, chat: bool
) -> None:
    asked = requests(1, range(4), chat=chat)
    served.knows(asked)
    served.faults.extend(FAULTS)
    theirs = list(engine_for(served, logprobs=True).complete(asked, PLAIN))
    assert [c.sample for c in theirs] == [0, 1, 2, 3]
    assert [c.text for c in theirs] == [c.text for c in drawn_here(torch_engine, asked, PLAIN)]
    # The first sample was asked for six times, always with its own seed.
    assert len(served.seen) == len(FAULTS) + 4
    assert len({body["seed"] for body in served.bodies}) == 4


def test_what_fails_in_many_threads_at_once_comes_once(served: Served) -> None:
    engine = engine_for(served, retries=20)
    served.faults.extend(FAULTS * 6)
    (problem,) = requests(1, range(32))
    each = [Request("p", problem.prompt, range(sample, sample + 1), ("test",)) for sample in problem.samples]
    with ThreadPoolExecutor(16) as pool:
        drawn = [c for part in pool.map(lambda request: list(engine.complete([request], PLAIN)), each) for c in part]
    assert [c.sample for c in drawn] == list(range(32))
    assert len(served.seen) == 32 + len(FAULTS) * 6


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (Fault(429, '{"error": {"message": "Slow down."}}'), "overloaded or broken (429 Slow down); what was finished"),
        (Fault(500, "<html>"), "overloaded or broken (500); what was finished is kept; run again"),
        (Fault(0), "broke (Server disconnected without sending a response); what was finished is kept; run again"),
        (Fault(404, '{"error": {"message": "The model `base` does not exist."}}'), "(404 The model `base` does not"),
        (Fault(404, '{"detail": "Not Found"}'), "(404 Not Found); correct the model's `served` name, or the path in"),
        (Fault(400, '{"error": "prompt too long"}'), "refuses the request (400 prompt too long)"),
        (Fault(403, '{"error": {"message": "Not in your country"}}'), "denies base to the key in the environment"),
        (Fault(200, "<html>", content_type="text/html"), "is not an OpenAI-compatible server"),
        (Fault(200, "{"), "gave an answer that can't be read"),
        (Fault(200, "{}"), "is not an OpenAI-compatible server"),
        (Fault(400, '{"error": "' + "long " * 1000 + '"}'), "long l…)"),
    ],
)
def test_what_does_not_pass_becomes_a_sentence(served: Served, fault: Fault, sentence: str) -> None:
    served.faults.extend([fault] * 3)
    error = failure(engine_for(served, retries=2))
    assert sentence in str(error)
    assert served.url in str(error)


def test_what_retrying_cannot_mend_is_not_retried(served: Served) -> None:
    for status in (400, 401, 403, 404):
        served.faults.append(Fault(status))
        failure(engine_for(served))
    assert len(served.seen) == 4


def test_a_server_that_is_not_there(served: Served) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused, and nobody takes the port
        port = free.getsockname()[1]
        engine = OpenAIEngine(OpenAI(url=f"http://me:hunter2@127.0.0.1:{port}/v1?token=t0k", retries=1), "base")
        error = failure(engine)
    assert f"No server answers at http://127.0.0.1:{port}/v1 (" in str(error)
    assert "refused" in str(error)
    assert "hunter2" not in said(error)
    assert "t0k" not in said(error)


def test_a_server_that_is_too_slow(served: Served) -> None:
    with socket.socket() as mute:  # the system accepts connections, and no one answers
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        engine = OpenAIEngine(OpenAI(url=f"http://127.0.0.1:{mute.getsockname()[1]}/v1", retries=1), "base")
        engine._client.timeout = 0.05
        assert "took longer than 3600 s for a completion; what was finished is kept; run again" in str(failure(engine))


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://host/v1", "http://", "http://host:port/v1", "http://[::1"])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(LeashError, match=r"`sample\.openai\.url` is not an address"):
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
    assert "asks for a key; set the environment variable MY_KEY" in str(failure(engine_for(served, key="MY_KEY")))
    monkeypatch.setenv("MY_KEY", KEY)
    error = failure(engine_for(served, key="MY_KEY"))
    assert "does not accept the key in the environment variable MY_KEY" in str(error)


@pytest.mark.parametrize("key", [f"{KEY} two", f"{KEY}\x00", f"{KEY}é"])
def test_what_is_no_key_is_not_sent(served: Served, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr("os.environ", {"MY_KEY": key})  # a real one takes no null
    with pytest.raises(LeashError, match="MY_KEY holds is no key") as caught:
        engine_for(served, key="MY_KEY")
    assert KEY not in said(caught.value)


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
def test_an_echoed_key_goes_no_further(
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
    for text in (said(error), caplog.text, *capfd.readouterr(), written, repr(engine)):
        assert KEY[:12] not in text


def edited(served: Served, **message: Any) -> Completion:
    """A chat completion whose message the server changed."""

    def edit(answer: Json) -> Json:
        answer["choices"][0]["message"] |= message
        return answer

    served.edit = edit
    return next(engine_for(served).complete(requests(1, range(1), chat=True), PLAIN))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_stand_before_the_answer(served: Served, field: str) -> None:
    completion = edited(served, content="It is 7.", **{field: "3 + 4 = 7"})
    assert completion.text == "<think>\n3 + 4 = 7\n</think>\nIt is 7."


def test_thoughts_without_an_answer_are_kept(served: Served) -> None:
    assert edited(served, content=None, reasoning_content="3 + 4 =").text == "<think>\n3 + 4 =\n</think>\n"
    assert edited(served, content=None).text == ""


def test_other_ways_to_finish_are_kept(served: Served) -> None:
    for given, kept in [("content_filter", "content_filter"), (None, "unknown")]:
        served.edit = lambda answer, given=given: {  # type: ignore[misc]
            **answer,
            "choices": [{**answer["choices"][0], "finish_reason": given}],
        }
        (completion,) = engine_for(served).complete(requests(1, range(1)), PLAIN)
        assert completion.finish == kept


def test_without_a_count_of_tokens_there_is_a_sentence(served: Served) -> None:
    served.edit = lambda answer: answer | {"usage": None}
    assert "does not tell how many tokens" in str(failure(engine_for(served)))


@pytest.mark.parametrize("chat", [False, True])
def test_logprobs_are_asked_for_or_absent(served: Served, chat: bool) -> None:
    (completion,) = engine_for(served).complete(requests(1, range(1), chat=chat), PLAIN)
    assert completion.logprob is None
    assert "logprobs" not in served.bodies[0]


@pytest.mark.parametrize("chat", [False, True])
def test_a_logprob_that_misses_tokens_is_no_logprob(served: Served, chat: bool) -> None:
    """A sum without the end of text would pass for that of a likelier completion."""

    def shorten(answer: Json) -> Json:
        (answer["choices"][0]["logprobs"]["content" if chat else "token_logprobs"]).pop()
        return answer

    served.edit = shorten
    (completion,) = engine_for(served, logprobs=True).complete(requests(1, range(1), chat=chat), PLAIN)
    assert completion.logprob is None


def test_logprobs_that_a_server_does_not_give_are_a_sentence(served: Served) -> None:
    def drop(answer: Json) -> Json:
        answer["choices"][0]["logprobs"] = None
        return answer

    served.edit = drop
    assert "set `sample.openai.logprobs: false`" in str(failure(engine_for(served, logprobs=True)))


def test_the_stage_samples_a_served_model_and_its_key_is_nowhere(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the stage, with faults on the way: the torch engine's own samples, and no file that knows the key."""
    from stages import fetch, sample, tables
    from stages.sample.ledger import Ledger

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A_KEY", KEY)
    openai = {"url": served.url, "key": "A_KEY", "concurrency": 8}
    raw = small(sample={"k": 6, "engine": "openai", "openai": openai, "max_tokens": 12})
    raw["models"]["base"] = {"served": "base", "dtype": "float64"}
    raw["models"]["rlvr"] = {"served": "rlvr", "dtype": "float64"}
    params = write_params(tmp_path, raw)
    fetch.run(params, "chain")
    problems = tables.read(tables.problems_path("chain"), tables.PROBLEMS, "").to_pylist()
    asked = [
        Request(p["problem_id"], Prompt(p["question"]), range(6), (params.sample.seed, "base", "chain"))
        for p in problems
    ]
    served.knows(asked)
    served.faults.extend([Fault(500), Fault(429)])
    assert sample.run(params, "base", "chain").samples == 4 * 6
    ours = {(c.problem_id, c.sample): c.text for c in drawn_here(served.engine, asked, PLAIN)}
    theirs = {(r["problem_id"], r["sample"]): r["text"] for r in Ledger(Path("data/completions/base/chain")).texts()}
    assert theirs == ours
    assert all(KEY.encode() not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
