"""A run small enough to repeat hundreds of times: two problems, a model that is drawn and one that is imported.

`Inputs` is all that decides the numbers of the run. `Oracle` makes these numbers from nothing, in a new folder, stage
by stage and without DVC; equal inputs are made once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leash import json_checksum, parquet_checksum
from tests.conftest import ROOT, yaml
from tests.faults import Ended
from tests.functional.conftest import shell
from tests.functional.forked_commands import Server

DRAWN, IMPORTED, DATASET = "base", "guest", "chain"
PROBLEMS = (  # id, question in two spellings, gold and another one
    ("one", ("compute 5 - 1 + 8 - 3 + 4 :", "compute 6 - 1 + 8 - 3 + 4 :"), ("13", "14")),
    ("two", ("compute 7 + 2 - 6 + 9 - 1 :", "compute 7 + 3 - 6 + 9 - 1 :"), ("11", "12")),
)
ANSWERS = {"a": ("13", "12", "11", "14"), "b": ("11", "13", "13", "12")}  # of the imported model, by file
WEIGHTS = ("base", "sft")  # embedded models
GRADERS = ("exact", "numeric", "marks:score")
MARKS = "def score(answer, gold, meta):\n    return float(answer.strip()[-1:] in {each[-1:] for each in gold})\n"
STAGES = (
    ("resolve",),
    ("fetch", DATASET),
    ("sample", DRAWN, DATASET),
    ("sample", IMPORTED, DATASET),
    ("verify", DRAWN, DATASET),
    ("verify", IMPORTED, DATASET),
    ("reasoning",),
    ("mass",),
    ("reach",),
    ("categorize",),
    ("perplexity",),
    ("entropy",),
    ("report",),
)
CODE = ("dvc.yaml", "leash", "stages", ".dvc", ".dvcignore", ".gitignore")
NUMBERS = (
    "data/support/**/*.parquet",
    "data/analysis/*.parquet",
    "data/analysis/*.json",
    "data/mass/**/*.parquet",
    "data/reach/*.parquet",
    "data/perplexity/**/*.parquet",
    "data/entropy/**/*.parquet",
    "reports/tables/*.csv",
    "reports/decisive_hits.csv",
    "reports/summary.json",
)


@dataclass(frozen=True)
class Inputs:
    """What the user has chosen. `imports` are the files of completions in the order of their import, each with the
    spelling of its questions."""

    k: int = 4
    use: int | str = "all"  # categorize.k
    epsilon: float | str = 0
    temperature: float = 1.0
    reading: str = "strict"
    grader: str = "exact"
    golds: int = 0
    questions: int = 0
    weights: str = "base"
    reversed: bool = False  # the order of the rows in the data file
    imports: tuple[tuple[str, int], ...] = (("a", 0),)

    @property
    def params(self) -> dict[str, Any]:
        categorize = {"k": self.use, "epsilon": self.epsilon, "units": ["problem", "answer", "completion"]}
        return {
            "run": {"models": [DRAWN, IMPORTED], "datasets": [DATASET], "pairs": [IMPORTED], "processes": 1},
            "models": {DRAWN: {"path": f"models/{DRAWN}", "dtype": "float64"}, IMPORTED: {"engine": "import"}},
            "pairs": {IMPORTED: {"base": DRAWN, "rlvr": IMPORTED}},
            "datasets": {DATASET: {"path": "problems.jsonl", "id": "id", "grader": self.grader}},
            "sample": {"engine": "torch", "k": self.k, "max_tokens": 40, "batch": 64, "temperature": self.temperature},
            "verify": {"reading": self.reading},
            "categorize": {**categorize, "bootstrap": 20, "clusters": "none"},
            "perplexity": {"own": 1, "shuffled": False},
            "entropy": {"samples": 2},
        }

    def write(self, folder: Path) -> None:
        """Put the inputs where the user has them. What is unchanged is not written again."""
        with (folder / "params.yaml").open("w") as file:
            yaml.dump(self.params, file)
        rows = [
            {"id": name, "question": questions[self.questions], "answer": golds[self.golds]}
            for name, questions, golds in PROBLEMS
        ]
        _write(folder / "problems.jsonl", "".join(map(_line, rows[:: -1 if self.reversed else 1])))
        _write(folder / "marks.py", MARKS)
        model = folder / "models" / DRAWN
        for part in sorted((ROOT / "models" / "embedded" / self.weights).iterdir()):
            _write(model / part.name, part.read_bytes())
        for name, questions in [(name, questions) for name in ANSWERS for questions in (0, 1)]:
            _write(folder / import_file(name, questions), "".join(import_lines(name, questions)))


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row) + "\n"


def _write(path: Path, content: str | bytes) -> None:
    content = content.encode() if isinstance(content, str) else content
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def import_file(name: str, questions: int) -> str:
    return f"{name}{questions}.jsonl"


def import_lines(name: str, questions: int) -> Iterator[str]:
    for _, spellings, _ in PROBLEMS:
        texts = [f"so it is \\boxed{{ {answer} }}" for answer in ANSWERS[name]]
        yield _line({"question": spellings[questions], "text": texts})


def import_command(name: str, questions: int, *options: str) -> tuple[str, ...]:
    where = ("--model", IMPORTED, "--dataset", DATASET)
    return ("leash", "import", import_file(name, questions), *where, *options)


def prepare(folder: Path) -> None:
    """A repository with the project's pipeline and code as git has them."""
    for name in shell("git", "ls-files", *CODE, cwd=ROOT).splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shell("git", "init", "--quiet", cwd=folder)


def numbers(folder: Path) -> dict[str, str]:
    """A hash of every table of numbers of a finished run, and of its metrics. A table that every reader refuses is left
    out: it was damaged without a new time, and DVC goes by that."""
    files = (file for pattern in NUMBERS for file in folder.glob(pattern) if not _is_refused(file))
    found = {str(file.relative_to(folder)): hashlib.md5(file.read_bytes()).hexdigest() for file in files}
    metrics, valid = json_checksum.check((folder / "reports" / "metrics.json").read_bytes())
    assert valid, "reports/metrics.json does not match its checksum"
    found["pairs of reports/metrics.json"] = json_checksum.compute_checksum(metrics["pairs"])
    return found


def _is_refused(file: Path) -> bool:
    if file.suffix == ".parquet":
        return parquet_checksum.has_valid_checksum(file) is not True
    if file.parent.name == "analysis":
        try:
            return json_checksum.check(file.read_bytes()).valid is not True
        except ValueError:
            return True
    return False


@dataclass
class Oracle:
    """The numbers of inputs, from scratch; the refusal of a stage, where one refuses."""

    server: Server
    folder: Path
    known: dict[Inputs, dict[str, str] | Ended] = field(default_factory=dict)

    def __call__(self, inputs: Inputs) -> dict[str, str] | Ended:
        if inputs not in self.known:
            self.known[inputs] = self._run(inputs)
        return self.known[inputs]

    def _run(self, inputs: Inputs) -> dict[str, str] | Ended:
        repo = self.folder / f"scratch-{len(self.known)}"
        repo.mkdir(parents=True)
        inputs.write(repo)
        imports = [import_command(name, questions)[1:] for name, questions in inputs.imports]
        for command in (*STAGES[:2], *imports, *STAGES[2:]):
            ended = self.server.run(repo, "leash", *command)
            if ended.code:
                return ended
        found = numbers(repo)
        shutil.rmtree(repo)
        return found
