"""resolve: the files that the other stages depend on, and links to what params.yaml names."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from stages import disk, importing, models, resolve, sample
from stages.errors import LeashError
from stages.params import Params
from stages.sample import facts
from tests.conftest import small, write_params


def snapshot() -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted(resolve.PARAMS.rglob("*.json"))}


def changed_by(**changes: dict[str, Any]) -> set[str]:
    """The files of data/params that an edit of params.yaml changes."""
    before = snapshot()
    resolve.run(write_params(Path(), small(**changes)))
    after = snapshot()
    names = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return {str(Path(name).relative_to(resolve.PARAMS)) for name in names}


def test_each_key_changes_the_files_of_those_who_use_it(project: Params) -> None:
    resolve.run(project)
    assert changed_by(categorize={"epsilon": 0.1}) == {"categorize.json"}
    resolve.run(project)
    assert changed_by(categorize={"units": ["problem"]}) == {"categorize.json", "mass.json"}
    resolve.run(project)
    assert changed_by(categorize={"confidence": 0.9}) == {"categorize.json", "entropy.json"}
    resolve.run(project)
    assert changed_by(report={"title": "Another"}) == {"report.json"}
    resolve.run(project)
    assert changed_by(sample={"k": 8}) == {"sample.json"}
    resolve.run(project)
    assert changed_by(run={"processes": 2}) == set()


def test_only_what_the_run_names_is_written(project: Params) -> None:
    """A model that is added to the catalogue concerns only perplexity, where trace sources are told from models by
    name; one that leaves the run takes its file along."""
    resolve.run(project)
    extra = {"other": {"path": "models/embedded/sft"}}
    assert changed_by(models=small()["models"] | extra) == {"perplexity.json"}
    resolve.run(project)
    fewer = {"run": {"models": ["base", "rlvr"], "pairs": ["rlvr"], "datasets": ["make"]}}
    assert changed_by(**fewer) == {"run.json", "datasets/chain.json"}


def test_a_dtype_that_is_left_out_is_not_one_that_is_spelled_out(project: Params) -> None:
    """Scoring may choose another on a GPU only for the first."""
    raw = small()
    raw["models"]["base"].pop("dtype")
    resolve.run(write_params(Path(), raw))
    assert json.loads((resolve.PARAMS / "models" / "base.json").read_text())["dtype"] is None
    raw["models"]["base"]["dtype"] = "float32"
    resolve.run(write_params(Path(), raw))
    assert json.loads((resolve.PARAMS / "models" / "base.json").read_text())["dtype"] == "float32"


def test_links_lead_to_the_files_and_may_be_moved_with_the_project(tmp_path: Path, project: Params) -> None:
    raw = small()
    Path("exam.jsonl").write_text('{"question": "1 + 1", "answer": "2"}\n')
    Path("graders").mkdir()
    Path("graders/mine.py").write_text("def score(answer, gold, meta): return 1.0\n")
    (tmp_path / "far").mkdir()
    raw["datasets"]["exam"] = {"path": "exam.jsonl", "grader": "graders.mine:score"}
    raw["run"]["datasets"] = ["exam"]
    raw["perplexity"]["traces"] = str(tmp_path / "far")
    resolve.run(write_params(Path(), raw))
    inputs = resolve.INPUTS
    assert (inputs / "datasets" / "exam").read_bytes() == Path("exam.jsonl").read_bytes()
    assert not os.path.isabs(os.readlink(inputs / "datasets" / "exam"))
    assert (inputs / "graders" / "exam" / "mine.py").samefile("graders/mine.py")
    assert (inputs / "models" / "base" / "config.json").samefile("models/embedded/base/config.json")
    assert os.readlink(inputs / "traces") == str(tmp_path / "far")


def test_the_data_folder_may_be_a_link(tmp_path_factory: pytest.TempPathFactory, project: Params) -> None:
    Path("data").symlink_to(tmp_path_factory.mktemp("scratch"))
    resolve.run(project)
    assert (resolve.INPUTS / "models" / "base" / "config.json").is_file()


def test_making_the_links_anew_never_touches_what_they_point_to(project: Params) -> None:
    resolve.run(project)
    before = models.folder_hash(Path("models/embedded/base"))
    resolve.run(project)
    assert models.folder_hash(Path("models/embedded/base")) == before


def test_weights_that_only_a_server_has_are_no_missing_file(project: Params) -> None:
    raw = small(sample={"engine": "openai"})
    raw["models"] = {name: {"path": f"/on/the/server/{name}"} for name in ("base", "rlvr")}
    resolve.run(write_params(Path(), raw))
    assert (resolve.INPUTS / "models" / "base").read_text() == "/on/the/server/base@main\n"
    raw["sample"]["engine"] = "torch"
    with pytest.raises(LeashError, match=r"`models.base.path` is /on/the/server/base, but nothing is there"):
        resolve.run(write_params(Path(), raw))


def test_large_files_are_hashed_again_only_when_size_or_times_change(
    project: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "LARGE_BYTES", 1)
    hashed: list[Path] = []
    whole = disk.file_hash

    def counted(path: Path) -> str:
        hashed.append(path)
        return whole(path)

    monkeypatch.setattr(disk, "file_hash", counted)
    file = Path("model.safetensors")
    file.write_bytes(b"weights")
    first = disk.remembered_hash(file)
    assert disk.remembered_hash(file) == first == whole(file)
    assert hashed == [file]
    stat = file.stat()
    file.write_bytes(b"WEIGHTS")  # as many bytes, and the time of before
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert disk.remembered_hash(file) == whole(file) != first
    disk.HASHES.write_text("{damaged")
    assert disk.remembered_hash(file) == whole(file)


def test_weights_that_score_imported_completions_are_noted_beside_them(project: Params) -> None:
    """The note is part of what `verify` depends on, and by way of its verdicts the stages that score."""
    row = {"question": "compute 1 + 1 :", "answer": "2", "completions": ["\\boxed{ 2 }"]}
    Path("samples.jsonl").write_text(json.dumps(row) + "\n")
    importing.run([Path("samples.jsonl")], "mine", "exam")
    shutil.copytree("models/embedded/base", "checkpoint")
    raw = small(run={"models": ["mine", "base"], "pairs": ["same"], "datasets": ["exam"]})
    raw["models"]["mine"] = {"engine": "import", "path": "checkpoint"}
    raw["pairs"]["same"] = {"base": "mine", "rlvr": "mine"}
    raw["datasets"]["exam"] = {"imported": True, "k": 1}
    params = write_params(Path(), raw)
    notes = []
    for model in ("base", "sft"):
        shutil.copy(f"models/embedded/{model}/model.safetensors", "checkpoint")
        sample.run(params, "mine", "exam")
        facts.keep("mine", "exam")
        known = facts.known("mine", "exam")
        assert known
        assert known["scored_by"] == models.folder_hash(Path("checkpoint"))
        notes.append(known["scored_by"])
    assert notes[0] != notes[1]
