"""The torch engine draws from the model's own probabilities, whatever the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from leash import tables, weights
from leash.datasets import embedded_tasks
from leash.engines.protocol import Decoding, Request
from leash.engines.torch_engine import TorchEngine, _compact_rows, apply_top_p, sample_tokens
from leash.params.groups import Params
from leash.prompts import ImagesNotSupportedError, Prompt
from leash.scoring.scorable import scorable, write_empty_tables
from leash.scoring.torch_scorer import Scorer
from leash.scoring.traces import Trace, trace_to_dict
from leash.statistics import seeds
from stages.fetch import stage
from stages.sample import stage as sample
from tests.conftest import ROOT

PLAIN = Decoding(temperature=1.0, top_p=1.0, max_tokens=72)
MODELS = ("base", "rlvr")
WEIGHTS = weights.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float64")


@pytest.fixture(scope="module")
def engine() -> TorchEngine:
    return TorchEngine(*weights.load_model(WEIGHTS))


def requests(count: int, samples: range) -> list[Request]:
    rng = seeds.stream("test", "engine")
    kinds = [("chain", 5), ("make", 3), ("make", 4), ("make", 6)]
    problems = [embedded_tasks.draw_problem(rng, *kinds[i % len(kinds)], held_out=True) for i in range(count)]
    return [Request(f"p{i}", Prompt(problem.prompt), samples, ("test",)) for i, problem in enumerate(problems)]


def test_greedy_equals_transformers_generate(engine: TorchEngine) -> None:
    greedy = Decoding(temperature=0.0, top_p=1.0, max_tokens=40)
    for request in requests(8, range(1)):
        ours = next(iter(engine.complete([request], greedy)))
        ids = engine.tokenizer(request.prompt.user, return_tensors="pt")
        theirs = engine.model.generate(  # type: ignore[operator]
            **ids, do_sample=False, max_new_tokens=40
        )[0, ids["input_ids"].shape[1] :]
        assert ours.text == engine.tokenizer.decode(theirs, skip_special_tokens=True)
        assert ours.tokens == len(theirs)


def test_samples_do_not_depend_on_batch_or_order(engine: TorchEngine) -> None:
    all_requests = requests(6, range(40))
    whole = {(c.problem_id, c.sample): c for c in engine.complete(all_requests, PLAIN)}
    small = TorchEngine(engine.model, engine.tokenizer, rows=7)
    parts = [Request(r.problem_id, r.prompt, range(13, 31), r.name) for r in reversed(all_requests)]
    for completion in small.complete(parts, PLAIN):
        same = whole[completion.problem_id, completion.sample]
        assert (completion.text, completion.tokens, completion.finish) == (same.text, same.tokens, same.finish)
        assert completion.logprob == pytest.approx(same.logprob, abs=2e-6)


def test_no_two_samples_share_a_stream(engine: TorchEngine) -> None:
    names = [r.stream_name(s) for r in requests(20, range(100)) for s in r.samples]
    assert len({seeds.stream_key(*name) for name in names}) == 2000


def test_texts_are_drawn_as_often_as_the_model_says(engine: TorchEngine) -> None:
    """The frequency of each problem's likeliest text against its exact probability: binomial tests, combined over
    problems by Fisher's method, at level 0.001."""
    batch = requests(12, range(1024))
    drawn: dict[str, list[tuple[float, str]]] = {r.problem_id: [] for r in batch}
    for c in engine.complete(batch, PLAIN):
        assert c.logprob is not None
        drawn[c.problem_id].append((c.logprob, c.text))
    p_values = []
    for texts in drawn.values():
        logprob, likeliest = max(texts)
        hits = sum(text == likeliest for _, text in texts)
        p_values.append(stats.binomtest(hits, len(texts), float(np.exp(logprob))).pvalue)
    assert stats.combine_pvalues(p_values).pvalue > 0.001


def test_the_logprob_equals_that_of_teacher_forcing(engine: TorchEngine) -> None:
    batch = requests(4, range(8))
    prompts = {r.problem_id: r.prompt for r in batch}
    drawn = list(engine.complete(batch, Decoding(0.7, 0.9, max_tokens=20)))
    assert {c.finish for c in drawn} == {"stop", "length"}
    scores = Scorer(*weights.load_model(WEIGHTS)).score(
        [Trace(prompts[c.problem_id], c.text, ended=c.finish == "stop") for c in drawn]
    )
    for completion, score in zip(drawn, scores, strict=True):
        assert completion.tokens == score.tokens
        assert score.nll is not None
        assert completion.logprob == pytest.approx(-score.nll, abs=1e-6)


def illustrate(dataset: str) -> None:
    """Add an image to the first problem of a table."""
    path = tables.problems_path(dataset)
    rows = tables.read(path, tables.PROBLEMS_SCHEMA, "").to_pylist()
    rows[0]["images"] = [b"an image"]
    tables.write(path, tables.table_from_rows(rows, tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA)


def test_images_need_another_engine(engine: TorchEngine, project: Params) -> None:
    prompt = Prompt("compute 3 + 4 :", chat=True, images=(b"an image",))
    with pytest.raises(ImagesNotSupportedError, match="`vllm` and `openai`"):
        list(engine.complete([Request("p", prompt, range(1), ("test",))], PLAIN))
    stage.run(project, "chain")
    illustrate("chain")
    with pytest.raises(ImagesNotSupportedError) as error:
        sample.run(project, "base", "chain")
    assert error.value.dataset == "chain"
    assert not tables.completions_folder("base", "chain").exists()


def test_questions_with_images_are_left_out_of_scores_with_a_note(project: Params) -> None:
    for dataset in project.run.datasets:
        stage.run(project, dataset)
    illustrate("chain")
    assert set(scorable(project)) == {(model, "make") for model in project.run.models}
    sentences = write_empty_tables(project, tables.perplexity_path, tables.PERPLEXITY_SCHEMA, "perplexities")
    assert len(sentences) == 1
    assert "chain" in sentences[0]
    assert "perplexities" in sentences[0]
    empty = {
        model: tables.read(tables.perplexity_path(model, "chain"), tables.PERPLEXITY_SCHEMA, "") for model in MODELS
    }
    assert [table.num_rows for table in empty.values()] == [0, 0]
    assert not tables.perplexity_path("base", "make").exists()


def test_scores_from_before_prompts_had_images_stay_valid() -> None:
    """Scores on disk are found by this dictionary, so it must not change for prompts without images."""
    assert trace_to_dict(Trace(Prompt("compute 3 + 4 :"), "7", ended=True)) == {
        "prompt": {"user": "compute 3 + 4 :", "system": None, "chat": False},
        "text": "7",
        "ended": True,
    }


def test_top_p_keeps_the_fewest_tokens_that_reach_it() -> None:
    kept = apply_top_p(torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]]), 0.75)
    assert (kept > 0).tolist() == [[True, True, False, False], [False, True, True, True], [True, True, True, False]]


def test_sampling_inverts_the_cumulative_distribution() -> None:
    plain = torch.log(torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)).expand(5, 3)
    uniforms = torch.tensor([0.0, 0.19, 0.21, 0.69, 0.999999], dtype=torch.float64)
    assert sample_tokens(plain, uniforms, PLAIN).tolist() == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("ended", [[0, 1, 0, 0, 1], [1, 1, 1], [0, 0], [1, 0, 1, 0, 0, 1, 0]])
def test_ended_rows_are_removed_and_few_rows_move(ended: list[int]) -> None:
    mask = torch.tensor(ended, dtype=torch.bool)
    stay = _compact_rows(mask).tolist()
    assert sorted(stay) == [i for i, done in enumerate(ended) if not done]
    assert all(place == row for place, row in enumerate(stay) if not mask[place])
