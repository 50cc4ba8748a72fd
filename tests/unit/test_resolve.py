"""resolve: the files that the other stages depend on, and links to the files that params.yaml names."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from leash import atomic_io, tables, weights
from leash.engines.protocol import Completion
from leash.importing import importer
from leash.params.groups import Params
from leash.problems import load_problems
from leash.sample_ledger import Ledger
from leash.sampling import metadata
from leash.sampling.sampler import fingerprint
from stages.fetch import stage as fetch
from stages.resolve import stage
from stages.sample import stage as sample
from tests.conftest import small, write_params


def snapshot() -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted(stage.PARAMS_DIR.rglob("*.json"))}


def changed_by(**changes: dict[str, Any]) -> set[str]:
    """The files of data/params that an edit of params.yaml changes."""
    before = snapshot()
    stage.run(write_params(Path(), small(**changes)))
    after = snapshot()
    names = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return {str(Path(name).relative_to(stage.PARAMS_DIR)) for name in names}


def test_each_key_changes_the_files_of_the_stages_that_use_it(project: Params) -> None:
    stage.run(project)
    assert changed_by(categorize={"epsilon": 0.1}) == {"categorize.json"}
    stage.run(project)
    assert changed_by(categorize={"units": ["problem"]}) == {"categorize.json", "mass.json"}
    stage.run(project)
    assert changed_by(categorize={"confidence": 0.9}) == {"categorize.json", "entropy.json"}
    stage.run(project)
    assert changed_by(report={"title": "Another"}) == {"report.json"}
    stage.run(project)
    assert changed_by(sample={"k": 8}) == {"sample.json"}
    stage.run(project)
    assert changed_by(run={"processes": 2}) == set()


def test_a_damaged_file_is_written_again(project: Params) -> None:
    stage.run(project)
    path = stage.PARAMS_DIR / "sample.json"
    before = path.read_bytes()
    path.write_bytes(b"\xa0" + before[1:])
    stage.run(project)
    assert path.read_bytes() == before


def test_only_models_and_data_sets_of_the_run_are_written(project: Params) -> None:
    """A new model outside the run changes only perplexity, where a trace source may not have a model's name. The file
    of a data set that leaves the run is deleted."""
    stage.run(project)
    extra = {"other": {"path": "models/embedded/sft"}}
    assert changed_by(models=small()["models"] | extra) == {"perplexity.json"}
    stage.run(project)
    fewer = {"run": {"models": ["base", "rlvr"], "pairs": ["rlvr"], "datasets": ["make"]}}
    assert changed_by(**fewer) == {"run.json", "datasets/chain.json"}


def test_a_default_dtype_differs_from_an_explicit_one(project: Params) -> None:
    """Scoring on a GPU may replace only the default."""
    raw = small()
    raw["models"]["base"].pop("dtype")
    stage.run(write_params(Path(), raw))
    assert json.loads((stage.PARAMS_DIR / "models" / "base.json").read_text())["dtype"] is None
    raw["models"]["base"]["dtype"] = "float32"
    stage.run(write_params(Path(), raw))
    assert json.loads((stage.PARAMS_DIR / "models" / "base.json").read_text())["dtype"] == "float32"


def test_links_lead_to_the_files_and_survive_moving_the_project(tmp_path: Path, project: Params) -> None:
    raw = small()
    Path("exam.jsonl").write_text('{"question": "1 + 1", "answer": "2"}\n')
    Path("mine.py").write_text("def score(answer, gold, meta): return 1.0\n")
    (tmp_path / "far").mkdir()
    raw["datasets"]["exam"] = {"path": "exam.jsonl", "grader": "mine:score"}
    raw["run"]["datasets"] = ["exam"]
    raw["perplexity"]["traces"] = str(tmp_path / "far")
    stage.run(write_params(Path(), raw))
    inputs = stage.INPUTS_DIR
    assert (inputs / "datasets" / "exam").read_bytes() == Path("exam.jsonl").read_bytes()
    assert not os.path.isabs(os.readlink(inputs / "datasets" / "exam"))
    assert (inputs / "graders" / "exam" / "mine.py").samefile("mine.py")
    assert (inputs / "models" / "base" / "config.json").samefile("models/embedded/base/config.json")
    assert os.readlink(inputs / "traces") == str(tmp_path / "far")


def test_the_data_folder_may_be_a_link(tmp_path_factory: pytest.TempPathFactory, project: Params) -> None:
    Path("data").symlink_to(tmp_path_factory.mktemp("scratch"))
    stage.run(project)
    assert (stage.INPUTS_DIR / "models" / "base" / "config.json").is_file()


def test_making_the_links_again_never_changes_the_files_behind_them(project: Params) -> None:
    stage.run(project)
    before = weights.folder_hash(Path("models/embedded/base"))
    stage.run(project)
    assert weights.folder_hash(Path("models/embedded/base")) == before


def test_weights_that_only_a_server_has_are_not_missing(project: Params) -> None:
    raw = small(sample={"engine": "openai"})
    raw["models"] = {name: {"path": f"/on/the/server/{name}"} for name in ("base", "rlvr")}
    stage.run(write_params(Path(), raw))
    assert (stage.INPUTS_DIR / "models" / "base").read_text() == "/on/the/server/base@main\n"
    raw["sample"]["engine"] = "torch"
    with pytest.raises(stage.MissingInputError) as error:
        stage.run(write_params(Path(), raw))
    assert (error.value.key, error.value.path) == ("models.base.path", "/on/the/server/base")


def test_large_files_are_hashed_again_only_when_size_or_times_change(
    project: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_io, "MIN_CACHED_HASH_BYTES", 1)
    hashed: list[Path] = []
    whole = atomic_io.file_hash

    def counted(path: Path) -> str:
        hashed.append(path)
        return whole(path)

    monkeypatch.setattr(atomic_io, "file_hash", counted)
    file = Path("model.safetensors")
    file.write_bytes(b"weights")
    first = atomic_io.cached_file_hash(file)
    assert atomic_io.cached_file_hash(file) == first == whole(file)
    assert hashed == [file]
    stat = file.stat()
    file.write_bytes(b"WEIGHTS")  # the same size, and the old time stamp
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert atomic_io.cached_file_hash(file) == whole(file) != first
    atomic_io.HASH_CACHE_PATH.write_text("{damaged")
    assert atomic_io.cached_file_hash(file) == whole(file)


def test_weights_that_score_what_a_server_drew_are_noted_beside_it(project: Params) -> None:
    """`verify` depends on this metadata, and the scoring stages depend on its verdicts."""
    shutil.copytree("models/embedded/base", "checkpoint")
    params = write_params(Path(), small(models={"base": {"engine": "openai", "path": "checkpoint"}}, sample={"k": 1}))
    fetch.run(params, "chain")
    drawn = Ledger(tables.completions_folder("base", "chain"))
    drawn.open(fingerprint(params, "base", "chain"), {}, again="")
    drawn.add(Completion(problem, 0, "7", 2, "stop", None) for problem in load_problems("chain"))
    drawn.settle()
    drawn.close()
    notes = []
    for model in ("base", "sft"):
        shutil.copy(f"models/embedded/{model}/model.safetensors", "checkpoint")
        assert sample.run(params, "base", "chain").samples == 0  # there is no server
        metadata.copy_metadata_to_verdicts("base", "chain")
        notes.append((metadata.load_metadata("base", "chain") or {})["scored_by"])
    assert notes[0] != notes[1] == weights.folder_hash(Path("checkpoint"))


def test_weights_that_score_imported_completions_are_noted_beside_them(project: Params) -> None:
    row = {"question": "compute 1 + 1 :", "answer": "2", "completions": ["\\boxed{ 2 }"]}
    Path("samples.jsonl").write_text(json.dumps(row) + "\n")
    importer.run([Path("samples.jsonl")], "mine", "exam")
    shutil.copytree("models/embedded/base", "checkpoint")
    raw = small(run={"models": ["mine", "base"], "pairs": ["same"], "datasets": ["exam"]})
    raw["models"]["mine"] = {"engine": "import", "path": "checkpoint"}
    raw["pairs"]["same"] = {"base": "base", "rlvr": "mine"}
    raw["datasets"]["exam"] = {"imported": True, "k": 1}
    params = write_params(Path(), raw)
    notes = []
    for model in ("base", "sft"):
        shutil.copy(f"models/embedded/{model}/model.safetensors", "checkpoint")
        sample.run(params, "mine", "exam")
        metadata.copy_metadata_to_verdicts("mine", "exam")
        stored = metadata.load_metadata("mine", "exam")
        assert stored
        assert stored["scored_by"] == weights.folder_hash(Path("checkpoint"))
        notes.append(stored["scored_by"])
    assert notes[0] != notes[1]
