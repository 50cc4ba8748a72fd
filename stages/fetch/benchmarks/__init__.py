"""The benchmarks of the paper, by family: one small file each, with a true row of it.

    FAMILIES["math500"]  ->  Benchmark(hub="HuggingFaceH4/MATH-500", …)

Counts are those of the paper's tables. LiveCodeBench's windows are not in the paper: see livecodebench.py.
"""

from __future__ import annotations

from stages.fetch.benchmark import Benchmark
from stages.fetch.benchmarks import (
    aime,
    amc23,
    livebench,
    livecodebench,
    math500,
    mathvision,
    mathvista,
    minerva,
    olympiadbench,
    scibench,
    simpleqa,
)

FAMILIES: dict[str, Benchmark] = {
    "aime24": aime.AIME24,
    "aime25": aime.AIME25,
    "amc23": amc23.AMC23,
    "math500": math500.MATH500,
    "minerva": minerva.MINERVA,
    "olympiadbench": olympiadbench.OLYMPIADBENCH,
    "simpleqa": simpleqa.SIMPLEQA,
    "livebench-reasoning": livebench.REASONING,
    "livebench-language": livebench.LANGUAGE,
    "livebench-coding": livebench.CODING,
    "scibench": scibench.SCIBENCH,
    "livecodebench-v5": livecodebench.V5,
    "livecodebench-v6": livecodebench.V6,
    "mathvista": mathvista.MATHVISTA,
    "mathvision": mathvision.MATHVISION,
}

# What a model is told below a question of Reasoning Gym, whose own system prompt asks for such tags.
TAGGED = "Put your final answer, and only that, between <answer> and </answer>."


def usual_instruction(family: str | None) -> str | None:
    """What the questions of a family usually come with, where params.yaml says nothing."""
    if family == "reasoning_gym":
        return TAGGED
    return FAMILIES[family].instruction if family in FAMILIES else None
