"""The paper's own rows (arXiv 2507.14843v4), shown below ours if the models and the data set are the paper's.

    find_pair_row(params, "prorl-1.5b-v1", "aime24")  ->  {"k": 8192, "P": 25, "E": 0, "S": 3, "O": 2, "SRR": 0.893, …}

A model matches by its hub id, and by its revision if the paper has two models under one id. A data set matches by its
family, if it is complete. published.csv has the counts and ratios of Tables 1, 3, 4 and 6 to 12,
published_perplexity.csv has Table 2, published_entropy.csv has Table 5 (without its means over data sets: ours are over
problems). Ratios are shown as printed; the note of a row says if they differ from those of its counts.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from leash.params.groups import Dataset, Model, Params
from leash.statistics.counts import ROLES
from leash.statistics.ratios import RATIO_NAMES, compute_ratios

PUBLISHED_DIR = Path(__file__).parent
Row = dict[str, Any]
PrintedRow = Mapping[str, str]

PRORL_HUB_ID = "nvidia/Nemotron-Research-Reasoning-Qwen-1.5B"
# By hub id, with the revision if the paper has two models under one id.
PAPER_MODEL_NAMES = {
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": "DeepSeek-R1-Distill-Qwen-1.5B",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": "DeepSeek-R1-Distill-Qwen-7B",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": "DeepSeek-R1-Distill-Qwen-14B",
    f"{PRORL_HUB_ID}@v1": "ProRL-1.5B-v1",
    f"{PRORL_HUB_ID}@main": "ProRL-1.5B-v2",
    "nvidia/AceReason-Nemotron-7B": "AceReason-Nemotron-7B",
    "nvidia/AceReason-Nemotron-14B": "AceReason-Nemotron-14B",
    "Skywork/Skywork-OR1-7B": "Skywork-OR1-7B",
    "microsoft/Phi-4-reasoning": "Phi4-Reason-14B",
    "microsoft/Phi-4-reasoning-plus": "Phi4-Reason-Plus-14B",
    "Kangheng/OVR-7B-ColdStart": "OVR-7B-ColdStart",
    "Kangheng/OVR-7B-RL": "OVR-7B-RL",
    "allenai/OLMo-2-0425-1B-DPO": "OLMo-2-0425-1B-DPO",
    "allenai/OLMo-2-0425-1B-RLVR1": "OLMo-2-0425-1B",
    "Qwen/Qwen2.5-Math-7B": "Qwen2.5-Math-7B",
    "Qwen/Qwen2.5-32B": "Qwen2.5-32B",
    "BytedTsinghua-SIA/DAPO-Qwen-32B": "DAPO-Qwen-32B",
}
# By family.
PAPER_MATH_NAMES = {
    "aime24": "AIME2024",
    "aime25": "AIME2025",
    "amc23": "AMC23",
    "math500": "MATH500",
    "minerva": "Minerva",
    "olympiadbench": "Olympiad",
    "mathvista": "MathVista",
    "mathvision": "MathVision",
}
PAPER_DATASET_NAMES = PAPER_MATH_NAMES | {
    "simpleqa": "SimpleQA",
    "livebench-reasoning": "LiveBench-R",
    "livebench-coding": "LiveBench-C",
    "livebench-language": "LiveBench-L",
    "scibench": "SciBench",
    "livecodebench-v5": "LiveCodeBench v5",
    "livecodebench-v6": "LiveCodeBench v6",
}
# A data set with one of these fields has other problems than the paper's.
SUBSET_FIELDS = {"size", "seed", "tasks", "release", "since", "until"}
# The other tables of published.csv have rows of single data sets.
NON_DATASET_TABLES = DOMAINS_TABLE, TRAININGS_TABLE, STEPS_TABLE = "1", "3", "4"
AGGREGATE_NAMES = ("Math", "Non-Math", "Overall")

OWN_RUN_NOTE = "the paper's own training of this base, whose weights are not public"
UNNAMED_REPOSITORY_NOTE = "the paper does not name the repository of its trained model"
PRORL_VERSION_NOTE = "the paper does not say which version of ProRL this is"
NO_FORMULA_NOTE = "the paper does not state its formula"


def find_pair_row(params: Params, pair: str, dataset: str) -> Row | None:
    """The row of Tables 6 to 12."""
    key = _paper_pair(params, pair) | {"dataset": paper_dataset_name(params.datasets[dataset])}
    rows = (row for row in _matching_rows("published", key) if row["table"] not in NON_DATASET_TABLES)
    return next(map(_to_report_row, rows), None)


def find_group_row(params: Params, pair: str, datasets: Iterable[str]) -> Row | None:
    """The row of Table 1 that sums exactly these data sets."""
    names = {paper_dataset_name(params.datasets[dataset]) for dataset in datasets}
    rows = _matching_rows("published", _paper_pair(params, pair) | {"table": DOMAINS_TABLE})
    return next((_to_report_row(row) for row in rows if _summed_datasets(row) == names), None)


def find_training_row(params: Params, pair: str, dataset: str) -> Row | None:
    """The row of Table 3: the paper's training of the same kind and base."""
    return _find_own_run_row(params, pair, dataset, table=TRAININGS_TABLE)


def find_step_row(params: Params, pair: str, dataset: str) -> Row | None:
    """The row of Table 4: the paper's training of the same base, at the same step."""
    return _find_own_run_row(params, pair, dataset, table=STEPS_TABLE, step=str(params.pairs[pair].step))


def _find_own_run_row(params: Params, pair: str, dataset: str, **where: str) -> Row | None:
    key = {**where, "base": _paper_pair(params, pair)["base"], "training": params.pairs[pair].training}
    key["dataset"] = paper_dataset_name(params.datasets[dataset])
    return next((_to_report_row(row, OWN_RUN_NOTE) for row in _matching_rows("published", key)), None)


def find_perplexity_row(params: Params, pair: str, dataset: str, trace: str, category: str) -> Row | None:
    """The row of Table 2. The source of the traces matches in any spelling."""
    models = _paper_pair(params, pair)
    if models["model"] not in ("ProRL-1.5B-v1", "ProRL-1.5B-v2") or models["base"] != "DeepSeek-R1-Distill-Qwen-1.5B":
        return None
    key = {"dataset": paper_dataset_name(params.datasets[dataset]), "category": category}
    for row in _matching_rows("published_perplexity", key):
        if _normalize_name(row["trace"]) == _normalize_name(trace):
            numbers = {name: float(row[name]) for name in ("perplexity_base", "perplexity_rlvr")}
            return {"source": "paper", **numbers, "note": f"{PRORL_VERSION_NOTE}; {NO_FORMULA_NOTE}"}
    return None


def find_entropy_row(params: Params, model: str, dataset: str) -> Row | None:
    """The row of Table 5."""
    name = paper_model_name(params.models[model]) or ""
    prorl = name.startswith("ProRL")
    key = {"model": "ProRL-1.5B" if prorl else name, "dataset": paper_dataset_name(params.datasets[dataset])}
    for row in _matching_rows("published_entropy", key):
        numbers = {measure: float(row[measure]) for measure in ("tokens", "token_entropy", "answer_entropy")}
        note = PRORL_VERSION_NOTE if prorl else None
        return {"source": "paper", "samples": 32, "note": note, **numbers, "average": _parse_percent(row["average"])}
    return None


def paper_model_name(model: Model) -> str | None:
    name = f"{PRORL_HUB_ID}@{model.revision or 'main'}" if model.hub == PRORL_HUB_ID else model.hub
    return PAPER_MODEL_NAMES.get(name or "")


def paper_dataset_name(dataset: Dataset) -> str | None:
    return None if SUBSET_FIELDS & dataset.model_fields_set else PAPER_DATASET_NAMES.get(dataset.family or "")


def misprinted_ratios(row: PrintedRow) -> Row:
    """The ratios whose printed value differs from that of the printed counts, with the value of the counts."""
    counted = {name: float(value) for name, value in compute_ratios(*(int(row[letter]) for letter in "PES")).items()}
    digits = {name: len(row[name].partition(".")[2]) for name in RATIO_NAMES}
    # A correct value is off by half a unit of its last digit at most.
    return {name: x for name, x in counted.items() if abs(x - float(row[name])) > 0.5 * 10 ** -digits[name] + 1e-12}


@cache
def _load_printed_rows(name: str) -> tuple[PrintedRow, ...]:
    with (PUBLISHED_DIR / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def _matching_rows(name: str, key: Mapping[str, str | None]) -> list[PrintedRow]:
    """The rows of a file that have these values. None, a model or data set that the paper lacks, matches no row."""
    return [row for row in _load_printed_rows(name) if all(row[column] == value for column, value in key.items())]


def _paper_pair(params: Params, pair: str) -> dict[str, str | None]:
    base, rlvr = params.models_of(pair)
    return {"base": paper_model_name(params.models[base]), "model": paper_model_name(params.models[rlvr])}


def _summed_datasets(aggregate: PrintedRow) -> set[str]:
    """The data sets that a row of Table 1 sums. The paper prints no rows of ProRL v2, whose sums are of v1's sets."""
    model = aggregate["model"].replace("ProRL-1.5B-v2", "ProRL-1.5B-v1")
    rows = (row for row in _matching_rows("published", {"model": model}) if row["table"] not in NON_DATASET_TABLES)
    single = {row["dataset"] for row in rows} - set(AGGREGATE_NAMES)
    math = single & set(PAPER_MATH_NAMES.values())
    return {"Math": math, "Non-Math": single - math, "Overall": single}[aggregate["dataset"]]


def _to_report_row(row: PrintedRow, *notes: str) -> Row:
    """A printed row under the names of our columns: pass@k as a share, epsilon 0."""
    counts = {letter: int(row[letter]) for letter in "PESO"}
    unnamed = [UNNAMED_REPOSITORY_NOTE] if row["model"] == "OLMo-2-0425-1B" else []
    misprints = [
        f"{name} is printed as {row[name]}, its counts give {value:.4f}"
        for name, value in misprinted_ratios(row).items()
    ]
    return {
        "source": "paper",
        "k": int(row["k"]) if row["k"] else None,
        "epsilon": 0.0,
        "problems": sum(counts.values()),
        **counts,
        **{f"{role}_pass@k": _parse_percent(row[f"pass_{role}"]) for role in ROLES},
        **{name: float(row[name]) for name in RATIO_NAMES},
        "note": "; ".join([*notes, *unnamed, *misprints]) or None,
    }


def _parse_percent(percent: str) -> float | None:
    """A printed percentage as a share. Decimal keeps the printed digits: 57.3 becomes 0.573 and not 0.5730000000001."""
    return float(Decimal(percent) / 100) if percent else None


def _normalize_name(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())
