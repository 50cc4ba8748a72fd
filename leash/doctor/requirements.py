"""What this run needs (models, data sets, cluster), and whether this machine has it.

Each check calls the code that will use the thing later (engines, weights, graders, the judge's budget), so that doctor
refuses what the stages would refuse, with the same errors. All checks run, so one pass reports everything that is
missing. No weights are loaded, and nothing is downloaded or written.
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

from huggingface_hub import constants

from leash import dvc_samples, prompts, tables, weights
from leash.datasets import embedded, loading, source_files
from leash.doctor.capacity import find_download
from leash.doctor.lines import Line
from leash.doctor.machine import installed_version, vllm_build
from leash.engines import selection
from leash.errors import LeashError, NotInstalledError, first_line
from leash.formatting import pluralize
from leash.grading.graders import registry
from leash.importing.importer import MissingImportError
from leash.install_hints import install_command, install_vllm_command
from leash.params.groups import EMBEDDED_FAMILIES, Judge, OpenAI, Params, Reasoning
from leash.params.security import refuse_unlisted_graders
from leash.sampling import cost_estimate, sampler
from leash.scoring import references

KEY_REQUIRED_HOST = "api.openai.com"  # other servers may need no key
HUB_TIMEOUT_S = 5.0

Check = Callable[[], str | None]


def check_requirements(params: Params) -> list[Line]:
    lines: list[Line] = []
    remotes = dvc_samples.list_remotes() if dvc_samples.DVC_LOCK_PATH.exists() else []
    for model in params.run.models:
        lines += _run_checks(model, *_model_checks(params, model, remotes))
    for dataset in params.run.datasets:
        lines += _run_checks(dataset, *_dataset_checks(params, dataset))
    if params.perplexity.engine == "vllm":
        lines += _run_checks("perplexity.engine", partial(_check_vllm, params, "perplexity.engine"))
    if params.mass.engine == "vllm" and "completion" in params.categorize.units:
        lines += _run_checks("mass.engine", partial(_check_vllm, params, "mass.engine"))
    if params.reach.engine == "vllm" and params.reach.rollouts:
        lines += _run_checks("reach.engine", partial(_check_vllm, params, "reach.engine"))
    if traces := params.perplexity.traces:
        lines += _run_checks(
            "traces", lambda: f"{pluralize(len(references.list_trace_files(params)), 'file')} in {traces}"
        )
    if params.reasoning.judge is not None:
        key = partial(_check_api_key, "reasoning", params.reasoning)
        lines += _run_checks("reasoning", partial(_check_reasoning, params.reasoning), key)
    if params.run.on == "ray":
        lines += _run_checks("run.on", _check_ray)
    return [*lines, *_check_hub(params)]


def _run_checks(subject: str, *checks: Check) -> list[Line]:
    """One `missing` line per check that raises; if none does, one `ok` line with the answers of all."""
    answers, faults = [], []
    for check in checks:
        try:
            if answer := check():
                answers.append(answer)
        except LeashError as error:
            faults.append(str(error))
        except ImportError as error:
            faults.append(f"A package that Leash needs cannot be imported ({error}); run {install_command()}.")
    missing = [Line("missing", subject, fault) for fault in dict.fromkeys(faults)]
    return missing or [Line("ok", subject, ", ".join(answers))]


def _model_checks(params: Params, model: str, remotes: Sequence[str]) -> Iterator[Check]:
    """A model needs an engine, its weights, images that it can see, and no samples of other parameters."""
    engine, entry = selection.choose_engine(params, model), params.models[model]
    if engine == "import":
        yield partial(_check_imported, params, model)
        if weights.has_weights(params, model):
            yield partial(_check_weights, params, model)
        return
    auto = " (auto)" if params.engine(model) == "auto" else ""
    yield lambda: selection.build_engine_spec(params, model).label + auto
    if engine == "openai":
        yield lambda: entry.served or entry.hub or entry.path or ""
        yield partial(_check_api_key, "sample.openai", params.sample.openai)
    elif weights.has_weights(params, model):
        yield partial(_check_weights, params, model)
    if engine == "vllm" and vllm_build()[0] is not None:  # else build_engine_spec reports that it is not installed
        param = f"models.{model}.engine" if entry.engine else "sample.engine"
        yield lambda: _check_vllm(params, param) and None
    for dataset in params.run.datasets:
        yield partial(_check_images, params, model, dataset, engine)
        if tables.problems_path(dataset).exists():
            yield partial(sampler.refuse_other_samples, params, model, dataset)
        yield partial(dvc_samples.require_pulled_samples, model, dataset, remotes)


def _check_imported(params: Params, model: str) -> str:
    for dataset in params.run.datasets:
        if not tables.shards(tables.completions_folder(model, dataset)):
            raise MissingImportError(model, dataset)
    return "completions imported"


def _check_weights(params: Params, model: str) -> str:
    model_weights, path = weights.find_weights(params, model), params.models[model].path
    if path:
        return path
    if find_download(model_weights):
        return f"{model_weights.source}, downloaded before"
    if constants.HF_HUB_OFFLINE:
        fault = f"The weights of {model} ({model_weights.source}) were never downloaded, and HF_HUB_OFFLINE is set"
        remedy = f"unset it, or get them with `hf download {model_weights.source}` on a machine with a network"
        raise LeashError(f"{fault}; {remedy}.")
    return f"{model_weights.source}, to be downloaded"


def _check_images(params: Params, model: str, dataset: str, engine: str) -> None:
    if loading.has_images(dataset, params.datasets[dataset]):
        prompts.refuse_images(params, model, dataset, engine)


def _check_vllm(params: Params, param: str) -> str:
    """vLLM has a build for GPUs and one for CPUs. On a cluster the GPUs are those of the nodes, not of this machine."""
    version, for_cpus = vllm_build()
    gpu = params.run.on == "ray" or weights.has_gpu()
    if version is None:
        raise NotInstalledError("vLLM", install_vllm_command(gpu), f"set `{param}` to torch")
    if not (gpu or for_cpus):
        fault = f"`{param}` is vllm, but vLLM {version} is the build for GPUs and there is no GPU"
        raise LeashError(f"{fault}; set it to torch, or use {install_vllm_command(gpu=False)}.")
    return f"vllm {version}"


def _check_api_key(param: str, server: OpenAI | Judge | Reasoning) -> str:
    """Whether the variable for a server's key is set; its value is never read out."""
    if os.environ.get(server.key, "").strip():
        return f"{server.key} is set"
    if urlsplit(server.url).hostname == KEY_REQUIRED_HOST:
        fault = f"The server of `{param}.url` needs a key, but the environment variable {server.key} is not set"
        raise LeashError(f"{fault}; set it with `export {server.key}=…`.")
    return f"{server.key} is not set, which your own server may not need"


def _check_ray() -> str:
    if version := installed_version("ray"):
        return f"ray {version}; `leash doctor --start` checks whether its cluster is up"
    raise NotInstalledError("Ray", install_command("ray"), "set `run.on` to local")


def _dataset_checks(params: Params, name: str) -> Iterator[Check]:
    """A data set needs graders that work here, problems, and a judge that can be paid."""
    yield partial(_check_graders, params, name)
    yield partial(_check_problems, params, name)
    try:
        graders = _grader_names(params, name)
    except LeashError:
        return  # _check_graders reports it
    yield lambda: sampler.refuse_paid_graders(params, name, graders)
    if "judge" in graders:
        yield partial(_check_judge, params, name)
        yield partial(_check_api_key, "verify.judge", params.verify.judge)


def _grader_names(params: Params, name: str) -> set[str]:
    """The graders of a data set, which are known before its problems are fetched, unless these were imported."""
    dataset = params.datasets[name]
    if dataset.family in EMBEDDED_FAMILIES:
        return {embedded.GRADERS[dataset.family]}
    if dataset.family == loading.GYM_FAMILY:
        return {"gym"}
    if not dataset.imported:
        return {dataset.grader or loading.benchmark_of(name, dataset).grader}
    table = tables.open_table(tables.problems_path(name), tables.PROBLEMS_SCHEMA, loading.import_command(name))
    graders = {dataset.grader} if dataset.grader else set(table.read(columns=["grader"])["grader"].to_pylist())
    refuse_unlisted_graders(params, name, graders)
    return graders


def _check_graders(params: Params, name: str) -> str:
    graders = registry.require_graders(_grader_names(params, name))
    if "gym" in graders:
        from leash.grading.graders.gym import import_reasoning_gym

        import_reasoning_gym()
    return f"graded by {', '.join(graders)}"


def _check_problems(params: Params, name: str) -> str | None:
    """Load the problems as `leash fetch` would, unless that needs the network."""
    dataset = params.datasets[name]
    if tables.problems_path(name).exists():
        return None
    if not loading.is_on_hub(dataset):
        return f"{len(loading.load_problems(params, name).rows):,} problems"
    if not constants.HF_HUB_OFFLINE:
        return "to be downloaded"
    benchmark = loading.benchmark_of(name, dataset)
    patterns = (dataset.files,) if dataset.files else benchmark.files
    source_files.find_source(name, dataset, dataset.hub or benchmark.hub, patterns)
    return "downloaded before"


def _check_judge(params: Params, dataset: str) -> str:
    """The judge's prompt must be readable, and its budget must cover one answer per problem."""
    if not installed_version("openai"):
        raise NotInstalledError("The package openai, which the grader `judge` needs,", install_command("openai"))
    from leash.grading.graders import judge

    judge.refuse_budget(params.verify.judge, cost_estimate.load_problems_offline(params, dataset).count)
    return params.verify.judge.model


def _check_reasoning(settings: Reasoning) -> str:
    """The prompt of the judge of working must be readable, and its budget must pay for something. What it will ask
    depends on the hits, so the cost is known after `leash verify` only."""
    if not installed_version("openai"):
        raise NotInstalledError("The package openai, which `reasoning.judge` needs,", install_command("openai"))
    from leash.grading import reasoning

    template = reasoning.load_template(settings)
    if reasoning.server_of(settings).cost_usd(len(template), reasoning.TOKENS_PER_REPLY) > settings.budget:
        raise LeashError(
            f"`reasoning.budget` allows ${settings.budget:,.2f}, which pays for no vote of {settings.judge}. Raise it, "
            f"or set `reasoning.price_in` and `reasoning.price_out` to 0 if you run the server."
        )
    return f"{settings.judge} judges the working; `leash reasoning` prints the cost first"


def _check_hub(params: Params) -> list[Line]:
    """Whether the hub answers, if this run must download from it."""
    local = [m for m in params.run.models if selection.choose_engine(params, m) not in ("openai", "import")]
    hub_weights = (weights.find_weights(params, model) for model in local if params.models[model].hub)
    datasets = (name for name in params.run.datasets if loading.is_on_hub(params.datasets[name]))
    pending = [model_weights.name for model_weights in hub_weights if not find_download(model_weights)]
    downloads = ", ".join([*pending, *(name for name in datasets if not tables.problems_path(name).exists())])
    if not downloads or constants.HF_HUB_OFFLINE:
        return []
    faults: SimpleQueue[str | None] = SimpleQueue()
    # In a thread: the timeout of a connection covers neither the name lookup nor all addresses together.
    threading.Thread(target=lambda: faults.put(_send_head_request(constants.ENDPOINT)), daemon=True).start()
    try:
        fault = faults.get(timeout=HUB_TIMEOUT_S)
    except Empty:
        fault = f"no answer within {HUB_TIMEOUT_S:.0f} s"
    if fault is None:
        return [Line("ok", "hub", f"{constants.ENDPOINT} answers; to be downloaded: {downloads}")]
    text = (
        f"{constants.ENDPOINT} does not answer ({fault}), and this run must download {downloads}. Go online, set "
        f"HF_ENDPOINT to a mirror, or download them elsewhere and set `path` to their folders."
    )
    return [Line("missing", "hub", text)]


def _send_head_request(url: str) -> str | None:
    """Why a server does not answer; None if it does, whatever the answer."""
    try:
        urlopen(Request(url, method="HEAD"), timeout=HUB_TIMEOUT_S).close()
    except HTTPError as error:  # an answer, unless a proxy gives it for a server that is down
        return f"{error.code} {error.reason}" if error.code in (407, 502, 503, 504) else None
    except URLError as error:
        return getattr(error.reason, "strerror", None) or str(error.reason)
    except (OSError, ValueError) as error:
        return first_line(error)
    return None
