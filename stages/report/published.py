"""The paper's own rows (arXiv 2507.14843v4), to stand below ours where the models and the data set are the paper's.

    of_pair(params, "prorl-1.5b-v1", "aime24")  ->  {"k": 8192, "P": 25, "E": 0, "S": 3, "O": 2, "SRR": 0.893, …}

A model is known by its hub id, and by its revision where the paper has two models under one id; a data set by its
family, as long as nothing is cut from it. published.csv has the counts and ratios of Tables 1, 3, 4 and 6 to 12,
published_perplexity.csv Table 2, published_entropy.csv Table 5 (without its means over data sets: ours are over
problems). Ratios are shown as printed; where they are not those of the counts beside them, the row's note says so.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from stages.categorize.counts import ROLES
from stages.categorize.statistics.ratios import RATIOS, ratios
from stages.params import Dataset, Model, Params

ROOM = Path(__file__).parent
Row = dict[str, Any]
Printed = Mapping[str, str]

PRORL = "nvidia/Nemotron-Research-Reasoning-Qwen-1.5B"
MODELS = {  # our hub id (and revision, where it matters): the paper's name
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": "DeepSeek-R1-Distill-Qwen-1.5B",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": "DeepSeek-R1-Distill-Qwen-7B",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": "DeepSeek-R1-Distill-Qwen-14B",
    f"{PRORL}@v1": "ProRL-1.5B-v1",
    f"{PRORL}@main": "ProRL-1.5B-v2",
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
MATH = {  # our family: the paper's name
    "aime24": "AIME2024",
    "aime25": "AIME2025",
    "amc23": "AMC23",
    "math500": "MATH500",
    "minerva": "Minerva",
    "olympiadbench": "Olympiad",
    "mathvista": "MathVista",
    "mathvision": "MathVision",
}
FAMILIES = MATH | {
    "simpleqa": "SimpleQA",
    "livebench-reasoning": "LiveBench-R",
    "livebench-coding": "LiveBench-C",
    "livebench-language": "LiveBench-L",
    "scibench": "SciBench",
    "livecodebench-v5": "LiveCodeBench v5",
    "livecodebench-v6": "LiveCodeBench v6",
}
CUTS = {"size", "seed", "tasks", "release", "since", "until"}  # with these a family is another set of problems
DOMAINS, TRAININGS, STEPS = "1", "3", "4"  # tables
ELSEWHERE = (DOMAINS, TRAININGS, STEPS)  # the others are those of single data sets
AGGREGATES = ("Math", "Non-Math", "Overall")

OWN_RUN = "the paper's own training of this base, whose weights are not public"
NOT_NAMED = "the paper does not name the repository of its trained model"
WHICH_PRORL = "the paper does not say which version of ProRL this is"
NO_FORMULA = "the paper does not state its formula"


def of_pair(params: Params, pair: str, dataset: str) -> Row | None:
    """The row of Tables 6 to 12."""
    asked = _pair(params, pair) | {"dataset": family(params.datasets[dataset])}
    return next((_row(row) for row in _printed("published") if row["table"] not in ELSEWHERE and _is(row, asked)), None)


def of_group(params: Params, pair: str, datasets: Iterable[str]) -> Row | None:
    """The row of Table 1 that is made of these data sets, of all of them and of no other."""
    mine = {family(params.datasets[dataset]) for dataset in datasets}
    rows = [row for row in _printed("published") if row["table"] == DOMAINS and _is(row, _pair(params, pair))]
    return next((_row(row) for row in rows if _made_of(row) == mine), None)


def of_training(params: Params, pair: str, dataset: str) -> Row | None:
    """The row of Table 3: the paper's training of the same kind and base."""
    return _own_run(params, pair, dataset, {"table": TRAININGS})


def of_step(params: Params, pair: str, dataset: str) -> Row | None:
    """The row of Table 4: the paper's training of the same base, at the same step."""
    return _own_run(params, pair, dataset, {"table": STEPS, "step": str(params.pairs[pair].step)})


def perplexity(params: Params, pair: str, dataset: str, trace: str, category: str) -> Row | None:
    """The row of Table 2, whatever the spelling of the traces' source."""
    models = _pair(params, pair)
    if models["model"] not in ("ProRL-1.5B-v1", "ProRL-1.5B-v2") or models["base"] != "DeepSeek-R1-Distill-Qwen-1.5B":
        return None
    asked = {"dataset": family(params.datasets[dataset]), "category": category}
    for row in _printed("published_perplexity"):
        if _is(row, asked) and _letters(row["trace"]) == _letters(trace):
            numbers = {name: float(row[name]) for name in ("perplexity_base", "perplexity_rlvr")}
            return {"source": "paper", **numbers, "note": f"{WHICH_PRORL}; {NO_FORMULA}"}
    return None


def entropy(params: Params, model: str, dataset: str) -> Row | None:
    """The row of Table 5."""
    name = known(params.models[model]) or ""
    prorl = name.startswith("ProRL")
    asked = {"model": "ProRL-1.5B" if prorl else name, "dataset": family(params.datasets[dataset])}
    for row in _printed("published_entropy"):
        if _is(row, asked):
            numbers = {measure: float(row[measure]) for measure in ("tokens", "token_entropy", "answer_entropy")}
            about = {"source": "paper", "samples": 32, "note": WHICH_PRORL if prorl else None}
            return {**about, **numbers, "average": _share(row["average"])}
    return None


def known(model: Model) -> str | None:
    """The paper's name of a model."""
    name = f"{PRORL}@{model.revision or 'main'}" if model.hub == PRORL else model.hub
    return MODELS.get(name or "")


def family(dataset: Dataset) -> str | None:
    """The paper's name of a data set."""
    return None if CUTS & dataset.model_fields_set else FAMILIES.get(dataset.family or "")


def slips(row: Printed) -> Row:
    """The ratios that are printed otherwise than their counts give, at the digits that are printed: as they are by the
    counts."""
    counted = {name: float(value) for name, value in ratios(*(int(row[letter]) for letter in "PES")).items()}
    digits = {name: len(row[name].partition(".")[2]) for name in RATIOS}
    return {name: x for name, x in counted.items() if abs(x - float(row[name])) > 0.5 * 10 ** -digits[name] + 1e-12}


@cache
def _printed(name: str) -> tuple[Printed, ...]:
    with (ROOM / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def _is(row: Printed, asked: Mapping[str, str | None]) -> bool:
    return all(row[name] == value for name, value in asked.items())


def _pair(params: Params, pair: str) -> dict[str, str | None]:
    base, rlvr = params.models_of(pair)
    return {"base": known(params.models[base]), "model": known(params.models[rlvr])}


def _own_run(params: Params, pair: str, dataset: str, where: Mapping[str, str]) -> Row | None:
    asked = {
        **where,
        "base": _pair(params, pair)["base"],
        "training": params.pairs[pair].training,
        "dataset": family(params.datasets[dataset]),
    }
    return next((_row(row, OWN_RUN) for row in _printed("published") if _is(row, asked)), None)


def _made_of(aggregate: Printed) -> set[str]:
    """The data sets that a row of Table 1 sums. Those of ProRL v2 are not printed: its sums are of v1's."""
    model = aggregate["model"].replace("ProRL-1.5B-v2", "ProRL-1.5B-v1")
    rows = [row for row in _printed("published") if row["model"] == model and row["table"] not in ELSEWHERE]
    single = {row["dataset"] for row in rows} - set(AGGREGATES)
    math = single & set(MATH.values())
    return {"Math": math, "Non-Math": single - math, "Overall": single}[aggregate["dataset"]]


def _row(row: Printed, *remarks: str) -> Row:
    """A printed row by the names of our columns: pass@k as a share, counted at any hit."""
    counts = {letter: int(row[letter]) for letter in "PESO"}
    passes = {f"{role}_pass@k": _share(row[f"pass_{role}"]) for role in ROLES}
    k = int(row["k"]) if row["k"] else None
    notes = [*remarks, *([NOT_NAMED] if row["model"] == "OLMo-2-0425-1B" else []), *_slip_notes(row)]
    return {
        "source": "paper",
        "k": k,
        "epsilon": 0.0,
        "problems": sum(counts.values()),
        **counts,
        **passes,
        **{name: float(row[name]) for name in RATIOS},
        "note": "; ".join(notes) or None,
    }


def _share(percent: str) -> float | None:
    """A printed percentage as a share, digit for digit."""
    return float(Decimal(percent) / 100) if percent else None


def _slip_notes(row: Printed) -> list[str]:
    return [f"{name} is printed as {row[name]}, its counts give {value:.4f}" for name, value in slips(row).items()]


def _letters(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())
