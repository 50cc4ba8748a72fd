"""An audit of scores: each is computed a second time, in numpy from the model's own logits or by enumeration.

Covered here: temperature and top_p, sampled frequencies, chat prompts, traces of files, and the perplexity table with
its intervals. tests/vllm/test_score_audit.py covers vLLM, tests/unit/test_token_ids.py the tokens that are scored.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from leash import tables, weights
from leash.engines.protocol import Decoding, Request
from leash.engines.torch_engine import SampleRow, TorchEngine
from leash.params.groups import Params
from leash.prompts import Prompt
from leash.report import perplexity_tables
from leash.scoring import logit_stats, references, score_tables
from leash.scoring.torch_scorer import Scorer, tokenize_traces
from leash.scoring.traces import ScoringSpec, Trace
from leash.statistics import perplexity, seeds
from leash.statistics.perplexity import TraceScores
from stages.fetch import stage as fetch
from stages.perplexity import stage as perplexity_stage
from tests.conftest import small, write_params

Floats = NDArray[np.float64]
WORDS = ["<s>", "</s>", "<|user|>", "<|end|>", "<|assistant|>", "a", "b", "c", "d"]
START, END = 0, 1
# A template that writes the start of text itself, as most do.
TEMPLATE = (
    "{{ '<s>' }}{% for message in messages %}{{ '<|user|> ' + message['content'] + ' <|end|> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
# Level of the tests against sampled frequencies. Seeds are fixed, so a pass is stable.
LEVEL = 0.001


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Nine words. It adds the start of text to plain text."""
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="d"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens([AddedToken(word, special=True) for word in WORDS[:5]])
    backend.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", START)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def tiny_model(vocabulary: int = len(WORDS), scale: float = 12.0) -> LlamaForCausalLM:
    """Random weights in float64, with logits that differ by a few nats."""
    torch.manual_seed(seeds.seed("test", "score audit"))
    shape: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    config = LlamaConfig(vocab_size=vocabulary, eos_token_id=END, bos_token_id=START, **shape)
    network = LlamaForCausalLM(config)
    torch.nn.Module.to(network, torch.float64).eval()
    network.lm_head.weight.data *= scale
    return network


def step_distributions(network: PreTrainedModel, prompt: list[int], text: list[int]) -> Floats:
    """The model's own distribution at each step of a text, from its own logits."""
    with torch.inference_mode():
        logits = network(input_ids=torch.tensor([prompt + text])).logits[0].numpy()
    logits = logits[len(prompt) - 1 : len(prompt) - 1 + len(text)]
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def decoding_distribution(step: Floats, temperature: float, top_p: float) -> Floats:
    """Temperature, then the nucleus. Tokens that tie at its border share the mass of those that fit."""
    tempered = step ** (1 / temperature)
    tempered = tempered / tempered.sum()
    kept, mass = np.zeros_like(tempered), 0.0
    for value in sorted(set(tempered.tolist()), reverse=True):
        tied = np.flatnonzero(tempered == value)
        fitting = 0
        while fitting < len(tied) and mass < top_p:
            mass += value
            fitting += 1
        kept[tied] = value * fitting / len(tied)
        if mass >= top_p:
            break
    return np.asarray(kept / kept.sum())


def entropy(distribution: Floats) -> float:
    return float(-sum(p * math.log(p) for p in distribution if p))


DECODINGS = [(0.7, 0.9), (0.7, 1.0), (1.0, 0.5), (1.6, 0.8), (0.3, 0.99)]


@pytest.mark.parametrize(("temperature", "top_p"), DECODINGS)
def test_likelihood_and_entropy_under_temperature_and_top_p(temperature: float, top_p: float) -> None:
    """Of sequences that were drawn so, which are inside the nucleus, and of random ones, most of which are not."""
    network, tokenizer = tiny_model(), tiny_tokenizer()
    rows = [SampleRow(0, ("audit", i)) for i in range(20)]
    drawn_so = TorchEngine(network, tokenizer).draw([[START, 5, 6]], rows, Decoding(temperature, top_p, 6))
    rng = seeds.stream("test", "score audit", "texts")
    sequences = [each.ids for each in drawn_so] + rng.integers(0, len(WORDS), (20, 4)).tolist()
    spec = ScoringSpec(entropies=True, temperature=temperature, top_p=top_p)
    traces = [Trace(Prompt("a b"), "", False, tuple(ids)) for ids in sequences]
    inside = 0
    for ids, score in zip(sequences, Scorer(network, tokenizer).score(traces, spec), strict=True):
        steps = step_distributions(network, [START, 5, 6], ids)
        decoded = [decoding_distribution(step, temperature, top_p) for step in steps]
        drawn = [step[token] for step, token in zip(decoded, ids, strict=True)]
        assert score.tokens == len(ids)
        assert score.nll == pytest.approx(-np.log(steps[np.arange(len(ids)), ids]).sum(), abs=1e-9)
        assert score.token_entropy == pytest.approx(np.mean([entropy(step) for step in steps]), abs=1e-9)
        assert score.decoding_entropy == pytest.approx(np.mean([entropy(step) for step in decoded]), abs=1e-9)
        expected = math.inf if 0 in drawn else -sum(map(math.log, drawn))
        assert score.decoding_nll == pytest.approx(expected, abs=1e-9)
        inside += math.isfinite(expected)
    assert inside == 40 if top_p == 1 else 20 <= inside < 40


@pytest.mark.parametrize("presorted", [1, 2, 512])
@pytest.mark.parametrize("top_p", [0.2, 0.3, 0.5, 0.6, 0.75, 0.9, 0.97])
def test_tokens_that_tie_at_the_border_make_no_mass(
    monkeypatch: pytest.MonkeyPatch, presorted: int, top_p: float
) -> None:
    """Whatever ties, the probabilities of all tokens sum to one: else the sum of masses would be no lower bound."""
    monkeypatch.setattr(logit_stats, "TOP_P_PRESORT_TOKENS", presorted)
    patterns = [[2.0, 2, 2, 2, 2], [3, 2, 2, 2, 1], [3, 3, 1, 1, 1], [2, 2, 1, 1, 0], [4, 3, 2, 1, 0]]
    for pattern in patterns:
        logits = torch.tensor([pattern] * 5, dtype=torch.float64)
        spec = ScoringSpec(entropies=True, temperature=0.8, top_p=top_p)
        found = logit_stats.compute_steps(logits, torch.arange(5), spec)
        step = np.exp(np.array(pattern))
        step /= step.sum()
        expected = decoding_distribution(step, 0.8, top_p)
        assert np.exp(found.decoding_logprob) == pytest.approx(expected, abs=1e-12)
        assert np.exp(found.decoding_logprob).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize(("temperature", "top_p"), [(0.7, 0.9), (1.0, 1.0), (1.3, 0.8)])
def test_sequences_are_drawn_as_often_as_scored(temperature: float, top_p: float, chat: bool) -> None:
    """All sequences of at most three tokens are scored; their probabilities sum to one and agree with 3,000 samples."""
    network, tokenizer, longest, samples = tiny_model(), tiny_tokenizer(), 3, 3000
    prompt, spec = Prompt("a b c", chat=chat), ScoringSpec(temperature=temperature, top_p=top_p)
    others = [token for token in range(len(WORDS)) if token != END]
    sequences = [(*some, END) for n in range(longest) for some in itertools.product(others, repeat=n)]
    sequences += list(itertools.product(others, repeat=longest))
    traces = [Trace(prompt, "", ids[-1] == END, ids) for ids in sequences]
    scores = Scorer(network, tokenizer).score(traces, spec)
    masses = dict(zip(sequences, (math.exp(-(score.decoding_nll or 0)) for score in scores), strict=True))
    assert sum(masses.values()) == pytest.approx(1, abs=1e-9)
    engine = TorchEngine(network, tokenizer)
    drawn: Counter[tuple[int, ...]] = Counter()
    own = {ids: score.nll for ids, score in zip(sequences, scores, strict=True)}
    requests = [Request("p", prompt, range(samples), ("audit",))]
    completions = list(engine.complete(requests, Decoding(temperature, top_p, longest)))
    split = tokenize_traces([Trace(prompt, c.text, c.finish == "stop") for c in completions], tokenizer)
    for c, (_, text) in zip(completions, split, strict=True):
        ids = tuple(c.token_ids or text)
        drawn[ids] += 1
        assert c.logprob == pytest.approx(-(own[ids] or 0), abs=2e-6)  # untempered, whatever the decoding
    assert all(masses[ids] > 0 for ids in drawn)
    frequent = [ids for ids, mass in masses.items() if mass * samples >= 10]
    observed, expected = [drawn[ids] for ids in frequent], [samples * masses[ids] for ids in frequent]
    if (rest := samples - sum(expected)) > 1e-6:
        observed, expected = [*observed, samples - sum(observed)], [*expected, rest]
    assert len(frequent) > 5
    assert stats.chisquare(observed, expected).pvalue > LEVEL


def test_a_chat_prompt_is_the_templates_and_only_what_follows_is_scored() -> None:
    network, tokenizer = tiny_model(), tiny_tokenizer()
    prompt, text = Prompt("a b", chat=True), "c d c"
    written = [START, 2, 5, 6, 3, 4]  # one start of text: the template's
    assert tokenizer.apply_chat_template(prompt.messages, add_generation_prompt=True, return_dict=False) == written
    for ended, ids in ((True, [7, 8, 7, END]), (False, [7, 8, 7])):
        trace = Trace(prompt, text, ended)
        assert tokenize_traces([trace], tokenizer) == [(written, ids)]
        steps = step_distributions(network, written, ids)
        [score] = Scorer(network, tokenizer).score([trace])
        assert score.tokens == len(ids)
        assert score.nll == pytest.approx(-np.log(steps[np.arange(len(ids)), ids]).sum(), abs=1e-9)
    # As plain text, the tokenizer adds the start of text.
    assert tokenize_traces([Trace(Prompt("a b"), text, False)], tokenizer) == [([START, 5, 6], [7, 8, 7])]


def write_traces(folder: Path, *lines: dict[str, Any]) -> None:
    folder.mkdir()
    (folder / "r1.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


def test_traces_of_files_have_the_likelihood_of_their_tokens_and_end_of_text(project: Params) -> None:
    raw = small(perplexity={"traces": "traces", "own": 0, "shuffled": False})
    params = write_params(Path(), raw)
    for dataset in params.run.datasets:
        fetch.run(params, dataset)
    [problem, *_] = tables.read(tables.problems_path("chain"), tables.PROBLEMS_SCHEMA, "").to_pylist()
    text = r"3 + 4 = 7 , \boxed{ 7 }"
    about = {"problem_id": problem["problem_id"], "source": "r1", "text": text}
    write_traces(Path("traces"), about, {**about, "ended": False}, {**about, "ended": True})
    from_files, _ = references.references_from_files(params)
    for model in ("base", "rlvr"):
        rows = perplexity_stage.gather_references(params, duckdb.connect(), model, "chain", from_files["chain"])
        found = [row for row in rows if row["source"] == "r1"]
        assert [(row["trace"], row["bytes"]) for row in found] == [(i, len(text)) for i in range(3)]
        network, tokenizer = weights.load_model(weights.find_weights(params, model))
        job = score_tables.build_job(params, model, "chain", Path("unused"), found, ("trace",))
        scores = Scorer(network, tokenizer).score(job.traces)
        prompt = tokenizer(problem["question"])["input_ids"]
        ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        nlls = -np.log(step_distributions(network, prompt, ids)[np.arange(len(ids)), ids])
        assert [score.tokens for score in scores] == [len(ids), len(ids) - 1, len(ids)]
        expected = [nlls.sum(), nlls[:-1].sum(), nlls.sum()]
        assert [score.nll for score in scores] == pytest.approx(expected, abs=1e-5)


def trace_scores(problem: Any, length: Floats, base: Floats, rlvr: Floats) -> TraceScores:
    return TraceScores(np.asarray(problem), length, base, rlvr)


def draw_population(rng: np.random.Generator, problems: int) -> tuple[Any, Any, Any]:
    """Three traces a problem. Hard problems have longer and more surprising traces."""
    hardness = np.repeat(rng.normal(size=problems), 3)
    length = np.round(np.exp(4 + 0.3 * hardness + 0.2 * rng.normal(size=3 * problems)))
    surprise = np.exp(-0.7 + 0.1 * hardness + 0.1 * rng.normal(size=3 * problems))
    return np.repeat(np.arange(problems), 3), length, surprise * length


def test_intervals_of_perplexities_cover() -> None:
    """Of 200 runs with 40 problems, about 95% contain the value of the whole population."""
    _, length, nll = draw_population(np.random.default_rng(0), 100_000)
    truth = math.exp(nll.sum() / length.sum()), np.exp(nll / length).mean()
    covered = np.zeros(2)
    for i in range(200):
        problem, length, nll = draw_population(np.random.default_rng(1 + i), 40)
        traces = trace_scores(problem, length, nll, nll)
        drawn = perplexity.draw_resamples(40, 300, 0.95, "audit", i)
        both = perplexity.perplexity(traces, nll, drawn), perplexity.mean_perplexity(traces, nll, drawn)
        for j, found in enumerate(both):
            assert found.low is not None
            assert found.high is not None
            covered[j] += found.low <= truth[j] <= found.high
    assert (covered / 200 >= 0.9).all()
    assert (covered / 200 <= 0.985).all()


def test_the_perplexity_table_recomputed_from_its_traces(project: Params) -> None:
    """Every value and interval of a table with two sources, two data sets and three categories, in plain numpy."""
    rng = np.random.default_rng(5)
    rows = []
    for dataset, source, i, trace in itertools.product(("chain", "make"), ("r1", "book"), range(9), range(2)):
        tokens = int(rng.integers(5, 60))
        nlls = {f"nll_{role}": float(rng.uniform(0.2, 2) * tokens) for role in ("base", "rlvr")}
        row = {"pair": "rlvr", "dataset": dataset, "problem_id": f"p{i}", "source": source, "category": "PSO"[i % 3]}
        sizes = {"tokens_base": tokens, "tokens_rlvr": tokens, "bytes": 3 * tokens, "trace": trace}
        rows.append({**row, **sizes, **nlls, "control": False, "cluster": None, "steps": None})
    params = write_params(Path(), small())
    table = perplexity_tables.build_tables(params, pa.Table.from_pylist(rows))[0].to_pylist()
    assert len(table) == 3 * 2 * 3
    settings, cells = params.categorize, 0
    for row, role in itertools.product(table, ("base", "rlvr")):
        group = [r for r in rows if row["dataset"] in ("all", r["dataset"])]
        # The weights of all problems of the data set, in the order of their names; the first row is the data.
        names = sorted({(r["dataset"], r["problem_id"]) for r in group})
        stream = seeds.stream("perplexity", params.perplexity.seed, "rlvr", row["dataset"])
        weight = stream.standard_exponential((settings.bootstrap, len(names)))
        some = [r for r in group if (r["source"], r["category"]) == (row["source"], row["category"])]
        n = len({(r["dataset"], r["problem_id"]) for r in some})
        assert (row["problems"], row["traces"]) == (n, len(some))
        weights_of = weight[:, [names.index((r["dataset"], r["problem_id"])) for r in some]]
        length, nll = np.array([r["tokens_base"] for r in some]), np.array([r[f"nll_{role}"] for r in some])
        tail = (1 - settings.confidence) / 2
        wider = stats.t.isf(tail, n - 1) / stats.norm.isf(tail) * math.sqrt((n + 1) / (n - 1))
        for name, top, bottom, logs in (
            ("perplexity", nll, length, True),
            ("mean_perplexity", np.exp(nll / length), np.ones(len(nll)), False),
        ):
            value = top.sum() / bottom.sum()
            draws = weights_of @ top / (weights_of @ bottom)
            value, draws = (value, draws) if logs else (math.log(value), np.log(draws))
            low, high = np.quantile(np.exp(value + (draws - value) * wider), [tail, 1 - tail])
            found = [row[f"{name}_{role}{end}"] for end in ("", "_low", "_high")]
            value = math.exp(value)
            assert found == pytest.approx([value, min(low, value), max(high, value)], rel=1e-9)
            cells += 1
    assert cells == 72
