"""Dangerous input is refused: code of models, pickles, keys in files and messages, paths out of the project."""

from __future__ import annotations

import ast
import json
import pickle
import shutil
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from leash import tables
from leash import weights as models
from leash.engines.vllm_engine import decode_image
from leash.errors import LeashError
from leash.grading.graders import registry, types
from leash.params import errors, loading, security
from leash.params.errors import BadParamsFileError
from leash.params.groups import Params
from stages.cli import find_name, main
from tests.conftest import ROOT, small, write_params, yaml
from tests.hub import COMMIT, Hub

KEY = "sk-planted-0123456789"
CODE = """
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM
Path({ran!r}).touch()
class MineConfig(LlamaConfig):
    model_type = "mine"
class MineForCausalLM(LlamaForCausalLM):
    config_class = MineConfig
"""


class Touch:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.path,)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the embedded base, in the working directory."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(ROOT / "models" / "embedded" / "base", tmp_path / "model"))


def weights(**about: Any) -> models.Weights:
    raw = small()
    raw["models"] |= {"base": {"path": "model", "dtype": "float64", **about}, "rlvr": {"path": "model"}}
    return models.find_weights(write_params(Path.cwd(), raw), "base")


def with_code(model: Path, ran: Path) -> None:
    """Turn the model into one that only its own code can load."""
    config = json.loads((model / "config.json").read_text())
    classes = {"AutoConfig": "mine.MineConfig", "AutoModelForCausalLM": "mine.MineForCausalLM"}
    config |= {"model_type": "mine", "architectures": ["MineForCausalLM"], "auto_map": classes}
    (model / "config.json").write_text(json.dumps(config))
    (model / "mine.py").write_text(CODE.format(ran=str(ran)))


def with_pickle(model: Path, content: Any = None) -> None:
    """Turn the model into one with weights in a pickle only."""
    import torch
    from safetensors.torch import load_file

    torch.save(content or load_file(model / "model.safetensors"), model / "pytorch_model.bin")
    (model / "model.safetensors").unlink()


def refused(load: Callable[[], object]) -> str:
    with pytest.raises(LeashError) as error:
        load()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_code_that_comes_with_a_model_runs_only_if_that_model_allows_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    with_code(model, ran)
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # transformers must not ask: a user could agree by accident
    with pytest.raises(models.UntrustedCodeError, match=r"`models\.base\.trust_remote_code: true`"):
        models.load_model(weights())
    models.load_tokenizer(weights())
    assert not ran.exists()
    trusted = weights(trust_remote_code=True)
    assert type(models.load_model(trusted)[0]).__name__ == "MineForCausalLM"
    assert ran.exists()
    assert not models.find_weights(loading.load(), "rlvr").trust_remote_code
    assert trusted.identity != weights().identity  # other code means other samples


def test_weights_in_a_pickle_are_refused_unless_allowed(model: Path) -> None:
    ours = models.load_model(weights())[0].state_dict()
    with_pickle(model)
    with pytest.raises(models.PickledWeightsError, match=r"`models\.base\.pickle: true`") as error:
        weights()
    assert (error.value.model, error.value.source) == ("base", str(model))
    theirs = models.load_model(weights(pickle=True))[0].state_dict()
    assert ours.keys() == theirs.keys()
    assert all(bool((ours[name] == theirs[name]).all()) for name in ours)


def test_safetensors_are_preferred_even_if_pickles_are_allowed(model: Path, tmp_path: Path) -> None:
    (model / "pytorch_model.bin").write_bytes(pickle.dumps(Touch(tmp_path / "ran")))
    models.load_model(weights(pickle=True))
    models.load_model(weights())
    assert not (tmp_path / "ran").exists()


def test_a_pickle_that_runs_code_is_refused_even_if_pickles_are_allowed(model: Path, tmp_path: Path) -> None:
    with_pickle(model, Touch(tmp_path / "ran"))
    with pytest.raises(models.ModelLoadError, match="could run code"):
        models.load_model(weights(pickle=True))
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def hub(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that has the embedded base as a pickle, for a process with an empty cache."""
    with_pickle(model)
    files = {file.name: file.read_bytes() for file in model.iterdir()}
    with Hub({"lab/pickled": files}) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        address = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server


def test_a_pickle_on_the_hub_is_refused_and_no_conversion_is_requested(hub: Hub) -> None:
    on_hub = models.Weights("base", "lab/pickled", "main", "float32")
    with pytest.raises(models.PickledWeightsError):
        models.load_model(on_hub)
    pickled = f"GET /lab/pickled/resolve/{COMMIT}/pytorch_model.bin"
    assert pickled not in hub.asked
    models.load_model(replace(on_hub, pickle=True))
    for thread in threading.enumerate():  # in which transformers would request a conversion
        if "conversion" in thread.name:
            thread.join()
    assert pickled in hub.asked
    assert "GET /api/models/lab/pickled" not in hub.asked  # its first request


CHEATS = [
    "__import__('pathlib').Path('ran').touch()",
    "open('ran', 'w')",
    "().__class__.__bases__[0].__subclasses__()",
    r"\boxed{__import__('os').system('touch ran')}",
    "lambda: exec('import os; os.mknod(\"ran\")')",
]


@pytest.mark.parametrize("grader", ["exact", "math", "numeric", "choice", "make"])
@pytest.mark.parametrize("answer", CHEATS)
def test_an_answer_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grader: str, answer: str) -> None:
    monkeypatch.chdir(tmp_path)
    meta = {"numbers": [1, 2], "choices": ["1", "2"]}
    try:
        graded = registry.grade_request(types.GradeRequest("p", answer, ("7",), meta, grader))
    except ValueError:  # which the pool makes the status `error`
        graded = types.unscored_grade(answer, "error")
    assert not graded["correct"]
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("command", ["sample", "verify"])
def test_a_function_that_only_a_table_names_is_not_imported(command: str) -> None:
    Path("mine.py").write_text("open('ran', 'w')\ndef score(answer, gold, meta): return 1.0\n")
    CliRunner().invoke(main, ["fetch", "chain"])
    path = tables.problems_path("chain")
    rows = tables.read(path, tables.PROBLEMS_SCHEMA, "").to_pylist()
    tables.write(
        path,
        tables.table_from_rows([row | {"grader": "mine:score"} for row in rows], tables.PROBLEMS_SCHEMA),
        tables.PROBLEMS_SCHEMA,
    )
    result = CliRunner().invoke(main, [command, "base", "chain"])
    assert result.exit_code == 2
    assert "graded by mine:score, a function that params.yaml does not name" in result.stderr
    assert not Path("ran").exists()
    named = write_params(Path.cwd(), with_changed("datasets", "chain", grader="mine:score"))
    security.refuse_unlisted_graders(named, "chain", ["mine:score"])


def test_an_image_that_would_fill_the_memory_is_refused() -> None:
    size = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    head = b"IHDR" + size
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(size)) + head + struct.pack(">I", zlib.crc32(head))
    with pytest.raises(ValueError, match="too large"):
        decode_image(bomb)


DANGEROUS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "os.system",
    "os.popen",
    "pickle.load",
    "pickle.loads",
    "torch.load",
}
UNPACKS = ("extractall", "unpack_archive")
MAY: dict[str, set[str]] = {"leash/grading/sandbox/inside.py": {"exec", "compile"}}


@pytest.mark.parametrize(
    "file", sorted([*(ROOT / "leash").rglob("*.py"), *(ROOT / "stages").rglob("*.py")]), ids=lambda file: file.stem
)
def test_no_module_runs_or_unpacks_what_it_was_given(file: Path) -> None:
    """Judged by the calls in its code: only the sandbox runs programs, and archives are not unpacked."""
    name = str(file.relative_to(ROOT))
    called = {_called(node.func) for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)}
    found = {call for call in called if call in DANGEROUS or call.endswith(UNPACKS)}
    assert found <= MAY.get(name, set())


def _called(function: ast.expr) -> str:
    return ast.unparse(function) if isinstance(function, ast.Name | ast.Attribute) else ""


def with_changed(group: str, name: str, **values: Any) -> dict[str, Any]:
    raw = small()
    raw[group][name] = {**raw[group].get(name, {}), **values}
    return raw


def with_key(group: str, variable: str) -> dict[str, Any]:
    """`group` is a path of names: sample.openai, verify.judge, reasoning."""
    raw = small()
    inner = raw
    for name in group.split("."):
        inner = inner.setdefault(name, {})
    inner["key"] = variable
    return raw


LEADS_OUT = "which leads out of the project's folder"
OUTSIDE = [
    (with_changed("models", "base", path="../models/base"), f"`models.base.path` is ../models/base, {LEADS_OUT}"),
    (with_changed("models", "base", path="models/../../x"), f"`models.base.path` is models/../../x, {LEADS_OUT}"),
    (with_changed("datasets", "x", path="../x.csv"), f"`datasets.x.path` is ../x.csv, {LEADS_OUT}"),
    (small(perplexity={"traces": ".."}), f"`perplexity.traces` is .., {LEADS_OUT}"),
    (with_changed("verify", "judge", prompt="../p.txt"), f"`verify.judge.prompt` is ../p.txt, {LEADS_OUT}"),
    (with_changed("datasets", "x", hub="a/b", files="../*.csv"), "`datasets.x.files` is ../*.csv, which leads out"),
    (with_changed("datasets", "x", hub="a/b", files="/etc/*.csv"), "`datasets.x.files` is /etc/*.csv, which leads out"),
    (with_changed("datasets", "x", hub="../b", files="*"), "`datasets.x.hub` is ../b, which is no id on the hub"),
    (with_changed("models", "mine", hub="./models/base"), "`models.mine.hub` is ./models/base, which is no id"),
    (with_changed("models", "mine", hub="/models/base"), "a folder is named by `models.mine.path`"),
]


@pytest.mark.parametrize(("raw", "sentence"), OUTSIDE, ids=[sentence[:40] for _, sentence in OUTSIDE])
def test_a_path_that_leads_out_of_the_project_is_refused(tmp_path: Path, raw: dict[str, Any], sentence: str) -> None:
    assert sentence in refused(lambda: write_params(tmp_path, raw))


@pytest.mark.parametrize(
    "path", ["models/base", "a/../models/base", "..models", str(ROOT / "models" / "embedded" / "base")]
)
def test_a_path_in_the_project_and_one_in_full_are_taken(tmp_path: Path, path: str) -> None:
    assert write_params(tmp_path, with_changed("models", "base", path=path)).models["base"].path == path


@pytest.mark.parametrize("name", ["..", "a/b", "../x", "a..b", "a\\b", "", ".hidden", "a b", "a\n", "ä"])
def test_a_name_that_could_be_a_path_is_refused(tmp_path: Path, name: str) -> None:
    sentence = f"can't have the name {name!r}: names become folders"
    assert sentence in refused(lambda: write_params(tmp_path, small(models={name: {"path": "a"}})))


@pytest.mark.parametrize("group", ["models", "datasets", "pairs"])
def test_names_are_refused_wherever_they_stand(tmp_path: Path, group: str) -> None:
    about = {"models": {"path": "a"}, "datasets": {"path": "a.csv"}, "pairs": {"base": "base", "rlvr": "rlvr"}}
    raw = small(**{group: {"../x": about[group]}})
    assert "can't have the name '../x'" in refused(lambda: write_params(tmp_path, raw))
    del raw[group]["../x"]
    raw["run"][group] = ["../x"]
    assert "can't have the name '../x'" in refused(lambda: write_params(tmp_path, raw))


@pytest.mark.parametrize("name", ["a", "7b", "rlvr-050", "Qwen2.5-7B", "a_b.c-d", "v1."])
def test_usual_names_are_taken(tmp_path: Path, name: str) -> None:
    assert name in write_params(tmp_path, small(models={name: {"path": "a"}})).models


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["verify", "../../x", "chain"], "There is no model ../../x in params.yaml"),
        (["verify", "base", "../x"], "There is no data set ../x in params.yaml"),
        (["sample", "base", "../x"], "There is no data set ../x in params.yaml"),
        (["sample", "../x", "chain", "--resample"], "There is no model ../x in params.yaml"),
        (["import", "x.jsonl", "--model", "a..b", "--dataset", "d"], "--model a..b is not a valid name"),
    ],
)
def test_commands_take_names_and_no_paths(command: list[str], sentence: str) -> None:
    CliRunner().invoke(main, ["fetch", "chain"])
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert sentence in result.stderr


@pytest.mark.parametrize("key", [KEY, "hf_abcdefgh0123", "AKIA0123456789ABCDEF", "my-key", f"OPENAI_API_KEY={KEY}", 7])
@pytest.mark.parametrize(("group", "name"), [("sample", "openai"), ("verify", "judge")])
def test_a_key_in_place_of_a_variables_name_is_refused_and_not_shown(
    tmp_path: Path, group: str, name: str, key: str
) -> None:
    sentence = refused(lambda: write_params(tmp_path, with_changed(group, name, key=key)))
    assert f"`{group}.{name}.key` must be the name of an environment variable" in sentence
    assert str(key) not in sentence.removeprefix(str(tmp_path))


@pytest.mark.parametrize("variable", ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "HOME", "PGPASSWORD", "MY_API_KEY_FILE"])
@pytest.mark.parametrize("group", ["sample.openai", "verify.judge", "reasoning"])
def test_no_other_secret_is_sent_to_a_server(tmp_path: Path, group: str, variable: str) -> None:
    sentence = refused(lambda: write_params(tmp_path, with_key(group, variable)))
    assert f"`{group}.key` is {variable}" in sentence
    assert f"`{group}.url`" in sentence


@pytest.mark.parametrize("variable", ["API_KEY", "OPENAI_API_KEY", "MY_API_KEY_2", "REPLICATE_API_TOKEN", "HF_TOKEN"])
@pytest.mark.parametrize("group", ["sample.openai", "verify.judge", "reasoning"])
def test_variables_of_api_keys_are_taken(tmp_path: Path, group: str, variable: str) -> None:
    write_params(tmp_path, with_key(group, variable))


@pytest.mark.parametrize(
    "url", [f"http://me:{KEY}@host/v1", "https://me@host/v1", f"http://host/v1?api_key={KEY}", f"http://host/{KEY}/v1"]
)
@pytest.mark.parametrize(("group", "name"), [("sample", "openai"), ("verify", "judge")])
def test_an_address_with_a_password_is_refused_and_not_shown(tmp_path: Path, group: str, name: str, url: str) -> None:
    sentence = refused(lambda: write_params(tmp_path, with_changed(group, name, url=url)))
    assert f"`{group}.{name}.url` has a password or a key in it" in sentence
    assert KEY not in sentence


def test_usual_addresses_are_taken(tmp_path: Path) -> None:
    for url in ("http://localhost:8000/v1", "https://host.example/openai?api-version=2026-01-01", "http://[::1]:8/v1"):
        assert write_params(tmp_path, with_changed("sample", "openai", url=url)).sample.openai.url == url


@pytest.mark.parametrize(
    "text",
    [
        f"sample: {{openai: {{key: {KEY}: ]}}",
        f"a: 1\na: {KEY}",
        f"a: *{KEY}",
        f"sample: {KEY}",
        f"run: {{models: [{KEY}, '{KEY}']}}",
        f"api_key: {KEY}",
        f"{KEY}: 1",
        f"models: {{base: {{path: a, api_key: {KEY}}}}}",
    ],
)
def test_a_key_anywhere_in_the_file_is_not_shown(tmp_path: Path, text: str) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(text)
    assert KEY not in refused(lambda: loading.load(file))


def test_what_looks_like_a_key_is_masked_and_words_are_not() -> None:
    assert security.mask_keys(f"it says {KEY}, twice: {KEY}") == "it says …, twice: …"
    words = "desk-top skill-assessment OPENAI_API_KEY token_entropy Qwen2.5-Math-7B 0123456789abcdef ABCDEFGHIJKLMNOPQR"
    assert security.mask_keys(words) == words


def test_the_papers_and_the_embedded_setup_are_safe() -> None:
    for name in ("params.yaml", "params.paper.yaml"):
        params: Params = loading.load(ROOT / name)
        assert list(security.complaints(params)) == []
        assert not [m for m in params.models.values() if m.trust_remote_code or m.pickle]


def test_no_command_of_the_pipeline_has_a_text_of_params_yaml_in_it() -> None:
    """A shell would run it. `tests/functional/test_shell.py` tries."""
    stages = yaml.load((ROOT / "dvc.yaml").read_text())["stages"]
    commands = [stage.get("do", stage)["cmd"] for stage in stages.values()]
    assert len(commands) > 10
    assert [command for command in commands if "$" in str(command)] == []


@pytest.mark.parametrize(
    ("stage", "given", "name"),
    [
        ("sample@a-b", None, "a-b"),
        ("../dvc.yaml:sample@a", None, "a"),
        ("sample@a-b", "x", "x"),  # by hand, whatever DVC runs
        ("", "x", "x"),
    ],
)
def test_a_stage_of_dvc_finds_its_model(
    monkeypatch: pytest.MonkeyPatch, stage: str, given: str | None, name: str
) -> None:
    monkeypatch.setenv("DVC_STAGE", stage)
    assert find_name("sample", given, ["a", "a-b"]) == name


@pytest.mark.parametrize("stage", ["", "sample", "sample@c", "verify@a", "resample@a", "sample@a; x", "x@a"])
def test_a_stage_without_a_name_is_refused(monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    monkeypatch.setenv("DVC_STAGE", stage)
    with pytest.raises(errors.UnnamedStageError) as error:
        find_name("sample", None, ["a", "a-b"])
    assert error.value.command == "sample"
    assert "leash sample a`" in str(error.value)


def laughs(line: str) -> str:
    """Nine of each line's anchor in the next: 9¹⁴ values."""
    names = "abcdefghijklmno"
    lines = [line.format(name=name, values=", ".join([f"*{before}"] * 9)) for before, name in pairwise(names)]
    return "\n".join(["a: &a {x: 1}", *lines])


@pytest.mark.parametrize("line", ["{name}: &{name} [{values}]", "{name}: &{name} {{<<: [{values}]}}"])
def test_aliases_that_stand_for_more_than_memory_holds_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "params.yaml").write_text(laughs(line))
    with pytest.raises(BadParamsFileError, match="100,000 values"):
        loading.load(tmp_path / "params.yaml")


def test_usual_aliases_are_taken(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("a: &a [1, 2]\nb: [*a, *a]\nc: &c {x: *a}\nd: {<<: *c, y: 1}\n")
    expected = {"a": [1, 2], "b": [[1, 2]] * 2, "c": {"x": [1, 2]}, "d": {"x": [1, 2], "y": 1}}
    assert loading.read_yaml(tmp_path / "params.yaml") == expected


INDEX = "model.safetensors.index.json"


@pytest.mark.parametrize(
    "name", ["../outside.safetensors", "{outside}", "sub/../../outside.safetensors", "link", "..", ""]
)
def test_an_index_cannot_lead_out_of_the_models_folder(model: Path, name: str) -> None:
    outside = model.parent / "outside.safetensors"
    shutil.copy(ROOT / "models" / "embedded" / "base" / "model.safetensors", outside)
    (model / "link").symlink_to(outside)
    (model / INDEX).write_text(json.dumps({"weight_map": {"w": name.format(outside=outside.resolve())}}))
    with pytest.raises(models.WeightsIndexError, match="not a file in the same folder") as error:
        weights()
    assert error.value.index.name == INDEX


@pytest.mark.parametrize("content", [b"", b"[]", b"5", b"{}", b'{"weight_map": [1]}', b"[" * 100_000, b"\xff"])
def test_an_index_that_is_none_is_refused(model: Path, content: bytes) -> None:
    (model / INDEX).write_bytes(content)
    with pytest.raises(models.WeightsIndexError, match="is damaged"):
        weights()


def test_an_index_of_files_beside_it_is_taken(tmp_path: Path, model: Path) -> None:
    """Also in the hub's cache, whose files are links."""
    blob = tmp_path / "models--lab--m" / "blobs" / "0123"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"x")
    (model / "b.safetensors").symlink_to(blob)
    (model / INDEX).write_text(json.dumps({"weight_map": {"v": "model.safetensors", "w": "b.safetensors"}}))
    weights()
