"""This run: what its models, data sets and cluster need, and whether it is here.

The code that will use a thing is asked for it (engines, weights, graders, the budget of the judge), so that doctor
refuses what the stages would refuse, in their own words. All checks run, so that one pass shows everything that is
missing. No weights are loaded, and nothing is downloaded or written; the hub is only asked whether it answers, and only
if this run must download something.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from huggingface_hub import constants, try_to_load_from_cache

from stages import fetch, hints, models, prompts, sample, tables
from stages.doctor import Line
from stages.doctor.machine import installed, vllm_build
from stages.errors import LeashError, first_line
from stages.fetch import GYM, benchmark_of, embedded, source
from stages.params import EMBEDDED, Judge, OpenAI, Params
from stages.perplexity import references
from stages.safety import refuse_strange_graders
from stages.sample import elsewhere, engines, plan
from stages.verify import graders

ASKS_FOR_A_KEY = "api.openai.com"  # others may be one's own, and ask for none
HUB_TIMEOUT_S = 5.0

Check = Callable[[], str | None]


def needs(params: Params) -> list[Line]:
    lines: list[Line] = []
    remotes = elsewhere.remotes() if elsewhere.LOCK.exists() else []
    for name in params.run.models:
        lines += _lines(name, partial(_model, params, name), *_model_checks(params, name, remotes))
    for name in params.run.datasets:
        lines += _lines(name, partial(_dataset, params, name), *_dataset_checks(params, name))
    for place in _scored_by_vllm(params):
        lines += _lines(place, partial(_vllm, params, place))
    if params.perplexity.traces:
        lines += _lines("traces", partial(_traces, params))
    if params.run.on == "ray":
        lines += _lines("run.on", _ray)
    return [*lines, *_hub(params)]


def _lines(what: str, *checks: Check) -> list[Line]:
    """One line for each thing that a check refuses; if none does, one line that says what was found."""
    found, refused = [], []
    for check in checks:
        try:
            if said := check():
                found.append(said)
        except LeashError as error:
            refused.append(str(error))
        except ImportError as error:
            refused.append(f"A package that Leash needs cannot be imported ({error}); run {hints.install()}.")
    if refused:
        return [Line("missing", what, said) for said in dict.fromkeys(refused)]
    return [Line("ok", what, ", ".join(found))]


def _model(params: Params, name: str) -> str:
    """Which engine samples a model."""
    engine = engines.chosen(params, name)
    if engine == "import":
        return _imported(params, name)
    label = engines.kind_of(params, name).label
    return f"{label} (auto)" if params.engine(name) == "auto" else label


def _model_checks(params: Params, name: str, remotes: Sequence[str]) -> Iterator[Check]:
    """What else a model needs: its weights, a build of vLLM that runs here, images it can see, samples of its own."""
    engine, named = engines.chosen(params, name), params.models[name]
    if engine == "openai":
        served = named.served or named.hub or named.path or ""
        yield lambda: served
        yield partial(_key, "sample.openai", params.sample.openai)
    elif models.has_weights(params, name):
        yield partial(_weights, params, name)
    if engine == "vllm":
        yield partial(_vllm_build_fits, params, f"models.{name}.engine" if named.engine else "sample.engine")
    if engine != "import":
        for dataset in params.run.datasets:
            yield partial(_images, params, name, dataset, engine)
            yield partial(_samples, params, name, dataset)
            yield partial(elsewhere.refuse, name, dataset, remotes)


def _weights(params: Params, name: str) -> str:
    held, path = models.weights(params, name), params.models[name].path
    if path:
        return path
    if _downloaded(held):
        return f"{held.source}, downloaded before"
    if constants.HF_HUB_OFFLINE:
        raise LeashError(
            f"The weights of {name} ({held.source}) were never downloaded, and HF_HUB_OFFLINE is set; unset it, or get "
            f"them with `hf download {held.source}` where there is a network."
        )
    return f"{held.source}, to be downloaded"


def _downloaded(held: models.Weights) -> bool:
    return isinstance(try_to_load_from_cache(held.source, "config.json", revision=held.revision), str)


def _imported(params: Params, name: str) -> str:
    for dataset in params.run.datasets:
        if not tables.shards(tables.completions_folder(name, dataset)):
            raise LeashError(
                f"The engine of {name} is import, but there are no completions of it on {dataset}; bring them in with "
                f"`leash import FILE --model {name} --dataset {dataset}`."
            )
    return "completions imported"


def _images(params: Params, model: str, dataset: str, engine: str) -> None:
    if fetch.has_images(dataset, params.datasets[dataset]):
        prompts.refuse_images(params, model, dataset, engine)


def _samples(params: Params, model: str, dataset: str) -> None:
    if tables.problems_path(dataset).exists():
        sample.refuse_other_samples(params, model, dataset)


def _vllm(params: Params, place: str) -> str:
    """vLLM has a build for GPUs and one for CPUs. On a cluster the GPUs are those of the nodes, not of this machine."""
    found, for_cpus = vllm_build()
    gpu = params.run.on == "ray" or models.has_gpu()
    if found is None:
        seen = "" if gpu else " (no GPU is seen here)"
        raise LeashError(
            f"`{place}` is vllm, which is not installed{seen}; install it with {hints.install_vllm(gpu)}, or set it to "
            f"torch."
        )
    if not (gpu or for_cpus):
        raise LeashError(
            f"`{place}` is vllm, but vLLM {found} is its build for GPUs, and none is seen; set it to torch, or use "
            f"{hints.install_vllm(gpu)}."
        )
    return f"vllm {found}"


def _vllm_build_fits(params: Params, place: str) -> None:
    if vllm_build()[0] is not None:  # else `_model` says that it is not installed
        _vllm(params, place)


def _scored_by_vllm(params: Params) -> Iterator[str]:
    if params.perplexity.engine == "vllm":
        yield "perplexity.engine"
    if params.mass.engine == "vllm" and "completion" in params.categorize.units:
        yield "mass.engine"


def _traces(params: Params) -> str:
    files = references.files(params)
    return f"{len(files)} file{'' if len(files) == 1 else 's'} in {params.perplexity.traces}"


def _ray() -> str:
    if found := installed("ray"):
        return f"ray {found}; `leash doctor --start` asks whether its cluster is up"
    raise LeashError(f"`run.on` is ray, but Ray is not installed; install it with {hints.install('ray')}.")


def _dataset(params: Params, name: str) -> str:
    """Who grades a data set, and whether they can."""
    names = graders.ready(_graders(params, name))
    if "gym" in names:
        from stages.verify.graders.gym import library

        library()
    return f"graded by {', '.join(names)}"


def _dataset_checks(params: Params, name: str) -> Iterator[Check]:
    yield partial(_problems, params, name)
    try:
        names = _graders(params, name)
    except LeashError:
        return  # said by `_dataset`
    yield lambda: sample.refuse_paid_graders(params, name, names)
    if "judge" in names:
        yield partial(_judge, params, name)
        yield partial(_key, "verify.judge", params.verify.judge)


def _graders(params: Params, name: str) -> set[str]:
    """Its graders, before its problems are there; but those of imported problems may be in their table alone."""
    dataset = params.datasets[name]
    if dataset.family in EMBEDDED:
        return {embedded.GRADERS[dataset.family]}
    if dataset.family == GYM:
        return {"gym"}
    if not dataset.imported:
        return {dataset.grader or benchmark_of(name, dataset).grader}
    made_by = f"leash import FILE --model MODEL --dataset {name}"
    table = tables.opened(tables.problems_path(name), tables.PROBLEMS, made_by).read(columns=["grader"])
    named = {dataset.grader} if dataset.grader else set(table["grader"].to_pylist())
    refuse_strange_graders(params, name, named)
    return named


def _problems(params: Params, name: str) -> str | None:
    """Read or generate the problems as `leash fetch` would, unless that takes the network; but write nothing."""
    dataset = params.datasets[name]
    if tables.problems_path(name).exists():
        return None
    if not fetch.is_on_hub(dataset):
        return f"{len(fetch.problems(params, name).rows):,} problems"
    if not constants.HF_HUB_OFFLINE:
        return "to be downloaded"
    benchmark = benchmark_of(name, dataset)
    source.find(name, dataset, dataset.hub or benchmark.hub, (dataset.files,) if dataset.files else benchmark.files)
    return "downloaded before"


def _judge(params: Params, dataset: str) -> str:
    """The judge's prompt must be readable, and its budget must allow at least one answer to each problem."""
    if not installed("openai"):
        raise LeashError(
            f"The grader `judge` asks a server through the package openai, which is not installed; install it with "
            f"{hints.install('openai')}."
        )
    from stages.verify.graders import judge

    judge.refuse_budget(params.verify.judge, plan.known_problems(params, dataset).count)
    return params.verify.judge.model


def _key(place: str, server: OpenAI | Judge) -> str:
    """Whether the variable that is to hold a server's key holds something; never what."""
    if os.environ.get(server.key, "").strip():
        return f"{server.key} is set"
    if urlsplit(server.url).hostname == ASKS_FOR_A_KEY:
        raise LeashError(
            f"The server of `{place}.url` asks for a key, and the environment variable {server.key} is not set; set it "
            f"with `export {server.key}=…`."
        )
    return f"{server.key} is not set, which a server of your own may not mind"


def _hub(params: Params) -> list[Line]:
    """Whether the hub answers, if this run must download from it."""
    wanted = downloads(params)
    if not wanted or constants.HF_HUB_OFFLINE:
        return []
    place, names = constants.ENDPOINT, ", ".join(wanted)
    fault = unreachable(place)
    if fault is None:
        return [Line("ok", "hub", f"{place} answers; to be downloaded: {names}")]
    said = (
        f"{place} does not answer ({fault}), and this run must download {names}. Go online, set HF_ENDPOINT to a "
        f"mirror, or download them elsewhere and name their folders by `path`."
    )
    return [Line("missing", "hub", said)]


def downloads(params: Params) -> list[str]:
    """The models and data sets of the run that are still on the hub."""
    local = [name for name in params.run.models if engines.chosen(params, name) not in ("openai", "import")]
    weights = (models.weights(params, name) for name in local if params.models[name].hub)
    problems = (name for name in params.run.datasets if fetch.is_on_hub(params.datasets[name]))
    return [
        *(held.name for held in weights if not _downloaded(held)),
        *(name for name in problems if not tables.problems_path(name).exists()),
    ]


def unreachable(place: str) -> str | None:
    """Why nobody answers at an address within a few seconds; None if somebody does, whatever the answer."""
    faults: SimpleQueue[str | None] = SimpleQueue()
    # In a thread, because the timeout of a connection bounds neither the name lookup nor all addresses together.
    threading.Thread(target=lambda: faults.put(_head(place)), daemon=True).start()
    try:
        return faults.get(timeout=HUB_TIMEOUT_S)
    except Empty:
        return f"no answer within {HUB_TIMEOUT_S:.0f} s"


def _head(place: str) -> str | None:
    try:
        urlopen(Request(place, method="HEAD"), timeout=HUB_TIMEOUT_S).close()
    except HTTPError as error:  # an answer, unless it is that of a proxy or of a server that is down
        return f"{error.code} {error.reason}" if error.code in (407, 502, 503, 504) else None
    except URLError as error:
        return getattr(error.reason, "strerror", None) or str(error.reason)
    except (OSError, ValueError) as error:
        return first_line(error)
    return None
