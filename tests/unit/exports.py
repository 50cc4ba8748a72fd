"""A row of each harness whose completions can be imported, and helpers that import them in the working directory."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from leash import tables
from leash.importing import importer
from leash.importing.formats import ImportSource, detect_format, read_records

OWN = {"question": "What is $2^{10}$?", "answer": 1024, "text": r"It is \boxed{1024}."}
QWEN = {"idx": 0, "question": "Find x.", "gt": "204", "code": ["a", "b"], "pred": ["1", "204"], "score": [False, True]}
RESULT = {
    "question": "Sort 2 1.",
    "expected_answer": "1 2",
    "completions": [{"model_answer": "1 2", "full_model_response": "<answer>1 2</answer>", "score": 1.0}],
}
RUN = {
    "metadata": {"model": "lab/m", "temperature": 0.6, "top_p": 0.9, "max_tokens": 2048},
    "categories": [
        {"name": "algorithmic", "datasets": [{"name": "sort", "config": {"seed": 42}, "results": [RESULT]}]},
        {"name": "logic", "datasets": [{"name": "knights", "results": [{**RESULT, "question": "Who lies?"}]}]},
    ],
}
LM_EVAL = {
    "doc_id": 0,
    "doc": {"question": "How many eggs?", "answer": "16 - 3 = 13 #### 13"},
    "target": "16 - 3 = 13 #### 13",
    "arguments": {"gen_args_0": {"arg_0": "Q: How many eggs?\nA:", "arg_1": {"until": ["Q:"], "temperature": 0.6}}},
    "resps": [["12", "#### 13"]],
    "filtered_resps": ["13"],
    "filter": "strict-match",
    "metrics": ["exact_match"],
    "exact_match": 1.0,
}
NEMO = {
    "problem": "Find y.",
    "expected_answer": "7",
    "generation": "7",
    "num_generated_tokens": 3,
    "symbolic_correct": True,
}
NESTED = {
    "doc": {"query": "Find $x$.", "choices": [r"so $\boxed{7}$", "8"], "gold_index": [0], "task_name": "math"},
    "model_response": {"text": [r"\boxed{7}", "no"], "output_tokens": [[1, 2, 3], [4]]},
    "metric": {"extractive_match": 1.0},
}
FLAT = {
    "example": "Find $x$.",
    "full_prompt": "Solve. Find $x$.",
    "predictions": "['\\\\boxed{7}', 'no']",  # lighteval writes what Arrow cannot hold as text
    "gold": ["7"],
    "cont_tokens": "[[1, 2, 3], [4]]",
    "metrics": "{'em': 1.0}",
}


def lines(name: str, *rows: Any) -> Path:
    """Write rows as JSON lines, gzipped if the name says so."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    Path(name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return Path(name)


def read(file: Path, **options: Any) -> list[Any]:
    return list(read_records(ImportSource(file, detect_format(file), **options)))


def run(*files: Path, model: str = "m", dataset: str = "d", **options: Any) -> importer.ImportResult:
    return importer.run(files, model, dataset, **options)


def problems(dataset: str = "d") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tables.read(tables.problems_path(dataset), tables.PROBLEMS_SCHEMA, "").to_pylist()
    return rows


def completions(model: str = "m", dataset: str = "d") -> list[dict[str, Any]]:
    shards = tables.shards(tables.completions_folder(model, dataset))
    table = pa.concat_tables(tables.read(shard, tables.COMPLETIONS_SCHEMA, "") for shard in shards)
    rows: list[dict[str, Any]] = table.sort_by([("problem_id", "ascending"), ("sample", "ascending")]).to_pylist()
    return rows


def texts(model: str = "m") -> dict[str, list[str]]:
    """The completions of each problem, whose samples must be numbered without gaps."""
    by_problem: dict[str, list[str]] = {}
    for row in completions(model):
        assert row["sample"] == len(by_problem.setdefault(row["problem_id"], []))
        by_problem[row["problem_id"]].append(row["text"])
    return by_problem


def exam(template: str = "{}", offset: int = 0, size: int = 5) -> list[dict[str, Any]]:
    """Rows with one completion each, whose questions stand in a prompt template."""
    questions = {i: f"What is {i} + {i}, in words?" for i in range(offset, offset + size)}
    return [{"question": template.format(q), "answer": str(2 * i), "text": f"t{i}"} for i, q in questions.items()]
