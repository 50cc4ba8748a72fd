"""A real browser: Chromium of the system, headless, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


@contextmanager
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "There is no Chromium here; install it with `apt-get install chromium`."
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@dataclass
class Seen:
    """A page, what it complained of, and what it asked the network for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def opened(browser: Browser, path: Path, **options: Any) -> Seen:
    """A page opened from disk, once it is ready; it jumps where it would glide."""
    seen = Seen(browser.new_context(reduced_motion="reduce", **options).new_page())
    seen.page.on("console", lambda message: seen.complaints.append(message.text))
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.goto(path.as_uri())
    seen.page.wait_for_selector("body[data-ready]", timeout=60_000)
    return seen
