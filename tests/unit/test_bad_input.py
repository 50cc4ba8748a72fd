"""Any content of a file that people write: the command succeeds, or it exits with code 2, names the file in one line
and writes nothing.

Hypothesis makes the files: valid ones with any value in any place, and arbitrary bytes. Below each property are the
inputs that once broke it, as plain examples.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from leash.errors import LeashError
from leash.params import errors
from leash.params.loading import load
from stages.cli import main
from tests import made
from tests.conftest import ROOT, yaml
from tests.unit.fuzzing import bounded


class Written(str):
    """A piece of a file that is written as it is, in the place of a value."""


LONG = Written("1" + "0" * 5000)  # more digits than Python converts
NUMBERS = st.sampled_from([2**31, 2**63, 10**30, -(10**30), LONG, math.nan, math.inf, -math.inf, 1e-320, 0.5, -1, 0])
TEXTS = st.sampled_from(
    [
        *("", " ", "\0", "a\0b", "\ud800", "a\nb", "\x1b[2J", "../..", "/", "nan", "1e999", "all", "auto", "…", "'"),
        *("x" * 5000, "**x", "hit", "floor"),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-3, 300) | st.floats() | NUMBERS | TEXTS | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def as_json(value: Any) -> str:
    """JSON as other programs write it, with NaN, infinities and lone surrogates."""
    if isinstance(value, Written):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(name))}: {as_json(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_json, value)) + "]"
    return json.dumps(value)


def as_yaml(value: Any) -> str:
    """YAML, which writes .nan and .inf."""
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else f"{'-' if value < 0 else ''}.inf"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(name))}: {as_yaml(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_yaml, value)) + "]"
    return as_json(value)


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all nodes of a tree of mappings and lists."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [above, *(place for name, part in inner for place in places(part, (*above, name)))]


def put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """The tree with another value at one path."""
    if not place:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = put(value[place[0]], place[1:], new)
    return copy


def at(value: Any, place: tuple[Any, ...]) -> Any:
    for name in place:
        value = value[name]
    return value


@st.composite
def altered(draw: st.DrawFn, valid: Any, values: st.SearchStrategy[Any] = VALUES) -> Any:
    """A valid tree in which one or two nodes have another value, lack a key or have an extra one."""
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from(places(valid)))
        old = at(valid, place)
        new = draw(values)
        if isinstance(old, dict) and old and draw(st.booleans()):
            dropped = draw(st.sampled_from([None, *old]))
            kept = {name: inner for name, inner in old.items() if name != dropped}
            new = kept if dropped is not None else {**kept, draw(st.text(max_size=6)): new}
        valid = put(valid, place, new)
    return valid


@contextmanager
def folder() -> Iterator[Path]:
    """Work in an empty folder."""
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(home)


def tree(root: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def run(*arguments: str) -> Result:
    """Run a command here: it succeeds, or it prints one line and writes nothing."""
    before = tree(Path.cwd())
    result = CliRunner().invoke(main, arguments)
    raised = result.exception
    assert raised is None or isinstance(raised, SystemExit), "".join(traceback.format_exception(raised))
    assert result.exit_code in (0, 2), result.output
    if result.exit_code:
        assert result.stderr.startswith("leash: "), result.stderr
        assert len(result.stderr.splitlines()) == 1, result.stderr
        assert len(result.stderr) < 1000, result.stderr
        assert tree(Path.cwd()) == before
    return result


def assert_named(names: str | tuple[str, ...], *arguments: str) -> int:
    """Assert that a command succeeds, or prints a line with one of these names; return the exit code."""
    result = run(*arguments)
    names = (names,) if isinstance(names, str) else names
    assert not result.exit_code or any(name in result.stderr for name in names), result.stderr
    return result.exit_code


def refused(*arguments: str) -> str:
    """The line that a command prints when it fails."""
    result = run(*arguments)
    assert result.exit_code == 2
    return result.stderr


# params.yaml

VALID = yaml.load((ROOT / "params.yaml").read_text())
PIECES = st.sampled_from(
    [
        *("*nobody", "&a [*a]", "&b {b: *b}", "{a: 1, a: 2}", "!!bool maybe", "!!int x", "!!float x", "!!binary x"),
        *("!!timestamp x", "!!set {a, b}", "!!omap [a: 1]", "!!python/object:os.system x", "2024-13-45", "2024-01-01"),
        *("0x_", "1_000", "? [a]", "{? [a] : b}", "[" * 2000, "[" * 2000 + "]" * 2000, "'", '"\\x"', "\t", "%", "---"),
        *("...", "&a [x, x, x, x, x], k: &b [*a, *a, *a, *a, *a]", "!x y", "|", "@", "\x00", "\x85"),
    ]
).map(Written)


@bounded(50)
@given(altered(VALID, VALUES | PIECES))
def test_any_values_in_params_yaml(raw: Any) -> None:
    with folder():
        Path("params.yaml").write_bytes(as_yaml(raw).encode("utf-8", "surrogatepass"))
        assert_named("params.yaml", "query", "select 1")


@bounded(40)
@given(st.binary(max_size=30) | st.text(max_size=30).map(lambda text: text.encode()))
def test_any_bytes_as_params_yaml(content: bytes) -> None:
    with folder():
        Path("params.yaml").write_bytes(content)
        assert_named("params.yaml", "query", "select 1")


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few problems of two models with their verdicts."""
    home = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(home)
        params = made.parameters(home, 8, categorize={"bootstrap": 10})
        made.write(params, 6, question="?", text="!", carried=1)
    return home


@bounded(40)
@given(st.data())
def test_any_values_in_params_yaml_of_a_run_with_verdicts(small_run: Path, data: st.DataObject) -> None:
    raw = data.draw(altered(yaml.load((small_run / "params.yaml").read_text())))
    with folder() as here:
        (here / "data").symlink_to(small_run / "data")
        Path("params.yaml").write_bytes(as_yaml(raw).encode("utf-8", "surrogatepass"))
        assert_named(("params.yaml", "verdicts", "data/"), "categorize")


@pytest.mark.parametrize(
    ("text", "kind", "fact"),
    [
        ("a: 2024-13-45", errors.BadParamsFileError, "month must be in 1..12"),
        ("a: !!bool maybe", errors.BadParamsFileError, "'maybe'"),
        (f"a: {LONG}", errors.BadParamsFileError, "4300 digits"),
        ("- " * 2000, errors.BadParamsFileError, "nested"),
        ("{a: 1, a: 2}", errors.BadParamsFileError, "duplicate key"),
        ("run: &a {models: *a}", errors.BadValueError, "`run.models`"),
        ('"a\\nb\\e[2J": 1', errors.MissingKeyError, "`run`"),
    ],
)
def test_params_files_that_broke_the_reader(text: str, kind: type[LeashError], fact: str) -> None:
    with folder():
        Path("params.yaml").write_text(text)
        with pytest.raises(kind) as error:
            load()
        assert fact in str(error.value)
        assert f"leash: {error.value}\n" == refused("query", "select 1")


def test_aliases_of_aliases_are_not_written_out() -> None:
    """Nine lines that expand to a thousand million words."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with folder():
        Path("params.yaml").write_text("\n".join([*lines, "run: *a8"]))
        with pytest.raises(errors.BadParamsFileError) as error:
            load()
        assert "aliases" in str(error.value)


@pytest.mark.parametrize(
    ("group", "field", "value", "kind"),
    [
        ("sample", "k", 2**31, errors.BadValueError),
        ("sample", "stop_after", 10**30, errors.BadValueError),
        ("sample", "temperature", math.nan, errors.BadValueError),
        ("sample", "temperature", math.inf, errors.BadValueError),
        ("categorize", "bootstrap", 10**6, errors.BadValueError),
        ("report", "title", "a\0b", errors.BadValueError),
        ("run", "datasets", ["chain", "make", "chain"], errors.BadListError),
    ],
)
def test_values_that_no_stage_can_use_are_refused(
    group: str, field: str, value: Any, kind: type[errors.ParamError]
) -> None:
    with folder():
        Path("params.yaml").write_text(as_yaml({**VALID, group: {**VALID[group], field: value}}))
        with pytest.raises(kind) as error:
            load()
    assert error.value.key == f"{group}.{field}"
    if isinstance(error.value, errors.BadValueError):
        assert error.value.value == repr(value)


def test_a_config_that_contains_itself_is_refused() -> None:
    config = {"datasets": {**VALID["datasets"], "gym": {"family": "reasoning_gym", "config": Written("&a {b: *a}")}}}
    with folder():
        Path("params.yaml").write_text(as_yaml({**VALID, **config}))
        with pytest.raises(errors.BadValueError) as error:
            load()
    assert error.value.key == "datasets.gym.config"


# Problem files

ROWS = [
    {"id": "a", "question": "What is 1 + 1?", "answer": "2"},
    {"id": "b", "question": "And 1/2?", "answer": ["1/2", 0.5]},
]
FETCHED = {
    "run": {"models": ["mine", "tuned"], "datasets": ["exam"], "pairs": ["tuned"]},
    "models": {"mine": {"engine": "import"}, "tuned": {"engine": "import"}},
    "pairs": {"tuned": {"base": "mine", "rlvr": "tuned"}},
    "sample": {"k": 1, "max_tokens": 1},
}


def jsonl(rows: Any) -> bytes:
    lines = rows if isinstance(rows, list) else [rows]
    return "\n".join(map(as_json, lines)).encode("utf-8", "surrogatepass")


def json_document(value: Any) -> bytes:
    return as_json(value).encode("utf-8", "surrogatepass")


def csv(rows: Any) -> bytes:
    """CSV without quoting: some rows are too long, or have a quote that never ends."""
    lines = [row for row in (rows if isinstance(rows, list) else [rows]) if isinstance(row, dict)] or [{}]
    cells = [lines[0], *(row.values() for row in lines)]
    return "\n".join(",".join(map(str, row)) for row in cells).encode("utf-8", "replace")


@st.composite
def parquet(draw: st.DrawFn, columns: tuple[str, ...]) -> bytes:
    """A table with columns of any type, sometimes cut off or with a flipped bit."""
    size = draw(st.integers(0, 3))
    names = [name for name in (*columns, "more") if draw(st.integers(0, 9))]
    sink = io.BytesIO()
    pq.write_table(pa.table({name: draw(_column(size)) for name in names}), sink)
    content = bytearray(sink.getvalue())
    if draw(st.booleans()):
        content[draw(st.integers(0, len(content) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(content[: draw(st.sampled_from([len(content), len(content) // 2, len(content) - 1]))])


def _column(size: int) -> st.SearchStrategy[pa.Array]:
    kinds: dict[pa.DataType, st.SearchStrategy[Any]] = {
        pa.string(): st.text(max_size=5),
        pa.int64(): st.integers(-2, 2**62),
        pa.float64(): st.floats(),
        pa.bool_(): st.booleans(),
        pa.list_(pa.string()): st.lists(st.text(max_size=3), max_size=2),
        pa.binary(): st.binary(max_size=4),
        pa.null(): st.none(),
        pa.int32(): st.integers(-(2**31), 2**31 - 1),
    }
    return st.sampled_from([*kinds]).flatmap(
        lambda kind: st.lists(st.none() | kinds[kind], min_size=size, max_size=size).map(lambda x: pa.array(x, kind))
    )


FILES = st.one_of(
    st.tuples(st.just(".jsonl"), altered(ROWS).map(jsonl)),
    st.tuples(st.just(".json"), altered(ROWS).map(json_document)),
    st.tuples(st.just(".csv"), altered(ROWS).map(csv)),
    st.tuples(st.just(".parquet"), parquet(("id", "question", "answer"))),
    st.tuples(st.sampled_from([".jsonl", ".json", ".csv", ".parquet"]), st.binary(max_size=40)),
    st.tuples(st.sampled_from([".jsonl", ".json", ".csv"]), st.text(max_size=40).map(str.encode)),
)


@bounded(100)
@given(FILES, st.sampled_from(["exact", "math", "numeric", "choice"]), st.sampled_from([None, "id"]), st.booleans())
def test_any_problem_file(file: tuple[str, bytes], grader: str, identity: str | None, images: bool) -> None:
    ending, content = file
    exam = {"path": f"exam{ending}", "grader": grader, "id": identity, "images": "more" if images else None}
    with folder():
        Path("params.yaml").write_text(as_yaml({**FETCHED, "datasets": {"exam": exam}}))
        Path(f"exam{ending}").write_bytes(content)
        assert_named("exam", "fetch", "exam")


DEEP = "[" * 900 + "1" + "]" * 900


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("[1, 2]", "exam.jsonl"),
        (f'{{"question": "?", "answer": {LONG}}}', "4300 digits"),
        (f'{{"question": "?", "answer": {DEEP}}}', "row 1"),
        ('{"question": "?", "answer": 1, "more": {"bytes": [1]}}', "row 1"),
        (f'{{"question": "?", "answer": 1, "more": "{"x" * 5000}"}}', "File name too long"),
    ],
)
def test_problem_files_that_broke_fetch(text: str, fact: str) -> None:
    exam = {"path": "exam.jsonl", "images": "more"} if "more" in text else {"path": "exam.jsonl"}
    with folder():
        Path("params.yaml").write_text(as_yaml({**FETCHED, "datasets": {"exam": exam}}))
        Path("exam.jsonl").write_text(text)
        assert fact in refused("fetch", "exam")


def test_an_invalid_file_pattern_is_named() -> None:
    pattern = "**x"
    with folder():
        Path("params.yaml").write_text(as_yaml({**FETCHED, "datasets": {"exam": {"path": ".", "files": pattern}}}))
        assert pattern in refused("fetch", "exam")


# Completions that are imported

QUESTION = {"question": "1 + 1?", "expected_answer": "2"}
OF_HARNESSES: list[dict[str, Any]] = [
    {
        "question": "1 + 1?",
        "answer": "2",
        "text": "\\boxed{2}",
        "sample": 0,
        "tokens": 3,
        "logprob": -1.5,
        "finish": "stop",
    },
    {"problem_id": "a", "question": "1 + 1?", "gold": ["2"], "completions": [{"text": "2", "tokens": 1}, "3"]},
    {"idx": 0, "question": "1 + 1?", "gt": "2", "code": ["\\boxed{2}", "3"], "score": [True, False]},
    {**QUESTION, "completions": [{"full_model_response": "2", "score": 1.0}], "metadata": {"a": 1}, "model": "m"},
    {"categories": [{"name": "c", "datasets": [{"name": "d", "results": [{**QUESTION, "full_model_response": "2"}]}]}]},
    {"doc_id": 0, "doc": {"question": "1 + 1?"}, "target": "2", "arguments": [["1 + 1?", {}]], "resps": [["2"]]},
    {
        "doc": {"query": "1 + 1?", "choices": ["2"], "gold_index": 0},
        "model_response": {"text": ["2"]},
        "metric": {"m": 1},
    },
    {"full_prompt": "1 + 1?", "predictions": "['2']", "gold": "['2']", "metrics": "{'m': 1}"},
    {"problem": "1 + 1?", "expected_answer": "2", "generation": "2", "num_generated_tokens": 4, "is_correct": True},
]
EXPORTS = st.sampled_from(OF_HARNESSES)
IMPORTS = st.one_of(
    EXPORTS.flatmap(lambda row: altered([row])).map(jsonl),
    EXPORTS.flatmap(lambda row: altered([row, row])).map(json_document),
    EXPORTS.flatmap(altered)
    .map(jsonl)
    .map(gzip.compress)
    .flatmap(lambda packed: st.integers(1, len(packed)).map(lambda end: packed[:end])),
    parquet(("question", "answer", "text", "sample", "problem_id")),
    st.binary(max_size=40),
    st.text(max_size=40).map(str.encode),
)
FORMATS = ("auto", "auto", "jsonl", "qwen-math", "reasoning-gym", "lm-eval", "lighteval", "nemo-skills")


@bounded(250)
@given(IMPORTS, st.sampled_from(FORMATS), st.sampled_from([".jsonl", ".json", ".parquet", ".gz"]))
def test_any_completions_to_import(content: bytes, format: str, ending: str) -> None:
    with folder():
        Path(f"out{ending}").write_bytes(content)
        command = ["import", f"out{ending}", "--model", "mine", "--dataset", "exam", "--format", format]
        if assert_named("out", *command) == 0:
            Path("params.yaml").write_text(as_yaml({**FETCHED, "datasets": {"exam": {"imported": True}}}))
            assert assert_named("exam", "fetch", "exam") == 0
            assert assert_named("out", *command) == 0


def test_lone_surrogates_in_any_field_become_replacement_characters() -> None:
    """Once only texts were cleaned, and the import stopped half-way."""
    half = {**OF_HARNESSES[3], "model": "\ud800", "metadata": {"\ud800": "\ud800"}}
    with folder():
        Path("out.jsonl").write_bytes(jsonl([half]))
        assert assert_named("out", "import", "out.jsonl", "--model", "mine", "--dataset", "exam") == 0
        assert "�" in pq.read_table("data/problems/exam.parquet")["meta"][0].as_py()


def test_completions_that_broke_the_import() -> None:
    with folder():
        Path("out.jsonl").write_text(f'{{"question": "?", "text": "", "answer": {DEEP}}}')
        late = pa.table({"question": ["?"], "text": [""], "answer": pa.array([10**8], pa.date32())})
        pq.write_table(late, "out.parquet")
        names = ("--model", "mine", "--dataset", "exam")
        assert "out.jsonl" in refused("import", "out.jsonl", *names)
        assert "date value out of range" in refused("import", "out.parquet", *names)


# Counts

COUNTED = [
    {"problem_id": "a", "n_base": 8, "c_base": 0, "n_rlvr": 8, "c_rlvr": 3, "dataset": "x", "k": 8, "epsilon": 0.1},
    {"problem_id": "b", "n_base": 8, "c_base": 2, "n_rlvr": 8, "c_rlvr": 0, "dataset": "x", "k": 8, "epsilon": 0.1},
    {"problem_id": "c", "n_base": 8, "c_base": 8, "n_rlvr": 6, "c_rlvr": 6, "dataset": "x", "k": 8, "epsilon": 0.1},
]
ENDED = [{**row, "ended_base": "k", "ended_rlvr": "hit", "unit": "problem"} for row in COUNTED]


COUNTS = st.one_of(
    st.tuples(
        st.just(".csv"),
        st.sampled_from([COUNTED, ENDED]).flatmap(lambda rows: altered(rows, NUMBERS | VALUES)).map(csv),
    ),
    st.tuples(
        st.just(".jsonl"),
        st.sampled_from([COUNTED, ENDED]).flatmap(lambda rows: altered(rows, NUMBERS | VALUES)).map(jsonl),
    ),
    st.tuples(st.just(".parquet"), parquet(tuple(COUNTED[0]))),
    st.tuples(st.sampled_from([".csv", ".tsv", ".jsonl", ".json", ".parquet", ".csv.gz"]), st.binary(max_size=40)),
    st.tuples(st.sampled_from([".csv", ".json"]), st.text(max_size=40).map(str.encode)),
)


@bounded(100)
@given(COUNTS, st.sampled_from([None, "1", "4", "9"]), st.sampled_from([None, "auto", "0.3"]))
def test_any_counts(file: tuple[str, bytes], k: str | None, epsilon: str | None) -> None:
    ending, content = file
    options = [*(("--k", k) if k else ()), *(("--epsilon", epsilon) if epsilon else ()), "--resamples", "10"]
    with folder():
        Path(f"counts{ending}").write_bytes(content)
        assert_named(f"counts{ending}", "compare", f"counts{ending}", *options)


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ({"n_base": 10**30}, "n_base"),
        ({"n_base": "x" * 5000}, "n_base"),
        ({"epsilon": "nan"}, "epsilon"),
        ({"epsilon": 1}, "epsilon"),
        ({"ended_base": "hit", "c_base": 0}, "ended_base"),
        ({"c_base_first": 3}, "c_base_first"),
        ({"n_rlvr_first": 9}, "n_rlvr_first"),
    ],
)
def test_counts_that_once_broke_the_comparison_or_were_accepted(change: dict[str, Any], column: str) -> None:
    first = {"n_base_first": 2, "c_base_first": 0, "n_rlvr_first": 2, "c_rlvr_first": 0}
    with folder():
        Path("counts.csv").write_bytes(csv([{**ENDED[1], "ended_rlvr": "k", **first, **change}]))
        line = refused("compare", "counts.csv")
        assert all(fact in line for fact in ("counts.csv", "row 1", column))
