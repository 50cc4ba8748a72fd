"""The benchmarks of the paper by family.

    FAMILIES["math500"]  ->  Benchmark(hub="HuggingFaceH4/MATH-500", …)

`counts` are those of the paper's tables. The paper does not give LiveCodeBench's dates: see livecodebench.py.
"""

from __future__ import annotations

from leash.benchmarks import (
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
from leash.benchmarks.benchmark import Benchmark

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
