"""The ledger: nothing twice, nothing lost, nothing mixed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from stages import disk, seeds, tables
from stages.errors import LeashError
from stages.sample import ledger as ledgers
from stages.sample.engine import Completion
from stages.sample.ledger import Ledger
from tests.faults import damage

IDS = [f"p{i}" for i in range(7)]
KIND = {"model": "m", "temperature": "1.0"}
Keys = set[tuple[str, int]]


def opened(folder: Path) -> Ledger:
    ledger = Ledger(folder)
    ledger.open(KIND, {problem: problem for problem in IDS}, again="leash sample m d --resample")
    return ledger


def completions(keys: Iterable[tuple[str, int]]) -> list[Completion]:
    return [Completion(p, s, f"{p} {s}", 1, "stop", -0.5) for p, s in keys]


def shuffled(keys: Iterable[tuple[str, int]], *name: str) -> list[tuple[str, int]]:
    ordered = sorted(keys)
    return [ordered[i] for i in seeds.stream("test", *name).permutation(len(ordered))]


def everything(k: int) -> Keys:
    return {(p, s) for p in IDS for s in range(k)}


def held(ledger: Ledger) -> Keys:
    return {(p, int(s)) for p, samples in ledger.have().items() for s in samples}


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "SHARD", 16)


def test_the_order_of_arrival_does_not_show(tmp_path: Path) -> None:
    for name in ("one", "two"):
        ledger = opened(tmp_path / name)
        for key in shuffled(everything(10), name):
            ledger.add(completions([key]))
        ledger.settle()
        assert held(ledger) == everything(10)
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert len(tables.shards(tmp_path / "one")) == 5  # 70 samples, 16 to a shard
    assert not (tmp_path / "one" / ".parts").exists()


def test_few_samples_are_on_disk_before_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "PART_SECONDS", 0.0)
    ledger = opened(tmp_path)
    ledger.add(completions([("p0", 3)]))
    assert held(Ledger(tmp_path)) == {("p0", 3)}


def test_large_parts_become_shards_while_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "SETTLE_BYTES", 1)
    ledger = opened(tmp_path)
    ledger.add(completions(everything(3)))
    assert len(tables.shards(tmp_path)) == 2
    ledger.add(completions(everything(6) - everything(3)))
    ledger.settle()
    assert held(ledger) == everything(6)


def test_a_killed_run_finds_its_samples_again_and_none_twice(tmp_path: Path) -> None:
    """The undisturbed folder, and one whose run was killed after half of it."""
    straight = opened(tmp_path / "straight")
    straight.add(completions(everything(10)))
    straight.settle()
    first = opened(tmp_path / "killed")
    half = shuffled(everything(10))[:33]
    first.add(completions(half))
    (tmp_path / "killed" / ".parts" / ".unfinished-half.parquet").write_bytes(b"PAR1")
    first.close()

    second = opened(tmp_path / "killed")
    assert held(second) == set(half)
    second.add(completions(everything(10) - set(half)))
    second.settle()
    assert content(tmp_path / "killed") == content(tmp_path / "straight")


@pytest.mark.parametrize("written", range(6))
def test_a_kill_while_settling_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    """Killed after so many shards: the next run settles the rest, and no sample is there twice in between."""
    straight = opened(tmp_path / "straight")
    straight.add(completions(everything(10)))
    straight.settle()

    ledger = opened(tmp_path / "killed")
    ledger.add(completions(everything(10)))
    write = Ledger._write_shard
    shards = 0

    def killed(self: Ledger, rows: object) -> None:
        nonlocal shards
        if shards == written:
            raise KeyboardInterrupt
        shards += 1
        write(self, rows)

    monkeypatch.setattr(Ledger, "_write_shard", killed)
    if written < 5:
        with pytest.raises(KeyboardInterrupt):
            ledger.settle()
    else:  # killed when all shards were there, but no part was gone
        monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(OSError, match="not empty"):
            ledger.settle()
    monkeypatch.undo()
    monkeypatch.setattr(ledgers, "SHARD", 16)
    ledger.close()

    again = opened(tmp_path / "killed")
    assert held(again) == everything(10)
    texts = [row["text"] for row in again.texts()]
    assert len(texts) == len(set(texts)) == 70
    again.settle()
    assert content(tmp_path / "killed") == content(tmp_path / "straight")


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
@pytest.mark.parametrize("where", [".", ".parts"])
def test_a_damaged_file_is_found_and_its_samples_are_drawn_again(tmp_path: Path, damage: str, where: str) -> None:
    ledger = opened(tmp_path)
    for k in (2, 4, 6):
        ledger.add(completions(everything(k) - everything(k - 2)))
        ledger.flush()
    if where == ".":
        ledger.settle()
    file = tables.shards(tmp_path / where)[1]
    size = len(list(ledgers._keys(file)))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes({"flip": bytes(content), "truncate": bytes(content[:-9]), "empty": b""}[damage])
    assert not disk.intact(file)
    assert len(everything(6) - held(ledger)) == size > 0
    assert not file.exists()


def test_another_kind_of_sample_is_refused_by_the_name_of_what_changed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.open(KIND, {"p0": "a"}, again="leash sample m d --resample")
    ledger.add(completions([("p0", 0)]))
    ledger.open(KIND, {"p0": "a", "p1": "b"}, again="")  # more problems are welcome
    with pytest.raises(LeashError, match=r"another temperature.*leash sample m d --resample"):
        ledger.open(KIND | {"temperature": "0.6"}, {"p0": "a"}, again="leash sample m d --resample")
    with pytest.raises(LeashError, match="another system"):
        ledger.open(KIND | {"system": "Be brief."}, {"p0": "a"}, again="")
    with pytest.raises(LeashError, match="another text of the problem p1"):
        ledger.open(KIND, {"p0": "a", "p1": "c"}, again="")
    ledger.clear()
    ledger.open(KIND | {"temperature": "0.6"}, {"p0": "z"}, again="")
    assert held(ledger) == set()


def test_two_runs_do_not_write_to_one_folder(tmp_path: Path) -> None:
    opened(tmp_path)
    with pytest.raises(LeashError, match="Another run is writing"):
        opened(tmp_path)


def test_the_manifest_says_where_samples_come_from(tmp_path: Path) -> None:
    for engine in ("torch 2.13.0", "vllm 0.32.0", "torch 2.13.0"):
        ledger = Ledger(tmp_path)
        ledger.open(KIND, {"p0": "a"}, again="", engine=engine)
        ledger.add(completions([("p0", 0)]))
        ledger.close()
    assert ledger.manifest()["engines"] == ["torch 2.13.0", "vllm 0.32.0"]


@pytest.mark.parametrize("how", ["flip", "truncate", "empty"])
def test_a_damaged_manifest_without_a_copy_is_refused(tmp_path: Path, how: str) -> None:
    ledger = opened(tmp_path)
    ledger.add(completions([("p0", 0)]))
    ledger.close()
    damage(tmp_path / ledgers.MANIFEST, how)
    with pytest.raises(LeashError, match=r"manifest.json is damaged; delete it and run this again if .* `--resample`"):
        opened(tmp_path)


def test_a_manifest_without_samples_forbids_nothing(tmp_path: Path) -> None:
    """As an engine that failed to start used to leave it: no dtype, prompt or problem text is bound by it."""
    ledger = opened(tmp_path)
    ledger.add(completions([("p0", 0)]))
    ledger.close()
    for part in tables.shards(tmp_path / ".parts"):
        part.unlink()
    again = Ledger(tmp_path)
    again.open({"model": "m", "dtype": "float32"}, {"p0": "z"}, again="", engine="torch 2.13.0")
    again.add(completions([("p0", 1)]))
    assert again.manifest()["fingerprint"] == {"model": "m", "dtype": "float32"}
    assert again.manifest()["prompts"] == {"p0": "z"}


def test_nothing_is_on_disk_before_the_first_sample_and_then_the_manifest_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the two leaves a manifest without samples, never samples without a manifest."""
    write, written = disk.write, list[str]()

    def noted(path: Path, content: bytes | str) -> None:
        written.append(path.name if path.name == ledgers.MANIFEST else "a part")
        write(path, content)

    monkeypatch.setattr(disk, "write", noted)
    ledger = opened(tmp_path)
    assert content(tmp_path) == {}
    ledger.add(completions([("p0", 0)]))
    ledger.flush()
    assert written == [ledgers.MANIFEST, "a part"]


def test_a_deleted_manifest_is_written_again_for_the_samples_that_are_there(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.add(completions([("p0", 0)]))
    ledger.close()
    (tmp_path / ledgers.MANIFEST).unlink()
    opened(tmp_path).close()
    assert Ledger(tmp_path).manifest()["fingerprint"] == KIND
