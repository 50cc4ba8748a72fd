"""The parameter examples of README and docs, taken from their text: a complete one runs to a report in `dvc repro`,
a fragment is accepted beside a complete one.

Only the budget is changed (k and max_tokens), since a test has no GPU hours, and names are given what they stand for: a
hub on localhost has `my-lab/base-1b`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from leash.params import loading
from tests.conftest import ROOT, write_params, yaml
from tests.functional.conftest import shell
from tests.functional.test_import import write as write_completions
from tests.hub import Hub

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = [(page, text) for page in PAGES for text in BLOCK.findall(page.read_text(encoding="utf-8"))]
COMPLETE = [text for _, text in EXAMPLES if "models" in (yaml.load(text).get("run") or {})]
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %} :"


def checkpoint(folder: Path, model: str) -> Path:
    """An embedded model as somebody's own, with a chat template."""
    shutil.copytree(ROOT / "models" / "embedded" / model, folder)
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"chat_template": TEMPLATE}))
    return folder


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {**below, **above}
    nested = {key for key in below.keys() & above.keys() if isinstance(below[key], dict)}
    return both | {key: merged(below[key], above[key]) for key in nested}


def test_there_are_examples() -> None:
    """The README has one's own pair, and so has its page, in the same words."""
    assert len(COMPLETE) == 3
    assert len(set(COMPLETE)) == 2
    assert len(EXAMPLES) > len(COMPLETE)


def test_the_example_of_ones_own_pair_runs_to_a_report(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (text,) = {text for text in COMPLETE if "hub:" in text}
    folder = tmp_path / "leash"
    shutil.copytree(prepared, folder, symlinks=True)
    checkpoint(folder / "checkpoints" / "step-500", "rlvr")
    files = {path.name: path.read_bytes() for path in checkpoint(tmp_path / "base-1b", "base").iterdir()}
    rows = [{"problem": f"compute {n} + 4", "answer": str(n + 4)} for n in (2, 3)]
    (folder / "exam.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    small = re.sub(r"max_tokens: \d+", "max_tokens: 24", re.sub(r"\bk: \d+", "k: 4", text))
    assert small != text
    (folder / "params.yaml").write_text(small)
    with Hub({"my-lab/base-1b": files}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        # Not by `shell`: what it starts was imported before these variables had a value.
        done = subprocess.run(["dvc", "repro"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reports/index.html" in done.stdout
    metrics = json.loads((folder / "reports" / "metrics.json").read_text())
    assert sum(metrics["pairs"]["tuned"][name] for name in "PESO") == 2
    assert metrics["provenance"]["models"]["mine"]["hub"] == "my-lab/base-1b"


def test_the_example_of_imported_completions_runs_to_a_report(prepared: Path, tmp_path: Path) -> None:
    """With the import commands of the page; the file that the second of them prints is a complete one, too."""
    (text,) = [text for text in COMPLETE if "engine: import" in text]
    imports = re.findall(r"^leash import .*?(?=\s+#|$)", (ROOT / "docs" / "import.md").read_text(), re.MULTILINE)
    folder = tmp_path / "leash"
    shutil.copytree(prepared, folder, symlinks=True)
    for place, hits in (("out/base", (3, 1, 0, 0)), ("out/rl", (4, 0, 2, 0))):
        (folder / place).mkdir(parents=True)
        questions = ("What is 1 + 1?", "What is 2 + 2?", "What is 3 + 3?", "What is 4 + 4?")
        write_completions(folder / place / "samples.jsonl", dict(zip(questions, hits, strict=True)), k=64)
    (folder / "params.yaml").unlink()
    said = [shell("sh", "-c", command, cwd=folder) for command in imports]
    assert len(said) == 2
    printed = re.search(r"^run:.*", said[1], re.MULTILINE | re.DOTALL)
    assert printed
    (folder / "printed.yaml").write_text(printed[0])
    (folder / "params.yaml").write_text(text)
    ours, theirs = (loading.load(folder / name) for name in ("params.yaml", "printed.yaml"))
    assert ours == theirs
    shell("dvc", "repro", cwd=folder)
    metrics = json.loads((folder / "reports" / "metrics.json").read_text())["pairs"]["tuned"]
    assert [metrics[name] for name in "PESO"] == [1, 1, 1, 1]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_a_fragment_is_accepted_beside_a_complete_file(number: int, tmp_path: Path) -> None:
    page, text = EXAMPLES[number]
    raw = merged(yaml.load(COMPLETE[0]), yaml.load(text))
    assert write_params(tmp_path, raw), page.name


def test_the_papers_file_has_all_that_its_stages_depend_on(prepared: Path, tmp_path: Path) -> None:
    """It failed at `mass`, after all sampling, for keys that it does not spell out."""
    folder = tmp_path / "leash"
    shutil.copytree(prepared, folder, symlinks=True)
    shutil.copy(ROOT / "params.paper.yaml", folder / "params.yaml")
    shell("leash", "resolve", cwd=folder)
    changed = json.loads(shell("dvc", "status", "--json", cwd=folder))
    missing = {
        path
        for entries in changed.values()
        for entry in entries
        if isinstance(entry, dict)
        for path, state in entry.get("changed deps", {}).items()
        if state == "deleted" and path.startswith(("data/params", "data/inputs"))
    }
    assert len(changed) > 15
    assert missing == set()
