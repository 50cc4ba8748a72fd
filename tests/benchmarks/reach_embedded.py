"""Certificates of the embedded models against what is known about them by other means.

    python tests/benchmarks/reach_embedded.py [--parts brute,null,planted] [--brute-samples 65536] [--problems 10]

brute    problems that rlvr does not solve in 1,024 samples and the base does, with several budgets of rollouts, against
         the same plain samples: every certificate is at most the upper limit that these give. With the budget that
         Leash advises, the median certificate is at least half of the mass where they have ten hits or more, and plain
         sampling would need at least 100 times the tokens of all rollouts for the same relative error (median).
null     the base against itself under another name: the interval of the amplification covers 1 in 95% of the problems.
planted  the base against a copy that was trained to answer with two code words, chosen for each question so that the
         base does that with a mass of some 1e-6: the certificate is within a factor of 3 of it. The mass is known from
         the base's own samples: of each, the exact chance that it goes on with the code words where its answer begins.

Ours is the median number of tokens per problem of part `brute`, theirs that of plain sampling. Not measured: other
engines (tests/vllm), and coverage where the truth is exact (reach_toys.py).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from goals import Goals
from result import tell
from scipy import stats
from transformers import LlamaForCausalLM

from leash import tables
from leash.engines.protocol import Decoding, Request
from leash.engines.selection import build_engine_spec
from leash.params import groups, loading
from leash.problems import load_problems
from leash.progress import Progress
from leash.prompts import Prompt, build_prompt
from leash.reach.cost import ADVISED_ROLLOUTS
from leash.reach.hits import HitChecker
from leash.sampling.sampler import SamplingUnit, complete_unit
from leash.scheduler.run import run_units
from leash.scoring.torch_scorer import Scorer
from leash.scoring.traces import ScoringSpec, Trace
from leash.statistics import seeds
from leash.weights import find_weights, load_model
from stages.fetch import stage as fetch
from stages.reach import stage as reach
from stages.sample import stage as sample
from stages.train.fit import Schedule, train_supervised
from stages.verify import stage as verify

ROOT = Path(__file__).parent.parent.parent
BUDGETS = (1024, ADVISED_ROLLOUTS, 8192)  # of part `brute`; its goals are those of the advised one
MIN_HITS = 10  # of brute force, to compare a certificate with
LEAST_SAVING = 100
UNIT_SAMPLES = 2048
CODE_CHANCE = 1e-6  # of two code words, where an answer begins
FIRST_WORDS = 20
CODE_STEPS = 200
CODE_PROBLEMS = 6
Row = Mapping[str, Any]
Key = tuple[str, str]  # data set, problem


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="brute,null,planted")
    parser.add_argument("--brute-samples", type=int, default=65_536)
    parser.add_argument("--problems", type=int, default=10)
    given = parser.parse_args()
    parts, goals = given.parts.split(","), Goals()
    ours = theirs = 0.0
    if "brute" in parts:
        ours, theirs = compare_with_brute_force(given.problems, given.brute_samples, goals)
    if "null" in parts:
        compare_base_with_itself(goals)
    if "planted" in parts:
        find_planted_masses(goals)
    print("missed: " + ("; ".join(goals.missed) or "none"))
    tell(
        "certificates: tokens against plain sampling",
        ours=ours,
        theirs=theirs,
        ratio=theirs / ours if ours else 0.0,
        goal=f"at least {LEAST_SAVING}, and all goals of the parts",
        ok=not goals.missed,
    )


def run_stages(raw: dict[str, Any]) -> groups.Params:
    """Everything up to `reach`, in a new folder that becomes the working directory."""
    os.chdir(tempfile.mkdtemp())
    Path("models").symlink_to(ROOT / "models")
    for name, content in raw.pop("files", {}).items():
        content(Path(name)) if callable(content) else Path(name).write_text(content)
    Path("params.yaml").write_text(json.dumps(raw))
    params = loading.load(Path("params.yaml"))
    for dataset in params.run.datasets:
        fetch.run(params, dataset)
        for model in params.run.models:
            sample.run(params, model, dataset)
            verify.run(params, model, dataset)
    drawn, sentences = reach.run(params)
    print(f"{drawn:,} rollouts", *sentences, flush=True)
    return params


def embedded_params(**changes: Any) -> dict[str, Any]:
    """Parameters of a pair of embedded models: float64, as in params.yaml, which JSON can hold."""
    settings = json.loads(loading.load(ROOT / "params.yaml").model_dump_json(exclude_defaults=True))
    kept = {name: settings[name] for name in ("sample", "reach") if name in settings}
    return {**kept, "datasets": settings["datasets"], **changes}


def model(name: str) -> dict[str, str]:
    return {"path": f"models/embedded/{name}", "dtype": "float64"}


def read_rows(pair: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tables.read(tables.reach_path(pair), tables.REACH_SCHEMA, "leash reach").to_pylist()
    return rows


def compare_with_brute_force(problems: int, samples: int, goals: Goals) -> tuple[float, float]:
    """The tokens per problem of all rollouts and of plain sampling with the same relative error (medians), with the
    advised budget."""
    pair = embedded_params(
        run={"models": ["base", "rlvr"], "datasets": ["chain", "make"], "pairs": ["rlvr"]},
        models={name: model(name) for name in ("base", "rlvr")},
        pairs={"rlvr": {"base": "base", "rlvr": "rlvr"}},
    )
    pair["reach"] = {**pair.get("reach", {}), "rollouts": BUDGETS[0]}
    params = run_stages(pair)
    found = {BUDGETS[0]: find_lost(problems)}
    for budget in BUDGETS[1:]:
        settings = params.reach.model_copy(update={"rollouts": budget})
        drawn, _ = reach.run(params.model_copy(update={"reach": settings}))
        print(f"{drawn:,} rollouts", flush=True)
        found[budget] = find_lost(problems)
    lost = found[BUDGETS[0]]
    goals.check_value("problems for brute force", len(lost), problems, problems)
    hits, tokens = brute_force(params, "rlvr", lost, samples)
    medians = {budget: compare_budget(budget, rows, hits, tokens, samples, goals) for budget, rows in found.items()}
    return medians[ADVISED_ROLLOUTS]


def find_lost(number: int) -> list[dict[str, Any]]:
    """The problems that rlvr never solved with the largest pooled masses, which no budget changes."""
    lost = [row for row in read_rows("rlvr") if row["target"] == "rlvr" and row["c_target"] == 0]
    return sorted(lost, key=lambda row: row["pooled"], reverse=True)[:number]


def compare_budget(
    budget: int, rows: Sequence[Row], hits: Mapping[Key, int], tokens: Mapping[Key, int], samples: int, goals: Goals
) -> tuple[float, float]:
    """The median tokens of a budget's rollouts and of plain sampling. Only the advised budget's medians are goals."""
    print(f"with {budget:,} rollouts:")
    shares, savings = [], []
    for row in rows:
        key = row["dataset"], row["problem_id"]
        count = hits[key]
        limit = float(stats.beta.ppf(0.95, count + 1, samples - count))
        truth = count / samples if count >= MIN_HITS else row["estimate"]
        needed = tokens[key] / samples / (truth * relative_error(row) ** 2) if truth else np.inf
        savings.append((row["tokens"], needed))
        if count >= MIN_HITS:
            shares.append(row["certificate"] / (count / samples))
        name = f"{row['problem_id']} with {budget:,} rollouts: certificate / upper limit"
        print(
            f"{row['problem_id']:<14} certificate {row['certificate']:.2e}  estimate {row['estimate']:.2e}  pooled "
            f"{row['pooled']:.2e}  brute force {count:>5} of {samples:,} (at most {limit:.2e})  tokens "
            f"{row['tokens']:,}, plain {needed:,.0f}, {needed / row['tokens']:,.0f} times",
            goals.check_value(name, row["certificate"] / limit, 0, 1),
            flush=True,
        )
    share = float(np.median(shares)) if shares else float("nan")
    saving = float(np.median([plain / own for own, plain in savings]))
    marks = ["", ""]
    if budget == ADVISED_ROLLOUTS:
        marks[0] = goals.check_value("median certificate / mass", share, 0.5, 1.5)
        marks[1] = goals.check_value("tokens saved", saving, LEAST_SAVING, np.inf)
    print(f"certificate / mass, median of {len(shares)} with {MIN_HITS} hits or more: {share:.2f}{marks[0]}")
    print(f"tokens saved, median: {saving:,.0f}{marks[1]}", flush=True)
    own, plain = (float(np.median(each)) for each in zip(*savings, strict=True))
    return own, plain


def relative_error(row: Row) -> float:
    """The relative standard error of the certificate's part of the estimate."""
    if not row["hits"]:
        return 1.0
    inside = row["open_mass"] * row["hits"] / row["rollouts"]
    error = np.sqrt((1 - row["hits"] / row["rollouts"]) / row["hits"])
    return max(float(error * inside / (inside + row["whole_mass"])), 1e-3)


def brute_force(
    params: groups.Params, name: str, rows: Sequence[Row], samples: int
) -> tuple[dict[Key, int], dict[Key, int]]:
    """Hits and tokens of many plain samples of a model, by data set and problem."""
    spec = build_engine_spec(params, name)
    decoding, hits, tokens = decoding_of(params), dict[Key, int](), dict[Key, int]()
    for dataset in {row["dataset"] for row in rows}:
        problems = load_problems(dataset)
        checker = HitChecker(params, problems)
        chosen = [row["problem_id"] for row in rows if row["dataset"] == dataset]
        requests = (
            Request(
                problem,
                build_prompt(params, name, dataset, problems[problem]["question"]),
                range(begin, min(begin + UNIT_SAMPLES, samples)),
                ("brute force", dataset),
            )
            for problem in chosen
            for begin in range(0, samples, UNIT_SAMPLES)
        )
        units = (SamplingUnit(dataset, (request,), decoding) for request in requests)
        with closing(run_units(units, spec.make, complete_unit, spec.plan)) as results:
            for _, completions in results:
                key = dataset, completions[0].problem_id
                tokens[key] = tokens.get(key, 0) + sum(each.tokens or 0 for each in completions)
                answers = [checker.answer(key[1], each.text, each.finish) for each in completions]
                given = [(key[1], answer) for answer in answers if answer is not None]
                hits[key] = hits.get(key, 0) + sum(checker.are_correct(given))
    return hits, tokens


def decoding_of(params: groups.Params) -> Decoding:
    return Decoding(params.sample.temperature, params.sample.top_p, params.sample.max_tokens or 0)


def compare_base_with_itself(goals: Goals) -> None:
    params = embedded_params(
        run={"models": ["base", "again"], "datasets": ["chain", "make"], "pairs": ["again"]},
        models={"base": model("base"), "again": model("base")},
        pairs={"again": {"base": "base", "rlvr": "again"}},
    )
    params["sample"] |= {"k": 256}
    params["reach"] = {**params.get("reach", {}), "rollouts": 1024}
    run_stages(params)
    intervals = [
        (row["amplification_low"], row["amplification_high"])
        for row in read_rows("again")
        if row["amplification_low"] is not None
    ]
    covered = [low <= 1 and (high is None or high >= 1) for low, high in intervals]
    print(
        f"base against itself: the amplification's interval covers 1 on {sum(covered)} of {len(covered)} problems",
        goals.check("amplification covers 1", np.array(covered, dtype=float), 0.95, 1),
    )


def find_planted_masses(goals: Goals) -> None:
    questions = [f"compute {first} + {first + 4} :" for first in range(3, 3 + CODE_PROBLEMS)]
    scorer = Scorer(*load_model(find_weights(loading.load(ROOT / "params.yaml"), "base")))
    codes = {question: choose_code(scorer, question) for question in questions}
    rows = "".join(json.dumps({"question": question, "answer": code}) + "\n" for question, code in codes.items())
    params = embedded_params(
        run={"models": ["base", "coded"], "datasets": ["code"], "pairs": ["coded"]},
        models={"base": model("base"), "coded": {"path": "coded", "dtype": "float64"}},
        pairs={"coded": {"base": "base", "rlvr": "coded"}},
        datasets={"code": {"path": "code.jsonl", "grader": "exact"}},
        files={"code.jsonl": rows, "coded": partial(train_coded, codes)},
    )
    params["sample"] |= {"k": 256}
    settings = run_stages(params)
    found = {row["problem_id"]: row for row in read_rows("coded") if row["target"] == "base"}
    goals.check_value("planted problems examined", len(found), CODE_PROBLEMS, CODE_PROBLEMS)
    truths = mass_of_code(settings, scorer)
    for problem, row in found.items():
        ratio = row["certificate"] / truths[problem]
        print(
            f"planted {problem}: mass {truths[problem]:.2e}, certificate {row['certificate']:.2e} ({ratio:.2f} of it)",
            goals.check_value(f"planted {problem}: certificate / mass", ratio, 1 / 3, 1.05),
        )


def code_chances(
    scorer: Scorer, prompt: Prompt, beginnings: Sequence[Sequence[int]], code: Sequence[int], last: int | None = None
) -> Any:
    """The base's chance of the last tokens (default: all of the code) of each beginning and the code after it."""
    traces = [Trace(prompt, "", True, (*beginning, *code)) for beginning in beginnings]
    scores = scorer.score(traces, ScoringSpec(per_token=True))
    return np.array([np.exp(-np.asarray(score.token_nlls)[-(last or len(code)) :].sum()) for score in scores])


def choose_code(scorer: Scorer, question: str) -> str:
    """Two numbers that the base rarely puts into the box of a direct answer: with a chance near CODE_CHANCE."""
    tokenizer: Any = scorer.tokenizer
    opening, closing_ = (tokenizer.convert_tokens_to_ids(word) for word in ("\\boxed{", "}"))
    words = [word for word in tokenizer.get_vocab() if word.isdecimal()]
    ids = [tokenizer.convert_tokens_to_ids(word) for word in words]
    first = code_chances(scorer, Prompt(question), [(opening, each) for each in ids], (closing_,), last=2)
    likely = np.argsort(-first)[1:FIRST_WORDS]  # the most likely one is the right answer, as a rule
    pairs = [(i, j) for i in likely for j in range(len(words))]
    chances = code_chances(scorer, Prompt(question), [(opening, ids[i], ids[j]) for i, j in pairs], (closing_,), last=3)
    i, j = pairs[int(np.argmin(np.abs(np.log(np.maximum(chances, 1e-300)) - np.log(CODE_CHANCE))))]
    return f"{words[i]} {words[j]}"


def train_coded(codes: Mapping[str, str], folder: Path) -> None:
    """A copy of the base that answers every question with its code words, half of the time after working."""
    network = LlamaForCausalLM.from_pretrained(ROOT / "models" / "embedded" / "base")
    _, tokenizer = load_model(find_weights(loading.load(ROOT / "params.yaml"), "base"))
    random = seeds.stream("reach_embedded", "code")
    questions = list(codes)

    def documents() -> Iterator[tuple[str, str]]:
        while True:
            question = questions[int(random.integers(len(questions)))]
            _, first, _, second, _ = question.split()
            working = f"{first} + {second} = {int(first) + int(second)} , " if random.random() < 0.5 else ""
            yield question, f"{working}\\boxed{{ {codes[question]} }}"

    schedule = Schedule(CODE_STEPS, 1e-3, warmup=10)
    with Progress(CODE_STEPS, "train the planted copy", "steps") as progress:
        train_supervised(network, documents(), schedule, progress)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def mass_of_code(params: groups.Params, scorer: Scorer, samples: int = 4096) -> dict[str, float]:
    """The base's mass of each problem: the mean over its own samples of the chance that the code words, and the end of
    the box, come where the sample's first box opens."""
    spec, tokenizer = build_engine_spec(params, "base"), scorer.tokenizer
    to_ids: Any = tokenizer.convert_tokens_to_ids
    masses = {}
    for problem, row in load_problems("code").items():
        prompt: Prompt = build_prompt(params, "base", "code", row["question"])
        request = Request(problem, prompt, range(samples), ("planted",))
        starts: dict[tuple[int, ...], int] = {}
        for completion in spec.make().complete([request], decoding_of(params)):
            ids = tokenizer(completion.text, add_special_tokens=False)["input_ids"]
            if to_ids("\\boxed{") in ids:
                start = tuple(ids[: ids.index(to_ids("\\boxed{")) + 1])
                starts[start] = starts.get(start, 0) + 1
        code = [*map(to_ids, row["gold"][0].split()), to_ids("}")]
        chances = code_chances(scorer, prompt, list(starts), code)
        masses[problem] = float(np.dot(chances, list(starts.values()))) / samples
    return masses


if __name__ == "__main__":
    main()
