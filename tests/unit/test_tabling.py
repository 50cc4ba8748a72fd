"""The tables of the report: an estimate and its interval in one cell, numbers as data/analysis has them, and the
paper's rows below ours where models and problems are its own."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from leash import tables
from leash.params import loading
from leash.params.groups import Params
from leash.report import perplexity_tables, published
from leash.report import tables as contents
from leash.report.cells import format_cells, format_markdown
from leash.report.table_captions import TABLE_CAPTIONS
from leash.statistics.ratios import RATIO_NAMES
from stages.categorize import stage as categorize
from stages.entropy import stage as entropy
from stages.mass import stage as mass
from stages.perplexity import stage as perplexity
from stages.report import stage as report
from tests.conftest import ROOT, small, write_params, yaml
from tests.unit.test_published import ROWS, SLIPS, name
from tests.unit.test_report import sampled
from tests.unit.test_report import write as write_samples

PAIR = "prorl-1.5b-v1"
MODELS = ("deepseek-1.5b", PAIR)
PAPERS: dict[str, Any] = yaml.load((ROOT / "params.paper.yaml").read_text())
MATH = ["aime24", "aime25", "amc23", "math500", "minerva", "olympiad"]
Rows = list[dict[str, str]]


def paper(**run: Any) -> Params:
    """The paper's own parameters, with another run."""
    return Params.model_validate({**PAPERS, "run": PAPERS["run"] | run})


def made_up(hits: Mapping[str, Sequence[int]], k: int = 4, epsilon: float = 0.0) -> None:
    """A run of ProRL v1 on AIME 2024 from its verdicts on, reported: how many of 4 samples are right, by model and
    problem. Weights are not to be had here; for the report the models have their ids."""
    run = {"models": list(MODELS), "pairs": [PAIR], "datasets": ["aime24"], "processes": 1}
    raw = small(run=run, sample={"k": k}, categorize={"epsilon": epsilon})
    raw["datasets"] = {"aime24": {"family": "aime24"}}
    raw["pairs"] = {PAIR: PAPERS["pairs"][PAIR]}
    ids = {name: {key: PAPERS["models"][name].get(key) for key in ("hub", "revision")} for name in MODELS}
    raw["models"] = {name: {"engine": "import"} for name in MODELS}
    weightless = write_params(Path(), raw)
    problems = [
        {"dataset": "aime24", "problem_id": f"p{i}", "question": "?", "gold": ["7"], "grader": "math", "meta": "{}"}
        for i in range(len(hits[PAIR]))
    ]
    tables.write(
        tables.problems_path("aime24"), tables.table_from_rows(problems, tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA
    )
    for model, counts in hits.items():
        drawn = [{"problem_id": f"p{i}", "sample": j, "correct": j < c} for i, c in enumerate(counts) for j in range(4)]
        write_samples(weightless, model, "aime24", drawn)
    for stage in (mass, categorize, perplexity, entropy):
        stage.run(weightless)
    named = write_params(Path(), {**raw, "models": {name: {"engine": "import"} | ids[name] for name in MODELS}})
    report.run(named)


HITS = {MODELS[0]: [4, 2, 1, 0, 1, 3], PAIR: [4, 4, 0, 0, 0, 1]}


def shown(table: str) -> Rows:
    with Path(f"reports/tables/{table}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_an_estimate_takes_its_interval_into_its_cell() -> None:
    content = pa.table(
        {
            **{"dataset": ["chain", "make"], "k": [2048, 64], "k_most": [8192, 64]},
            **{"SRR": [0.8426, 0.5], "SRR_low": [0.7626, None], "SRR_high": [0.9009, None], "SRR_floor": [0.986, None]},
            **{"token_entropy": [0.1, None], "token_entropy_floor": [16363.0, 0.0], "low": [1, 2]},
        }
    )
    headings, rows = format_cells(content)
    assert headings == ["data set", "k", "retained (SRR)", "SRR floor", "token entropy", "token entropy floor", "low"]
    assert rows == [
        ["chain", "2048 to 8192", "0.843 (0.763 to 0.901)", "0.986", "0.100", "16363", "1"],
        ["make", "64", "0.500", "–", "–", "0.000", "2"],
    ]
    lines = format_markdown(content).splitlines()
    assert lines[1] == "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    assert lines[2] == f"| {' | '.join(rows[0])} |"
    assert r"a\|b" in format_markdown(pa.table({"trace": ["a|b"]}))


def test_what_tells_the_papers_rows_apart_is_shown_where_there_are_any() -> None:
    ours = pa.table({"pair": ["a"], "source": ["here"], "note": pa.array([None], pa.string())})
    assert format_cells(ours) == (["pair"], [["a"]])
    both = pa.table({"pair": ["a", "a"], "source": ["here", "paper"], "note": [None, "a slip"]})
    assert format_cells(both) == (["pair", "source", "note"], [["a", "here", "–"], ["a", "paper", "a slip"]])


@pytest.mark.usefixtures("project")
def test_the_papers_row_stands_below_ours() -> None:
    made_up(HITS)
    ours, theirs = shown("by_dataset")
    assert (ours["source"], theirs["source"]) == ("here", "paper")
    assert [ours[key] for key in ("pair", "dataset", "k", "epsilon", *"PESO")] == [
        *(PAIR, "aime24", "4", "0", "3", "0", "2", "1"),
    ]
    assert [theirs[key] for key in ("pair", "dataset", "k", "epsilon", "problems", *"PESO")] == [
        *(PAIR, "aime24", "8192", "0", "30", "25", "0", "3", "2"),
    ]
    assert [theirs[key] for key in ("SRR", "NSCR", "base_pass@k", "rlvr_pass@k", "SRR_low", "base_pass@1", "note")] == [
        *("0.893", "-0.107", "0.933", "0.833", "", "", ""),
    ]
    headings, rows = format_cells(report.collect_results(loading.load()).tables["by_dataset"])
    assert [row[headings.index("source")] for row in rows] == ["here", "paper"]
    assert [row["source"] for row in shown("by_domain")] == ["here"]  # AIME 2024 is not all of its math
    assert [row["source"] for row in shown("trajectory")] == ["here", "here"]  # not one of its checkpoints


@pytest.mark.usefixtures("project")
def test_the_papers_entropies_stand_below_ours() -> None:
    made_up(HITS)
    found = [(row["model"], row["dataset"], row["source"], row["answer_entropy"]) for row in shown("entropy")]
    assert [row[:3] for row in found] == [
        (model, dataset, source)
        for model in MODELS
        for dataset, source in (("all", "here"), ("aime24", "here"), ("aime24", "paper"))
    ]
    assert [answer for *_, source, answer in found if source == "paper"] == ["2.15", "1.24"]
    theirs = shown("entropy")[2]
    assert [theirs[key] for key in ("average", "tokens", "token_entropy", "samples")] == [
        "0.3115",
        "16363",
        "0.45",
        "32",
    ]
    ours = shown("entropy")[1]
    assert float(ours["answer_entropy_low"]) <= float(ours["answer_entropy"]) <= float(ours["answer_entropy_high"])
    assert float(ours["answer_entropy_floor"]) >= 0
    assert ours["token_entropy_floor"] == ""


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_tables_say_what_the_analysis_says(epsilon: float) -> None:
    """Each number of both tables; and, where support takes more than one hit, a second row that counts any."""
    made_up(HITS, epsilon=epsilon)
    groups = json.loads(tables.analysis_path(PAIR).read_text())
    for table, group in (("by_domain", "all"), ("by_dataset", "aime24")):
        found = groups[group]
        ours = [row for row in shown(table) if row["source"] == "here"]
        assert len(ours) == (2 if epsilon else 1)
        readings = [found | found["categories"], found["any_hit"] | found["any_hit"]["categories"]]
        for row, reading in zip(ours, readings, strict=False):
            assert [int(row[letter]) for letter in "PESO"] == [reading[letter] for letter in "PESO"]
            for ratio in RATIO_NAMES:
                ends = [number(row[f"{ratio}{end}"]) for end in ("", "_low", "_high")]
                assert ends == pytest.approx([reading[ratio][end] for end in ("value", "low", "high")])
        for ratio in RATIO_NAMES:
            floor = [number(ours[0][f"{ratio}_{which}"]) for which in ("half", "floor")]
            assert floor == pytest.approx([found["noise_floor"][which][ratio]["value"] for which in ("pair", "base")])
        assert [int(ours[0][key]) for key in ("problems", "half_k")] == [6, 2]
        assert [float(row["epsilon"]) for row in ours] == [epsilon, 0.0][: len(ours)]
    passes = [number(shown("by_dataset")[0][f"{role}_pass@{k}"]) for role in ("base", "rlvr") for k in "1k"]
    curves = groups["aime24"]["pass_at_k"]
    assert passes == pytest.approx([curves[role][k]["value"] for role in ("base", "rlvr") for k in "14"])


def number(text: str) -> float | None:
    return float(text) if text else None


@pytest.mark.usefixtures("project")
def test_where_nothing_is_categorized_the_paper_still_stands_below() -> None:
    made_up(HITS, k=8)
    ours, theirs = shown("by_dataset")
    assert [ours[key] for key in ("short", "P", "SRR", "SRR_low", "SRR_floor", "half_k")] == ["6", "0", "", "", "", ""]
    assert theirs["P"] == "25"
    assert list(report.collect_results(loading.load()).tables) == list(TABLE_CAPTIONS)


def test_nothing_stands_below_the_embedded_pair(project: Params) -> None:
    sampled(project)
    for stage in (mass, categorize, perplexity, entropy):
        stage.run(project)
    found = report.collect_results(project).tables
    for table in ("by_domain", "by_dataset", "trajectory", "perplexity", "entropy"):
        assert set(found[table]["source"].to_pylist()) == {"here"}
    assert found["trainings"].num_rows == 0  # one training only
    assert format_cells(found["trainings"])[1] == []
    assert {row["dataset"] for row in found["trajectory"].to_pylist()} == {"all", "chain", "make"}


@pytest.mark.usefixtures("project")
def test_domains_have_rows_of_their_own_where_there_are_several() -> None:
    """At unequal k, a row over all of them says the least and the most."""
    raw = small()
    raw["datasets"]["chain"] |= {"k": 8}
    raw["datasets"]["make"] |= {"domain": "non-math"}
    asked = write_params(Path(), raw)
    sampled(asked)
    for stage in (mass, categorize, perplexity, entropy):
        stage.run(asked)
    found = report.collect_results(asked).tables
    headings, rows = format_cells(found["by_domain"])
    shown = [(row[headings.index("domain")], row[headings.index("k")], row[headings.index("problems")]) for row in rows]
    assert shown == [("all", "8 to 16", "10"), ("math", "8", "4"), ("non-math", "16", "6")]
    assert found["by_dataset"]["dataset"].to_pylist() == ["chain", "make"]
    assert {row["k"] for row in found["trajectory"].to_pylist()} == {8}
    apart = [name for name in found["trajectory"]["dataset"].to_pylist() if name.startswith("all ")]
    assert apart == ["all math", "all non-math"]


def test_a_model_is_known_by_its_id_and_where_it_matters_its_revision() -> None:
    models = paper().models
    assert {name: published.paper_model_name(model) for name, model in models.items()}.items() >= {
        ("prorl-1.5b-v1", "ProRL-1.5B-v1"),
        ("prorl-1.5b-v2", "ProRL-1.5B-v2"),
        ("skywork-or1-7b", "Skywork-OR1-7B"),
        ("phi-4", "Phi4-Reason-14B"),
    }
    assert None not in {published.paper_model_name(model) for model in models.values()}
    prorl = models["prorl-1.5b-v2"]
    assert published.paper_model_name(prorl.model_copy(update={"revision": None})) == "ProRL-1.5B-v2"
    assert (
        published.paper_model_name(prorl.model_copy(update={"revision": "0f3a"})) is None
    )  # a commit may be of either


def test_a_family_is_the_papers_unless_something_is_cut_from_it() -> None:
    asked = paper()
    families = {
        published.paper_dataset_name(dataset)
        for dataset in asked.datasets.values()
        if dataset.family != "reasoning_gym"
    }
    assert families == {row["dataset"] for row in ROWS} - {"Math", "Non-Math", "Overall"}
    cut = {**PAPERS, "datasets": PAPERS["datasets"] | {"simpleqa": {"family": "simpleqa", "size": "all"}}}
    assert published.paper_dataset_name(Params.model_validate(cut).datasets["simpleqa"]) is None
    assert published.paper_dataset_name(asked.datasets["dice"]) is None


@pytest.mark.parametrize(
    ("pair", "datasets", "counts"),
    [
        ("prorl-1.5b-v1", MATH, [1355, 5, 56, 131]),
        ("prorl-1.5b-v2", MATH, [1349, 9, 62, 127]),
        ("prorl-1.5b-v1", MATH[:-1], None),
        ("prorl-1.5b-v1", [*MATH, "simpleqa"], None),
        ("prorl-1.5b-v1", [*MATH, "dice"], None),
        ("ovr-7b", ["mathvista", "mathvision"], [781, 3, 4, 516]),
        ("ovr-7b", MATH, None),
    ],
)
def test_a_row_of_table_1_is_for_all_of_its_data_sets_and_no_other(
    pair: str, datasets: list[str], counts: list[int] | None
) -> None:
    found = published.find_group_row(paper(), pair, datasets)
    assert (found and [found[letter] for letter in "PESO"]) == counts


def test_the_rows_of_table_1_sum_the_data_sets_they_are_taken_for() -> None:
    """14B models have no LiveCodeBench; and what was not categorized is in no sum."""
    asked = paper()
    datasets = [name for name, dataset in asked.datasets.items() if published.paper_dataset_name(dataset)]
    for pair in asked.pairs:
        mine = [name for name in datasets if published.find_pair_row(asked, pair, name)]
        whole = published.find_group_row(asked, pair, mine)
        if not mine:  # those of ProRL v2 are not printed
            assert pair == "prorl-1.5b-v2"
            continue
        assert whole
        singles = [published.find_pair_row(asked, pair, name) for name in mine]
        assert [whole[x] for x in "PESO"] == [sum(single[x] for single in singles if single) for x in "PESO"]


def test_slips_of_the_paper_are_marked() -> None:
    assert {
        name(row): set(published.misprinted_ratios(row)) for row in ROWS if published.misprinted_ratios(row)
    } == SLIPS
    other = ["simpleqa", "livebench-reasoning", "livebench-coding", "livebench-language", "scibench"]
    everything = [*MATH, *other, "livecodebench-v5", "livecodebench-v6"]
    slipped = published.find_group_row(paper(), "prorl-1.5b-v1", everything)
    assert slipped
    assert slipped["note"] == "NDR is printed as 0.02, its counts give 0.0148"
    correct = published.find_group_row(paper(), "prorl-1.5b-v1", MATH)
    assert correct
    assert correct["note"] is None


def test_trainings_of_a_base_of_the_papers_have_its_own_beside() -> None:
    """Its SFT and DAPO runs by base, kind of training and step: their weights are not public, and the row says so."""
    raw = {**PAPERS, "models": PAPERS["models"] | {"qwen": {"hub": "Qwen/Qwen2.5-Math-7B"}, "mine": {"path": "mine"}}}
    raw["pairs"] = {
        "sft": {"base": "qwen", "rlvr": "mine", "training": "sft"},
        "rl": {"base": "qwen", "rlvr": "mine"},
        "early": {"base": "deepseek-1.5b", "rlvr": "mine", "step": 300},
    }
    asked = Params.model_validate(raw)
    sft, rl = (published.find_training_row(asked, pair, "minerva") for pair in ("sft", "rl"))
    assert sft
    assert rl
    assert [[row[letter] for letter in "PESO"] for row in (sft, rl)] == [[154, 28, 18, 72], [138, 12, 34, 88]]
    assert sft["note"] == published.OWN_RUN_NOTE
    step = published.find_step_row(asked, "early", "aime25")
    assert step
    assert [step[key] for key in ("k", *"PESO")] == [256, 18, 2, 3, 7]
    assert "SRR is printed as 0.864, its counts give 0.8571" in step["note"]
    assert (
        published.find_step_row(asked, "rl", "aime25") is published.find_training_row(asked, "early", "aime25") is None
    )


@pytest.mark.parametrize(
    ("dataset", "trace", "category", "both"),
    [
        ("aime24", "claude-sonnet-4", "O", (8.76, 14.91)),
        ("aime25", "DeepSeek R1", "S", (1.39, 1.70)),
        ("olympiad", "deepseek-r1", "E", (1.41, 1.28)),
        ("aime24", "deepseek-r1", "E", None),
        ("aime24", "base", "S", None),
        ("amc23", "deepseek-r1", "S", None),
    ],
)
def test_the_papers_perplexities(dataset: str, trace: str, category: str, both: tuple[float, float] | None) -> None:
    found = published.find_perplexity_row(paper(), PAIR, dataset, trace, category)
    assert (found and (found["perplexity_base"], found["perplexity_rlvr"])) == both
    assert published.find_perplexity_row(paper(), "skywork-or1-7b", dataset, trace, category) is None


def test_the_papers_perplexities_stand_below_ours() -> None:
    rows = [
        {"pair": PAIR, "dataset": dataset, "source": "deepseek-r1", "category": "S", "per": "token", "problems": 3}
        for dataset in ("all", "aime24")
    ]
    found = contents.perplexity_table(
        paper(), tables.table_from_rows(rows, perplexity_tables.BY_CATEGORY_SCHEMA)
    ).to_pylist()
    assert [(row["dataset"], row["source"], row["perplexity_rlvr"]) for row in found] == [
        ("all", "here", None),
        ("aime24", "here", None),
        ("aime24", "paper", 1.39),
    ]


@pytest.mark.parametrize(
    ("model", "dataset", "numbers"),
    [
        ("deepseek-1.5b", "olympiad", (0.5155, 11873, 0.44, 1.33)),
        ("prorl-1.5b-v2", "math500", (0.9201, 5070, 0.54, 0.18)),
        ("acereason-14b", "aime24", (0.7729, 13871, 0.12, 0.66)),
        ("acereason-14b", "aime25", None),
        ("phi-4", "aime24", None),
    ],
)
def test_the_papers_entropies(model: str, dataset: str, numbers: tuple[float, ...] | None) -> None:
    found = published.find_entropy_row(paper(), model, dataset)
    names = ("average", "tokens", "token_entropy", "answer_entropy")
    assert (found and tuple(found[name] for name in names)) == (pytest.approx(numbers) if numbers else None)


def test_every_table_has_a_title_and_a_sentence() -> None:
    for title, note in TABLE_CAPTIONS.values():
        assert not title.endswith(".")
        assert note.endswith(".")
