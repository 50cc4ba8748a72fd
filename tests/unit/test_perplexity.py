"""References, perplexities, and how much of their change remains without style."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from tokenizers import Tokenizer, pre_tokenizers
from transformers import LlamaForCausalLM

from leash import database, tables, weights
from leash.params.groups import Params
from leash.report import perplexity_tables
from leash.scoring import references
from leash.scoring.references import Reference
from leash.scoring.scorable import open_perplexity_scores
from leash.statistics import perplexity
from leash.statistics.perplexity import Resamples, TraceScores
from stages.categorize import stage as categorize
from stages.fetch import stage
from stages.perplexity import stage as stage_module
from stages.train.model import save_model
from tests.conftest import ROOT, small, write_params
from tests.made import verdict_table

TEXT = "First, halve it. Then add three! Is that all? It is."


def traces(problem: list[int], length: list[float], base: list[float], rlvr: list[float]) -> TraceScores:
    return TraceScores(np.array(problem), np.array(length, float), np.array(base), np.array(rlvr, float))


def lines(folder: Path, *rows: dict[str, Any] | str) -> None:
    folder.mkdir(exist_ok=True)
    content = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "others.jsonl").write_text("\n".join(content) + "\n", encoding="utf-8")


@pytest.fixture
def fetched(project: Params) -> Params:
    params = write_params(Path(), small(perplexity={"traces": "traces"}))
    for dataset in params.run.datasets:
        stage.run(params, dataset)
    return params


def ids(dataset: str) -> list[str]:
    found: list[str] = tables.read(tables.problems_path(dataset), tables.PROBLEMS_SCHEMA, "")["problem_id"].to_pylist()
    return found


def test_traces_of_files_find_their_data_set_and_are_numbered(fetched: Params) -> None:
    [chain, *_], [make, *_] = ids("chain"), ids("make")
    about = {"source": "r1", "text": "So."}
    lines(
        Path("traces"),
        {"problem_id": chain, **about},
        {"problem_id": make, "dataset": "make", "source": "r1", "text": "Möbius."},
        {"problem_id": chain, "source": "r1", "text": "Else.", "ended": False},
        "",
        {"problem_id": "elsewhere-1", **about},
        {"problem_id": chain, "dataset": "make", **about},
    )
    found, sentences = references.references_from_files(fetched)
    assert found["chain"] == [
        Reference(chain, "r1", 0, "So.", ended=True),
        Reference(chain, "r1", 1, "Else.", ended=False),
    ]
    assert found["make"] == [Reference(make, "r1", 0, "Möbius.", ended=True)]
    assert sentences == [
        "traces/others.jsonl: 2 of 5 traces are of problems that are not in this run; they are left out."
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "is not JSON"),
        ("[]", "is not an object with problem_id, source, text"),
        ({"problem_id": "p", "source": "r1"}, "`text`"),
        ({"problem_id": 7, "source": "r1", "text": "x"}, "`problem_id`"),
        ({"problem_id": "p", "source": "r1", "text": " "}, "`text`"),
        ({"problem_id": "p", "source": "r1", "text": "x", "ended": "no"}, "`ended`"),
    ],
)
def test_a_line_that_is_no_trace_is_refused_by_its_number(fetched: Params, line: Any, problem: str) -> None:
    lines(Path("traces"), "", line)
    with pytest.raises(references.BadTraceError) as error:
        references.references_from_files(fetched)
    assert (error.value.path, error.value.line) == (Path("traces/others.jsonl"), 2)
    assert problem in error.value.problem


def test_a_problem_of_two_data_sets_needs_the_name_of_one(fetched: Params) -> None:
    shared = tables.read(tables.problems_path("chain"), tables.PROBLEMS_SCHEMA, "")
    tables.write(tables.problems_path("make"), shared, tables.PROBLEMS_SCHEMA)
    lines(Path("traces"), {"problem_id": ids("chain")[0], "source": "r1", "text": "x"})
    with pytest.raises(references.BadTraceError, match="choose one with `dataset`") as error:
        references.references_from_files(fetched)
    assert error.value.line == 1


def test_a_source_that_has_the_name_of_a_model_is_refused(fetched: Params) -> None:
    lines(Path("traces"), {"problem_id": ids("chain")[0], "source": "rlvr", "text": "x"})
    with pytest.raises(references.BadTraceError, match="choose another name") as error:
        references.references_from_files(fetched)
    assert "rlvr" in error.value.problem


def test_a_missing_folder_of_traces_is_named(fetched: Params) -> None:
    with pytest.raises(references.MissingTracesFolderError, match=r"`perplexity\.traces`") as error:
        references.references_from_files(fetched)
    assert error.value.folder == Path("traces")


def test_shuffling_keeps_every_sentence_and_moves_some() -> None:
    moved = references.shuffle_reference(Reference("p", "r1", 0, TEXT, ended=True), "exam", seed=0)
    assert moved is not None
    assert moved.shuffled
    assert moved.ended
    assert moved.text != TEXT
    assert sorted(moved.text.split()) == sorted(TEXT.split())
    assert all(part in moved.text for part in ("First, halve it.", "Then add three!", "Is that all?", "It is."))
    assert references.shuffle_reference(Reference("p", "r1", 0, TEXT, ended=True), "exam", seed=0) == moved


def test_orders_differ_between_problems() -> None:
    texts = set()
    for i in range(20):
        moved = references.shuffle_reference(Reference(f"p{i}", "r1", 0, TEXT, ended=True), "exam", seed=0)
        texts.add(moved.text if moved else None)
    assert len(texts) > 5


def test_a_text_without_sentences_is_shuffled_by_clauses_if_it_has_any() -> None:
    steps = Reference("p", "r1", 0, r"12 + 5 = 17 , 17 - 3 = 14 , \boxed{ 14 }", ended=True)
    moved = references.shuffle_reference(steps, "chain", seed=0)
    assert moved is not None
    assert sorted(moved.text.split()) == sorted(steps.text.split())
    assert references.shuffle_reference(Reference("p", "r1", 0, r"\boxed{ 14 }", ended=True), "chain", seed=0) is None
    assert (
        references.shuffle_reference(Reference("p", "r1", 0, "Yes, yes, yes,", ended=True), "chain", seed=0) is not None
    )
    assert references.shuffle_reference(Reference("p", "r1", 0, "yes, yes, yes,", ended=True), "chain", seed=0) is None


def test_perplexity_weighs_tokens_and_its_mean_weighs_traces() -> None:
    some = traces([0, 0, 1], [10, 30, 60], [5, 6, 30], [5, 6, 60])
    drawn = perplexity.draw_resamples(2, 500, 0.95, "test")
    whole = perplexity.perplexity(some, some.base, drawn)
    assert whole.value == pytest.approx(np.exp(41 / 100))
    mean = perplexity.mean_perplexity(some, some.base, drawn)
    assert mean.value == pytest.approx((np.exp(0.5) + np.exp(0.2) + np.exp(0.5)) / 3)
    assert whole.low is not None
    assert whole.high is not None
    assert 0 < whole.low < np.exp(41 / 100) < whole.high


def test_the_interval_of_few_problems_is_as_wide_as_students() -> None:
    length, nll = np.full(6, 50.0), np.array([10.0, 20, 15, 30, 12, 25])
    some = traces(list(range(6)), list(length), list(nll), list(nll))
    found = perplexity.log_perplexity_change(traces(list(range(6)), list(length), [0.0] * 6, list(nll)), draw(6))
    assert found.low is not None
    assert found.high is not None
    student = stats.ttest_1samp(nll / length, 0).confidence_interval(0.95)
    assert (found.high - found.low) / (student.high - student.low) == pytest.approx(1, abs=0.1)
    assert perplexity.log_perplexity_change(some, draw(6)).value == 0


def draw(problems: int) -> Resamples:
    return perplexity.draw_resamples(problems, 4000, 0.95, "test")


def test_one_problem_gives_a_value_and_no_interval() -> None:
    some = traces([0, 0], [10, 30], [5, 6], [5, 6])
    found = perplexity.perplexity(some, some.base, perplexity.draw_resamples(2, 50, 0.95, "test"))
    assert found.value == pytest.approx(np.exp(11 / 40))
    assert found.low is found.high is None


def test_intervals_cover() -> None:
    """About 95% of 300 runs with a true change of 0.2 contain it. Traces of one problem are similar."""
    covered = 0
    for i in range(300):
        rng = np.random.default_rng(i)
        problem = np.repeat(np.arange(30), 3)
        length = rng.integers(50, 150, 90).astype(float)
        shift = 0.2 + np.repeat(rng.normal(0, 0.2, 30), 3) + rng.normal(0, 0.05, 90)
        some = traces(list(problem), list(length), [0.0] * 90, list(shift * length))
        found = perplexity.log_perplexity_change(some, perplexity.draw_resamples(30, 200, 0.95, "cover", i))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.2 <= found.high
    assert 0.91 <= covered / 300 <= 0.98


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Params]:
    """The embedded pair, and the base with a tokenizer that splits numbers into digits. Only the base solves every
    second problem. One source beside the generator's has a trace that is longer than the window."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "models").symlink_to(ROOT / "models")
    with chdir(folder):
        save_digit_model(Path("digits"))
        raw = small(perplexity={"traces": "traces"})
        raw["run"] |= {"models": ["base", "rlvr", "digits"], "pairs": ["rlvr", "digits"], "datasets": ["chain"]}
        raw["models"]["digits"] = {"path": "digits"}
        raw["pairs"]["digits"] = {"base": "base", "rlvr": "digits"}
        params = write_params(folder, raw)
        stage.run(params, "chain")
        write_samples(params)
        categorize.run(params)
        lines(
            folder / "traces",
            *({"problem_id": name, "source": "wordy", "text": WORDY[i]} for i, name in enumerate(ids("chain")[:2])),
        )
        yield params


WORDY = ["3 + 4 = 7 , so it is 7 .", "1 , " * 100]


def save_digit_model(folder: Path) -> None:
    save_model(LlamaForCausalLM.from_pretrained(ROOT / "models" / "embedded" / "base"), folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(individual_digits=True)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def write_samples(params: Params) -> None:
    """All samples of a problem are equal; the base is always correct, the others on every second problem."""
    for model in params.run.models:
        completions, verdicts = [], []
        for number, name in enumerate(ids("chain")):
            right = model == "base" or number % 2 == 0
            for i in range(16):
                key = {"problem_id": name, "sample": i}
                completions.append(
                    {**key, "text": f"\\boxed{{{{ {number} }}}}", "tokens": 4, "finish": "stop", "logprob": None}
                )
                verdicts.append(
                    {**key, "answer": "1", "answer_class": "1", "correct": right, "score": float(right), "status": "ok"}
                )
        place = tables.completions_folder(model, "chain") / "a.parquet"
        tables.write(place, tables.table_from_rows(completions, tables.COMPLETIONS_SCHEMA), tables.COMPLETIONS_SCHEMA)
        place = tables.verdicts_folder(model, "chain") / "a.parquet"
        tables.write(place, verdict_table(verdicts), tables.VERDICTS_SCHEMA)


def direct(model: str, question: str, text: str, end: bool = True) -> tuple[float, int]:
    """Negative log-likelihood and tokens by one forward pass with all logits."""
    network, tokenizer = weights.load_model(
        weights.Weights(model, str(ROOT / "models" / "embedded" / model), None, "float64")
    )
    prompt = tokenizer(question)["input_ids"]
    tokens = tokenizer(text, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id] * end
    with torch.inference_mode():
        steps = network(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    return -float(steps.gather(1, torch.tensor(tokens)[:, None]).sum()), len(tokens)


def test_perplexities_agree_with_a_direct_computation(measured: Params) -> None:
    scored, _ = stage_module.run(measured)
    assert scored > 0
    assert stage_module.run(measured)[0] == 0
    rows = perplexity_tables.compute_perplexity_tables(measured)[0].to_pylist()
    found = {(row["pair"], row["source"], row["category"]): row for row in rows if row["dataset"] == "chain"}
    problems = tables.read(tables.problems_path("chain"), tables.PROBLEMS_SCHEMA, "").to_pylist()
    for category, some in (("P", problems[::2]), ("S", problems[1::2])):
        for source in ("worked", "direct"):
            row = found["rlvr", source, category]
            assert (row["problems"], row["per"]) == (2, "token")
            for role in ("base", "rlvr"):
                nlls = [direct(role, p["question"], json.loads(p["meta"])["traces"][source]) for p in some]
                whole = np.exp(sum(nll for nll, _ in nlls) / sum(tokens for _, tokens in nlls))
                mean = np.mean([np.exp(nll / tokens) for nll, tokens in nlls])
                assert row[f"perplexity_{role}"] == pytest.approx(whole, abs=1e-5)
                assert row[f"mean_perplexity_{role}"] == pytest.approx(mean, abs=1e-5)
                assert row[f"perplexity_{role}_low"] < whole < row[f"perplexity_{role}_high"]


def test_models_with_other_tokenizers_are_compared_per_byte_and_long_traces_left_out(measured: Params) -> None:
    _, sentences = stage_module.run(measured)
    too_long = [f"{model} on chain: 1 of {n} traces" for model, n in (("base", 18), ("rlvr", 16), ("digits", 16))]
    for sentence, beginning in zip(sentences, [*too_long, "digits: base and digits tokenize"], strict=True):
        assert sentence.startswith(beginning)
    assert "per byte" in sentences[-1]
    rows = perplexity_tables.compute_perplexity_tables(measured)[0].to_pylist()
    assert {(row["pair"], row["per"]) for row in rows} == {("rlvr", "token"), ("digits", "byte")}
    [wordy] = [row for row in rows if (row["pair"], row["source"], row["dataset"]) == ("digits", "wordy", "chain")]
    assert (wordy["traces"], wordy["length"]) == (1, len(WORDY[0]))
    assert wordy["perplexity_base_low"] is None
    problem = tables.read(tables.problems_path("chain"), tables.PROBLEMS_SCHEMA, "").to_pylist()[0]
    without_end, _ = direct("base", problem["question"], WORDY[0], end=False)
    assert wordy["perplexity_base"] == pytest.approx(np.exp(without_end / len(WORDY[0])), abs=1e-5)


def test_every_token_is_scored_and_the_end_is_one_of_them(measured: Params) -> None:
    stage_module.run(measured)
    rows = tables.read(tables.perplexity_path("base", "chain"), tables.PERPLEXITY_SCHEMA, "").to_pylist()
    for row in rows:
        if row["nll"] is None:
            assert row["token_nlls"] is row["token_entropies"] is None
            continue
        assert len(row["token_nlls"]) == len(row["token_entropies"]) == row["tokens"]
        assert sum(row["token_nlls"]) == pytest.approx(row["nll"], abs=1e-4)
        assert min(row["token_entropies"]) >= 0


def test_the_sums_of_tokens_leave_out_what_surprises_more_than_the_controls(measured: Params) -> None:
    stage_module.run(measured)
    base, rlvr = (
        tables.read(tables.perplexity_path(model, "chain"), tables.PERPLEXITY_SCHEMA, "").to_pylist()
        for model in ("base", "rlvr")
    )
    lists = {
        (row["problem_id"], row["trace"], row["shuffled"]): np.array(
            [row["token_nlls"], row["token_entropies"], other["token_nlls"]], dtype=float
        )
        for row in base
        for other in rlvr
        if row["source"] == "worked"
        and all(row[name] == other[name] for name in ("problem_id", "source", "trace", "shuffled"))
    }
    preserved = set(ids("chain")[::2])
    with open_perplexity_scores(measured, "support") as connection:
        support = connection.table("support").to_arrow_table()
        connection.register("controls", perplexity_tables.mark_controls(support))
        bound = {"models": list(measured.models), "quantile": 0.9}
        rows = database.query(connection, perplexity_tables.TRACES_SQL, bound).to_pylist()
    rows = [row for row in rows if (row["pair"], row["source"]) == ("rlvr", "worked")]
    assert {row["problem_id"]: row["control"] for row in rows} == {name: name in preserved for name in ids("chain")}
    for prefix, shuffled in (("", False), ("shuffled_", True)):
        controls = np.concatenate([lists[key][0] for key in lists if key[0] in preserved and key[2] == shuffled])
        limit = np.sort(controls)[math.ceil(0.9 * len(controls)) - 1]
        for row in rows:
            s, h, r = (values := lists[row["problem_id"], row["trace"], shuffled])[:, values[0] <= limit]
            assert 0 < row[f"{prefix}n"] == len(s)
            sums = {"s": s, "h": h, "ss": s * s, "sh": s * h, "hh": h * h, "d": r - s, "sd": s * (r - s)}
            for name, summed in {**sums, "hd": h * (r - s)}.items():
                assert row[f"{prefix}{name}"] == pytest.approx(summed.sum(), abs=1e-9)
    assert any(row["n"] < row["steps"] for row in rows)
