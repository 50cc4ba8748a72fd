"""The page's numbers against Python: its script on a grid of counts, and what a browser shows at each slider step."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leash.params.groups import Params
from leash.report.page import content
from leash.statistics.analysis import analyze_counts
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.categories import classify_support, support_probability
from leash.statistics.counts import Counts
from leash.statistics.pass_at_k import SampleCounts, hit_probability
from leash.statistics.ratios import RATIO_NAMES, compute_ratios
from leash.statistics.support import detectable_mass
from tests import made
from tests.browser import CHROMIUM, browser, opened

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no Node.js here (apt-get install nodejs)")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here (apt-get install chromium)")
ENDINGS = ("k", "hit", "floor", None)
EPSILONS = (0.0, 0.01, 0.1, 0.29, 0.5, 0.9)
K, LESS = 64, 32  # samples of the two data sets


def run_script(expression: str, given: Any) -> Any:
    """The value of an expression of the page's script, for the constant `given`."""
    code = (content.SQL_DIR / "support.js").read_text()
    # NaN is not JSON; Python reads it nevertheless.
    spell = "(_, x) => (typeof x === 'number' && Number.isNaN(x) ? 'NaN' : x)"
    program = f"{code}\nconst given = {json.dumps(given)};\nconsole.log(JSON.stringify({expression}, {spell}));"
    done = subprocess.run([str(NODE), "-"], input=program, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.replace('"NaN"', "NaN"))


def every_count() -> list[tuple[int, int, str | None]]:
    """Numbers of samples and hits with every ending that sampling can have."""
    counts = [(n, c, ended) for n in (0, 1, 2, 7, 29, 64, 100) for c in range(n + 1) for ended in ENDINGS]
    return [(n, c, ended) for n, c, ended in counts if c or ended not in ("hit", "floor")]


@needs_node
def test_the_script_finds_the_support_of_seen_samples_as_python_does() -> None:
    counts = every_count()
    settings = list(itertools.product((1, 7, 64, 100, 1024), EPSILONS))
    n, c, ended = (np.array(column, dtype=object) for column in zip(*counts, strict=True))
    samples = SampleCounts(n.astype(int), c.astype(int), ended)
    asked = [[n, c, ended, k, epsilon] for k, epsilon in settings for n, c, ended in counts if n <= k]
    by_script = run_script("given.map(([n, c, ended, k, epsilon]) => support({ n, c, ended }, k, epsilon))", asked)
    by_python = []
    for k, epsilon in settings:
        seen = samples.rows(samples.n <= k)
        by_python += support_probability(seen, np.full(len(seen.n), k), np.full(len(seen.n), epsilon)).tolist()
    assert len(by_script) > 10_000
    np.testing.assert_array_equal(by_script, by_python)


@needs_node
def test_the_script_finds_categories_and_ratios_as_python_does() -> None:
    pairs = list(itertools.product((0.0, 1.0), repeat=2))
    letters = classify_support(*np.array(pairs).T).letters.tolist()
    assert run_script("given.map(([base, rlvr]) => category(base, rlvr))", pairs) == letters
    assert run_script("[category(NaN, 1), category(0, NaN)]", None) == ["", ""]
    counts = list(itertools.product((0, 1, 3, 40, 1355), repeat=3))
    by_script = run_script("given.map((counts) => Object.values(ratios(counts)))", counts)
    by_python = np.stack(list(compute_ratios(*np.array(counts).T).values()), axis=-1)
    assert [[np.nan if x is None else x for x in row] for row in by_script] == pytest.approx(by_python, nan_ok=True)


@needs_node
def test_the_script_computes_pass_at_k_and_the_detectable_mass_as_python_does() -> None:
    counts = [(n, c, ended) for n, c, ended in every_count() if ended is not None]
    ks = (1, 2, 7, 16, 64, 128)
    asked = [[*count, k] for count in counts for k in ks]
    by_script = run_script("given.map(([n, c, ended, k]) => passAtK({ n, c, ended }, k))", asked)
    n, c, ended = (np.array(column, dtype=object)[:, None] for column in zip(*counts, strict=True))
    by_python = hit_probability(SampleCounts(n.astype(int), c.astype(int), ended), np.array(ks)).ravel()
    np.testing.assert_allclose(by_script, by_python, atol=1e-12)
    [mass] = run_script("given.map((k) => detectable(k, 0.95))", [K])
    assert mass == pytest.approx(detectable_mass(K, 0.95))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Params]:
    folder = tmp_path_factory.mktemp("page_numbers")
    with contextlib.chdir(folder):
        params = made.parameters(folder, K, less=LESS)
        made.write(params, 40, question="Why?", text="So:", carried=2)
        made.reported(params)
        yield params


def carried_numbers() -> dict[str, Any]:
    """The data that the page embeds."""
    page = Path("reports/index.html").read_text()
    [text] = re.findall(r'<script type="application/json" id="content">(.*?)</script>', page)
    found: dict[str, Any] = json.loads(text)
    return found


def analysis_at(params: Params, k: int, epsilon: float | str, dataset: str) -> dict[str, Any]:
    """What `leash categorize` computes at these settings."""
    chosen = made.parameters(Path(), K, less=LESS, categorize={"k": k if k < K else "all", "epsilon": epsilon})
    counts = Counts.from_table(made.compute_support(chosen))
    part = counts.where((counts.dataset == dataset) | (not dataset))
    settings = AnalysisSettings(confidence=0.95, resamples=params.categorize.bootstrap, seed=params.categorize.seed)
    return analyze_counts(part, settings)


@pytest.mark.parametrize("dataset", ["", "quiz"])
@pytest.mark.parametrize(("k", "epsilon"), [(K, 0.0), (16, 0.0), (16, 0.1), (LESS, 0.5), (8, "auto"), (K, "auto")])
def test_the_page_carries_what_categorize_computes_at_each_slider_step(
    run: Params, k: int, epsilon: float | str, dataset: str
) -> None:
    carried = carried_numbers()
    expected = analysis_at(run, k, epsilon, dataset)
    part = carried["intervals"]["tuned"][dataset]
    place = len(carried["epsilons"]) if epsilon == "auto" else carried["epsilons"].index(epsilon)
    row = part["rows"][part["at"][carried["ks"].index(k)][place]]
    assert row.keys() == set(RATIO_NAMES)
    for name in RATIO_NAMES:
        if row[name] is None:
            assert expected[name]["value"] is None
        else:
            for end in ("low", "high"):
                assert row[name][end] == pytest.approx(expected[name][end], rel=1e-3, abs=1e-6)


@pytest.mark.usefixtures("run")
def test_the_page_carries_no_p_value_or_decision_for_its_sliders() -> None:
    """One of these many settings would seem to show a change in many runs without any."""
    carried = carried_numbers()
    assert carried["intervals"].keys() == {"tuned"}
    for part in carried["intervals"]["tuned"].values():
        assert part.keys() == {"rows", "at"}
        assert all(row.keys() == set(RATIO_NAMES) for row in part["rows"])
        assert all(ends is None or ends.keys() == {"low", "high"} for row in part["rows"] for ends in row.values())
    assert not re.search(r'"(p_value|p_adjusted|decisions?|mcnemar|equivalence)":', json.dumps(carried))


@needs_browser
def test_a_browser_shows_the_intervals_and_decides_at_the_runs_own_settings_only(run: Params) -> None:
    settings = [(0.0, K), (0.1, 16), (0.02, 32)]
    with browser() as chromium:
        seen = opened(chromium, Path("reports/index.html").resolve())
        for epsilon, k in settings:
            expected = analysis_at(run, k, epsilon, "")
            seen.page.locator("#k").fill(str(seen.page.evaluate("content.ks").index(k)))
            seen.page.locator("#epsilon-exact").fill(str(epsilon))
            cells = seen.page.locator("#counts tr", has_text="seen").locator("td").all_inner_texts()
            assert cells[:4] == [str(expected["categories"][name]) for name in "PESO"]
            ratios = [expected[name] for name in RATIO_NAMES]
            numbers = [[float(x) for x in re.findall(r"-?[0-9.]+", cell)] for cell in cells[4:]]
            # The page rounds numbers that were rounded to four digits before.
            assert numbers == [pytest.approx([x["value"], x["low"], x["high"]], abs=1.1e-3) for x in ratios]
            text = seen.page.locator("#headline").inner_text()
            decided = re.search("can't tell|(more|fewer|as many) problems|the same", text) is not None
            assert decided is ((epsilon, k) == (0.0, K))
            assert ("the report decides at its own ε and k" in text) is not decided
        assert seen.complaints == []
