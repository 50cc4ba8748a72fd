"""The groups of `params.yaml` as types, with the default of every field.

    params.k("rlvr", "chain")  ->  1024

The methods of `Params` combine several fields, for example the k of a pair. Rules between fields are in `checks`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from leash.params.errors import MissingKeyError, NotInParamsError
from leash.statistics.support import detectable_mass

# Names become folders, DVC stages and SQL literals. Two dots in a row would lead out of a folder.
NAME_PATTERN = r"^[A-Za-z0-9](\.?[A-Za-z0-9_-])*\.?$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
MAX_INT32 = 2**31 - 1  # k, sample numbers and counts are columns of 32-bit integers
Positive = Annotated[int, Field(gt=0, le=MAX_INT32)]
Count = Annotated[int, Field(ge=0, le=MAX_INT32)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
IsoDate = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
EnvironmentName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")]
Domain = Literal["math", "non-math"]
EngineName = Literal["auto", "torch", "vllm", "openai", "import"]
ScorerName = Literal["torch", "vllm"]
EMBEDDED_FAMILIES = ("chain", "make")  # the embedded models are trained on these
ENGINES_WITHOUT_WEIGHTS = ("openai", "import")
MAX_STOP_STRINGS = 16


def _check_stop_strings(stops: list[str]) -> list[str]:
    """An empty string ends every completion at once, and one of white space most of them after a line."""
    if len(stops) > MAX_STOP_STRINGS or not all(stop.strip() for stop in stops):
        expected = f"a list of at most {MAX_STOP_STRINGS} texts, none of them empty or only white space"
        raise PydanticCustomError("stop", expected)
    return stops


StopStrings = Annotated[list[str], AfterValidator(_check_stop_strings)]


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _refuse_nul(cls, value: Any) -> Any:
        """No file name and no program argument can contain a NUL character."""
        if any(isinstance(text, str) and "\0" in text for text in (value if isinstance(value, list) else [value])):
            raise PydanticCustomError("nul", "text without a NUL character")
        return value


class PromptOptions(Group):
    """How the prompt is built from a question: with the chat template or as plain text, after a system prompt, with an
    answer instruction at the end. The options of a model override those of a data set."""

    chat: bool | None = None
    system: str | None = None
    instruction: str | None = None


class Model(PromptOptions):
    """A model by hub id and revision, by a local path, or by its name on a server (`served`).

    `k` limits the samples per problem, for all data sets or per domain. `engine` overrides `sample.engine`.
    `stop` overrides `sample.stop`, and the data set's. `trust_remote_code` allows code that comes with the weights,
    `pickle` weights that are not safetensors.
    """

    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    served: str | None = None
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float32"
    k: Positive | dict[Domain, Positive] | None = None
    engine: EngineName | None = None
    stop: StopStrings | None = None
    trust_remote_code: bool = False
    pickle: bool = False


class Pair(Group):
    """A base model and a model derived from it. `step` is the training step of a checkpoint."""

    base: Name
    rlvr: Name
    training: Literal["rlvr", "sft", "other"] = "rlvr"
    step: Positive | None = None


class Dataset(PromptOptions):
    """A data set is one of three: a `family` (a benchmark of the paper, Reasoning Gym with `task`, or an embedded one
    with `levels`) from the hub or a `path`; your own file with question and answer columns; or `imported` together with
    completions by `leash import`.

    `size` draws that many of the problems with `seed` (default: all). An answer is correct if its score is at least
    `threshold`. `rounded` means that golds were rounded to the digits they show.
    """

    domain: Domain = "math"
    k: Positive | None = None
    family: str | None = None
    # source of the rows
    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    files: str | None = None
    size: Positive | Literal["all"] | None = None
    seed: int | None = None
    # columns of your own file
    question: str = "question"
    answer: str = "answer"
    id: str | None = None
    images: str | None = None
    grader: str | None = None
    prompt: str = "{question}"
    stop: StopStrings | None = None
    imported: bool = False
    # grading
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    tolerance: Share | None = None
    rounded: bool = False
    # only for the embedded families, Reasoning Gym, LiveBench and LiveCodeBench
    levels: list[Positive] = []
    per_level: Positive = 16
    task: str | None = None
    config: dict[str, Any] = {}
    tasks: list[str] = []
    release: IsoDate | None = None
    since: IsoDate | None = None
    until: IsoDate | None = None

    @field_validator("config")
    @classmethod
    def _refuse_self_reference(cls, value: dict[str, Any]) -> dict[str, Any]:
        """A YAML alias can contain itself."""
        try:
            json.dumps(value, default=str)
        except (ValueError, TypeError, RecursionError):
            raise PydanticCustomError("endless", "names and values, none of which holds itself") from None
        return value


class Run(Group):
    """What this run measures (names from the groups `models`, `datasets` and `pairs`), and where: in processes of this
    machine (`auto`: one per core) or on a Ray cluster."""

    models: list[Name] = Field(min_length=1)
    datasets: list[Name] = Field(min_length=1)
    pairs: list[Name] = Field(min_length=1)
    processes: Positive | Literal["auto"] = "auto"
    on: Literal["local", "ray"] = "local"

    @property
    def workers(self) -> int:
        return available_cores() if self.processes == "auto" else self.processes


class Ray(Group):
    """The cluster of `run.on: ray`: its address (default: start one on this machine), the number of workers (`auto`: as
    many as its GPUs or CPUs allow), and the CPUs per worker if there is no GPU."""

    address: str | None = None
    workers: Positive | Literal["auto"] = "auto"
    cpus: Positive = 1


class Train(Group):
    seed: int = 0
    base_steps: Positive = 5500
    grpo_steps: Positive = 200
    checkpoint_every: Positive = 50


class Vllm(Group):
    """Options of vLLM. `seeds` gives every sample its own random stream, `logprobs` fills the completions' `logprob`.
    On a CPU, the KV cache takes at most 4 GiB, and at most half of the share `gpu_memory` of the free memory."""

    tensor_parallel: Positive = 1
    gpu_memory: Annotated[float, Field(gt=0, le=1)] = 0.9
    max_model_len: Positive | None = None
    max_num_seqs: Positive = 256
    eager: bool = False
    seeds: bool = True
    logprobs: bool = True


class OpenAI(Group):
    """An OpenAI-compatible server. `key` names the environment variable that holds the API key; it is never the key."""

    url: str = "http://localhost:8000/v1"
    key: EnvironmentName = "OPENAI_API_KEY"
    concurrency: Positive = 32
    retries: Count = 8
    timeout: Positive = 3600
    logprobs: bool = False


class Sample(Group):
    """Draw `k` samples per problem, each of at most `max_tokens` tokens. With imported completions neither is needed if
    the data sets have a `k`. The strings of `stop` end a completion, outside formulas and boxes. `stop_after` ends a
    problem at that many hits, but not before it has `floor` samples."""

    k: Positive | None = None
    temperature: NotNegative = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_tokens: Positive | None = None
    stop: StopStrings = []
    seed: int = 0
    engine: EngineName = "auto"
    batch: Positive = 1024
    stop_after: Positive | None = None
    floor: Count = 0
    paid_graders: bool = False
    vllm: Vllm = Vllm()
    openai: OpenAI = OpenAI()


class Judge(Group):
    """The model that grades free answers on an OpenAI-compatible server. `key` names an environment variable, `prompt`
    a file (default: the grader's own prompt). Prices are dollars per million tokens. The judge sends no request while
    the estimated cost exceeds `budget` dollars."""

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
    """Limits of a program in the sandbox: seconds of CPU time per test, MB of memory."""

    seconds: Positive = 6
    memory: Positive = 4096


class Verify(Group):
    """Which `reading` of a text decides whether it is correct, limits for grading one answer (seconds, MB of memory),
    and the settings of single graders."""

    reading: Literal["strict", "lenient"] = "strict"
    timeout: Positive = 5
    memory: Positive = 4096
    judge: Judge = Judge()
    code: Code = Code()


class Reasoning(Group):
    """A judge of the working of correct completions, on an OpenAI-compatible server. `judge` is the served model's name
    (default: no judge). It is asked about at most `hits` correct completions of each model and problem, with `votes`
    votes each, and about `planted` good traces of each model, as they are and with one planted error. Prices are
    dollars per million tokens; what `budget` dollars do not pay for is not asked."""

    judge: str | None = None
    url: str = "https://api.openai.com/v1"
    key: EnvironmentName = "OPENAI_API_KEY"
    prompt: str | None = None
    votes: Positive = 3
    rule: Literal["any", "all", "majority"] = "majority"
    hits: Positive = 8
    planted: Positive = 100
    budget: NotNegative = 0.0
    price_in: NotNegative = 2.0
    price_out: NotNegative = 8.0
    concurrency: Positive = 16
    retries: Count = 8
    timeout: Positive = 600
    seed: int = 0


class Categorize(Group):
    """`k`: use the first k samples. `units`: what to count. A net change below `margin`, a share of the problems, is
    irrelevant. `clusters`: whether problems of one cluster count as one draw. Intervals use `bootstrap` resamples with
    `seed`."""

    k: Positive | Literal["all"] = "all"
    epsilon: Share | Literal["auto"] = 0.0
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.02
    clusters: Literal["auto", "none"] = "auto"
    units: list[Literal["problem", "answer", "completion"]] = ["problem", "answer"]
    # The limit stops runs that take hours: more resamples no longer change an interval.
    bootstrap: Annotated[int, Field(gt=0, le=100_000)] = 1000
    seed: int = 0


class Mass(Group):
    """`engine` computes the log-probabilities: transformers (torch) or vLLM."""

    engine: ScorerName = "torch"


class Reach(Group):
    """Bounds below 1/k. For every problem on which a model has at most `hits` hits and the other model of the pair has
    one, `rollouts` rollouts are drawn from prefixes (0: none, the stage does nothing) at these `depths` in tokens.
    Bounds hold at `confidence`. `engine` computes the probabilities of prefixes; the model's own engine draws."""

    rollouts: Count = 0
    hits: Count = 3
    depths: Literal["auto"] | Annotated[list[Positive], Field(min_length=1)] = "auto"
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    engine: ScorerName = "torch"
    seed: int = 0


class Perplexity(Group):
    """`traces` is a folder of reference traces (*.jsonl). `own` adds that many correct completions per problem and
    model. `shuffled` scores every trace a second time with its sentences in another order."""

    traces: str | None = None
    own: Count = 4
    shuffled: bool = True
    engine: ScorerName = "torch"
    seed: int = 0


class Entropy(Group):
    """A step is a fork if its entropy is at least `forking` nats (default: ln 2, the entropy of a fair coin)."""

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
    reasoning: Reasoning = Reasoning()
    categorize: Categorize = Categorize()
    mass: Mass = Mass()
    reach: Reach = Reach()
    perplexity: Perplexity = Perplexity()
    entropy: Entropy = Entropy()
    report: Report = Report()

    def known_model(self, name: str) -> Model:
        """A model that a command line names."""
        if name not in self.models:
            raise NotInParamsError("model", name, self.models)
        return self.models[name]

    def known_dataset(self, name: str) -> Dataset:
        """A data set that a command line names."""
        if name not in self.datasets:
            raise NotInParamsError("data set", name, self.datasets)
        return self.datasets[name]

    def models_of(self, pair: str) -> tuple[str, str]:
        return self.pairs[pair].base, self.pairs[pair].rlvr

    def engine(self, model: str) -> EngineName:
        return self.models[model].engine or self.sample.engine

    def stop_strings(self, model: str, dataset: str) -> tuple[str, ...]:
        """The stop strings of a model's completions on a data set, in one order: the model's, else those of the data
        set, else the run's. An empty list counts: it removes what a later source sets. Imported completions are as they
        are."""
        if self.engine(model) == "import":
            return ()
        sources = (self.models[model].stop, self.datasets[dataset].stop, self.sample.stop)
        return tuple(sorted(set(next(stops for stops in sources if stops is not None))))

    def samples_per_problem(self, dataset: str) -> int:
        """The k of a data set, before any model limits it."""
        k = self.datasets[dataset].k or self.sample.k
        if k is None:
            remedy = f"set it, or `datasets.{dataset}.k`, to the number of samples per problem"
            raise MissingKeyError("sample.k", remedy)
        return k

    def k(self, model: str, dataset: str) -> int:
        """The number of samples per problem of a data set from a model."""
        k, cap = self.samples_per_problem(dataset), self.models[model].k
        if isinstance(cap, dict):
            cap = cap.get(self.datasets[dataset].domain)
        return min(k, cap or k)

    def pair_k(self, pair: str, dataset: str) -> int:
        """The k at which a pair is compared."""
        return self.models_k(*self.models_of(pair), dataset)

    def models_k(self, base: str, rlvr: str, dataset: str) -> int:
        """The k at which two models are compared: the smaller of theirs, and at most `categorize.k`."""
        common = min(self.k(model, dataset) for model in (base, rlvr))
        return common if self.categorize.k == "all" else min(common, self.categorize.k)

    def epsilon(self, k: int) -> float:
        """The mass that support must exceed at this k."""
        epsilon = self.categorize.epsilon
        return detectable_mass(k, self.categorize.confidence) if epsilon == "auto" else float(epsilon)

    def uses_models_in(self, folder: Path) -> bool:
        """Whether the weights of a model of this run are in a folder."""
        paths = (self.models[name].path for name in self.run.models)
        return any(path and Path(path).resolve().is_relative_to(folder.resolve()) for path in paths)


def available_cores() -> int:
    """The number of cores that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
