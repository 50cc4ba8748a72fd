"""Limits on what parameters and tables may do, so that running someone else's `params.yaml` is as safe as it looks.

A parameter may not contain an API key, name a variable with another secret as one, lead out of the project's folder by
a relative path, or pass a folder off as an id on the hub. A table may not name grader code that `params.yaml` does not
name. An absolute path is allowed: everyone can see where it leads.

    is_escaping_path("../x")  ->  True
    mask_keys("key: sk-0123456789abcdef")  ->  "key: …"
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from leash.errors import LeashError
from leash.params.errors import KEY_VARIABLE_ADVICE, ParamError

if TYPE_CHECKING:
    from leash.params.groups import Judge, OpenAI, Params, Reasoning

# The keys of common providers. Amazon's have no prefix, but a digit after capitals, which no name of a variable of 16
# characters without an underscore is likely to have.
API_KEY_PATTERN = re.compile(r"\b(?:(?:sk|pk|rk|hf|gsk|xai|ghp|nvapi)[-_][\w-]{8,}|(?=[A-Z]+[0-9])[A-Z0-9]{16,}\b)")
# Variables whose value may be sent to a server: OPENAI_API_KEY, API_KEY_2, REPLICATE_API_TOKEN, and the hub's HF_TOKEN.
API_KEY_VARIABLE_PATTERN = re.compile(r"(?:^|_)API_(?:KEY|TOKEN)(?:_\d+)?$|^HF_TOKEN$")
SECRET_NAME_PATTERN = re.compile(r"key|token|secret|passw|sig", re.IGNORECASE)


def mask_keys(text: str) -> str:
    """Replace what looks like an API key: someone may have put one where it does not belong."""
    return API_KEY_PATTERN.sub("…", text)


def is_escaping_path(path: str) -> bool:
    """Whether a relative path leads out of the folder it begins in."""
    return not os.path.isabs(path) and Path(os.path.normpath(path)).parts[:1] == ("..",)


def refuse_unlisted_graders(params: Params, dataset: str, graders: Iterable[str]) -> None:
    """Refuse a grader function that params.yaml does not name. A problems table may come from someone else, and the
    function that it names would be imported and run."""
    listed = {each.grader for each in params.datasets.values()}
    for grader in sorted(set(graders)):
        if ":" in grader and grader not in listed:
            raise LeashError(
                f"The problems of {dataset} are graded by {grader}, a function that params.yaml does not name; if it "
                f"is yours or you have read it, set `datasets.{dataset}.grader` to {grader}."
            )


def complaints(params: Params) -> Iterator[ParamError]:
    """Everything in the parameters that is not safe."""
    sources = {f"models.{name}": (model.path, model.hub) for name, model in params.models.items()}
    sources |= {f"datasets.{name}": (dataset.path, dataset.hub) for name, dataset in params.datasets.items()}
    paths = {f"{key}.path": path for key, (path, _) in sources.items()}
    paths |= {"perplexity.traces": params.perplexity.traces, "verify.judge.prompt": params.verify.judge.prompt}
    paths["reasoning.prompt"] = params.reasoning.prompt
    for key, path in paths.items():
        if path and is_escaping_path(path):
            remedy = "move the file or folder into it, or write the full path"
            yield ParamError(key, f"is {path}, which leads out of the project's folder; {remedy}.")
    for key, (_, hub) in sources.items():
        # transformers and datasets look for a folder of the id's name before they look on the hub.
        if hub and any(not part or part[0] in ".~" for part in hub.split("/")):
            remedy = f"a folder is named by `{key}.path`"
            yield ParamError(f"{key}.hub", f"is {hub}, which is no id on the hub (owner/name); {remedy}.")
    for name, dataset in params.datasets.items():
        if dataset.files and (os.path.isabs(dataset.files) or ".." in Path(dataset.files).parts):
            problem = f"is {dataset.files}, which leads out of the data set's folder; name files in it."
            yield ParamError(f"datasets.{name}.files", problem)
    servers: dict[str, OpenAI | Judge | Reasoning] = {"sample.openai": params.sample.openai}
    servers |= {"verify.judge": params.verify.judge, "reasoning": params.reasoning}
    for group, server in servers.items():
        if API_KEY_PATTERN.fullmatch(server.key):
            yield ParamError(f"{group}.key", KEY_VARIABLE_ADVICE)
        elif not API_KEY_VARIABLE_PATTERN.search(server.key):
            # Its value goes to `url`, and both may be someone else's choice: other secrets stay on this machine.
            yield ParamError(
                f"{group}.key",
                f"is {server.key}, whose value would be sent to `{group}.url`, and its name does not say that it is an "
                f"API key; export the key under a name that ends in API_KEY, such as MY_API_KEY, and write that name.",
            )
        if _has_secret(server.url):
            yield ParamError(
                f"{group}.url",
                f"has a password or a key in it, which would end up in dvc.lock and in the report; remove it and put "
                f"it into the environment variable that `{group}.key` names.",
            )


def _has_secret(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:  # not a URL at all: the engine that connects to it reports that
        return False
    return (
        "@" in parts.netloc
        or any(SECRET_NAME_PATTERN.search(name) for name, _ in parse_qsl(parts.query))
        or mask_keys(url) != url
    )
