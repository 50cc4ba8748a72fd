"""From verdicts to the page where something is missing: samples after an early stop, weights, whole runs."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from leash import database, json_checksum, tables
from leash.params.groups import Params
from leash.report import analysis_files, entropy_tables
from leash.report import metrics as metrics_module
from leash.report.figures import support
from leash.report.table_captions import TABLE_CAPTIONS
from stages.categorize import stage as categorize
from stages.cli import main
from stages.entropy import stage as entropy
from stages.fetch import stage
from stages.mass import stage as mass
from stages.perplexity import stage as perplexity
from stages.report import stage as report
from tests.conftest import ROOT, small, write_params
from tests.made import verdict_table

FIGURES = (
    *("pass_at_k", "support_map", "mass_map", "categories", "pass_at_k_examples", "categories_by_k"),
    *("categories_by_epsilon", "pass_at_k_by_reading", "cot_pass_at_k", "cover_at_tau", "trajectory"),
    *("perplexity", "entropy", "answers"),
)
IMPORTED: dict[str, Any] = {"models": {"base": {"engine": "import"}, "rlvr": {"engine": "import"}}}


def sampled(params: Params, samples: int = 16) -> None:
    """The real problems, each with completions of which some are right: none of the first problem's, all of the
    second's, and so on in turn."""
    stream = np.random.default_rng(7)
    for dataset in params.run.datasets:
        stage.run(params, dataset)
        problems = tables.read(tables.problems_path(dataset), tables.PROBLEMS_SCHEMA, "")["problem_id"].to_pylist()
        for model in params.run.models:
            drawn = [
                {"problem_id": name, "sample": i, "correct": bool(stream.random() < (0, 1, 0.1, 0.5)[j % 4])}
                for j, name in enumerate(problems)
                for i in range(samples)
            ]
            write(params, model, dataset, drawn)


def write(params: Params, model: str, dataset: str, drawn: Sequence[dict[str, Any]]) -> None:
    completion = {"text": r"\boxed{ 7 }", "tokens": 4, "finish": "stop", "logprob": None}
    rows = [{**row, **completion} for row in drawn]
    place = tables.completions_folder(model, dataset) / "a.parquet"
    tables.write(place, tables.table_from_rows(rows, tables.COMPLETIONS_SCHEMA), tables.COMPLETIONS_SCHEMA)
    verdicts = [
        {**row, "answer": "7", "answer_class": str(row["correct"]), "score": float(row["correct"]), "status": "ok"}
        | {"correct_strict": row["correct"], "correct_lenient": row["correct"]}
        | ({"process": "sound", "sound": True} if row["correct"] else {})
        for row in drawn
    ]
    place = tables.verdicts_folder(model, dataset) / "a.parquet"
    tables.write(place, verdict_table(verdicts), tables.VERDICTS_SCHEMA)


def reported(params: Params) -> tuple[dict[str, Any], list[str]]:
    """The metrics of the pair, and what the scoring stages have to say, after all stages from categorize on."""
    mass.run(params)
    categorize.run(params)
    sentences = [*perplexity.run(params)[1], *entropy.run(params)[1]]
    report.run(params)
    for name in TABLE_CAPTIONS:
        assert (Path("reports/tables") / f"{name}.md").read_text().startswith("| ")
        assert (Path("reports/tables") / f"{name}.csv").read_text().startswith('"')
    for name in FIGURES:
        assert (Path("reports/figures") / f"{name}.svg").stat().st_size > 1000
    assert "pass@1" in metrics_module.format_headline()
    return json.loads(Path("reports/metrics.json").read_text())["pairs"]["rlvr"], sentences


@dataclass(frozen=True)
class Finished:
    """A run and its report, for tests to look at or to go on from in a copy."""

    folder: Path
    metrics: dict[str, Any]
    sentences: list[str]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The full run."""
    folder = tmp_path_factory.mktemp("full")
    (folder / "models").symlink_to(ROOT / "models")
    params = write_params(folder, small())
    with contextlib.chdir(folder):
        sampled(params)
        return Finished(folder, *reported(params))


@pytest.fixture(scope="module")
def stopped(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The full run is on disk, and every problem stops at its first hit."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    shutil.copytree(finished.folder, folder, symlinks=True)
    params = write_params(folder, small(sample={"k": 16, "stop_after": 1}))
    with contextlib.chdir(folder):
        return Finished(folder, *reported(params))


@pytest.fixture
def full(finished: Finished, project: Params) -> dict[str, Any]:
    """The metrics of the full run, a copy of which is the working directory."""
    shutil.copytree(finished.folder, Path(), symlinks=True, dirs_exist_ok=True, ignore=lambda *_: {"models"})
    return finished.metrics


def test_an_adaptive_run_is_reported_as_the_full_one_would_be(
    finished: Finished, stopped: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Categories are those of the full run, and what an early stop leaves unknown is a dash."""
    monkeypatch.chdir(stopped.folder)
    full, metrics, sentences = finished.metrics, stopped.metrics, stopped.sentences
    assert finished.sentences == []
    assert [metrics[name] for name in "kPESO"] == [full[name] for name in "kPESO"]
    assert metrics["rlvr_pass@16"] == full["rlvr_pass@16"]
    assert metrics["base_token_entropy"] is metrics["rlvr_answer_entropy"] is None
    assert full["base_token_entropy"] > 0
    assert "fewer than `entropy.samples` = 4 samples" in sentences[0]
    assert sentences[0].endswith("set `sample.floor` to at least 4.")
    overall = Path("reports/tables/entropy.md").read_text().splitlines()[2]
    assert overall.startswith("| base | all | 10 | 1 | – | – | – | – |")
    assert "stopped early" in Path("reports/index.html").read_text()


@pytest.mark.usefixtures("undrawn")
def test_a_floor_brings_the_entropies_of_the_full_run_back(full: dict[str, Any]) -> None:
    metrics, sentences = reported(write_params(Path(), small(sample={"k": 16, "stop_after": 1, "floor": 4})))
    assert sentences == []
    for name in ("base_token_entropy", "rlvr_token_entropy", "base_answer_entropy", "rlvr_answer_entropy"):
        assert metrics[name] == full[name]


def test_no_forward_pass_for_what_cannot_be_used(project: Params) -> None:
    """Token entropies are those of problems with enough samples alone: the ones that never stopped in time."""
    sampled(project)
    scored, _ = entropy.run(write_params(Path(), small(sample={"k": 16, "stop_after": 1})))
    found = database.open_database(project).sql(
        "select count(*), count(distinct (model, dataset, problem_id)) from entropy"
    )
    samples, problems = found.fetchall()[0]
    assert samples == 4 * problems
    assert scored == problems  # whose samples are all the same
    assert 0 < problems < 20


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sample": {"k": 16}, "entropy": {"samples": 32}}, "raise k to 32, or lower `entropy.samples` to 16."),
        ({"sample": {"k": 32}, "entropy": {"samples": 32}}, "draw the rest with `leash sample base chain` and"),
        ({"sample": {"k": 32, "stop_after": 1}, "entropy": {"samples": 32}}, "set `sample.floor` to at least 32."),
    ],
)
def test_too_few_samples_for_entropies_get_the_way_out(
    project: Params, changes: dict[str, dict[str, Any]], sentence: str
) -> None:
    sampled(project)
    write_params(Path(), small(**changes))
    done = CliRunner().invoke(main, ["entropy"])
    assert done.exit_code == 0
    assert "base on chain: 4 of 4 problems have fewer than `entropy.samples` = 32 samples" in done.stderr
    assert sentence in done.stderr
    assert done.stdout.endswith("0 samples scored.\n")


def test_models_without_weights_have_everything_but_scores(full: dict[str, Any]) -> None:
    """Imported completions: categories, pass@k and answer entropies, and empty tables of what only weights can say."""
    params = write_params(Path(), small(**IMPORTED))
    metrics, sentences = reported(params)
    assert "give `models.base" in sentences[0]
    assert [s.partition(";")[0] for s in sentences] == [
        f"{model} has no weights here, so its {what} are left out"
        for what in ("perplexities", "token entropies")
        for model in ("base", "rlvr")
    ]
    scores = ("base_token_entropy", "rlvr_token_entropy", "decoupling")
    assert [metrics[name] for name in scores[:2]] == [None, None]
    for dataset, changes in metrics["decoupling"].items():
        assert changes["relation"] is changes["token_entropy"]["value"] is changes["rest_part"]["value"] is None
        assert changes["answer_entropy"] == full["decoupling"][dataset]["answer_entropy"]
    assert {name: value for name, value in metrics.items() if name not in scores} == {
        name: value for name, value in full.items() if name not in scores
    }
    assert tables.read(tables.perplexity_path("base", "chain"), tables.PERPLEXITY_SCHEMA, "").num_rows == 0
    assert tables.read(tables.entropy_path("rlvr", "make"), tables.ENTROPY_SCHEMA, "").num_rows == 0


@pytest.mark.usefixtures("full")
def test_weights_on_one_side_only() -> None:
    raw = small()
    raw["models"]["rlvr"] = {"engine": "import"}
    metrics, _ = reported(write_params(Path(), raw))
    assert metrics["base_token_entropy"] > 0
    assert metrics["rlvr_token_entropy"] is None
    assert metrics["rlvr_answer_entropy"] > 0


def test_a_run_cut_short_is_reported(project: Params) -> None:
    """No problem has its k samples yet: nothing is categorized, and the report says so."""
    sampled(project, samples=3)
    assert len(categorize.run(project)) == 10
    metrics, sentences = reported(project)
    assert [metrics[name] for name in "PESO"] == [0, 0, 0, 0]
    assert metrics["base_pass@1"] is not None
    assert "No result for rlvr and base yet: none of 10 problems" in metrics_module.format_headline()
    assert len(sentences) == 4


def test_a_problem_without_a_mass_has_its_place_on_the_map() -> None:
    row = {"k": 1024, "mass_base": None, "low_base": 0.01, "high_base": 0.25}
    assert support.mass_coordinate(row, "base", floor=0.5 / 1024) == pytest.approx(0.05)
    late = {"k": 1024, "mass_base": None, "low_base": 2.5e-5, "high_base": 3.6e-3}
    assert support.mass_coordinate(late, "base", floor=0.5 / 1024) == 1 / 1024  # seen once: not where `none seen` is
    assert support.mass_coordinate({**row, "mass_base": 0.0, "low_base": 0.0}, "base", floor=0.5 / 1024) == 0.5 / 1024


def test_the_report_says_how_sure_it_is(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals, what no change would give, and the one factor: on the page and in the metrics."""
    monkeypatch.chdir(finished.folder)
    metrics = finished.metrics
    ends = metrics["intervals"]["SRR"]
    assert 0 <= ends["low"] <= metrics["SRR"] <= ends["high"] <= 1
    assert metrics["half"]["k"] == 8
    assert metrics["half"]["NSCR"]["base"] == 0
    page, shown = Path("reports/index.html").read_text(), Path("reports/tables/by_domain.md").read_text()
    for sentence in ("no change at all): SRR", "uniform sharpening (odds × "):
        assert sentence in page
    assert f"{metrics['SRR']:.3f} ({ends['low']:.3f} to {ends['high']:.3f})" in shown


def test_the_headline_is_the_verdict_and_a_table(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(finished.folder)
    done = CliRunner().invoke(main, ["report", "--show"])
    verdict, table, _ = done.stdout.strip().split("\n\n")
    assert verdict.splitlines() == finished.metrics["verdict"]
    assert "rlvr and base solve the same 7 of 10 problems in 16 samples each" in verdict
    head, row = table.splitlines()
    assert head.split() == ["pair", "k", "P", "E", "S", "O", "SRR", "NDR", "net", "pass@1", "pass@k"]
    assert row.split()[:6] == ["rlvr", "16", *(str(finished.metrics[name]) for name in "PESO")]
    net = finished.metrics["intervals"]["NSCR"]
    assert f"({net['low']:+.3f} to {net['high']:+.3f})" in row


def test_columns_stand_below_each_other_whatever_the_pairs_are_called(finished: Finished, project: Params) -> None:
    found = {"rlvr": finished.metrics, "a-pair-with-quite-a-long-name": finished.metrics}
    Path("reports").mkdir()
    Path("reports/metrics.json").write_text(json.dumps({"pairs": found, "provenance": {}}))
    table = metrics_module.format_headline().split("\n\n")[1].splitlines()
    assert len({line.index("→") for line in table[1:]}) == 1
    assert len({len(line) for line in table}) == 1


def test_metrics_of_an_older_version_are_refused_with_a_sentence(project: Params) -> None:
    Path("reports").mkdir()
    Path("reports/metrics.json").write_text('{"rlvr": {"k": 16}}')
    done = CliRunner().invoke(main, ["report", "--show"])
    assert done.exit_code == 2
    assert "reports/metrics.json is damaged or was written by another version" in done.stderr
    assert "`leash report`" in done.stderr


def test_the_summary_is_short_and_has_no_name_twice(finished: Finished) -> None:
    summary = json.loads((finished.folder / "reports/summary.json").read_text())
    assert list(summary)[:9] == ["P", "E", "S", "O", "SRR", "NDR", "NSCR", "NSCR.low", "NSCR.high"]
    assert list(summary)[9:] == [f"pass@{at}.{who}" for at in "1k" for who in ("base", "trained")]
    assert summary["pass@k.trained"] == finished.metrics["rlvr_pass@16"]
    other = metrics_module.summarize_metrics({"first": finished.metrics, "E": finished.metrics})
    assert {name: other[name] for name in summary} == summary
    assert list(other)[len(summary) :] == ["E.E", "E.S", "E.NSCR"]


def test_where_nothing_can_be_said_of_sharpening_the_page_says_why(
    stopped: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(stopped.folder)
    assert stopped.metrics["tilt"] == {"odds_ratio": None}
    assert "The sharpening test needs a number of samples that was fixed" in Path("reports/index.html").read_text()


@pytest.mark.usefixtures("full")
def test_a_report_without_its_analysis_says_what_makes_it(project: Params) -> None:
    path = tables.analysis_path("rlvr")
    path.write_text("{")
    with pytest.raises(tables.DamagedTableError) as damaged:
        report.run(project)
    path.unlink()
    with pytest.raises(tables.MissingTableError) as missing:
        report.run(project)
    assert {(error.value.path, error.value.made_by) for error in (damaged, missing)} == {(path, "leash categorize")}


@pytest.mark.usefixtures("full")
def test_what_an_earlier_version_wrote_is_refused_with_its_command(project: Params) -> None:
    """The analysis has exactly the keys that the report asks for; without one of them it stops, as without a column."""
    report.run(project)
    path = tables.analysis_path("rlvr")
    written = path.read_text()
    for group in json_checksum.check(written).content.values():
        assert group.keys() == analysis_files.GROUP_KEYS
        assert analysis_files.missing_keys(group) == []
    for place in (("tested",), ("test", "p_adjusted"), ("guess_floor", "base", "tested")):
        old = json_checksum.check(written).content
        within = old["all"]
        for name in place[:-1]:
            within = within[name]
        del within[place[-1]]
        path.write_text(json.dumps(json_checksum.with_checksum(old)))
        with pytest.raises(analysis_files.OldAnalysisError, match="leash categorize") as error:
            report.run(project)
        assert error.value.key == ".".join(("all", *place))
        path.write_text(written)
    answers = tables.read(entropy_tables.ANSWERS_PATH, entropy_tables.ANSWERS_SCHEMA, "").drop_columns(["unseen_all"])
    tables.write(entropy_tables.ANSWERS_PATH, answers, answers.schema)
    with pytest.raises(tables.WrongColumnError) as column:
        report.run(project)
    assert (column.value.made_by, column.value.column) == ("leash entropy", "unseen_all")
