"""What every benchmark ends with: one JSON line."""

from __future__ import annotations

import json
import sys
from typing import NoReturn

NOT_MEASURED = 3


def tell(name: str, *, ours: float, theirs: float, ratio: float, goal: str, ok: bool) -> None:
    line = {"name": name, "ours": ours, "theirs": theirs, "ratio": ratio, "goal": goal, "ok": ok}
    print(json.dumps({key: round(value, 9) if isinstance(value, float) else value for key, value in line.items()}))


def leave(reason: str) -> NoReturn:
    """End without a result, since something that this benchmark needs is not here."""
    print(reason, file=sys.stderr)
    sys.exit(NOT_MEASURED)
