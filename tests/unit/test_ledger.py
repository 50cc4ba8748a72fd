"""The ledger: nothing twice, nothing lost, nothing mixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from stages import tables
from stages.errors import LeashError
from stages.sample.ledger import Ledger, Unit, intact, missing

IDS = [f"p{i}" for i in range(7)]
KIND = {"model": "m", "temperature": "1.0"}


def filled(folder: Path, units: list[Unit]) -> Ledger:
    ledger = Ledger(folder)
    for unit in units:
        rows = [
            {"problem_id": p, "sample": s, "text": f"{p} {s}", "tokens": 1, "finish": "stop", "logprob": -0.5}
            for p in unit.problem_ids
            for s in unit.samples
        ]
        ledger.add(unit, tables.table(rows, tables.COMPLETIONS))
    return ledger


def everything(k: int) -> set[tuple[str, int]]:
    return {(p, s) for p in IDS for s in range(k)}


@pytest.mark.parametrize(("k", "rows"), [(1, 1), (4, 8), (10, 3), (100, 10_000), (5, 5)])
def test_units_are_all_that_is_wanted_once(k: int, rows: int) -> None:
    units = list(missing(IDS, k, set(), rows))
    drawn = [(p, s) for u in units for p in u.problem_ids for s in u.samples]
    assert len(drawn) == len(set(drawn))
    assert set(drawn) == everything(k)
    assert all(len(u.problem_ids) * len(u.samples) <= rows for u in units)
    assert len({u.name for u in units}) == len(units)


def test_only_the_remainder_is_drawn_when_k_grows(tmp_path: Path) -> None:
    ledger = filled(tmp_path, list(missing(IDS, 4, set(), 8)))
    units = list(missing(IDS, 10, ledger.have(), 100))
    assert [(u.problem_ids, u.samples) for u in units] == [(tuple(IDS), range(4, 10))]
    assert list(missing(IDS, 3, ledger.have(), 100)) == []


def test_what_a_killed_run_left_is_kept_and_the_rest_is_drawn(tmp_path: Path) -> None:
    units = list(missing(IDS, 6, set(), 6))
    ledger = filled(tmp_path, units[::2])
    (tmp_path / ".half-written.parquet").write_bytes(b"PAR1")
    again = list(missing(IDS, 6, ledger.have(), 6))
    assert not (tmp_path / ".half-written.parquet").exists()
    assert {(p, s) for u in again for p in u.problem_ids for s in u.samples} == everything(6) - ledger.have()
    assert ledger.have().isdisjoint((p, s) for u in again for p in u.problem_ids for s in u.samples)


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_damaged_shard_is_found_and_drawn_again(tmp_path: Path, damage: str) -> None:
    ledger = filled(tmp_path, list(missing(IDS, 4, set(), 8)))
    shard = tables.shards(tmp_path)[1]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes({"flip": bytes(content), "truncate": bytes(content[:-9]), "empty": b""}[damage])
    assert not intact(shard)
    lost = everything(4) - ledger.have()
    assert len(lost) == 8
    assert not shard.exists()


def test_another_kind_of_sample_is_refused_by_the_name_of_what_changed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.open(KIND, {"p0": "a"}, again="leash sample m d --resample")
    ledger.open(KIND, {"p0": "a", "p1": "b"}, again="")  # more problems are welcome
    with pytest.raises(LeashError, match=r"another temperature.*leash sample m d --resample"):
        ledger.open(KIND | {"temperature": "0.6"}, {"p0": "a"}, again="leash sample m d --resample")
    with pytest.raises(LeashError, match="the prompt of problem p1"):
        ledger.open(KIND, {"p0": "a", "p1": "c"}, again="")
    ledger.clear()
    ledger.open(KIND | {"temperature": "0.6"}, {"p0": "z"}, again="")
    assert ledger.have() == set()
