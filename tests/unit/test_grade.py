r"""`leash grade`: lines in, graded lines out, in order, whatever the lines hold."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

LEASH = [sys.executable, "-m", "stages.cli", "grade"]


def lines(rows: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def graded(content: bytes, *arguments: str, cwd: Path | None = None) -> tuple[list[dict[str, Any]], int, str]:
    """The lines that came out, the exit code and what was said."""
    done = subprocess.run([*LEASH, *arguments], input=content, capture_output=True, check=False, cwd=cwd)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode, done.stderr.decode()


def test_each_line_comes_back_with_its_grade() -> None:
    rows: list[dict[str, Any]] = [
        {"gold": "7", "text": r"\boxed{ 7 }", "id": "kept"},
        {"gold": ["6", "7"], "text": r"\boxed{7}"},
        {"gold": "7", "text": r"\boxed{8}", "finish": "length"},
        {"gold": "7", "text": "no answer"},
        {"gold": "7", "text": "cut", "finish": "length"},
        {"gold": "7", "text": "\ud800 \x00 \u202e \\boxed{\ud800}", "meta": None},
    ]
    found, code, said = graded(lines(rows), "--grader", "exact")
    assert (code, said) == (0, "")
    assert [{key: row[key] for key in given} for row, given in zip(found, rows, strict=True)] == rows
    assert [(row["answer"], row["correct"], row["score"], row["status"]) for row in found] == [
        ("7", True, 1.0, "ok"),
        ("7", True, 1.0, "ok"),
        ("8", False, 0.0, "ok"),
        (None, False, 0.0, "no_answer"),
        (None, False, 0.0, "truncated"),
        ("\ud800", False, 0.0, "ok"),
    ]


def test_math_is_the_usual_grader() -> None:
    found, _, _ = graded(
        lines([{"gold": "0.5", "text": r"\boxed{\frac{1}{2}}"}, {"gold": "0.5", "text": r"\boxed{2}"}])
    )
    assert [row["correct"] for row in found] == [True, False]


def test_many_lines_keep_their_order(tmp_path: Path) -> None:
    """Lines that take long, or kill their process, stand between others."""
    (tmp_path / "mine.py").write_text(
        "import os, time\n"
        "def score(answer, gold, meta):\n"
        "    print('noise')\n"
        "    if answer == 'slow': time.sleep(1000)\n"
        "    if answer == 'gone': os._exit(1)\n"
        "    return answer == gold[0]\n"
    )
    words = {997: "slow", 1500: "gone", 5000: "slow", 19_999: "gone"}
    rows = [{"gold": str(i), "text": f"\\boxed{{{words.get(i, i)}}}", "i": i} for i in range(20_000)]
    file = tmp_path / "rows.jsonl"
    file.write_bytes(lines(rows))
    found, code, _ = graded(b"", str(file), "--grader", "mine:score", "--timeout", "1", cwd=tmp_path)
    assert code == 0
    assert [row["i"] for row in found] == list(range(20_000))
    odd = {row["i"]: row["status"] for row in found if row["correct"] is not True}
    assert odd == {997: "timeout", 1500: "error", 5000: "timeout", 19_999: "error"}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"7", 'has no "text" that is a string'),
        (b'{"gold": "1"}', 'has no "text" that is a string'),
        (b'{"text": "1"}', 'has no "gold" that is a string or a list of strings'),
        (b'{"text": "1", "gold": [1]}', 'has no "gold" that is a string or a list of strings'),
        (b'{"text": "1", "gold": []}', 'has no "gold" that is a string or a list of strings'),
        (b'{"text": "1", "gold": "1", "meta": 3}', 'has a "meta" that is no object'),
    ],
)
def test_a_bad_line_is_named_and_what_came_before_is_out(line: bytes, sentence: str) -> None:
    good = lines([{"gold": "7", "text": r"\boxed{7}"}])
    found, code, said = graded(good + b"\n" + good + line + b"\n" + good, "--grader", "exact")
    assert code == 2
    assert [row["correct"] for row in found] == [True, True]
    assert said == f"leash: Line 4 {sentence}; correct it and grade the lines from there.\n"


def test_what_is_missing_is_said() -> None:
    assert graded(b"", "ghost.jsonl")[2].startswith("leash: ghost.jsonl can't be read (No such file or directory);")
    assert graded(b"", "--grader", "ghost")[2].startswith("leash: There is no grader ghost; there are ")
    assert graded(b"", "--grader", "ghost:f")[2].startswith("leash: The grader ghost:f can't be imported (ModuleNot")
    assert "json has no function ghost" in graded(b"", "--grader", "json:ghost")[2]
    assert graded(b"") == ([], 0, "")


def test_answers_come_while_the_input_is_open() -> None:
    """One line goes in and its grade must come out before the next goes in."""
    process = subprocess.Popen([*LEASH, "--grader", "exact"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    for i in range(3):
        process.stdin.write(lines([{"gold": str(i), "text": f"\\boxed{{{i}}}"}]))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["answer"] == str(i)
    process.stdin.close()
    assert process.wait() == 0


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    row = json.dumps({"gold": "7", "text": r"\boxed{7}"})
    script = f"yes '{row}' | {' '.join(LEASH)} --grader exact | head -n 3"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert [json.loads(line)["correct"] for line in done.stdout.splitlines()] == [True] * 3
    assert done.stderr == ""


MEMORY = """
import json, resource, sys
from stages.cli import main
try:
    main(["grade", "--grader", "exact"])
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    """100 MB of lines of 2 kB pass through, and the most that is held is the same as for a tenth of them, give or take
    the window."""

    def most(count: int) -> int:
        path = tmp_path / "rows.jsonl"
        with path.open("wb") as file:
            for i in range(count):
                file.write(lines([{"gold": "7", "text": "x" * 2000 + f"\\boxed{{{i}}}"}]))
        with path.open("rb") as rows, (tmp_path / "out").open("wb") as out:
            done = subprocess.run(
                [sys.executable, "-c", MEMORY], stdin=rows, stdout=out, stderr=subprocess.PIPE, check=True
            )
        assert (tmp_path / "out").read_bytes().count(b"\n") == count
        return int(done.stderr)

    assert most(50_000) - most(5_000) < 40_000  # KB
