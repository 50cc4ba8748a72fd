"""Sampling with stop strings: the same streams, exact numbers, and nothing changes for runs without them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from leash import database, tables, weights
from leash.engines.openai_engine import OpenAIEngine
from leash.engines.protocol import Completion, Decoding, Request
from leash.engines.stop_strings import STOP_STRING, find_stop
from leash.engines.torch_engine import TorchEngine
from leash.params.groups import OpenAI, Params
from leash.sample_ledger import Ledger
from leash.sampling import sampler
from leash.scoring.torch_scorer import Scorer
from leash.scoring.traces import Trace
from stages.entropy import stage as entropy
from stages.fetch import stage as fetch
from stages.mass import stage as mass
from stages.sample import stage as sample
from stages.verify import stage as verify
from tests.conftest import ROOT, small, write_params
from tests.served import Served
from tests.unit.test_sample import COMPLETIONS, files, rows, write_small_params
from tests.unit.test_token_ids import PROMPT, ids_of, masses, parameters, write_run
from tests.unit.test_torch_engine import requests

OWN_SQL = ROOT / "leash" / "scoring" / "own.sql"
WEIGHTS = weights.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float64")
PLAIN = Decoding(temperature=1.0, top_p=1.0, max_tokens=40)
# The embedded models write "2 + 3 = 5 , 5 * 4 = 20 , \boxed{ 20 }", and formulas with " + " in the box of `make`.
STOPS = ("+ 4", ", 3", " * ")
STOPPED = Decoding(temperature=1.0, top_p=1.0, max_tokens=40, stop=STOPS)


@pytest.fixture(scope="module")
def engine() -> TorchEngine:
    return TorchEngine(*weights.load_model(WEIGHTS))


def by_key(completions: Iterator[Completion]) -> dict[tuple[str, int], Completion]:
    return {(c.problem_id, c.sample): c for c in completions}


def test_a_stopped_completion_is_the_beginning_of_the_one_without_stop_strings(engine: TorchEngine) -> None:
    batch = requests(6, range(64))
    whole, stopped = by_key(engine.complete(batch, PLAIN)), by_key(engine.complete(batch, STOPPED))
    kinds = {"stopped": 0, "in a box": 0, "shorter": 0}
    for key, completion in stopped.items():
        full = whole[key]
        cut = find_stop(full.text, STOPS)
        assert completion.text == full.text[:cut]
        assert full.text.startswith(completion.drawn_text)
        assert (completion.tail is None) == (cut is None)
        if cut is None:
            assert completion == full
            kinds["in a box"] += any(stop in full.text for stop in STOPS)
        elif completion.finish == STOP_STRING:
            # It stopped as soon as it could: without its last token (a word here), it has no stop string.
            assert find_stop(completion.drawn_text.rpartition(" ")[0], STOPS, final=False) is None
            kinds["stopped"] += 1
            kinds["shorter"] += (completion.tokens or 0) < (full.tokens or 0)
    assert kinds["stopped"] >= kinds["shorter"] > 50
    assert kinds["in a box"] > 50


def test_samples_with_stop_strings_do_not_depend_on_the_batch(engine: TorchEngine) -> None:
    batch = requests(6, range(40))
    whole = by_key(engine.complete(batch, STOPPED))
    parts = [Request(r.problem_id, r.prompt, range(13, 31), r.name) for r in reversed(batch)]
    for key, part in by_key(TorchEngine(engine.model, engine.tokenizer, rows=7).complete(parts, STOPPED)).items():
        same = whole[key]
        assert (part.text, part.tail, part.tokens, part.finish) == (same.text, same.tail, same.tokens, same.finish)
        assert part.logprob == pytest.approx(same.logprob, abs=2e-6)


def test_tokens_and_logprob_are_those_of_text_and_tail(engine: TorchEngine) -> None:
    batch = requests(4, range(32))
    prompts = {r.problem_id: r.prompt for r in batch}
    drawn = list(engine.complete(batch, STOPPED))
    assert {c.finish for c in drawn} >= {"stop", STOP_STRING}
    traces = [Trace(prompts[c.problem_id], c.drawn_text, ended=c.finish == "stop") for c in drawn]
    for completion, score in zip(drawn, Scorer(*weights.load_model(WEIGHTS)).score(traces), strict=True):
        assert completion.tokens == score.tokens
        assert score.nll is not None
        assert completion.logprob == pytest.approx(-score.nll, abs=1e-6)


def test_a_servers_completion_is_cut_afterwards(engine: TorchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server would cut formulas as well, so it is not told. All numbers are those of what it drew."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    batch = requests(4, range(6))
    with Served(engine) as served:
        served.knows(batch)
        client = OpenAIEngine(OpenAI(url=served.url, logprobs=True), "base")
        whole, cut = by_key(client.complete(batch, PLAIN)), by_key(client.complete(batch, STOPPED))
        assert not any("stop" in body for body in served.bodies)
    assert sum(c.tail is not None for c in cut.values()) > 3
    for key, completion in cut.items():
        full = whole[key]
        assert completion.text == full.text[: find_stop(full.text, STOPS)]
        assert (completion.drawn_text, completion.tokens, completion.logprob) == (full.text, full.tokens, full.logprob)
        assert completion.finish == (STOP_STRING if completion.tail and full.finish == "length" else full.finish)


def test_a_run_without_stop_strings_keeps_its_fingerprint_and_its_files(project: Params) -> None:
    """The fingerprint and the columns of the version before there were stop strings: no sample on disk is lost."""
    fetch.run(project, "chain")
    sample.run(project, "base", "chain")
    manifest = Ledger(COMPLETIONS).manifest()
    assert manifest["fingerprint"].keys() == {"model", "dtype", "temperature", "top_p", "max_tokens", "seed"}
    columns = ["problem_id", "sample", "text", "tokens", "finish", "logprob", "token_ids"]
    assert {tuple(pq.read_schema(shard).names) for shard in tables.shards(COMPLETIONS)} == {tuple(columns)}
    before = files(COMPLETIONS)
    # The model's empty list has priority.
    for model, run in ((None, list[str]()), ([], []), ([], ["+ 4"])):
        sample.run(write_small_params({"stop": model}, sample={"stop": run}), "base", "chain")
        assert files(COMPLETIONS) == before


def test_the_order_of_stop_strings_does_not_matter(project: Params) -> None:
    one, other = (
        sampler.fingerprint(write_small_params(sample={"stop": stops}), "base", "chain")
        for stops in (["b", "a", "a"], ["a", "b"])
    )
    assert one == other
    assert json.loads(one["stop"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("model", "dataset", "run", "used"),
    [
        (None, None, [], ()),
        (None, None, ["r"], ("r",)),
        (None, ["d"], ["r"], ("d",)),
        (["m"], ["d"], ["r"], ("m",)),
        (["m"], None, [], ("m",)),
        ([], ["d"], ["r"], ()),
        (None, [], ["r"], ()),
    ],
)
def test_a_models_stop_strings_come_before_the_data_sets_and_the_runs(
    project: Params, model: Any, dataset: Any, run: Any, used: tuple[str, ...]
) -> None:
    params = write_small_params({"stop": model}, {"stop": dataset}, sample={"stop": run})
    assert params.stop_strings("base", "chain") == used
    assert sampler.decoding_from_params(params, "base", "chain").stop == used


def test_imported_completions_know_no_stop_strings(project: Params) -> None:
    params = write_small_params({"engine": "import", "stop": ["m"]})
    assert params.stop_strings("base", "chain") == ()


def test_a_longer_run_continues_a_shorter_one(project: Params) -> None:
    stops = {"stop": ["+ 4", " * "]}
    fetch.run(project, "chain")
    sample.run(write_small_params(sample={"k": 5, **stops}), "base", "chain")
    sample.run(write_small_params(sample={"k": 16, **stops}), "base", "chain")
    twice = rows()
    once = write_small_params(sample={"k": 16, **stops})
    sample.run(once, "base", "chain", resample=True)
    assert rows() == twice
    assert {row["finish"] for row in twice} >= {STOP_STRING}
    assert all((row["tail"] is None) == (row["finish"] != STOP_STRING) for row in twice)

    verify.run(once, "base", "chain")
    with database.open_database(once, only=["completions", "verdicts"]) as connection:
        found = connection.sql(
            "select distinct status from verdicts join completions using (model, dataset, problem_id, sample) "
            f"where finish = '{STOP_STRING}'"
        ).fetchall()
    assert found == [("no_answer",)]  # not `truncated`


def cut_completion(number: int, tail: str | None, finish: str = STOP_STRING) -> dict[str, Any]:
    text = r"\boxed{ 7 }"
    tokens = len(ids_of(text + (tail or ""))) + (finish == "stop")
    row = {"problem_id": "p", "sample": number, "text": text, "tokens": tokens, "finish": finish, "logprob": None}
    return {**row, "token_ids": None, "tail": tail}


def test_masses_and_entropies_are_of_text_and_tail_perplexities_of_the_text(project: Params) -> None:
    drawn = [cut_completion(i, tail) for i, tail in enumerate((" , 3", " , 3", " , 4"))]
    drawn.append(cut_completion(3, None, "stop"))
    write_run({"base": drawn, "rlvr": drawn})
    params = parameters()
    scored, sentences = mass.run(params)
    assert (scored, sentences) == (6, [])
    scorer = Scorer(*weights.load_model(weights.with_scoring_dtype(WEIGHTS)))
    texts = [(" , 3", False), (" , 4", False), ("", True)]
    expected = scorer.score([Trace(PROMPT, rf"\boxed{{ 7 }}{tail}", ended) for tail, ended in texts])
    found = {row["first"]: row for row in masses("base")}
    assert [(found[first]["hits"], found[first]["tokens"]) for first in (0, 2, 3)] == [(2, 5), (1, 5), (1, 4)]
    for first, score in zip((0, 2, 3), expected, strict=True):
        assert found[first]["nll"] == pytest.approx(score.nll, abs=2e-6)

    assert entropy.run(params)[1] == []
    entropies = tables.read(tables.entropy_path("base", "chain"), tables.ENTROPY_SCHEMA, "")
    assert entropies["tokens"].to_pylist() == [5, 5]
    with database.open_database(params, only=["completions", "verdicts"]) as connection:
        bound = {"dataset": "chain", "models": ["base"], "own": 4}
        own = database.query(connection, OWN_SQL, bound).select(["text", "ended"]).to_pylist()
    # Before a stop string the text has not ended: no end-of-text token is scored.
    assert own == [{"text": r"\boxed{ 7 }", "ended": False}, {"text": r"\boxed{ 7 }", "ended": True}]


def test_completions_that_end_by_other_rules_are_not_compared(project: Params) -> None:
    drawn = [cut_completion(i, None, "stop") for i in range(4)]
    write_run({"base": drawn, "rlvr": drawn})
    assert mass.run(parameters()) == (2, [])
    _, sentences = mass.run(parameters(base={"stop": ["Q:"]}))
    assert [sentence for sentence in sentences if "different stop strings" in sentence]
    assert masses("base") == masses("rlvr") == []


def test_tails_are_read_beside_tables_without_them(project: Params, tmp_path: Path) -> None:
    ledger = Ledger(COMPLETIONS)
    ledger.open({"model": "m"}, {"p": "x"}, again="leash sample")
    ledger.add([Completion("p", 0, "7", 2, "stop", -1.0)])
    ledger.settle()
    ledger.add([Completion("p", 1, "7", 3, STOP_STRING, -1.0, tail=" Q:")])
    ledger.settle()
    ledger.close()
    raw = small(sample={"k": 2})
    raw["run"]["datasets"] = ["chain"]
    with database.open_database(write_params(Path(), raw), only=["completions"]) as connection:
        assert connection.sql("select tail from completions order by sample").fetchall() == [(None,), (" Q:",)]
