"""JSON that a stage reads is refused, or made again, if a single bit of it changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leash import atomic_io, json_checksum, tables
from leash.grading.judging import JudgeCase, WordCache
from leash.params.groups import Params
from leash.report import metrics
from leash.report.analysis_files import OldAnalysisError, read_analysis
from leash.sampling import metadata

CONTENT = {"all": {"P": 3, "ratio": 0.1, "by_k": {2: None, 10: True}}, "chain": {"decision": "fewer"}}


def test_an_object_is_read_as_it_was_written() -> None:
    sealed = json_checksum.with_checksum(CONTENT)
    content, valid = json_checksum.check(json.dumps(sealed))
    assert (content, valid) == (json.loads(json.dumps(CONTENT)), True)
    assert json_checksum.check(json.dumps(sealed, indent=2, sort_keys=True)).valid is True
    assert json_checksum.check(json.dumps(CONTENT)).valid is None
    with pytest.raises(ValueError, match="not a JSON object"):
        json_checksum.check("[]")


def test_a_flipped_bit_never_changes_a_value() -> None:
    written = json.dumps(json_checksum.with_checksum(CONTENT)).encode()
    for place in range(len(written) * 8):
        damaged = bytearray(written)
        damaged[place // 8] ^= 1 << place % 8
        try:
            content, valid = json_checksum.check(bytes(damaged))
        except ValueError:
            continue
        # Without the key of the checksum, the key that it became stands beside the content.
        assert valid is False or content.keys() != CONTENT.keys()


def test_a_damaged_analysis_is_refused(project: Params) -> None:
    path = tables.analysis_path("rlvr")
    atomic_io.write(path, json.dumps(json_checksum.with_checksum({"all": {"decision": "fewer"}})))
    atomic_io.write(path, path.read_text().replace("fewer", "fewes"))
    with pytest.raises(tables.DamagedTableError) as error:
        read_analysis("rlvr")
    assert (error.value.path, error.value.made_by) == (path, "leash categorize")
    atomic_io.write(path, json.dumps({"all": {"decision": "fewer"}}))
    with pytest.raises(OldAnalysisError):
        read_analysis("rlvr")


def test_a_damaged_metrics_file_has_no_headline(project: Params) -> None:
    path = metrics.REPORTS_DIR / "metrics.json"
    content = {"pairs": {"rlvr": {"k": 16}}, "provenance": {}}
    atomic_io.write(path, json.dumps(json_checksum.with_checksum(content)))
    assert metrics.read_metrics(path) == content
    atomic_io.write(path, path.read_text().replace("16", "17"))
    with pytest.raises(tables.DamagedTableError) as error:
        metrics.format_headline()
    assert error.value.made_by == "leash report"


def test_damaged_metadata_of_verdicts_are_refused(project: Params) -> None:
    path = tables.verdicts_folder("base", "chain") / metadata.SAMPLING_FILENAME
    content = {"engines": ["torch"], "fingerprint": {"temperature": "0.6"}, "files": []}
    atomic_io.write(path, json.dumps(content))  # of an earlier version
    assert metadata.load_metadata("base", "chain") == content
    atomic_io.write(path, json.dumps(json_checksum.with_checksum(content)))
    assert metadata.load_metadata("base", "chain") == content
    atomic_io.write(path, path.read_text().replace("0.6", "0.7"))
    with pytest.raises(metadata.DamagedMetadataError):
        metadata.load_metadata("base", "chain")


def test_a_damaged_word_of_a_judge_is_asked_again(tmp_path: Path) -> None:
    path, words = tmp_path / "votes.jsonl", ("sound", "unsound")
    cache = WordCache(path, "vote", words)
    cache.add("judge", JudgeCase("a", "?", {}), "sound")
    cache.add("judge", JudgeCase("b", "?", {}), "unsound")
    with path.open("a") as file:
        file.write(json.dumps({"key": "c", "vote": "sound"}) + "\n")  # of an earlier version
    assert WordCache(path, "vote", words).words == {"a": "sound", "b": "unsound", "c": "sound"}
    path.write_text(path.read_text().replace('"unsound"', '"sound"'))
    assert WordCache(path, "vote", words).words == {"a": "sound", "c": "sound"}


def test_damage_to_the_cache_of_hashes_changes_no_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(atomic_io, "MIN_CACHED_HASH_BYTES", 1)
    weights = tmp_path / "weights"
    weights.write_bytes(b"weights")
    right = atomic_io.cached_file_hash(weights)
    cached = atomic_io.HASH_CACHE_PATH.read_text()
    assert right in cached
    other = right[:-1] + ("0" if right[-1] != "0" else "1")
    atomic_io.HASH_CACHE_PATH.write_text(cached.replace(right, other))
    assert atomic_io.cached_file_hash(weights) == right
