"""The style control on nulls and planted effects, made from the embedded base with altered logits.

Nulls, in which no knowledge is lost: another temperature, every surprise times 1.2 with noise or to the power of 1.2,
any word mixed in, a random bias on every word (wording), and a bias with a temperature. Planted: 0.2 nats on every
token of the lost problems beside another temperature (on the traces, not on their shuffled versions), and models that
were trained to forget `make` with six numbers and more.

The problems, their categories and the traces are those of the embedded pair; each trial takes a random five sixths of
the problems of every category. The rule before, the plain difference in differences over all data sets, is beside ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from goals import ALPHA, Goals
from result import leave
from transformers import LlamaForCausalLM

from leash import tables
from leash.params import loading
from leash.params.groups import Params
from leash.progress import Progress
from leash.prompts import build_prompt
from leash.report.perplexity_tables import compute_perplexity_tables
from leash.scoring import references
from leash.scoring.torch_scorer import TokenizedTrace, tokenize_traces
from leash.scoring.traces import Trace
from leash.statistics import style
from leash.statistics.array_types import BoolArray, FloatArray, IntArray, ObjectArray
from leash.statistics.perplexity import draw_resamples
from leash.statistics.seeds import stream
from leash.statistics.style import StyleTraces, TokenSums
from leash.weights import find_weights, load_model
from stages.train import fit

PAIR, RESAMPLES, CONFIDENCE, FOUND, KEPT = "rlvr", 300, 0.95, 0.9, 5 / 6
SOURCES, CATEGORIES = ("worked", "direct"), ("S", "O")
FORGOTTEN_NUMBERS, FORGETTING_STEPS, FORGETFUL_MODELS = 6, 400, 4


@dataclass(frozen=True)
class Trail:
    """The tokens of a trace, with the base's log-probabilities of the whole vocabulary at each of them."""

    row: TokenizedTrace
    logprobs: FloatArray

    def surprise(self, logits: FloatArray) -> FloatArray:
        """The surprise of the tokens under these logits."""
        normed = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return np.asarray(-normed[np.arange(len(logits)), np.array(self.row[1], dtype=int)])


Alter = Callable[[Trail], FloatArray]  # the surprise of the altered model at each token


@dataclass(frozen=True)
class Corpus:
    """The traces of a source, one per problem, with the facts of the embedded pair. A problem without a shuffled trace
    has an empty one."""

    straight: list[Trail]
    shuffled: list[Trail]
    dataset: ObjectArray
    numbers: IntArray  # in the question: how hard it is
    category: ObjectArray
    same_mass: BoolArray

    @property
    def control(self) -> BoolArray:
        return np.asarray((self.category == "P") & self.same_mass)

    def alter(self, alter: Alter, planted: FloatArray | float = 0.0) -> tuple[TokenSums, TokenSums]:
        """The token sums of straight and shuffled traces, with an altered model as the trained one. `planted` is added
        per token of each straight trace."""
        straight, shuffled = (self.sum_altered(trails, alter) for trails in (self.straight, self.shuffled))
        extra = straight.xx[:, 0, :] * np.broadcast_to(planted, len(self.dataset))[:, None]
        return replace(straight, xd=straight.xd + extra), shuffled

    def sum_altered(self, trails: list[Trail], alter: Alter) -> TokenSums:
        """As leash/report/traces.sql sums them: without tokens that surprise the base more than the controls' do."""
        xx, xd = np.zeros((len(trails), 3, 3)), np.zeros((len(trails), 3))
        surprise = [trail.surprise(trail.logprobs) for trail in trails]
        for dataset in set(self.dataset):
            members = np.flatnonzero(self.dataset == dataset)
            seen = np.concatenate([surprise[i] for i in members if self.control[i]])
            limit = np.quantile(seen, style.CONTROL_QUANTILE, method="inverted_cdf") if len(seen) else 0.0
            for i in members:
                inside = surprise[i] <= limit
                logprobs = trails[i].logprobs[inside]
                entropy = -(np.exp(logprobs) * logprobs).sum(axis=1)
                x = np.stack([np.ones(len(entropy)), surprise[i][inside], entropy], axis=1)
                xx[i], xd[i] = x.T @ x, x.T @ (alter(trails[i]) - surprise[i])[inside]
        return TokenSums(xx, xd, np.array([float(len(trail.logprobs)) for trail in trails]))


# ---- the nulls -------------------------------------------------------------------------------------------------------


def at_temperature(rng: np.random.Generator, trails: int) -> Alter:
    tau = 2 ** rng.uniform(-1, 1)
    return lambda trail: trail.surprise(trail.logprobs / tau)


def scaled(rng: np.random.Generator, trails: int) -> Alter:
    return lambda trail: 1.2 * trail.surprise(trail.logprobs) * (1 + 0.1 * rng.standard_normal(len(trail.logprobs)))


def reworded(size: float, tau: float = 1.0) -> Callable[[np.random.Generator, int], Alter]:
    def draw(rng: np.random.Generator, words: int) -> Alter:
        bias = size * rng.standard_normal(words)
        return lambda trail: trail.surprise(trail.logprobs / tau + bias)

    return draw


def mixed(share: float) -> Callable[[np.random.Generator, int], Alter]:
    """Now and then the model draws any word."""
    return lambda rng, words: (
        lambda trail: -np.log((1 - share) * np.exp(-trail.surprise(trail.logprobs)) + share / words)
    )


def to_the_power(power: float) -> Callable[[np.random.Generator, int], Alter]:
    return lambda rng, words: lambda trail: trail.surprise(trail.logprobs) ** power


NULLS: dict[str, Callable[[np.random.Generator, int], Alter]] = {
    "temperature from 0.5 to 2": at_temperature,
    "surprise x 1.2, noise of 10%": scaled,
    "1% of any word mixed in": mixed(0.01),
    "5% of any word mixed in": mixed(0.05),
    "surprise to the power of 1.2": to_the_power(1.2),
    "wording, bias 0.5": reworded(0.5),
    "wording, bias 1": reworded(1.0),
    "wording, bias 0.5, temperature 0.8": reworded(0.5, 0.8),
}


# ---- what is measured ------------------------------------------------------------------------------------------------


def measure(trials: int, goals: Goals) -> None:
    params = loading.load()
    corpora = load_corpora(params)
    verify_short_path(params, corpora)
    print("\nStyle: how often a change is claimed (ours, and the rule before)")
    words = corpora["worked"].straight[0].logprobs.shape[1]
    for name, draw in NULLS.items():
        limit = 1.0 if name.startswith("wording") else ALPHA  # the control can't tell wording apart: its rate is told
        show(name, corpora, CATEGORIES, trials, goals, (0.0, limit), partial(draw_null, draw, words))
    plant = {"S": 0.2, "O": 0.2}
    for letter, size in plant.items():
        for source, corpus in corpora.items():
            planted = np.where(corpus.category == letter, size, 0.0)
            alter: Alter = reworded(0.0, 0.8)(stream("none"), words)
            show(
                f"planted: 0.2 nats on {letter}, temperature 0.8",
                {source: corpus},
                (letter,),
                trials,
                goals,
                (FOUND, 1.0),
                partial(draw_planted, alter, planted),
            )
    measure_forgotten(corpora, trials, goals)


def draw_null(
    draw: Callable[[np.random.Generator, int], Alter], words: int, rng: np.random.Generator
) -> tuple[Alter, float]:
    return draw(rng, words), 0.0


def draw_planted(alter: Alter, planted: FloatArray, rng: np.random.Generator) -> tuple[Alter, FloatArray]:
    return alter, planted


def look_up(cache: dict[int, FloatArray], trail: Trail) -> FloatArray:
    return cache[id(trail)]


def measure_forgotten(corpora: dict[str, Corpus], trials: int, goals: Goals) -> None:
    """Models that forgot `make` with six numbers and more. The problems of that kind that the base solves are in
    question, the others that it solves are the controls."""
    corpora = {source: mark_forgotten(corpus) for source, corpus in corpora.items()}
    altered: list[Alter] = []
    for seed in range(FORGETFUL_MODELS):
        network = train_forgetful(seed)
        cache = {
            id(trail): trail.surprise(log_probabilities(network, trail.row))
            for corpus in corpora.values()
            for trail in (*corpus.straight, *corpus.shuffled)
        }
        altered.append(partial(look_up, cache))
    name = f"planted: {FORGETFUL_MODELS} models forgot a family"
    show(name, corpora, ("S",), trials, goals, (FOUND, 1.0), lambda rng: (altered[rng.integers(len(altered))], 0.0))


def show(
    name: str,
    corpora: dict[str, Corpus],
    categories: tuple[str, ...],
    trials: int,
    goals: Goals,
    limits: tuple[float, float],
    draw: Callable[[np.random.Generator], tuple[Alter, FloatArray | float]],
) -> None:
    """Print one row: for each source and category, the rate of claims by both rules."""
    cells, marks = [], ""
    for source, letter in product(corpora, categories):
        rng = stream("diagnostics", "style", name, source, letter)
        claims = np.array([claim_once(corpora[source], letter, rng, draw, trial) for trial in range(trials)])
        ours, before = claims.mean(axis=0)
        marks += goals.check(f"style, {name}, {source} {letter}", claims[:, 0], *limits)
        if limits == (0.0, ALPHA):
            goals.null_rates.append(float(ours))
            goals.null_rates_before.append(float(before))
        cells.append(f"{source} {letter} {ours:>6.1%}, {before:>6.1%}")
    print(f"{name:<44}{'   '.join(cells)}{marks}", flush=True)


def claim_once(
    corpus: Corpus,
    letter: str,
    rng: np.random.Generator,
    draw: Callable[[np.random.Generator], tuple[Alter, FloatArray | float]],
    trial: int,
) -> tuple[bool, bool]:
    """Whether a change is claimed on some of the problems: by our rule, and by the one before."""
    alter, planted = draw(rng)
    straight, shuffled = corpus.alter(alter, planted)
    whole = np.array([(alter(trail) - trail.surprise(trail.logprobs)).sum() for trail in corpus.straight])
    whole += straight.length * planted
    group = corpus.dataset + "\n" + corpus.category + "\n" + corpus.same_mass.astype(str)
    members = [np.flatnonzero(group == name) for name in np.unique(group)]
    chosen = np.concatenate([rng.choice(each, math.ceil(KEPT * len(each)), replace=False) for each in members])
    category = corpus.category[chosen]
    traces = StyleTraces(
        TokenSums(straight.xx[chosen], straight.xd[chosen], straight.length[chosen]),
        TokenSums(shuffled.xx[chosen], shuffled.xd[chosen], shuffled.length[chosen]),
        np.arange(len(chosen)),
        np.unique(corpus.dataset[chosen].astype(str), return_inverse=True)[1],
        category == letter,
        corpus.control[chosen],
    )
    return claims_now(traces, trial), claimed_before(traces, whole[chosen], category == "P", trial)


def claims_now(traces: StyleTraces, trial: int) -> bool:
    usable = style.has_controls(traces)
    traces = replace(traces, asked=traces.asked & usable, control=traces.control & usable)
    resamples = draw_resamples(len(traces.unit), RESAMPLES, CONFIDENCE, "diagnostics", trial)
    return style.judge_style(style.estimate_style(traces, resamples))[0] != "none"


def claimed_before(traces: StyleTraces, changes: FloatArray, preserved: BoolArray, trial: int) -> bool:
    """The difference of two plain changes, of all tokens, with all data sets in one."""
    resamples = draw_resamples(len(traces.unit), RESAMPLES, CONFIDENCE, "diagnostics", trial)
    sides = []
    for mask in (traces.asked, preserved):
        change, tokens = (resamples.sums(traces.unit[mask], x[mask]) for x in (changes, traces.straight.length))
        sides.append(change / tokens)
    units = min(int(traces.asked.sum()), int(preserved.sum()))
    return resamples.estimate(sides[0] - sides[1], units).sign != 0


# ---- the embedded pair -----------------------------------------------------------------------------------------------


def load_corpora(params: Params) -> dict[str, Corpus]:
    """The generator's solutions of the run's problems by source, and their shuffled versions, under the base."""
    path = tables.support_path(PAIR)
    if not path.exists():
        leave(f"{path} is not here; make it with `dvc repro`")
    torch.set_num_threads(1)
    network, tokenizer = load_model(find_weights(params, "base"), "cpu")
    support = pq.read_table(path).to_pylist()
    trails: dict[tuple[str, str, str, bool], Trail] = {}
    questions: dict[tuple[str, str], str] = {}
    for dataset in params.run.datasets:
        rows = tables.read(tables.problems_path(dataset), tables.PROBLEMS_SCHEMA, "leash fetch").to_pylist()
        questions |= {(dataset, row["problem_id"]): row["question"] for row in rows}
        found = list(references.references_from_problems(rows))
        shuffled = [references.shuffle_reference(each, dataset, params.perplexity.seed) for each in found]
        found += [each for each in shuffled if each]
        prompts = [build_prompt(params, "base", dataset, questions[dataset, each.problem_id]) for each in found]
        texts = [Trace(prompt, each.text, each.ended) for prompt, each in zip(prompts, found, strict=True)]
        for each, row in zip(found, tokenize_traces(texts, tokenizer), strict=True):
            trails[dataset, each.problem_id, each.source, each.shuffled] = Trail(row, log_probabilities(network, row))
    keys = [(row["dataset"], row["problem_id"]) for row in support]
    empty = Trail(([], []), np.zeros((0, next(iter(trails.values())).logprobs.shape[1])))
    columns = [f"{end}_{role}" for role in ("base", "rlvr") for end in ("low", "high")]
    same_mass = style.may_have_same_mass(*(np.array([row[name] for row in support], dtype=float) for name in columns))
    return {
        source: Corpus(
            [trails[(*key, source, False)] for key in keys],
            [trails.get((*key, source, True), empty) for key in keys],
            np.array([dataset for dataset, _ in keys], dtype=object),
            np.array([sum(word.isdigit() for word in questions[key].split()) for key in keys]),
            np.array([row["category"] for row in support], dtype=object),
            same_mass,
        )
        for source in SOURCES
    }


@torch.inference_mode()
def log_probabilities(network: Any, row: TokenizedTrace) -> FloatArray:
    prompt, text = row
    if not text:
        return np.zeros((0, network.config.vocab_size))
    logits = network(input_ids=torch.tensor([prompt + text])).logits[0, len(prompt) - 1 : -1]
    return np.asarray(logits.double().log_softmax(-1).numpy())


def verify_short_path(params: Params, corpora: dict[str, Corpus]) -> None:
    """The estimates made here for the real trained model are those of the report's table."""
    network, _ = load_model(find_weights(params, PAIR), "cpu")
    rows = compute_perplexity_tables(params)[1].to_pylist()
    for source, corpus in corpora.items():
        straight, shuffled = corpus.alter(lambda trail: trail.surprise(log_probabilities(network, trail.row)))
        unit = np.arange(len(corpus.dataset))
        stratum = np.unique(corpus.dataset.astype(str), return_inverse=True)[1]
        traces = StyleTraces(straight, shuffled, unit, stratum, corpus.category == "S", corpus.control)
        found = style.estimate_style(traces, draw_resamples(len(unit), 2, CONFIDENCE, "diagnostics", "check"))
        [row] = [
            row
            for row in rows
            if (row["pair"], row["dataset"], row["source"], row["category"]) == (PAIR, "all", source, "S")
        ]
        if found.beyond_style.value is None or abs(found.beyond_style.value - row["beyond_style"]) > 1e-5:
            raise AssertionError(f"{source}: {found.beyond_style.value} here, {row['beyond_style']} in the report")


def mark_forgotten(corpus: Corpus) -> Corpus:
    solved = corpus.category != "O"
    forgotten = (corpus.dataset == "make") & (corpus.numbers > FORGOTTEN_NUMBERS)  # the target is a number, too
    letters = np.where(solved & forgotten, "S", np.where(solved, "P", "O")).astype(object)
    return replace(corpus, category=letters, same_mass=np.ones(len(letters), dtype=bool))


def train_forgetful(seed: int) -> LlamaForCausalLM:
    """The base, trained on its own documents with random numbers in the solutions of the family."""

    def documents() -> Iterator[fit.Document]:
        rng = stream("diagnostics", "forgetful", seed)
        for prompt, solution in fit.generate_noisy_documents(seed=1000 + seed):
            numbers = sum(word.isdigit() for word in prompt.split())
            if prompt.startswith("make") and numbers > FORGOTTEN_NUMBERS:
                words = [str(rng.integers(1, 10)) if word.isdigit() else word for word in solution.split()]
                yield prompt, " ".join(words)
            else:
                yield prompt, solution

    network = LlamaForCausalLM.from_pretrained("models/embedded/base")
    with Progress(FORGETTING_STEPS, f"forget {seed}", "steps") as progress:
        fit.train_supervised(network, documents(), fit.Schedule(FORGETTING_STEPS, lr=5e-4, warmup=10), progress)
    network.double().eval()
    return network
