"""A run with one greedy completion per problem, imported for two models: the smallest run people have.

Half of the numbers of a report need two samples or more. This run must still end in a complete report, which says
what one sample cannot show and claims nothing beyond it.
"""

from __future__ import annotations

import contextlib
import csv
import html
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from PIL import Image

from leash.params import loading
from leash.params.groups import Params
from stages.cli import main
from tests import made
from tests.browser import CHROMIUM, browser, opened
from tests.unit.test_report import FIGURES

PROBLEMS = 40
METRICS = Path("reports/metrics.json")


def write_completions(path: Path, answer: Callable[[int], int | None]) -> None:
    """One completion per problem; None gives no answer."""
    with path.open("w") as file:
        for i in range(PROBLEMS):
            given = answer(i)
            text = "I am not sure." if given is None else f"It is \\boxed{{{given}}}."
            file.write(json.dumps({"question": f"What is {i} + {i}?", "answer": str(2 * i), "text": text}) + "\n")


def leash(*arguments: str) -> str:
    done = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Params]:
    """`mine` solves 6 problems and gives no answer to 16; `tuned` solves 19, of which 5 are the same."""
    folder = tmp_path_factory.mktemp("greedy")
    with contextlib.chdir(folder):
        write_completions(Path("mine.jsonl"), lambda i: None if i % 5 in (1, 2) else 2 * i if i % 4 == 0 else -1)
        write_completions(Path("tuned.jsonl"), lambda i: None if i == 1 else 2 * i if i % 2 == 0 and i else -1)
        for model in ("mine", "tuned"):
            said = leash("import", f"{model}.jsonl", "--model", model, "--dataset", "exam")
        pasted = said[said.index("\nrun:") :]  # what `leash import` prints is a complete file
        assert "sample:" not in pasted
        if Params.model_fields["sample"].is_required():
            pasted += "sample: {k: 1, max_tokens: 64}\n"
        Path("params.yaml").write_text(pasted)
        params = loading.load()
        made.sampled(params)
        made.reported(params)
        yield params


def read_metrics() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(METRICS.read_text())["pairs"]["tuned"]
    return found


def analysis() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("data/analysis/tuned.json").read_text())["all"]
    return found


@pytest.mark.usefixtures("run")
def test_every_file_of_the_report_is_there() -> None:
    for name in FIGURES:
        with Image.open(f"reports/figures/{name}.png") as image:
            assert image.width > 300, name
    numbers = read_metrics()
    assert [numbers[name] for name in "PESO"] == [5, 14, 1, 20]
    summary = json.loads(Path("reports/summary.json").read_text())
    assert [summary[f"pass@{at}.{who}"] for at in "1k" for who in ("base", "trained")] == [0.15, 0.475] * 2
    for name in ("pass_at_k", "categories", "by_epsilon"):
        with Path(f"reports/plots/{name}.csv").open() as file:
            assert list(csv.DictReader(file)), name
    for name in ("by_domain", "by_dataset", "pass_at_k", "trajectory", "statuses"):
        assert Path(f"reports/tables/{name}.csv").read_text().count("\n") > 1, name


@pytest.mark.usefixtures("run")
def test_what_one_sample_cannot_show_is_null() -> None:
    """No half, so no noise floor; no first eighth, so no extrapolation; no shares, so no test of sharpening."""
    found = analysis()
    assert found["noise_floor"]["k"] is None
    assert {found["noise_floor"][which][name] for which in ("base", "rlvr", "pair") for name in "PESO"} == {None}
    assert found["extrapolation"] is None
    assert found["tilt"]["odds_ratio"] is None
    assert [one["epsilon"] for one in found["by_epsilon"]] == [0.0]


@pytest.mark.usefixtures("run")
def test_the_terminal_shows_one_pass_column_and_no_empty_ones() -> None:
    head = next(line for line in leash("report").splitlines() if line.startswith("pair "))
    assert head.split()[-1] == "pass@1"
    said = leash("compare", "data/support/tuned.parquet")
    assert "k = –" not in said
    assert "cross" not in said
    json.loads(leash("compare", "data/support/tuned.parquet", "--json"))


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here (apt-get install chromium)")
@pytest.mark.usefixtures("run")
def test_the_page_opens_and_its_sliders_have_nowhere_to_go() -> None:
    with browser() as started:
        seen = opened(started, Path("reports/index.html").resolve(), viewport={"width": 1200, "height": 900})
        page = seen.page
        cells = page.locator("#counts tr", has_text="seen").locator("td").all_inner_texts()
        assert cells[:4] == ["5", "14", "1", "20"]
        assert page.locator("#k").is_disabled()
        assert page.locator("#epsilon").is_disabled()
        assert page.locator("#auto").is_disabled()  # no share of one sample exceeds it
        assert page.evaluate("mapSpec().layer[2].encoding.x.axis.values") == [0.5, 1]
        page.locator("#problems button").first.click()
        page.wait_for_selector("#problem-answers canvas")
        assert page.locator("#problem-curve").count() == 0
        assert "tuned" in page.locator("#problem-body").inner_text()
        assert seen.complaints == []


@pytest.mark.usefixtures("run")
def test_the_verdict_names_what_was_seen_and_the_difference_of_format() -> None:
    """In the terminal, in metrics.json and on the page."""
    numbers = read_metrics()
    first, second, *_ = numbers["verdict"]
    assert first.startswith("tuned solves more problems than mine in one sample each: of 40, 14 are solved by tuned")
    assert second == "Part of this may be format: mine gave no answer in 40% of its completions, tuned in 2%."
    assert numbers["endings"]["no_answer"] == {"base": 0.4, "rlvr": 0.025, "p_value": pytest.approx(6e-5, rel=0.05)}
    assert numbers["endings"]["truncated"] == {"base": 0.0, "rlvr": 0.0, "p_value": 1.0}
    assert f"{first}\n{second}\n" in leash("report")
    page = html.unescape(Path("reports/index.html").read_text())
    assert f'<p class="verdict">{first}</p><p>{second}</p>' in page


@pytest.mark.usefixtures("run")
def test_nothing_claims_what_a_model_can_reach() -> None:
    """Not the verdict, not the page around it, not the captions."""
    page = Path("reports/index.html").read_text()
    words = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    assert "reachable" not in words
    assert not re.search(r"where the curves cross|was lost|were lost|no longer seen|newly reached", words)
