"""The figures as someone sees them who opens them: labelled, named, nothing on top of anything else."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox, BboxBase

from leash import cross_pair as several
from leash import tables
from leash.counting import hit_counts, metrics
from leash.params import groups as params
from leash.report import report_data as report
from leash.report.figures import drawing as figures
from leash.report.figures import style, support
from leash.report.metrics import add_pass_at_k_intervals
from leash.report.perplexity_tables import BY_CATEGORY_SCHEMA
from leash.statistics.seeds import stream
from stages.categorize import controls, cross_pair, group_analysis
from stages.categorize import stage as categorize
from stages.entropy import stage as entropy
from stages.mass import stage
from stages.perplexity import stage as perplexity
from stages.report import stage as stage_module
from tests.conftest import ROOT, small, write_params
from tests.made import verdict_table
from tests.unit.test_controls_narrative import JUDGED
from tests.unit.test_report import FIGURES, IMPORTED, sampled

DATASETS = (
    *("aime24", "aime25", "amc23", "math500", "minerva", "olympiadbench", "mathvista", "mathvision", "simpleqa"),
    *("livebench-reasoning", "livebench-language", "livebench-coding", "scibench", "livecodebench-v5"),
    *("livecodebench-v6", "prime-factorization-hard", "graph-color-with-twenty-vertices", "palindrome-generation"),
)
PAIRS: dict[str, dict[str, Any]] = {
    "prorl": {"base": "deepseek-r1-distill-qwen-1.5b", "rlvr": "nemotron-research-reasoning-qwen-1.5b-v2"},
    "step-1000": {"base": "deepseek-r1-distill-qwen-1.5b", "rlvr": "nemotron-step-1000", "step": 1000},
    "step-2000": {"base": "deepseek-r1-distill-qwen-1.5b", "rlvr": "nemotron-step-2000", "step": 2000},
    "acereason-7b": {"base": "deepseek-7b", "rlvr": "acereason-7b"},
    "skywork": {"base": "deepseek-7b", "rlvr": "skywork-or1-7b"},
    "phi": {"base": "phi-4-reasoning", "rlvr": "phi-4-reasoning-plus"},
    "sft": {"base": "phi-4-reasoning", "rlvr": "phi-4-sft", "training": "sft"},
    "olmo": {"base": "olmo-2-0425-1b-dpo", "rlvr": "olmo-2-0425-1b-rlvr1"},
}
PLAIN = ("data set", "answer", "trainings (in the legend's order)")  # what an axis can tell without a unit


class Run(NamedTuple):
    """A run and its figures, drawn once and looked at by many tests."""

    params: params.Params
    results: report.Results
    figures: dict[str, Figure]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A small run of the embedded pair."""
    folder = tmp_path_factory.mktemp("few")
    (folder / "models").symlink_to(ROOT / "models")
    chosen = write_params(folder, small())
    with contextlib.chdir(folder):
        sampled(chosen)
        return drawn(chosen, collected(chosen))


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run without weights, in which no problem has its k samples yet."""
    folder = tmp_path_factory.mktemp("short")
    chosen = write_params(folder, small(**IMPORTED))
    with contextlib.chdir(folder):
        sampled(chosen, samples=3)
        return drawn(chosen, collected(chosen))


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One data set, and models with long names: the figures with a single panel."""
    return run_alone(tmp_path_factory.mktemp("lone"), k=16)


@pytest.fixture(scope="module")
def greedy(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same with one sample per problem."""
    return run_alone(tmp_path_factory.mktemp("greedy"), k=1)


def run_alone(folder: Path, k: int) -> Run:
    raw = small(sample={"k": k})
    models = [f"our-{name}-model-of-seven-billion-parameters-with-a-name-as-long-as-this" for name in ("base", "tuned")]
    dataset = "a-benchmark-of-competition-mathematics-with-a-name-of-sixty-letters"
    raw["run"] |= {"models": models, "pairs": ["tuned"], "datasets": [dataset]}
    raw["models"] = {model: {"engine": "import"} for model in models}
    raw["pairs"] = {"tuned": {"base": models[0], "rlvr": models[1]}}
    raw["datasets"] = {dataset: raw["datasets"]["make"] | {"per_level": 4}}
    chosen = write_params(folder, raw)
    with contextlib.chdir(folder):
        sampled(chosen, samples=k)
        return drawn(chosen, collected(chosen))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """8 pairs on 18 data sets."""
    folder = tmp_path_factory.mktemp("many")
    with contextlib.chdir(folder):
        return drawn(*made_up(folder, problems=4, k=16))


def collected(chosen: params.Params) -> report.Results:
    stage.run(chosen)
    categorize.run(chosen)
    perplexity.run(chosen)
    entropy.run(chosen)
    return stage_module.collect_results(chosen)


def made_up(folder: Path, problems: int, k: int) -> tuple[params.Params, report.Results]:
    """Counts, answers, perplexities and entropies that no model ever had, under the long names of real ones."""
    models = list(dict.fromkeys(model for pair in PAIRS.values() for model in (pair["base"], pair["rlvr"])))
    domain = {name: {"imported": True, "domain": "math" if i < 8 else "non-math"} for i, name in enumerate(DATASETS)}
    raw: dict[str, Any] = {
        "run": {"models": models, "datasets": list(DATASETS), "pairs": list(PAIRS)},
        "models": {model: {"engine": "import"} for model in models},
        "pairs": PAIRS,
        "datasets": domain,
        "sample": {"k": k, "max_tokens": 32768},
        "categorize": {"bootstrap": 20, "epsilon": "auto"},
        "entropy": {"samples": 4},
    }
    chosen = write_params(folder, raw)
    for number, dataset in enumerate(DATASETS):
        about = {"dataset": dataset, "question": "?", "gold": ["0"], "grader": "exact", "images": None, "meta": "{}"}
        rows = [{**about, "problem_id": f"{dataset}-{i:04d}"} for i in range(problems)]
        tables.write(
            tables.problems_path(dataset), tables.table_from_rows(rows, tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA
        )
        for model in models:
            verdicts(model, dataset, number, problems, k)
    return chosen, dataclasses.replace(counted(chosen), perplexity=perplexities(), **entropies(models))


def counted(chosen: params.Params) -> report.Results:
    """The tables that figures need of a run without weights: the first pair on each data set, and the other
    pairs on all of them together."""
    wanted, level = hit_counts.pair_plan(chosen), hit_counts.common_k_plan(chosen)
    pair = chosen.run.pairs[0]
    first = chosen.model_copy(update={"run": chosen.run.model_copy(update={"pairs": [pair]})})
    with hit_counts.open_tallies(chosen, [wanted, level]) as connection, pytest.MonkeyPatch.context() as patched:
        support = categorize.problem_support(connection, chosen, wanted)
        working = controls.count_working(connection)
        both_readings: dict[hit_counts.Control, pa.Table] = {"strict": support, "lenient": support}
        of_first = group_analysis.write_analyses(first, support, {}, both_readings, working, {pair: []})
        for module in (group_analysis, cross_pair):
            patched.setattr(module, "group_masks", lambda rows: {"all": np.ones(rows.num_rows, dtype=bool)})
        of_reach = dict.fromkeys(chosen.run.pairs, ())
        said = {**group_analysis.write_analyses(chosen, support, {}, {}, working, of_reach), **of_first}
        cross_pair.write_cross_pair_tables(chosen, categorize.problem_support(connection, chosen, level), said)
        top = stage_module.load_top_answers(connection)
    mine = support.filter(pc.equal(support["pair"], pair))
    analyses = {pair: json.loads(json.dumps(said[pair]))}  # as the stage leaves it to the report
    known: dict[str, Any] = {"support": support, "metrics": metrics.compute_metrics(support), "analyses": analyses}
    known |= {"pass_at_k": add_pass_at_k_intervals(metrics.compute_pass_at_k(mine), analyses), "top_answers": top}
    trajectory = tables.read(several.TRAJECTORY_PATH, several.trajectory_schema(several.common_k(chosen)), "")
    known["comparison"] = trajectory.filter(pc.equal(trajectory["dataset"], "all"))
    empty = dict.fromkeys((field.name for field in dataclasses.fields(report.Results)), pa.table({}))
    return report.Results(**{**empty, **known})


def verdicts(model: str, dataset: str, number: int, problems: int, k: int) -> None:
    """The first data sets are lost to training, the next are gained, and the others stay."""
    drawn = stream("figures", model, dataset)
    trained = model not in {pair["base"] for pair in PAIRS.values()}
    poor = number % 3 == int(not trained)
    spellings = (
        "0",
        "$0$",
        "$\\frac{0}{1}$ and then a very long story about why that is so",
        "答案",
        "two\nlines",
        None,
    )
    rows = []
    for i in range(problems):
        share = 0.0 if poor else drawn.beta(0.5, 1.0)
        for sample, (luck, which) in enumerate(zip(drawn.random(k), drawn.integers(0, 6, k), strict=True)):
            answer, right = spellings[which], bool(luck < share)
            graded = {"answer": answer, "answer_class": answer and f"{answer} {right}", "correct": right}
            rows.append({"problem_id": f"{dataset}-{i:04d}", "sample": sample, **graded, "score": 0.0, "status": "ok"})
    place = tables.verdicts_folder(model, dataset) / "a.parquet"
    tables.write(place, verdict_table(rows), tables.VERDICTS_SCHEMA)


def perplexities() -> pa.Table:
    """Of every category under six sources, one without an interval and one that could not be measured."""
    values = {"perplexity_base": 2.0, "perplexity_base_low": 1.5, "perplexity_base_high": 3.1, "perplexity_rlvr": None}
    sources = ("deepseek-r1", "a model of somebody else's with a long name", "gold", "qwq", "claimed", "own")
    about = {"pair": "prorl", "dataset": "all", "per": "token", "problems": 1234}
    rows = [{**about, "source": s, "category": c, **values} for s in sources for c in "PESO"]
    return pa.Table.from_pylist(rows, schema=BY_CATEGORY_SCHEMA)


def entropies(models: list[str]) -> dict[str, pa.Table]:
    """Of every model, close to each other."""
    drawn = stream("figures", "entropies")
    both = {model: drawn.uniform(0.3, 0.5, 2).tolist() for model in models}
    rows = [{"model": m, "dataset": "all", "token_entropy": x, "answer_entropy": y} for m, (x, y) in both.items()]
    ends = [
        {"model": m, "dataset": "all", "measure": name, "value": v, "low": v - 0.02, "high": v + 0.04}
        for m, values in both.items()
        for name, v in zip(("token_entropy", "answer_entropy"), values, strict=True)
    ]
    return {"entropy": pa.Table.from_pylist(rows), "entropy_intervals": pa.Table.from_pylist(ends)}


def drawn(chosen: params.Params, results: report.Results, *names: str) -> Run:
    """All figures of a run, or some, laid out."""
    found = {}
    for name, (_, drawing) in figures.build_figure_specs(chosen, results).items():
        if name in names or not names:
            with style.style_context():
                found[name] = drawing()
                found[name].draw_without_rendering()
                plt.close(found[name])
    return Run(chosen, results, found)


def texts(figure: Figure) -> list[Text]:
    """Every text that is seen: of the labels at ticks those within the axes."""
    hidden: set[int] = set()
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            beyond = [tick for tick in axis.get_major_ticks() if not ax.axison or not low <= tick.get_loc() <= high]
            hidden |= {id(label) for tick in beyond for label in (tick.label1, tick.label2)}
            hidden |= set() if ax.axison else {id(axis.label)}
    found = figure.findobj(Text)
    return [text for text in found if isinstance(text, Text) and id(text) not in hidden and seen(text)]


def seen(text: Text) -> bool:
    return bool(text.get_visible() and text.get_text().strip())


def extent(artist: Any) -> BboxBase:
    found = artist.get_window_extent()
    assert isinstance(found, BboxBase)
    return found


def overlapping(one: BboxBase, other: BboxBase) -> bool:
    """By more than the rounding of a pixel."""
    return bool(Bbox.intersection(one.padded(-0.5), other.padded(-0.5)))


def labels(figure: Figure, ax: Axes) -> tuple[str, str]:
    """What the two axes of a panel are called, there or on behalf of all panels."""
    shared = (figure.get_supxlabel(), figure.get_supylabel())
    first = figure.axes[0]
    own = (ax.get_xlabel(), ax.get_ylabel() or first.get_ylabel())
    return own[0] or shared[0], own[1] or shared[1]


def shown(figure: Figure) -> str:
    return " ".join(text.get_text() for legend in figure.legends for text in legend.get_texts())


@pytest.mark.parametrize("run", ["few", "short", "lone", "greedy", "many"])
def test_no_text_is_on_top_of_another_or_cut_off(run: str, request: pytest.FixtureRequest) -> None:
    for name, figure in request.getfixturevalue(run).figures.items():
        places = [(text.get_text(), extent(text)) for text in texts(figure)]
        assert places, name
        whole = figure.bbox.padded(1)
        out = [text for text, box in places if box.x0 < 0 or box.y0 < 0 or box.x1 > whole.x1 or box.y1 > whole.y1]
        assert out == [], name
        met = [(a, b) for (a, one), (b, other) in combinations(places, 2) if overlapping(one, other)]
        assert met == [], name


@pytest.mark.parametrize("run", ["few", "lone", "many"])
def test_legends_stand_beside_the_data(run: str, request: pytest.FixtureRequest) -> None:
    for name, figure in request.getfixturevalue(run).figures.items():
        if run == "lone" and not figure.legends:  # without weights there is nothing to draw of entropies
            continue
        [legend] = figure.legends
        assert not [ax for ax in figure.axes if overlapping(extent(legend), extent(ax))], name


@pytest.mark.parametrize("run", ["few", "many"])
def test_every_axis_is_labelled_with_its_unit(run: str, request: pytest.FixtureRequest) -> None:
    for name, figure in request.getfixturevalue(run).figures.items():
        for ax in (ax for ax in figure.axes if ax.axison):
            for label in labels(figure, ax):
                assert label in PLAIN or "(" in label or "share" in label, (name, label)


def test_every_legend_names_the_models(few: Run) -> None:
    names = {name: shown(figure).replace("(", " ").replace(")", " ").split() for name, figure in few.figures.items()}
    assert list(names) == list(FIGURES)
    assert {name for name, words in names.items() if not {"base", "rlvr"} <= set(words)} == set()


def test_drawing_twice_gives_the_same_bytes(few: Run, tmp_path: Path) -> None:
    captions = [figures.draw_figures(few.params, few.results, tmp_path / folder) for folder in ("one", "other")]
    assert list(captions[0]) == list(FIGURES)
    assert captions[0] == captions[1]
    for name in FIGURES:
        for suffix in (".png", ".svg"):
            one, other = ((tmp_path / folder / name).with_suffix(suffix).read_bytes() for folder in ("one", "other"))
            assert one == other, name


def test_what_cannot_be_drawn_says_why(short: Run) -> None:
    said = {name: sentences(figure) for name, figure in short.figures.items() if not figure.legends}
    assert said == {
        "support_map": "No problem has enough samples to be categorized.",
        "mass_map": "These samples are too few to tell masses from sampling noise.",
        "pass_at_k_examples": "No category has a problem to show as an example.",
        "perplexity": "No reference solution was scored by both models.",
        "entropy": "No model has both entropies on every problem.",
    }
    nothing = dataclasses.replace(short.results, top_answers=short.results.top_answers.slice(0, 0))
    figure = drawn(short.params, nothing, "answers").figures["answers"]
    assert sentences(figure) == "No sample has been verified, so there are no answers to draw."


def sentences(figure: Figure) -> str:
    return " ".join(" ".join(text.get_text() for text in texts(figure)).split())


def test_the_crossing_is_marked_with_its_interval(few: Run) -> None:
    crossing = {"value": 3.2, "low": 1.4, "high": None}
    groups = {name: {**found, "crossing": crossing} for name, found in few.results.analyses["rlvr"].items()}
    crossed = dataclasses.replace(few.results, analyses={"rlvr": groups})
    figure = drawn(few.params, crossed, "pass_at_k").figures["pass_at_k"]
    assert [text.get_text() for text in texts(figure)].count("k* = 3 (1 to over 16)") == 3
    marked = [line for line in figure.axes[0].lines if line.get_marker() == "d"]
    assert [[float(x) for x in np.asarray(line.get_xdata())] for line in marked] == [[3.2]]


def test_each_view_is_a_panel_with_its_own_curves(few: Run) -> None:
    """The judge has one too, if one was asked and is not refused."""
    groups = few.results.analyses["rlvr"]
    curves = {
        "strict reading": groups["all"]["controls"]["strict"]["pass_at_k"],
        "sound: CoT-pass@k": groups["all"]["controls"]["sound"]["pass_at_k"],
        "unrefuted": groups["all"]["controls"]["unrefuted"]["pass_at_k"],
        "judged: CoT-pass@k": JUDGED["cot_pass_at_k"],
    }
    refused = JUDGED | {"refused": "no better than chance", "cot_pass_at_k": None}
    for judged, names in ((JUDGED, [*curves]), (refused, [*curves][:3])):
        analyses = {"rlvr": groups | {"all": groups["all"] | {"judged": judged}}}
        run = dataclasses.replace(few.results, analyses=analyses)
        figure = drawn(few.params, run, "cot_pass_at_k").figures["cot_pass_at_k"]
        assert [ax.get_title("left") for ax in figure.axes] == names
        for name, ax in zip(names, figure.axes, strict=True):
            for line, role in zip(ax.lines, ("base", "rlvr"), strict=True):
                expected = {float(k): at_k["value"] for k, at_k in curves[name][role].items()}
                assert dict(np.asarray(line.get_xydata()).tolist()) == pytest.approx(expected)
    assert few.figures["pass_at_k_by_reading"].axes[1].get_title("left") == "lenient reading"
    groups = groups | {"all": groups["all"] | {"controls": {}}}
    nothing = drawn(few.params, dataclasses.replace(few.results, analyses={"rlvr": groups}), "cot_pass_at_k")
    assert "sampling stopped early" in sentences(nothing.figures["cot_pass_at_k"])


def test_examples_of_data_sets_are_those_whose_change_is_sure(many: Run) -> None:
    """Each panel stands in the column that the interval of its change belongs to."""
    figure = many.figures["pass_at_k_examples"]
    heads = [text.get_text() for text in texts(figure) if " at k = 16 (" in text.get_text()]
    panels = [ax for ax in figure.axes if ax.axison]
    assert len(heads) == len(panels) >= 3
    for head, ax in zip(heads, panels, strict=True):
        low, high = (float(end) for end in head.partition("(")[2].rstrip(")").split(" to "))
        spec = ax.get_subplotspec()
        assert spec is not None
        assert spec.colspan.start == (1 if low > 0 else 2 if high < 0 else 0)
        base, rlvr = (float(np.asarray(line.get_ydata())[-1]) for line in ax.lines)
        assert float(head.split()[0]) == pytest.approx(rlvr - base, abs=6e-4)


def test_many_points_are_one_picture(few: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for most, pictures in ((1000, 0), (3, 1)):
        monkeypatch.setattr(support, "MAX_VECTOR_POINTS", most)
        figure = drawn(few.params, few.results, "support_map").figures["support_map"]
        style.save_figure(figure, tmp_path / "map")
        assert (tmp_path / "map.svg").read_text().count("<image") == pictures
