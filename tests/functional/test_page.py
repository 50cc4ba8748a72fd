"""The report's page in a real browser: opened from disk, moved, filtered, clicked, on a phone, in the dark."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, expect

from leash import tables
from leash.counting import metrics
from leash.params.groups import Params
from leash.report.narrative import control_headline
from leash.report.page import html
from stages.cli import main
from stages.report import stage as report
from tests import made
from tests.browser import CHROMIUM, Seen, browser, opened

if CHROMIUM is None:
    pytest.skip("there is no Chromium here (apt-get install chromium)", allow_module_level=True)

INDEX = Path("reports/index.html")
RATIOS = ("SRR", "NDR", "SDS", "NSCR")
K, LESS = 256, 128  # samples of the two data sets
HOSTILE = (
    "<script>window.hacked = 1</script></script><img src=x onerror='window.hacked = 1'>${window.hacked = 1}<b>&amp;"
)
POINTS = [
    *((epsilon, k) for epsilon in ("0", "0.01", "0.1") for k in (1, 16, LESS)),
    *(("auto", k) for k in (8, 64)),
    ("0.5", 32),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Params]:
    """A run whose questions and completions try to be markup; one data set has fewer samples than the other."""
    folder = tmp_path_factory.mktemp("page")
    with contextlib.chdir(folder):
        params = made.parameters(folder, K, less=LESS)
        made.write(params, 60, question=HOSTILE, text=HOSTILE, carried=6)
        made.reported(params)
        yield params


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def seen(run: Params, chromium: Browser) -> Iterator[Seen]:
    found = opened(chromium, INDEX.resolve(), viewport={"width": 1200, "height": 900})
    yield found
    assert found.complaints == []
    found.page.context.close()


def counts(seen: Seen, which: str) -> list[str]:
    """P, E, S, O, SRR, NDR, SDS and NSCR as a person reads them, without their intervals."""
    cells = seen.page.locator("#counts tr", has_text=which).locator("td").all_inner_texts()
    return [re.sub(r" \(.*\)$", "", cell) for cell in cells]


def move(seen: Seen, epsilon: str, k: int) -> None:
    seen.page.locator("#k").fill(str(seen.page.evaluate("content.ks").index(k)))
    if epsilon == "auto":
        seen.page.locator("#auto").check()
    else:
        seen.page.locator("#epsilon-exact").fill(epsilon)


def compared(*options: str) -> list[str]:
    """What `leash compare` says of the run's own table, in the page's digits."""
    done = CliRunner().invoke(main, ["compare", "data/support/tuned.parquet", *options, "--json", "--resamples", "10"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    return [*map(number, found["categories"].values()), *(real(found[name]["value"]) for name in RATIOS)]


def number(value: float) -> str:
    return str(value) if isinstance(value, int) else real(value)


def real(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def test_it_loads_nothing(seen: Seen) -> None:
    """And complains of nothing, which `seen` holds in every test."""
    asked = [url for url in seen.requests if not url.startswith("data:")]
    assert asked == [INDEX.resolve().as_uri()]


def test_it_begins_with_the_verdict_and_ends_with_how_it_was_made(seen: Seen) -> None:
    kept = json.loads(Path("reports/metrics.json").read_text())
    assert seen.page.locator("header > p").all_inner_texts() == kept["pairs"]["tuned"]["verdict"]
    below = seen.page.locator("main > figure").evaluate("(figure) => figure.getBoundingClientRect().top")
    assert below < 900  # the headline figure is on the first screen
    made_of = seen.page.locator("#made").evaluate("(section) => section.textContent")
    for fact in (kept["provenance"]["packages"]["duckdb"], "temperature", "completions", "categorize", "revision"):
        assert fact in made_of


@pytest.mark.parametrize(("epsilon", "k"), POINTS)
def test_the_sliders_give_what_the_pipeline_would(run: Params, seen: Seen, epsilon: str, k: int) -> None:
    """`expected`, shown at ε = 0, has the numbers of `leash compare`; `seen` has those of `leash categorize`."""
    move(seen, epsilon, k)
    if epsilon == "0":
        assert [float(x) if x != "–" else x for x in counts(seen, "expected")] == [
            pytest.approx(float(x), abs=1.1e-3) if x != "–" else x for x in compared("--k", str(k), "--epsilon", "0")
        ]
    chosen = {"k": k, "epsilon": epsilon if epsilon == "auto" else float(epsilon)}
    support = made.compute_support(made.parameters(Path(), K, less=LESS, categorize=chosen))
    [whole] = [
        r for r in metrics.compute_metrics(support).to_pylist() if r["dataset"] == "all" and r["counted"] == "chosen"
    ]
    assert counts(seen, "seen") == [*(str(whole[name]) for name in "PESO"), *(real(whole[name]) for name in RATIOS)]
    assert f"-S ++categorize.epsilon={epsilon} -S ++categorize.k={k}" in seen.page.locator("#command").inner_text()


def test_at_the_runs_own_settings_the_page_shows_the_verdict_and_intervals_of_the_report(seen: Seen) -> None:
    """Data sets with different k each at its own."""
    assert counts(seen, "seen") == compared()
    metrics = json.loads(Path("reports/metrics.json").read_text())["pairs"]["tuned"]
    assert seen.page.locator("#headline").inner_text() == metrics["verdict"][0]
    cell = seen.page.locator("#counts tr", has_text="seen").locator("td").last.inner_text()
    low, high = re.fullmatch(r"\S+ \((\S+) to (\S+)\)", cell).groups()  # type: ignore[union-attr]
    assert [float(low), float(high)] == pytest.approx([*metrics["intervals"]["NSCR"].values()], abs=1.1e-3)
    seen.page.locator("#dataset").select_option("quiz")
    assert "(k = 128, ε = 0)" in seen.page.locator("#headline").inner_text()


def test_at_other_settings_the_page_counts_and_decides_nothing(seen: Seen) -> None:
    """Over all settings, some would seem to show a change where there is none."""
    for epsilon, k in (("0.01", 16), ("0", LESS)):
        move(seen, epsilon, k)
        text = seen.page.locator("#headline").inner_text()
        gained, lost = (int(x) for x in counts(seen, "seen")[1:3])
        assert text.startswith(f"At ε = {epsilon} and k = {k}: tuned ")
        assert f" {gained or 'none'}" in text
        assert f" {lost or 'none'}" in text
        assert text.endswith("(Exploring: the report decides at its own ε and k.)")
        assert not re.search(r"p = |McNemar|net (gain|loss)|can.t tell|more problems|fewer problems|lost", text)
        assert seen.page.evaluate("intervals() !== null")
    move(seen, "0.0123", 16)  # between the values that Python computed
    assert re.search(r": tuned alone solves \w+, mine alone \w+\. \(", seen.page.locator("#headline").inner_text())
    assert "(" not in seen.page.locator("#counts").inner_text()


VIEWS = ("lenient", "sound")


@pytest.mark.parametrize("view", VIEWS)
def test_the_map_switches_to_what_each_control_counts(run: Params, seen: Seen, view: str) -> None:
    """At the run's own settings, the numbers, the intervals and the headline are those of data/analysis."""
    page, analyses = seen.page, json.loads(Path("data/analysis/tuned.json").read_text())
    own = counts(seen, "seen")
    page.get_by_label("what counts as a hit").select_option(view)
    for dataset, group in (("", "all"), ("quiz", "quiz")):
        page.locator("#dataset").select_option(dataset)
        found = analyses[group]["controls"][view]
        cells = counts(seen, "seen")
        assert cells[:4] == [str(found["categories"][name]) for name in "PESO"]
        assert [float(x) for x in cells[4:]] == pytest.approx([found[name]["value"] for name in RATIOS], abs=6e-4)
        headline = page.locator("#headline").inner_text()
        assert headline == control_headline(analyses[group], view, "mine", "tuned")
        cell = page.locator("#counts tr", has_text="seen").locator("td").last.inner_text()
        ends = [float(end) for end in re.findall(r"[-\d.]+", cell)[1:]]
        assert ends == pytest.approx([found["NSCR"]["low"], found["NSCR"]["high"]], abs=1.1e-3)
    page.locator("#dataset").select_option("")
    assert counts(seen, "seen") != own
    support = tables.read(tables.support_path("tuned", "control"), tables.CONTROL_SUPPORT_SCHEMA, "").to_pylist()
    by_problem = {row["problem_id"]: row for row in support if row["control"] == view}
    for entry in page.evaluate(
        "found.map(({ i, letter, base, rlvr }) => [content.problems.id[i], letter, base.c, rlvr.c])"
    ):
        name, *counted = entry
        assert counted == [by_problem[name][column] for column in ("category", "c_base", "c_rlvr")]
    page.locator("#reset").click()
    assert counts(seen, "seen") == own


def test_a_view_counts_at_every_setting_and_decides_at_the_runs_own_only(seen: Seen) -> None:
    seen.page.locator("#control").select_option("sound")
    move(seen, "0.01", 16)
    text = seen.page.locator("#headline").inner_text()
    assert text.startswith("At ε = 0.01 and k = 16 (view: sound): tuned ")
    assert text.endswith("(Exploring: the report decides at its own ε and k.)")
    assert "(" not in seen.page.locator("#counts").inner_text()
    by_answer = seen.page.evaluate("content.models.tuned[place[16]].c.reduce((a, b) => a + b)")
    sound = seen.page.evaluate("content.controls.sound.models.tuned[place[16]].c.reduce((a, b) => a + b)")
    assert 0 < sound < by_answer
    address = seen.page.url
    seen.page.goto("about:blank")
    seen.page.goto(address)
    seen.page.wait_for_selector("body[data-ready]")
    assert seen.page.locator("#control").input_value() == "sound"
    assert seen.page.locator("#headline").inner_text() == text


def test_a_problem_shows_the_working_of_its_completions_as_text(seen: Seen) -> None:
    page = seen.page
    problem = page.evaluate("carried('examples').find(([, , , , , , working]) => working?.process === 'unsound')[1]")
    page.evaluate("(i) => open(i)", problem)
    wrong = page.locator("#problem-body .note.unsound").first
    assert wrong.inner_text() == f"Its working has an error: {made.FLAW}"
    problem = page.evaluate("carried('examples').find(([, , , , , , working]) => working?.candidate)[1]")
    page.evaluate("(i) => open(i)", problem)
    note = page.locator("#problem-body .note", has_text="Only lenient reading").first
    assert note.inner_text() == f"Only lenient reading finds an answer: {made.CANDIDATE} (right)."
    assert page.locator("#problem-body b, #problem-body i").count() == 0
    heads = page.locator("#problem-body thead th").all_inner_texts()
    assert {"in any form", "with sound working"} <= {*heads}


def test_two_sections_have_the_views_side_by_side(seen: Seen) -> None:
    found = json.loads(Path("reports/metrics.json").read_text())["pairs"]["tuned"]
    rows = {"format": ("strict", "lenient"), "reasoning": ("strict", "sound", "unrefuted")}
    for section, views in rows.items():
        sentences = seen.page.locator(f"#{section} li").all_text_contents()
        assert sentences == [f"tuned: {sentence}" for sentence in found[section]]
        cells = seen.page.locator(f"#{section} .views tbody tr").evaluate_all(
            "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
        )
        for row, view in zip(cells, views, strict=True):
            numbers = found["controls"]["all"][view]
            assert row[1] == (f"{view}, this run" if view == "strict" else view)
            assert [int(cell) for cell in row[2:6]] == [numbers[letter] for letter in "PESO"]
            assert row[7] == numbers["decision"]


def test_the_slider_itself_moves_epsilon(seen: Seen) -> None:
    slider = seen.page.locator("#epsilon")
    slider.focus()
    for _ in range(5):
        slider.press("ArrowRight")
    chosen = seen.page.locator("#epsilon-exact").input_value()
    assert float(chosen) > 0
    assert f"ε = {chosen}" in seen.page.locator("#headline").inner_text()
    assert counts(seen, "seen") == compared("--epsilon", chosen)


def test_filters_by_data_set_category_and_words(seen: Seen) -> None:
    page = seen.page
    page.locator("#dataset").select_option("quiz")
    assert sum(map(int, counts(seen, "seen")[:4])) == 30
    lost = counts(seen, "seen")[2]
    page.locator("#category").select_option("S")
    assert page.locator("#how-many").inner_text().startswith(f"{lost} problem")
    assert {*page.locator("#problems .letter").all_inner_texts()} == {"S"}
    page.locator("#category").select_option("")
    page.locator("#search").fill("quiz-0007")
    assert page.locator("#problems button").all_inner_texts() == ["quiz-0007"]
    page.locator("#reset").click()
    assert page.locator("#how-many").inner_text().startswith("60 problems, 15 listed")
    page.locator("#more").click()
    assert page.locator("#how-many").inner_text() == "60 problems, 60 listed"


def test_what_models_and_data_sets_write_is_shown_as_text(seen: Seen) -> None:
    page = seen.page
    page.locator("#problems button").first.click()
    question = page.locator("#problem-body pre.question")
    assert HOSTILE in question.inner_text()
    shown = page.locator("#problem-body .completion pre").all_inner_texts()
    assert len(shown) >= 4
    assert all(HOSTILE in text for text in shown)
    assert page.locator("#problem-body script, #problem-body img, #problem-body b").count() == 0
    assert page.evaluate("window.hacked") is None


def test_the_pointer_on_the_map_tells_of_a_problem_and_a_click_opens_it(seen: Seen) -> None:
    page = seen.page
    page.locator("#map").scroll_into_view_if_needed()
    one = page.evaluate("points()[5]")
    place = page.evaluate(
        """([x, y]) => {
          const [left, top] = view.origin();
          const around = view.padding();
          const box = document.querySelector("#map canvas").getBoundingClientRect();
          return [box.x + around.left + left + view.scale("x")(x), box.y + around.top + top + view.scale("y")(y)];
        }""",
        [one["x"], one["y"]],
    )
    name = page.evaluate("content.problems.id")[one["i"]]
    page.mouse.move(*place)
    hint = page.locator("#vg-tooltip-element")
    expect(hint).to_contain_text(f"{name}: ")
    expect(hint).to_contain_text(HOSTILE[:100])
    assert hint.locator("script, img").count() == 0
    page.mouse.click(*place)
    expect(page.locator("#problem-title")).to_contain_text(name)
    expect(page.locator("#problem")).to_be_visible()


def test_a_problem_has_its_counts_curves_answers_and_decisive_hits(seen: Seen) -> None:
    page = seen.page
    hit = page.evaluate("content.decisive[0]")
    name = page.evaluate("content.problems.id")[hit["problem"]]
    page.locator("#search").fill(name)
    page.locator("#problems button").first.click()
    body = page.locator("#problem-body")
    expect(body.locator("#problem-curve canvas")).to_be_visible()
    expect(body.locator("#problem-answers canvas")).to_be_visible()
    assert "Gold: 7" in body.inner_text()
    assert hit["why"] in body.inner_text()
    assert "the second check agrees" in body.inner_text()
    assert "✓ " in body.inner_text()
    assert "✗ " in body.inner_text()
    page.keyboard.press("Escape")
    expect(page.locator("#problem")).to_be_hidden()


def test_everything_is_reached_by_keyboard(seen: Seen) -> None:
    page = seen.page
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {
        "pair",
        "dataset",
        "control",
        "epsilon",
        "epsilon-exact",
        "auto",
        "k",
        "category",
        "search",
        "reset",
        "open",
    } <= reached
    page.locator("#problems button").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#problem")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.usefixtures("run")
def test_a_phone_scrolls_one_way_only(chromium: Browser, scheme: str) -> None:
    seen = opened(chromium, INDEX.resolve(), viewport={"width": 390, "height": 844}, color_scheme=scheme)
    wide = "[document.documentElement.scrollWidth, document.querySelector('dialog').scrollWidth]"
    assert seen.page.evaluate(wide)[0] == 390
    seen.page.locator("#problems button").first.click()
    expect(seen.page.locator("#problem-curve canvas")).to_be_visible()
    assert max(seen.page.evaluate(wide)) == 390
    assert seen.complaints == []
    seen.page.context.close()


@pytest.mark.usefixtures("undrawn")
def test_long_names_fit_the_window(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of 60 letters and more, without a dash to break them at: neither the page nor the list of problems nor a
    problem's own window scrolls sideways."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        made, "DATASETS", [f"{name}_of_competition_mathematics_in_sixty_letters_or_more" for name in "ab"]
    )
    monkeypatch.setattr(made, "MODELS", [f"our_{name}_model_of_seven_billion_parameters_step_1000" for name in "ab"])
    params = made.parameters(tmp_path, 16)
    made.write(params, 20, question="Why?", text="So:", carried=2)
    made.reported(params)
    sideways = """(places) => places.filter((place) => {
      const element = document.querySelector(place);
      return element.scrollWidth > element.clientWidth;
    })"""
    for width in (1200, 390):
        seen = opened(chromium, INDEX.resolve(), viewport={"width": width, "height": 900})
        assert seen.page.evaluate(sideways, ["html", "body", ".wide:has(#problems)", ".wide:has(#counts) ~ p"]) == []
        seen.page.locator("#problems button").first.click()
        expect(seen.page.locator("#problem-curve canvas")).to_be_visible()
        assert seen.page.evaluate(sideways, ["html", "dialog", "dialog header", "#problem-body"]) == []
        assert seen.complaints == []
        seen.page.context.close()


@pytest.mark.usefixtures("run")
def test_light_and_dark_have_ink_that_can_be_read(chromium: Browser) -> None:
    """The contrast of text with what is behind it, by the rule of the web's accessibility guidelines."""
    for scheme in ("light", "dark"):
        seen = opened(chromium, INDEX.resolve(), color_scheme=scheme)
        for ink in ("--ink", "--quiet", "--link"):
            for paper in ("--paper", "--card"):
                assert contrast(seen, ink, paper) >= 4.5, (scheme, ink, paper)
        seen.page.context.close()


def contrast(seen: Seen, ink: str, paper: str) -> float:
    bright, dim = sorted((luminance(seen.page.evaluate("css", name)) for name in (ink, paper)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_what_is_shown_can_be_sent_as_an_address(seen: Seen) -> None:
    move(seen, "0.01", 16)
    seen.page.locator("#category").select_option("E")
    address, headline = seen.page.url, seen.page.locator("#headline").inner_text()
    seen.page.goto("about:blank")
    seen.page.goto(address)
    seen.page.wait_for_selector("body[data-ready]")
    assert seen.page.locator("#headline").inner_text() == headline
    assert seen.page.locator("#category").input_value() == "E"


@pytest.mark.usefixtures("undrawn")
def test_an_adaptive_run_is_sorted_as_the_pipeline_sorts_it(
    run: Params, chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every problem stops at its second hit; where that leaves epsilon open, the problem is not categorized."""
    shutil.copytree("data", tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    params = made.parameters(tmp_path, K, less=LESS, sample={"stop_after": 2})
    made.reported(params)
    seen = opened(chromium, INDEX.resolve())
    for k in (16, LESS, K):
        chosen = {"k": k if k < K else "all"}
        here = made.parameters(tmp_path, K, less=LESS, sample={"stop_after": 2}, categorize=chosen)
        table = metrics.compute_metrics(made.compute_support(here)).to_pylist()
        [whole] = [r for r in table if r["dataset"] == "all" and r["counted"] == "chosen"]
        move(seen, "0", k)
        assert counts(seen, "seen")[:4] == [str(whole[name]) for name in "PESO"]
    # Sampling stopped by the run's reading, so nothing is known by another one.
    seen.page.locator("#control").select_option("lenient")
    lenient = json.loads(Path("data/analysis/tuned.json").read_text())["all"]["controls"]["lenient"]
    assert lenient["uncategorized"] == lenient["problems"]
    assert counts(seen, "seen")[:4] == ["0"] * 4
    assert "no problem has a category" in seen.page.locator("#headline").inner_text()
    seen.page.locator("#control").select_option("")
    move(seen, "0.1", K)
    assert "can’t be categorized here" in seen.page.locator("#headline").inner_text()
    assert seen.complaints == []
    seen.page.context.close()


@pytest.mark.usefixtures("undrawn")
def test_a_page_of_a_big_run_stays_small_and_says_what_it_carries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(html, "MAX_PAGE_BYTES", 3_500_000)
    params = made.parameters(tmp_path, 16)
    made.write(params, 1000, question="Why? " * 20, text="A long story. " * 200, carried=16)
    made.reported(params)
    assert INDEX.stat().st_size < 3_500_000
    [said] = re.findall(r"The page carries the texts of ([\d,]+), on ([\d,]+) problems", INDEX.read_text())
    texts, problems = (int(x.replace(",", "")) for x in said)
    assert 100 < problems < 1000
    assert texts >= problems
    assert "characters omitted" in INDEX.read_text()


@pytest.mark.usefixtures("undrawn")
def test_without_completions_the_page_says_so(run: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A colleague who has the verdicts alone has everything but texts."""
    shutil.copytree("data", tmp_path / "data", ignore=shutil.ignore_patterns("completions"))
    monkeypatch.chdir(tmp_path)
    report.run(made.parameters(tmp_path, K, less=LESS))
    assert "this page carries none" in INDEX.read_text()
