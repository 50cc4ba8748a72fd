"""The ledger keeps every sample once, survives kills and damage, and refuses to mix samples of different settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leash import atomic_io, table_rows, tables
from leash import sample_ledger as ledger_module
from leash.engines.protocol import Completion
from leash.sample_ledger import (
    Ledger,
    LedgerLockedError,
    LostManifestError,
    RenamedProblemError,
    SampleKey,
    SamplesMismatchError,
)
from leash.statistics import seeds
from tests.faults import damage

IDS = [f"p{i}" for i in range(7)]
PROMPTS = {problem: problem for problem in IDS}
SOURCE = {"file": "a.jsonl", "hash": "0", "format": "jsonl", "numbers": {"p0": "0-1"}}
FINGERPRINT = {"model": "m", "temperature": "1.0"}
SHARD_BYTES = 16 * (ledger_module.ROW_BYTES + len("p0 0"))  # of 16 samples
Keys = set[tuple[str, int]]


def open_ledger(folder: Path) -> Ledger:
    ledger = Ledger(folder)
    ledger.open(FINGERPRINT, PROMPTS, again="leash sample m d --resample")
    return ledger


def make_completions(keys: Iterable[tuple[str, int]]) -> list[Completion]:
    return [Completion(p, s, f"{p} {s}", 1, "stop", -0.5) for p, s in keys]


def shuffle(keys: Iterable[tuple[str, int]], *name: str) -> list[tuple[str, int]]:
    ordered = sorted(keys)
    return [ordered[i] for i in seeds.stream("test", *name).permutation(len(ordered))]


def all_keys(k: int) -> Keys:
    return {(p, s) for p in IDS for s in range(k)}


def keys_on_disk(ledger: Ledger) -> Keys:
    return {(p, int(s)) for p, samples in ledger.have().items() for s in samples}


def read_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def _small_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where no dvc.lock has to be read
    monkeypatch.setattr(ledger_module, "MAX_SHARD_BYTES", SHARD_BYTES)


def test_files_do_not_depend_on_the_order_of_arrival(tmp_path: Path) -> None:
    for name in ("one", "two"):
        ledger = open_ledger(tmp_path / name)
        for key in shuffle(all_keys(10), name):
            ledger.add(make_completions([key]))
        ledger.settle()
        assert keys_on_disk(ledger) == all_keys(10)
    assert read_files(tmp_path / "one") == read_files(tmp_path / "two")
    assert len(tables.shards(tmp_path / "one")) == 5  # 70 samples, 16 to a shard
    assert not (tmp_path / "one" / ".parts").exists()


def test_samples_are_on_disk_within_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "PART_INTERVAL_S", 0.0)
    ledger = open_ledger(tmp_path)
    ledger.add(make_completions([("p0", 3)]))
    assert keys_on_disk(Ledger(tmp_path)) == {("p0", 3)}


def test_large_parts_become_shards_during_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MAX_PARTS_BYTES", 1)
    ledger = open_ledger(tmp_path)
    ledger.add(make_completions(all_keys(3)))
    assert len(tables.shards(tmp_path)) == 2
    ledger.add(make_completions(all_keys(6) - all_keys(3)))
    ledger.settle()
    assert keys_on_disk(ledger) == all_keys(6)


def test_a_killed_run_continues_without_losing_or_repeating_samples(tmp_path: Path) -> None:
    """The folder of an uninterrupted run is equal to one whose run was killed half-way."""
    uninterrupted = open_ledger(tmp_path / "uninterrupted")
    uninterrupted.add(make_completions(all_keys(10)))
    uninterrupted.settle()
    first = open_ledger(tmp_path / "killed")
    half = shuffle(all_keys(10))[:33]
    first.add(make_completions(half))
    (tmp_path / "killed" / ".parts" / ".unfinished-half.parquet").write_bytes(b"PAR1")
    first.close()

    second = open_ledger(tmp_path / "killed")
    assert keys_on_disk(second) == set(half)
    second.add(make_completions(all_keys(10) - set(half)))
    second.settle()
    assert read_files(tmp_path / "killed") == read_files(tmp_path / "uninterrupted")


@pytest.mark.parametrize("written", range(6))
def test_a_kill_between_shards_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    """Killed after `written` shards: the next run writes the rest, and until then no sample is counted twice."""
    uninterrupted = open_ledger(tmp_path / "uninterrupted")
    uninterrupted.add(make_completions(all_keys(10)))
    uninterrupted.settle()

    ledger = open_ledger(tmp_path / "killed")
    ledger.add(make_completions(all_keys(10)))
    write = Ledger._write_shard
    shards = 0

    def killed(self: Ledger, keys: Sequence[SampleKey], rows: pa.Table) -> None:
        nonlocal shards
        if shards == written:
            raise KeyboardInterrupt
        shards += 1
        write(self, keys, rows)

    monkeypatch.setattr(Ledger, "_write_shard", killed)
    if written < 5:
        with pytest.raises(KeyboardInterrupt):
            ledger.settle()
    else:  # killed after the last shard, before the first part is deleted
        monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(OSError, match="not empty"):
            ledger.settle()
    monkeypatch.undo()
    monkeypatch.setattr(ledger_module, "MAX_SHARD_BYTES", SHARD_BYTES)
    ledger.close()

    again = open_ledger(tmp_path / "killed")
    assert keys_on_disk(again) == all_keys(10)
    texts = [row["text"] for row in again.texts()]
    assert len(texts) == len(set(texts)) == 70
    again.settle()
    assert read_files(tmp_path / "killed") == read_files(tmp_path / "uninterrupted")


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
@pytest.mark.parametrize("where", [".", ".parts"])
def test_the_samples_of_a_damaged_file_are_drawn_again(tmp_path: Path, damage: str, where: str) -> None:
    ledger = open_ledger(tmp_path)
    for k in (2, 4, 6):
        ledger.add(make_completions(all_keys(k) - all_keys(k - 2)))
        ledger.flush()
    if where == ".":
        ledger.settle()
    file = tables.shards(tmp_path / where)[1]
    size = len(list(ledger_module._read_sample_keys(file)))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes({"flip": bytes(content), "truncate": bytes(content[:-9]), "empty": b""}[damage])
    assert not atomic_io.matches_hash_in_name(file)
    assert len(all_keys(6) - keys_on_disk(ledger)) == size > 0
    assert not file.exists()


def test_samples_with_another_fingerprint_are_refused_and_the_changed_field_is_named(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.open(FINGERPRINT, {"p0": "a"}, again="leash sample m d --resample")
    ledger.add(make_completions([("p0", 0)]))
    ledger.open(FINGERPRINT, {"p0": "a", "p1": "b"}, again="")  # new problems are fine
    with pytest.raises(SamplesMismatchError, match=r"replace them with `leash sample m d --resample`\.$") as error:
        ledger.open(FINGERPRINT | {"temperature": "0.6"}, {"p0": "a"}, again="leash sample m d --resample")
    assert (error.value.folder, error.value.fields, error.value.problem_id) == (tmp_path, ("temperature",), None)
    with pytest.raises(SamplesMismatchError) as error:
        ledger.open(FINGERPRINT | {"system": "Be brief."}, {"p0": "a"}, again="")
    assert error.value.fields == ("system",)
    with pytest.raises(SamplesMismatchError) as error:
        ledger.open(FINGERPRINT, {"p0": "a", "p1": "c"}, again="")
    assert (error.value.fields, error.value.problem_id) == ((), "p1")
    ledger.clear()
    ledger.open(FINGERPRINT | {"temperature": "0.6"}, {"p0": "z"}, again="")
    assert keys_on_disk(ledger) == set()


def test_a_problem_with_another_id_is_refused_and_a_new_or_removed_one_is_not(tmp_path: Path) -> None:
    """Its samples would be left out, and all be drawn again."""
    ledger = open_ledger(tmp_path)
    ledger.add(make_completions(all_keys(2)))
    ledger.settle()
    ledger.require_origin({"new": "new", **PROMPTS}, again="")
    ledger.require_origin({"p1": "p1", "twin of p1": "p1", "new": "new"}, again="")
    for look in (
        lambda: ledger.require_origin({"renamed": "p0", "p1": "p1"}, again=""),
        lambda: ledger.check(FINGERPRINT, {"renamed": "p0", "p1": "p1"}, again=""),
    ):
        with pytest.raises(RenamedProblemError) as error:
            look()
        assert (error.value.old_id, error.value.new_id) == ("p0", "renamed")


def test_a_second_run_cannot_write_to_the_same_folder(tmp_path: Path) -> None:
    open_ledger(tmp_path)
    with pytest.raises(LedgerLockedError) as error:
        open_ledger(tmp_path)
    assert error.value.folder == tmp_path


def test_the_manifest_lists_the_engines_of_its_samples(tmp_path: Path) -> None:
    for engine in ("torch 2.13.0", "vllm 0.32.0", "torch 2.13.0"):
        ledger = Ledger(tmp_path)
        ledger.open(FINGERPRINT, {"p0": "a"}, again="", engine=engine)
        ledger.add(make_completions([("p0", 0)]))
        ledger.close()
    assert ledger.manifest()["engines"] == ["torch 2.13.0", "vllm 0.32.0"]


def lose_manifest(folder: Path, how: str) -> None:
    """Delete the manifest, damage it, or leave an empty object."""
    manifest = folder / ledger_module.MANIFEST_FILENAME
    if how == "delete":
        manifest.unlink()
    elif how == "{}":
        manifest.write_text("{}")
    else:
        damage(manifest, how)


def write_as_earlier_versions(folder: Path) -> None:
    """Samples in files that do not state their origin, with their manifest."""
    ledger = open_ledger(folder)
    ledger.add(make_completions(all_keys(4)))
    ledger.settle()
    ledger.close()
    for shard in tables.shards(folder):
        content = tables.encode_parquet(pq.read_table(shard), pq.read_schema(shard).remove_metadata())
        assert ledger_module._read_origin(shard)
        shard.unlink()
        atomic_io.write(folder / f"{shard.name.rsplit('.', 2)[0]}.{atomic_io.bytes_hash(content)}.parquet", content)


WAYS_TO_LOSE = ["delete", "{}", "flip", "truncate", "empty"]


@pytest.mark.parametrize("how", WAYS_TO_LOSE)
@pytest.mark.parametrize("settled", [True, False])
def test_samples_without_a_manifest_are_those_that_their_files_state(tmp_path: Path, how: str, settled: bool) -> None:
    ledger = open_ledger(tmp_path)
    ledger.add(make_completions([("p0", 0)]))
    if settled:
        ledger.settle()
    ledger.close()
    lose_manifest(tmp_path, how)
    colder = Ledger(tmp_path)
    with pytest.raises(SamplesMismatchError) as error:
        colder.open(FINGERPRINT | {"temperature": "0.3"}, {"p0": "p0"}, again="")
    assert error.value.fields == ("temperature",)
    colder.close()
    with pytest.raises(SamplesMismatchError) as error:
        colder.open(FINGERPRINT, {"p0": "another question"}, again="")
    assert error.value.problem_id == "p0"
    colder.close()
    open_ledger(tmp_path).close()
    manifest = Ledger(tmp_path).manifest()
    assert (manifest["fingerprint"], manifest["prompts"]["p0"]) == (FINGERPRINT, "p0")
    assert manifest["engines"] == ["unknown"]


@pytest.mark.parametrize("how", WAYS_TO_LOSE)
def test_samples_of_an_earlier_version_need_their_manifest(tmp_path: Path, how: str) -> None:
    write_as_earlier_versions(tmp_path)
    ledger = open_ledger(tmp_path)
    assert keys_on_disk(ledger) == all_keys(4)
    ledger.add(make_completions(all_keys(5) - all_keys(4)))  # beside files of this version, too
    ledger.settle()
    ledger.close()
    assert keys_on_disk(Ledger(tmp_path)) == all_keys(5)
    lose_manifest(tmp_path, how)
    for trust in (open_ledger, lambda folder: Ledger(folder).manifest()):
        with pytest.raises(LostManifestError, match=r"`dvc checkout .*`--resample`") as error:
            trust(tmp_path)
        assert error.value.path == tmp_path / ledger_module.MANIFEST_FILENAME


def test_imported_samples_need_their_manifest(tmp_path: Path) -> None:
    """It alone knows which file they are from: the file would be imported a second time."""
    ledger = Ledger(tmp_path)
    ledger.open({"engine": "import"}, {"p0": "a"}, again="", engine="import", sources=[SOURCE])
    ledger.add(make_completions([("p0", 0)]))
    ledger.settle()
    ledger.close()
    lose_manifest(tmp_path, "delete")
    for trust in (Ledger(tmp_path).manifest, lambda: Ledger(tmp_path).check({"engine": "import"}, {}, again="")):
        with pytest.raises(LostManifestError):
            trust()


def test_a_file_of_another_run_is_refused_though_the_manifest_is_right(tmp_path: Path) -> None:
    for name, temperature, sample in (("warm", "1.0", 0), ("cold", "0.3", 1)):
        ledger = Ledger(tmp_path / name)
        ledger.open(FINGERPRINT | {"temperature": temperature}, {"p0": "a"}, again="")
        ledger.add(make_completions([("p0", sample)]))
        ledger.settle()
        ledger.close()
    (foreign,) = tables.shards(tmp_path / "warm")
    foreign.rename(tmp_path / "cold" / foreign.name)
    cold = Ledger(tmp_path / "cold")
    with pytest.raises(SamplesMismatchError) as error:
        cold.open(FINGERPRINT | {"temperature": "0.3"}, {"p0": "a"}, again="")
    assert error.value.fields == ("temperature",)
    with pytest.raises(SamplesMismatchError):
        cold.require_origin({"p0": "a"}, again="")


def test_a_sample_in_two_shards_is_refused_by_name(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    ledger.add(make_completions(all_keys(10)))
    ledger.settle()
    ledger.require_origin(PROMPTS, again="")
    shard = tables.shards(tmp_path)[1]
    first = next(ledger_module._read_sample_keys(shard))
    copy = shard.rename(tmp_path / f"copy.{shard.name}")
    ledger.require_origin(PROMPTS, again="")
    shard.write_bytes(copy.read_bytes())
    for look in (ledger.have, lambda: ledger.require_origin(PROMPTS, again="")):
        with pytest.raises(tables.RepeatedSampleError) as error:
            look()
        assert (error.value.problem_id, error.value.sample) == first
        assert error.value.files == (shard, copy)


def test_a_manifest_without_samples_is_replaced(tmp_path: Path) -> None:
    """An engine that fails to start may leave one. The next run can change dtype, prompt or problem text."""
    ledger = open_ledger(tmp_path)
    ledger.add(make_completions([("p0", 0)]))
    ledger.close()
    for part in tables.shards(tmp_path / ".parts"):
        part.unlink()
    again = Ledger(tmp_path)
    again.open({"model": "m", "dtype": "float32"}, {"p0": "z"}, again="", engine="torch 2.13.0")
    again.add(make_completions([("p0", 1)]))
    assert again.manifest()["fingerprint"] == {"model": "m", "dtype": "float32"}
    assert again.manifest()["prompts"] == {"p0": "z"}


def test_the_manifest_is_written_with_the_first_sample_and_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the two leaves a manifest without samples, never samples without a manifest."""
    write, written = atomic_io.write, list[str]()

    def record(path: Path, content: bytes | str) -> None:
        written.append(path.name if path.name == ledger_module.MANIFEST_FILENAME else "a part")
        write(path, content)

    monkeypatch.setattr(atomic_io, "write", record)
    ledger = open_ledger(tmp_path)
    assert read_files(tmp_path) == {}
    ledger.add(make_completions([("p0", 0)]))
    ledger.flush()
    assert written == [ledger_module.MANIFEST_FILENAME, "a part"]


@pytest.mark.parametrize("settled", [True, False])
def test_samples_that_are_not_retained_are_gone_and_the_others_are_in_the_same_files(
    tmp_path: Path, settled: bool
) -> None:
    wanted = {key for key in all_keys(10) if key[1] % 3 == 0}
    some, only = open_ledger(tmp_path / "some"), open_ledger(tmp_path / "only")
    some.add(make_completions(shuffle(all_keys(10), "some")))
    some.flush()
    if settled:
        some.settle()
    only.add(make_completions(shuffle(wanted, "only")))
    for ledger in (some, only):
        ledger.retain(wanted)
        assert keys_on_disk(ledger) == wanted
    assert read_files(tmp_path / "some") == read_files(tmp_path / "only")
    some.retain(set())
    assert some.empty


@pytest.mark.parametrize("finish", ["retain", "settle"])
def test_shards_are_written_without_all_texts_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finish: str
) -> None:
    """They may be larger than memory, and than the 2 GiB of a column."""
    monkeypatch.setattr(table_rows, "MAX_KEPT_BYTES", 2**23)
    monkeypatch.setattr(ledger_module, "MAX_SHARD_BYTES", 2**24)
    ledger = open_ledger(tmp_path)
    for part in range(8):
        samples = range(part, 128, 8)
        ledger._unflushed = [Completion("p0", sample, "x" * 2**20, 1, "stop", None) for sample in samples]
        ledger.flush()
    usual, pool = pa.default_memory_pool(), pa.system_memory_pool()  # the second counts what this test alone takes
    pa.set_memory_pool(pool)
    try:
        if finish == "retain":
            ledger.retain({("p0", sample) for sample in range(127)})
        else:
            ledger.settle()
    finally:
        pa.set_memory_pool(usual)
    assert 2**20 < pool.max_memory() < 96 * 2**20  # the texts have 128
    shards = tables.shards(tmp_path)
    kept = [s for shard in shards for s in pq.read_table(shard, columns=["sample"])["sample"].to_pylist()]
    assert kept == list(range(127 if finish == "retain" else 128))


def test_shards_of_which_all_samples_are_retained_stay_as_they_are(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    ledger.add(make_completions(("p0", sample) for sample in range(40)))
    ledger.settle()
    before = {shard: shard.stat().st_ino for shard in tables.shards(tmp_path)}
    assert len(before) == 3
    ledger.retain({("p0", sample) for sample in range(37)})
    after = {shard: shard.stat().st_ino for shard in tables.shards(tmp_path)}
    assert len(after.items() & before.items()) == 2
    assert len(after) == 3


def test_a_kill_while_samples_are_retained_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {key for key in all_keys(10) if key[1] % 2}
    ledger = open_ledger(tmp_path / "killed")
    ledger.add(make_completions(sorted(all_keys(10))))
    ledger.settle()

    def die(path: Path, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", die)
        with pytest.raises(KeyboardInterrupt):
            ledger.retain(wanted)
    ledger.close()
    again = open_ledger(tmp_path / "killed")
    assert keys_on_disk(again) == all_keys(10)
    again.retain(wanted)
    once = open_ledger(tmp_path / "once")
    once.add(make_completions(sorted(wanted)))
    once.settle()
    assert read_files(tmp_path / "killed") == read_files(tmp_path / "once")


def test_shards_are_cut_by_the_size_of_their_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long texts fill a shard with few samples, and a million short ones are in one file."""
    monkeypatch.setattr(ledger_module, "MAX_SHARD_BYTES", 10_000)
    lengths = [*[100] * 70, *[4_900] * 3, 20_000, 100, 9_000]
    ledger = open_ledger(tmp_path)
    ledger.add(Completion("p0", i, "é" * (length // 2), 1, "stop", None) for i, length in enumerate(lengths))
    ledger.settle()
    sizes = [pq.read_metadata(shard).num_rows for shard in tables.shards(tmp_path)]
    assert sizes == [70, 2, 1, 1, 2]
    ledger.add([Completion("p1", 0, "", 1, "stop", None, list(range(2_400))), Completion("p1", 1, "", 1, "stop", None)])
    ledger.add([Completion("p1", 2, "", 1, "stop", None, None, "t" * 400)])
    ledger.settle()
    assert [pq.read_metadata(shard).num_rows for shard in tables.shards(tmp_path)][5:] == [2, 1]


def test_a_shard_has_row_groups_for_its_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MAX_SHARD_BYTES", 2**20)
    monkeypatch.setattr(ledger_module, "ROW_GROUP_ROWS", 16)
    for name in ("one", "two"):
        ledger = open_ledger(tmp_path / name)
        for key in shuffle(all_keys(10), name):
            ledger.add(make_completions([key]))
        ledger.settle()
        assert len(list(ledger.texts())) == 70
    (shard,) = tables.shards(tmp_path / "one")
    metadata = pq.read_metadata(shard)
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [16, 16, 16, 16, 6]
    assert read_files(tmp_path / "one") == read_files(tmp_path / "two")
