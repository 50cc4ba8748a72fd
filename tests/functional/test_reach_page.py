"""Certificates on the page in a real browser: the section, and the profile in a problem's own window."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from leash.report.figures import drawing
from leash.report.page import html
from stages.categorize import stage as categorize
from stages.entropy import stage as entropy
from stages.mass import stage as mass
from stages.perplexity import stage as perplexity
from stages.report import stage as report
from tests import made
from tests.browser import CHROMIUM, browser, opened
from tests.unit.test_reach_report import MARKUP, all_figures, moved, reach_row, write_reach

if CHROMIUM is None:
    pytest.skip("there is no Chromium here (apt-get install chromium)", allow_module_level=True)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("reach-page")
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "draw_figures", lambda *_: dict.fromkeys(all_figures(), ""))
        patch.setattr(html, "_render_figure", lambda *_: "")
        params = made.parameters(folder, 64, reach={"rollouts": 64})
        made.write(params, 40, question="Why?", text="So:", carried=2)
        write_reach([])
        for stage in (mass, categorize):
            stage.run(params)
        write_reach([reach_row(row, place) for place, row in enumerate(moved())])
        for stage in (categorize, perplexity, entropy, report):
            stage.run(params)
        yield (folder / "reports" / "index.html").resolve()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


def test_a_problems_window_shows_its_certificate_and_where_the_leash_was_cut(page: Path, chromium: Browser) -> None:
    seen = opened(chromium, page, viewport={"width": 1200, "height": 900})
    with contextlib.chdir(page.parents[1]):
        rows = [reach_row(row, place) for place, row in enumerate(moved())]
    certified = next(row for row in rows if row["status"] == "certified")
    unreachable = next(row for row in rows if row["status"] == "unreachable")
    expect(seen.page.locator("#reach h2")).to_have_text("Lost, or below what k samples show?")
    for row, sentence in ((certified, "with probability at least 8e-4"), (unreachable, "At these settings")):
        seen.page.locator("#search").fill(row["problem_id"])
        seen.page.get_by_role("button", name=row["problem_id"]).click()
        expect(seen.page.locator("#problem-body")).to_contain_text(sentence)
        profile = seen.page.locator("#problem table.profile tbody tr")
        expect(profile).to_have_count(3 if row is certified else 0)
        if row is certified:
            # The token tries to be markup, and stays text.
            expect(profile.nth(2).locator("mark")).to_have_text(MARKUP)
            assert profile.nth(2).locator("td").nth(4).inner_text() == "7 (0.875)"
            assert profile.nth(2).locator("meter").get_attribute("value") == "0.875"
            assert seen.page.locator("#problem i").count() == 0
        seen.page.locator("#close").click()
    assert seen.complaints == []
    seen.page.context.close()
