"""Completions that people already have: what is written of them, what is matched, and what is not mixed in."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stages import fetch, importing, tables
from stages.cli import main
from stages.errors import LeashError
from stages.importing.suggestion import as_yaml, suggest_params
from stages.params import Params
from tests.conftest import small, write_params, yaml
from tests.unit.exports import (
    NEMO,
    OWN,
    QWEN,
    completions,
    exam,
    lines,
    problems,
    run,
    texts,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_tables_and_provenance() -> None:
    told = {"tokens": 12, "finish": "stop", "logprob": -3.5}
    run(lines("a.jsonl", {**OWN, **told, "model": "lab/m", "temperature": 0.6}, *exam()))
    first = problems()[0]
    assert (first["dataset"], first["problem_id"], first["gold"], first["grader"]) == ("d", "d-00000", ["1024"], "math")
    assert json.loads(first["meta"]) == {"question": OWN["question"], "imported": True}
    row, other = completions()[:2]
    assert row == {"problem_id": "d-00000", "sample": 0, "text": OWN["text"], **told}
    assert (other["tokens"], other["finish"], other["logprob"]) == (None, "unknown", None)
    manifest = json.loads((tables.completions_folder("m", "d") / "manifest.json").read_text())
    assert manifest["fingerprint"] == {"engine": "import", "model": "lab/m", "temperature": "0.6"}
    (source,) = manifest["sources"]
    assert (source["file"], source["format"], source["rows"]) == ("a.jsonl", "jsonl", 6)
    assert source["numbers"]["d-00000"] == "0-1"


def test_the_same_file_twice_changes_nothing(folder: Path) -> None:
    run(lines("a.jsonl", *exam(), *exam()))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d"])
    assert "m on d: all of it was there already, nothing was written." in done.output
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    lines("copy.jsonl.gz", *exam(), *exam())
    before_copy = texts()
    assert run(Path("copy.jsonl.gz")).new == 0  # the same rows under another name, compressed
    assert texts() == before_copy


def test_a_file_a_seed_and_another_one_later() -> None:
    files = [lines(f"output-rs{seed}.jsonl", {**NEMO, "generation": f"seed {seed}"}) for seed in range(3)]
    run(files[0], files[1])
    run(*files)
    assert texts() == {"d-00000": ["seed 0", "seed 1", "seed 2"]}


def test_an_import_that_was_cut_short_goes_on() -> None:
    first, second = lines("a.jsonl", *exam(), *exam()), lines("b.jsonl", *exam()[:2])
    for model in ("whole", "m"):
        run(first, model=model)
    for shard in tables.shards(tables.completions_folder("m", "d")):
        shard.unlink()  # as if killed before any was written
    run(second, model="whole")
    run(second)
    assert len(completions()) == 2
    assert run(first).new == 10
    assert completions() == completions("whole")


def test_the_same_file_with_another_choice_is_refused() -> None:
    file = lines("a.jsonl", {**OWN, "role": "base"}, {**OWN, "role": "rl"})
    run(file, where=("role=base",))
    with pytest.raises(LeashError, match="is part of m on d already, with other conditions"):
        run(file)
    run(file, replace=True)
    assert texts() == {"d-00000": [OWN["text"], OWN["text"]]}


def test_replace_begins_anew_with_problems_that_nobody_else_has() -> None:
    run(lines("a.jsonl", *exam()))
    run(lines("b.jsonl", OWN), replace=True)
    assert [row["question"] for row in problems()] == [OWN["question"]]
    run(lines("c.jsonl", OWN), model="other")
    run(lines("d.jsonl", *exam()), replace=True)
    assert len(problems()) == 6
    assert sum(map(len, texts().values())) == 5


def test_another_model_or_decoding_is_not_mixed_in() -> None:
    run(lines("a.jsonl", {**OWN, "model": "one"}))
    with pytest.raises(LeashError, match=r"holds samples made with another model; .*--replace`"):
        run(lines("b.jsonl", {**OWN, "model": "two", "text": ""}))
    run(lines("c.jsonl", {**OWN, "text": "more", "temperature": 0.6}))  # was not told before: nothing contradicts it
    assert len(texts()["d-00000"]) == 2


def test_a_second_model_is_matched_by_question_and_not_by_place() -> None:
    run(lines("a.jsonl", *exam()), model="base")
    shuffled = [{**row, "question": f"  {row['question']}\n".replace(" is ", "\n is  ")} for row in exam()[::-1]]
    run(lines("b.jsonl", *shuffled), model="rl")
    assert texts("rl") == texts("base")
    done = run(lines("c.jsonl", *exam(offset=3)), model="other")
    assert list(done.problems.added) == ["d-00005", "d-00006", "d-00007"]


def test_whole_prompts_are_matched_by_their_template_alone() -> None:
    run(lines("a.jsonl", *exam()), model="base")
    done = run(lines("b.jsonl", *exam("Solve this:\n{}\nThink.")), model="rl")
    assert done.problems.template == ("Solve this: ", " Think.")
    assert texts("rl") == texts("base")
    # A question that stands in another one is another question.
    longer = [{"question": f"{9 * '1, ' if n > 5 else ''}{n * '1, '}?", "answer": "1", "text": ""} for n in range(5, 9)]
    assert len(run(lines("c.jsonl", *longer), dataset="sequences").problems.rows) == 4
    assert len(run(lines("d.jsonl", *longer[::-1]), model="rl", dataset="sequences").problems.rows) == 4


def test_a_fetched_data_set_takes_no_new_problems_and_keeps_its_gold(folder: Path) -> None:
    lines("exam.jsonl", *exam())
    raw = small()
    raw["datasets"]["d"] = {"path": "exam.jsonl", "grader": "exact", "prompt": "{question} Box it."}
    fetch.run(write_params(folder, raw), "d")
    before = problems()
    done = run(lines("a.jsonl", {**exam()[0], "answer": "zero"}, exam("{} Box it.")[1]))
    assert list(done.problems.other_golds) == ["d-00000"]
    assert problems() == before
    assert texts() == {"d-00000": ["t0"], "d-00001": ["t1"]}
    with pytest.raises(
        LeashError, match=r"2 rows ask what no problem of .* asks, the first in line 2: “What is 5 \+ 5"
    ):
        run(lines("b.jsonl", *exam(offset=4, size=3)))
    run(lines("c.jsonl", {"problem_id": "d-00002", "text": "by its id"}))
    assert texts()["d-00002"] == ["by its id"]


def test_the_stages_of_an_imported_pair(folder: Path) -> None:
    raw = small(models={"m": {"engine": "import"}}, datasets={"d": {"imported": True, "grader": "exact", "k": 1}})
    params = write_params(folder, raw)
    with pytest.raises(LeashError, match=r"d\.parquet is not there; make it with `leash import FILE"):
        fetch.run(params, "d")
    with pytest.raises(LeashError, match=r"no imported completions of it on d; bring them in with `leash import FILE"):
        importing.held("m", "d")
    run(lines("a.jsonl", *exam()))
    assert len(fetch.run(params, "d").rows) == 5
    assert {row["grader"] for row in problems()} == {"exact"}  # as params.yaml says
    assert importing.held("m", "d") == 5
    with pytest.raises(LeashError, match="have the grader exact; change it in"):
        run(lines("b.jsonl", OWN), grader="math")


def test_imported_samples_that_got_lost_are_missed() -> None:
    run(lines("a.jsonl", *exam()))
    run(lines("b.jsonl", *exam()[:2]))
    damaged = tables.shards(tables.completions_folder("m", "d"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(
        LeashError, match=r"of the 7 completions imported for m on d are lacking.*\(a\.jsonl, b\.jsonl\)"
    ):
        importing.held("m", "d")
    run(Path("a.jsonl"), Path("b.jsonl"))
    assert importing.held("m", "d") == 7


def test_answers_that_verify_will_not_see_are_announced() -> None:
    lines("a.jsonl", {**QWEN, "code": ["It is 204."], "score": [True]})
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d"])
    assert "In 1 of them there is no \\boxed{} and no <answer>, where verify looks" in done.output


def test_what_the_command_says() -> None:
    boxed = [r"\boxed{1}", r"\boxed{204}"]
    lines("a.jsonl", {**QWEN, "code": boxed}, {**QWEN, "question": "And y?", "code": boxed[1:], "score": [True]})
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d"])
    assert done.output == (
        "a.jsonl: qwen-math, 2 rows, 2 problems, 3 completions; recorded as correct: 2 of 3 (66.7%).\n"
        "m on d: 3 samples written; 2 problems have 1 to 2 each.\n"
        "A pair needs a second model: import it with `leash import FILE --model NAME --dataset d`. So far, params.yaml "
        "needs:\n\n"
        "run:\n  models: [m]\n  datasets: [d]\n"
        "models:\n  m: {engine: import}\n"
        "datasets:\n  d: {imported: true, grader: math, k: 1}\n"
    )


def suggested(model: str, dataset: str = "d", file: str = "a.jsonl", **options: Any) -> Any:
    """The params.yaml that an import prints."""
    return yaml.load(as_yaml(suggest_params(run(Path(file), model=model, dataset=dataset, **options))))


def test_two_imports_print_a_complete_params_file(folder: Path) -> None:
    lines("a.jsonl", *exam(), *exam())
    lines("b.jsonl", *exam())
    suggested("tuned")
    found = suggested("1.5", file="b.jsonl")
    assert found == {
        "run": {"models": ["tuned", "1.5"], "pairs": ["1.5"], "datasets": ["d"]},
        "models": {"tuned": {"engine": "import"}, "1.5": {"engine": "import"}},  # a name, though it looks like a number
        "pairs": {"1.5": {"base": "tuned", "rlvr": "1.5"}},
        "datasets": {"d": {"imported": True, "grader": "math", "k": 1}},  # the fewest of both
    }
    if Params.model_fields["sample"].is_required():
        found["sample"] = {"k": 1, "max_tokens": 64}
    write_params(folder, found)  # which reads and checks it


def test_the_first_import_is_the_base_unless_params_name_another(folder: Path) -> None:
    lines("a.jsonl", *exam())
    lines("b.jsonl", *exam(), *exam())
    for model in ("one", "two"):
        suggested(model)
    assert suggested("three")["pairs"] == {m: {"base": "one", "rlvr": m} for m in ("two", "three")}
    assert suggested("one", file="b.jsonl", replace=True)["run"]["models"] == ["two", "three", "one"]
    (folder / "params.yaml").write_text("pairs: {x: {base: one, rlvr: two}}")
    assert suggested("one", file="b.jsonl")["run"]["models"] == ["one", "two", "three"]


def test_only_data_sets_that_all_models_have_are_printed(folder: Path) -> None:
    lines("a.jsonl", *exam())
    for model, dataset in (("one", "d"), ("two", "d"), ("one", "e")):
        found = suggested(model, dataset)
    assert found["run"] == {"models": ["one"], "datasets": ["d", "e"]}
    assert "pairs" not in found
    assert suggested("two", "e")["run"]["datasets"] == ["d", "e"]


def test_a_fetched_data_set_stays_what_params_say(folder: Path) -> None:
    lines("exam.jsonl", *exam())
    raw = small()
    raw["datasets"]["d"] = {"path": "exam.jsonl", "grader": "exact", "prompt": "{question} Box it."}
    fetch.run(write_params(folder, raw), "d")
    lines("a.jsonl", *exam("{} Box it."))
    assert suggested("m")["datasets"] == {"d": {**raw["datasets"]["d"], "k": 1}}


# Real files

REAL = os.environ.get("LEASH_COMPLETIONS")

needs_real = pytest.mark.skipif(not REAL, reason="LEASH_COMPLETIONS does not name the folder of the shared completions")

QWEN_SIZES = {"aime24": 30, "amc23": 40, "minerva_math": 272, "olympiadbench": 675, "gsm8k": 1319}


@needs_real
@pytest.mark.parametrize("dataset", QWEN_SIZES)
def test_the_real_qwen_pair(dataset: str) -> None:
    file = Path(REAL or "") / "qwen25_3b_instruct_vs_rlft_greedy.jsonl.gz"
    for role in ("base", "rl"):
        done = run(file, model=role, dataset=dataset, where=(f"_dataset={dataset}", f"_role={role}"))
        assert done.there == {row["problem_id"]: 1 for row in problems(dataset)}
    assert len(problems(dataset)) == QWEN_SIZES[dataset]


@needs_real
@pytest.mark.parametrize(("dataset", "size"), [("aime24", 30), ("amc23", 40)])
def test_the_real_llama_of_50_samples(dataset: str, size: int) -> None:
    done = run(Path(REAL or "") / "llama3b_k50_step400.jsonl.gz", dataset=dataset, where=(f"_dataset={dataset}",))
    assert done.there == {row["problem_id"]: 50 for row in problems(dataset)}
    assert len(done.there) == size
    assert done.surveys[0].says["temperature"] == "0.6"


@needs_real
def test_the_real_reasoning_gym_tasks() -> None:
    file = Path(REAL or "") / "reasoning_gym_qwen3b_base_vs_rl_k3.jsonl.gz"
    with pytest.raises(LeashError, match="samples of several must not be mixed"):
        run(file, dataset="arc_1d", where=("_dataset=arc_1d", "_role=rl"))
    games = "_model=../models/inter_games_qwen_3b_500"
    for task, size in {"arc_1d": 100, "needle_haystack": 100, "number_sequence": 94}.items():
        base = run(file, model="base", dataset=task, where=(f"_dataset={task}", "_role=base"))
        rl = run(file, model="rl", dataset=task, where=(f"_dataset={task}", games))
        assert base.there == rl.there
        assert (len(base.there), sum(base.there.values()), min(base.there.values())) == (size, 300, 3)
