"""The groups of `params.yaml`, typed: what may stand in each field, what it is where nothing is said, and what follows
from several of them for a model, a data set or a pair.

    params.k("rlvr", "chain")  ->  1024
"""

from __future__ import annotations

import itertools
import json
import math
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from stages.errors import LeashError

# Names become folders, stage names and SQL literals: keep them plain. Two dots in a row are a way out of a folder.
NAME = r"^[A-Za-z0-9](\.?[A-Za-z0-9_-])*\.?$"
Name = Annotated[str, StringConstraints(pattern=NAME)]
LARGEST = 2**31 - 1  # what a column of 32-bit numbers holds: k, samples, counts
Positive = Annotated[int, Field(gt=0, le=LARGEST)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
EnvironmentName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")]
Domain = Literal["math", "non-math"]
Unit = Literal["problem", "answer", "completion"]
EngineName = Literal["auto", "torch", "vllm", "openai", "import"]
ScorerName = Literal["torch", "vllm"]
EMBEDDED = ("chain", "make")  # families that the embedded models are trained on
WEIGHTLESS = ("openai", "import")  # engines that need no weights here


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _without_nul(cls, value: Any) -> Any:
        """No file can have such a name, and no program takes such an argument."""
        if any(isinstance(text, str) and "\0" in text for text in (value if isinstance(value, list) else [value])):
            raise PydanticCustomError("nul", "text without a NUL character")
        return value


class Asking(Group):
    """How a question is put to a model: by its chat template or as plain text, after a system prompt, with an
    answer instruction below it. What a model says here comes before what a data set says."""

    chat: bool | None = None
    system: str | None = None
    instruction: str | None = None


class Model(Asking):
    """A model by hub id and revision, by a local path, or by the name under which a server has it (`served`).
    `k`, a number or one per domain, is the most samples a problem gets from it; `engine` goes before
    `sample.engine`. `trust_remote_code` allows to run code that comes with the weights, `pickle` to read weights that
    are not safetensors."""

    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    served: str | None = None
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    k: Positive | dict[Domain, Positive] | None = None
    engine: EngineName | None = None
    trust_remote_code: bool = False
    pickle: bool = False


class Pair(Group):
    """A base model and one derived from it; `step` places a checkpoint on its training trajectory."""

    base: Name
    rlvr: Name
    training: Literal["rlvr", "sft", "other"] = "rlvr"
    step: Positive | None = None


class Dataset(Asking):
    """Problems of a `family`: one of the paper's benchmarks, Reasoning Gym (`task`) or an embedded one (`levels`), from
    the hub at a `revision` or from a `path`; a file of your own with question and answer columns; or `imported` with
    their completions by `leash import`.

    `size` draws so many of the problems by `seed`. `threshold` is the score from which an answer counts as correct;
    `rounded` says that golds were rounded to the digits they show.
    """

    domain: Domain = "math"
    k: Positive | None = None
    family: str | None = None
    # where the rows are
    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    files: str | None = None
    size: Positive | Literal["all"] | None = None
    seed: int | None = None
    # a file of your own
    question: str = "question"
    answer: str = "answer"
    id: str | None = None
    images: str | None = None
    grader: str | None = None
    prompt: str = "{question}"
    imported: bool = False
    # grading
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    tolerance: Share | None = None
    rounded: bool = False
    # single families: the embedded ones, Reasoning Gym, LiveBench, LiveCodeBench
    levels: list[Positive] = []
    per_level: Positive = 16
    task: str | None = None
    config: dict[str, Any] = {}
    tasks: list[str] = []
    release: Day | None = None
    since: Day | None = None
    until: Day | None = None

    @field_validator("config")
    @classmethod
    def _ends(cls, value: dict[str, Any]) -> dict[str, Any]:
        """An alias in YAML may hold itself."""
        try:
            json.dumps(value, default=str)
        except (ValueError, TypeError, RecursionError):
            raise PydanticCustomError("endless", "names and values, none of which holds itself") from None
        return value


class Run(Group):
    """What this run measures (names from the catalogues), and where: in so many processes of this machine, or on a
    Ray cluster."""

    models: list[Name] = Field(min_length=1)
    datasets: list[Name] = Field(min_length=1)
    pairs: list[Name] = Field(min_length=1)
    processes: Positive | Literal["auto"] = "auto"
    on: Literal["local", "ray"] = "local"

    @property
    def workers(self) -> int:
        return cores() if self.processes == "auto" else self.processes


class Ray(Group):
    """The cluster of `run.on: ray`: its address (none: one is started on this machine), how many workers (auto: as
    many as its GPUs or CPUs hold), and the CPUs that each takes where there is no GPU."""

    address: str | None = None
    workers: Positive | Literal["auto"] = "auto"
    cpus: Positive = 1


class Train(Group):
    seed: int = 0
    base_steps: Positive = 5500
    grpo_steps: Positive = 200
    checkpoint_every: Positive = 50


class Vllm(Group):
    """What vLLM is started with; `seeds` gives every sample a random stream of its own, `logprobs` fills the
    completions' logprob. On a CPU, the cache takes at most 4 GiB and half of
    `gpu_memory` of what is free."""

    tensor_parallel: Positive = 1
    gpu_memory: Annotated[float, Field(gt=0, le=1)] = 0.9
    max_model_len: Positive | None = None
    max_num_seqs: Positive = 256
    eager: bool = False
    seeds: bool = True
    logprobs: bool = True


class OpenAI(Group):
    """An OpenAI-compatible server. `key` is the name of the environment variable that holds the key, never the key."""

    url: str = "http://localhost:8000/v1"
    key: EnvironmentName = "OPENAI_API_KEY"
    concurrency: Positive = 32
    retries: Count = 8
    timeout: Positive = 3600
    logprobs: bool = False


class Sample(Group):
    """`k` samples per problem, each of at most `max_tokens`; a run of imported completions needs neither if its data
    sets have a `k`. `stop_after` ends a problem at that many correct samples, but not before it has `floor` samples."""

    k: Positive | None = None
    temperature: Annotated[float, Field(ge=0)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_tokens: Positive | None = None
    seed: int = 0
    engine: EngineName = "auto"
    batch: Positive = 1024
    stop_after: Positive | None = None
    floor: Count = 0
    paid_graders: bool = False
    vllm: Vllm = Vllm()
    openai: OpenAI = OpenAI()


class Judge(Group):
    """The model that grades free answers: an OpenAI-compatible server, the name of the environment variable with its
    key, a file with the prompt (none: the one that comes with the grader), and prices in dollars for a million tokens.
    Nothing is asked while the estimate exceeds `budget` dollars."""

    url: str = "https://api.openai.com/v1"
    model: str = "gpt-4.1"
    key: EnvironmentName = "OPENAI_API_KEY"
    prompt: str | None = None
    concurrency: Positive = 16
    retries: Count = 8
    timeout: Positive = 120
    price_in: NotNegative = 2.0
    price_out: NotNegative = 8.0
    budget: NotNegative = 0.0


class Code(Group):
    """What a program may use in the sandbox: seconds of processor time for each test, MB of memory."""

    seconds: Positive = 6
    memory: Positive = 4096


class Verify(Group):
    """Seconds and MB of memory that grading one answer may take; and the graders' own settings."""

    timeout: Positive = 5
    memory: Positive = 4096
    judge: Judge = Judge()
    code: Code = Code()


class Categorize(Group):
    """`units` are what is counted beside problems; `bootstrap` is how many resamples an interval is made of, by
    `seed`."""

    k: Positive | Literal["all"] = "all"
    epsilon: Share | Literal["auto"] = 0.0
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    units: list[Unit] = ["problem", "answer"]
    bootstrap: Annotated[int, Field(gt=0, le=100_000)] = 1000  # a hundred times as many take hours, and tell no more
    seed: int = 0


class Mass(Group):
    """`engine` is who computes log-probabilities: transformers, or vLLM where it is installed."""

    engine: ScorerName = "torch"


class Perplexity(Group):
    """`traces` is a folder of reference traces (*.jsonl); `own` is how many correct completions of each model a problem
    adds to them; `shuffled` scores every trace a second time with its sentences in another order."""

    traces: str | None = None
    own: Count = 4
    shuffled: bool = True
    engine: ScorerName = "torch"
    seed: int = 0


class Entropy(Group):
    """`forking` is the entropy, in nats, from which a step counts as a fork: ln 2 is that of a fair coin."""

    samples: Positive = 32
    forking: NotNegative = 0.693


class Report(Group):
    title: str = "Leash"


class Params(Group):
    run: Run
    ray: Ray = Ray()
    models: dict[Name, Model]
    pairs: dict[Name, Pair]
    datasets: dict[Name, Dataset]
    train: Train = Train()
    sample: Sample = Sample()
    verify: Verify = Verify()
    categorize: Categorize = Categorize()
    mass: Mass = Mass()
    perplexity: Perplexity = Perplexity()
    entropy: Entropy = Entropy()
    report: Report = Report()

    def known_model(self, name: str) -> Model:
        """A model that someone named on a command line."""
        if name not in self.models:
            raise LeashError(f"There is no model {name} in params.yaml; its models are {', '.join(self.models)}.")
        return self.models[name]

    def known_dataset(self, name: str) -> Dataset:
        """A data set that someone named on a command line."""
        if name not in self.datasets:
            raise LeashError(
                f"There is no data set {name} in params.yaml; its data sets are {', '.join(self.datasets)}."
            )
        return self.datasets[name]

    def k(self, model: str, dataset: str) -> int:
        """How many samples a problem of this data set gets from this model."""
        wanted = self.datasets[dataset].k or self.sample.k
        if wanted is None:
            raise LeashError(
                f"`sample.k` is missing and so is `datasets.{dataset}.k`; set one of them to the number of samples per "
                f"problem."
            )
        cap = self.models[model].k
        if isinstance(cap, dict):
            cap = cap.get(self.datasets[dataset].domain)
        return min(wanted, cap or wanted)

    def pair_k(self, pair: str, dataset: str) -> int:
        """The k a pair is compared at: what both of its models have, or less where categorize.k says so."""
        return self.models_k(*self.models_of(pair), dataset)

    def models_k(self, base: str, rlvr: str, dataset: str) -> int:
        """The same of any two models."""
        both = min(self.k(model, dataset) for model in (base, rlvr))
        return both if self.categorize.k == "all" else min(both, self.categorize.k)

    def engine(self, model: str) -> EngineName:
        return self.models[model].engine or self.sample.engine

    def epsilon(self, k: int) -> float:
        """The mass that support must exceed, at this k."""
        chosen = self.categorize.epsilon
        return detectable(k, self.categorize.confidence) if chosen == "auto" else float(chosen)

    def uses_models_in(self, folder: Path) -> bool:
        """Whether a model of this run lies in a folder."""
        paths = (self.models[name].path for name in self.run.models)
        return any(path and Path(path).resolve().is_relative_to(folder.resolve()) for path in paths)

    def models_of(self, pair: str) -> tuple[str, str]:
        return self.pairs[pair].base, self.pairs[pair].rlvr


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def hits_above(share: float, k: int) -> int:
    """The fewest hits in k that are more than this share, in the arithmetic of support.sql: 0.29 * 100 is below 29.
    A share that k hits can't exceed (auto at a tiny k) leaves nothing to stop for."""
    return min(next(hits for hits in itertools.count(max(math.floor(share * k), 1)) if hits / k > share), k)


def detectable(k: int, confidence: float) -> float:
    """The mass that k samples without a hit rule out at this confidence: the paper's detectability bound."""
    return -math.log(1 - confidence) / k
