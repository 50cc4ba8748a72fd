"""The lines that `leash doctor` prints: a mark, the subject that was checked, and what was found or what to do."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Mark = Literal["ok", "no", "warn", "missing"]
DEFAULT_PARAMS_FILE = Path("params.yaml")
MIN_TEXT_COLUMNS = 30  # even if the subjects are long and the window is narrow
CODE_SPAN = re.compile(r"`[^`]*`")


@dataclass(frozen=True)
class Line:
    mark: Mark
    subject: str
    text: str


@dataclass(frozen=True)
class Section:
    title: str
    lines: Sequence[Line]

    @property
    def missing(self) -> list[Line]:
        return [line for line in self.lines if line.mark == "missing"]


def format_sections(sections: Sequence[Section], width: int) -> Iterator[str]:
    """The lines as they are printed, with the columns of all sections aligned."""
    subject_width = max(len(line.subject) for section in sections for line in section.lines)
    for section in sections:
        if section.lines:
            yield section.title
            for line in section.lines:
                head = f"  {line.mark:7}  {line.subject:{subject_width}}  "
                # People copy commands, so a line never breaks inside a code span.
                text = CODE_SPAN.sub(lambda span: span[0].replace(" ", "\xa0"), line.text)
                columns = max(width - len(head), MIN_TEXT_COLUMNS)
                parts = textwrap.wrap(text, columns, break_long_words=False, break_on_hyphens=False) or [""]
                for number, part in enumerate(parts):
                    yield f"{' ' * len(head) if number else head}{part}".replace("\xa0", " ").rstrip()
            yield ""


def describe_missing(sections: Sequence[Section]) -> str | None:
    """What this run lacks, as one sentence; None if it lacks nothing."""
    missing = [line for section in sections for line in section.missing]
    texts = list(dict.fromkeys(line.text for line in missing))
    if len(texts) < 2:
        return texts[0] if texts else None
    subjects = ", ".join(dict.fromkeys(line.subject for line in missing))
    return f"Cannot run yet. Missing: {subjects}. See the lines marked `missing` above."
