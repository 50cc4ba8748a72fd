"""Placeholder until lenient reading is merged."""

from __future__ import annotations

import re


def find_candidate(text: str, grader: str) -> str | None:
    found = re.findall(r"\d+", text[-100:])
    return found[-1] if found else None
