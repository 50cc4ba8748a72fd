"""A thousand hostile answers: none hangs or kills the run, memory stays bounded, and each gets a status."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest

from leash.grading.grade_answers import AnswerGradingJob, NumberedRequest
from leash.grading.graders import registry
from leash.grading.graders.types import Grade, GradeRequest
from leash.grading.worker_pool import Pool

TIMEOUT, MEMORY = 2, 512
GOLD = ("17", r"\frac{3}{7}", "(1, 2)", r"x^2+1")

# Each function makes a text from a number between 1 and 50. Larger numbers are worse.
ATTACKS: dict[str, Callable[[int], str]] = {
    "power tower": lambda n: "^{".join(["9"] * (n + 2)) + "}" * (n + 1),
    "tower without braces": lambda n: "^".join(["10"] * (n + 2)),
    "python tower": lambda n: "**".join(["10"] * (n + 2)),
    "nested braces": lambda n: "{" * 20 * n + "18" + "}" * 20 * n,
    "nested fractions": lambda n: r"\frac{1}{1+" * 10 * n + "1" + "}" * 10 * n,
    "nested roots": lambda n: r"\sqrt{2+" * 10 * n + "2" + "}" * 10 * n,
    "open brackets": lambda n: "(" * 100 * n,
    "open fractions": lambda n: r"\frac{" * 20 * n,
    "megabyte of digits": lambda n: str(n) + "7" * 20_000 * n,
    "decimal digits": lambda n: "0." + "3" * 1000 * n,
    "huge factorial": lambda n: f"{10 ** (n % 12 + 1)}!",
    "factorials of factorials": lambda n: "9" + "!" * n,
    "huge exponent": lambda n: f"2^{{{10**n}}}",
    "scientific": lambda n: f"1e{10**n}",
    "long product": lambda n: "*".join(f"(x+{i})" for i in range(4 * n)),
    "expanded power": lambda n: f"(x+y+z+1)^{{{20 * n}}}",
    "binomial": lambda n: rf"\binom{{{10**n}}}{{{5 * 10 ** (n - 1)}}}",
    "sum without end": lambda n: rf"\sum_{{k=1}}^{{{10**n}}} \frac{{1}}{{k^{{{n}}}}}",
    "integral": lambda n: rf"\int_0^{{{n}}} e^{{x^{{{n}}}}}\sin(x^x) dx",
    "trigonometric mass": lambda n: "+".join(rf"\sin^{{{i}}}({i}x)" for i in range(1, n + 2)),
    "malformed LaTeX": lambda n: r"\frac\sqrt^_{\left(\right" * n,
    "unknown commands": lambda n: r"\foo\bar{\baz}" * n,
    "null bytes": lambda n: "\x00" * n + "18",
    "right to left": lambda n: "\u202e" * n + "81" + "\u202c\u200f\u200b",
    "half characters": lambda n: "\ud800" * n + "18",
    "combining marks": lambda n: "1" + "\u0301" * 100 * n + "7",
    "other digits": lambda n: "١٧٧" * n + "１８" + "𝟏𝟖",
    "surrounded": lambda n: " \t\n" * 1000 * n + "18",
    "many equations": lambda n: "=".join(["x"] * 20 * n),
    "many commas": lambda n: "," * 200 * n,
    "a large set": lambda n: r"\{" + ",".join(str(i) for i in range(100 * n)) + r"\}",
    "a large matrix": lambda n: r"\begin{pmatrix}" + r"\\".join(["&".join(["1"] * n)] * n) + r"\end{pmatrix}",
    "code": lambda n: f"__import__('os').system('exit {n}')",
    "regular expression bait": lambda n: "a" * 500 * n + "!",
    "percent signs": lambda n: "18" + r"\%" * 10 * n,
    "dollars": lambda n: "$" * 99 * n + "18",
    "boxes in boxes": lambda n: r"\boxed{" * 10 * n + "18" + "}" * 10 * n,
    "text in text": lambda n: r"\text{" * 10 * n + "18" + "}" * 10 * n,
    "intervals": lambda n: "[0,1)\\cup" * 20 * n + "(1,2]",
    "units": lambda n: rf"18 \text{{ m}}^{{{10**n}}}",
}
ANSWERS = [make(number) for make in ATTACKS.values() for number in range(1, 51, 2)]


@cache
def memory_before() -> int:
    """The peak at the first call in this process, before it graded anything."""
    return memory_ever_held()


def memory_ever_held() -> int:
    """The peak memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


class Measured(AnswerGradingJob):
    """Grading that also returns by how many MB the peak memory of its worker has grown."""

    def run(self, item: NumberedRequest) -> Any:
        before = memory_before()
        return super().run(item), memory_ever_held() - before

    def failure_result(self, item: NumberedRequest, status: Literal["timeout", "error"]) -> Any:
        return super().failure_result(item, status), 0


@pytest.fixture(scope="module")
def results() -> list[tuple[GradeRequest, Grade, int]]:
    requests = [GradeRequest("p", answer, (GOLD[i % 4],), {}, "math") for i, answer in enumerate(ANSWERS)]
    limits: dict[str, Any] = {"timeout": TIMEOUT, "memory": MEMORY, "preload": registry.slow_imports(["math"])}
    pool: Pool[NumberedRequest, Any] = Pool(Measured(), workers=2, **limits)
    with pool:
        return [(request, grade, grown) for (_, request), (grade, grown) in pool.results(enumerate(requests))]


def test_every_answer_gets_a_status_and_none_is_correct(results: list[tuple[GradeRequest, Grade, int]]) -> None:
    assert len(results) == 1000
    assert Counter(request.answer for request, _, _ in results) == Counter(ANSWERS)
    assert {grade["status"] for _, grade, _ in results} <= {"ok", "timeout", "error"}
    assert [(request.answer[:80], request.gold) for request, grade, _ in results if grade["correct"]] == []
    assert all((grade["correct"] is None) == (grade["status"] != "ok") for _, grade, _ in results)


def test_memory_stays_bounded(results: list[tuple[GradeRequest, Grade, int]]) -> None:
    assert 0 < max(grown for _, _, grown in results) <= MEMORY


def test_leash_grade_survives_them_and_keeps_the_order(tmp_path: Path) -> None:
    """Five of each attack."""
    rows = [{"gold": GOLD[i % 4], "text": f"\\boxed{{{a}}}", "i": i} for i, a in enumerate(ANSWERS[::5])]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-m", "stages.cli", "grade", str(tmp_path / "rows.jsonl"), "--timeout", str(TIMEOUT)]
    done = subprocess.run(command, capture_output=True, check=False)
    graded = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, [row["i"] for row in graded]) == (0, list(range(200)))
    assert {row["status"] for row in graded} <= {"ok", "timeout", "error", "no_answer"}
