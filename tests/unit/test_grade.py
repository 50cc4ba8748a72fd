r"""`leash grade`: lines in, graded lines out, in order, whatever the lines contain."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

LEASH = [sys.executable, "-m", "stages.cli", "grade"]


def encode_lines(rows: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def grade(content: bytes, *arguments: str, cwd: Path | None = None) -> tuple[list[dict[str, Any]], int, str]:
    """Run `leash grade`; return the lines of its output, its exit code and its standard error."""
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
    graded, code, stderr = grade(encode_lines(rows), "--grader", "exact")
    assert (code, stderr) == (0, "")
    assert [{key: after[key] for key in before} for after, before in zip(graded, rows, strict=True)] == rows
    assert [(row["answer"], row["correct"], row["score"], row["status"]) for row in graded] == [
        ("7", True, 1.0, "ok"),
        ("7", True, 1.0, "ok"),
        ("8", False, 0.0, "ok"),
        (None, False, 0.0, "no_answer"),
        (None, False, 0.0, "truncated"),
        ("\ud800", False, 0.0, "ok"),
    ]


def test_the_default_grader_is_math() -> None:
    rows = [{"gold": "0.5", "text": r"\boxed{\frac{1}{2}}"}, {"gold": "0.5", "text": r"\boxed{2}"}]
    assert [row["correct"] for row in grade(encode_lines(rows))[0]] == [True, False]


def test_lines_keep_their_order_although_some_are_slow_or_kill_their_worker(tmp_path: Path) -> None:
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
    file.write_bytes(encode_lines(rows))
    graded, code, _ = grade(b"", str(file), "--grader", "mine:score", "--timeout", "1", cwd=tmp_path)
    assert code == 0
    assert [row["i"] for row in graded] == list(range(20_000))
    not_correct = {row["i"]: row["status"] for row in graded if row["correct"] is not True}
    assert not_correct == {997: "timeout", 1500: "error", 5000: "timeout", 19_999: "error"}


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"7", '"text"'),
        (b'{"gold": "1"}', '"text"'),
        (b'{"text": "1"}', '"gold"'),
        (b'{"text": "1", "gold": [1]}', '"gold"'),
        (b'{"text": "1", "gold": []}', '"gold"'),
        (b'{"text": "1", "gold": "1", "meta": 3}', '"meta"'),
    ],
)
def test_a_bad_line_is_named_after_the_lines_before_it_are_graded(line: bytes, fact: str) -> None:
    good = encode_lines([{"gold": "7", "text": r"\boxed{7}"}])
    graded, code, stderr = grade(good + b"\n" + good + line + b"\n" + good, "--grader", "exact")
    assert code == 2
    assert [row["correct"] for row in graded] == [True, True]
    assert stderr.startswith("leash: Line 4 ")
    assert fact in stderr


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["ghost.jsonl"], ["ghost.jsonl", "No such file or directory"]),
        (["--grader", "ghost"], ["no grader ghost", "math"]),
        (["--grader", "ghost:f"], ["ghost:f", "there is no ghost.py beside params.yaml"]),
        (["--grader", "json:ghost"], ["there is no json.py"]),
        (["--grader", "judge"], ["judge", "`leash verify`"]),
    ],
)
def test_an_unusable_argument_is_refused(arguments: list[str], facts: list[str]) -> None:
    graded, code, stderr = grade(b"", *arguments)
    assert (graded, code) == ([], 2)
    assert [fact for fact in facts if fact not in stderr] == []


def test_an_empty_input_gives_an_empty_output() -> None:
    assert grade(b"") == ([], 0, "")


def test_grades_come_while_the_input_is_open() -> None:
    """One line goes in, and its grade must come out before the next line goes in."""
    process = subprocess.Popen([*LEASH, "--grader", "exact"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    for i in range(3):
        process.stdin.write(encode_lines([{"gold": str(i), "text": f"\\boxed{{{i}}}"}]))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["answer"] == str(i)
    process.stdin.close()
    assert process.wait() == 0


def test_a_closed_output_ends_it_quietly() -> None:
    row = json.dumps({"gold": "7", "text": r"\boxed{7}"})
    script = f"yes '{row}' | {' '.join(LEASH)} --grader exact | head -n 3"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert [json.loads(line)["correct"] for line in done.stdout.splitlines()] == [True] * 3
    assert done.stderr == ""


MEASURED_GRADE = """
import resource, sys
from stages.cli import main
try:
    main(["grade", "--grader", "exact"])
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    """100 MB of lines of 2 kB take as much memory as a tenth of them, give or take the window."""

    def peak_kb(count: int) -> int:
        path = tmp_path / "rows.jsonl"
        with path.open("wb") as file:
            for i in range(count):
                file.write(encode_lines([{"gold": "7", "text": "x" * 2000 + f"\\boxed{{{i}}}"}]))
        command = [sys.executable, "-c", MEASURED_GRADE]
        with path.open("rb") as rows, (tmp_path / "out").open("wb") as out:
            done = subprocess.run(command, stdin=rows, stdout=out, stderr=subprocess.PIPE, check=True)
        assert (tmp_path / "out").read_bytes().count(b"\n") == count
        return int(done.stderr)

    assert peak_kb(50_000) - peak_kb(5_000) < 40_000
