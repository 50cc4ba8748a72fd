"""What parameters may not do: show a key, lead out of the project's folder, or pass a folder off as an id on the hub;
and what tables may not do without them: name code to run.

Someone else's `params.yaml` should be no more dangerous to run than it looks. A path may be anywhere if it is written
in full: then it is meant, and everyone can see it.

    escapes("../x")  ->  True
    masked("key: sk-0123456789abcdef")  ->  "key: …"
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from stages.errors import LeashError

if TYPE_CHECKING:
    from stages.params import Params

# What providers' keys look like, and those of Amazon, which could be names of variables.
KEY = re.compile(r"\b(?:(?:sk|pk|rk|hf|gsk|xai|ghp|nvapi)[-_][\w-]{8,}|(?=[A-Z]+[0-9])[A-Z0-9]{16,}\b)")
SECRET = re.compile(r"key|token|secret|passw|sig", re.IGNORECASE)
NOT_A_KEY = (
    "must be the name of an environment variable in capitals, such as OPENAI_API_KEY, and never a key itself; export "
    "the key under such a name, and write the name here"
)


def masked(text: str) -> str:
    """A text without what looks like a key: someone may have put one where it does not belong."""
    return KEY.sub("…", text)


def escapes(path: str) -> bool:
    """Whether a relative path leads out of the folder it begins in."""
    return not os.path.isabs(path) and Path(os.path.normpath(path)).parts[:1] == ("..",)


def complaints(params: Params) -> list[str]:
    return [*_escaping_paths(params), *_bad_ids(params), *_bad_patterns(params), *_keys(params), *_passwords(params)]


def refuse_strange_graders(params: Params, dataset: str, graders: Iterable[str]) -> None:
    """A table of problems may be someone else's, and a function that it names as its grader would be imported and run:
    so params.yaml must name that function, too."""
    named = {known.grader for known in params.datasets.values()}
    for grader in sorted(set(graders)):
        if ":" in grader and grader not in named:
            raise LeashError(
                f"The problems of {dataset} are graded by {grader}, a function that params.yaml does not name; if it "
                f"is yours or you have read it, set `datasets.{dataset}.grader` to {grader}."
            )


def _escaping_paths(params: Params) -> list[str]:
    paths = {f"models.{name}.path": model.path for name, model in params.models.items()}
    paths |= {f"datasets.{name}.path": dataset.path for name, dataset in params.datasets.items()}
    paths |= {"perplexity.traces": params.perplexity.traces, "verify.judge.prompt": params.verify.judge.prompt}
    return [
        f"`{place}` is {path}, which leads out of the project's folder; move what is there into it, or write the full "
        f"path if that place is meant."
        for place, path in paths.items()
        if path and escapes(path)
    ]


def _bad_ids(params: Params) -> list[str]:
    """Whoever loads an id looks for a folder of that name first."""
    ids = {f"models.{name}": model.hub for name, model in params.models.items()}
    ids |= {f"datasets.{name}": dataset.hub for name, dataset in params.datasets.items()}
    return [
        f"`{place}.hub` is {hub}, which is no id on the hub (owner/name); a folder is named by `{place}.path`."
        for place, hub in ids.items()
        if hub and any(not part or part[0] in ".~" for part in hub.split("/"))
    ]


def _bad_patterns(params: Params) -> list[str]:
    return [
        f"`datasets.{name}.files` is {dataset.files}, which leads out of the data set's folder; name files in it."
        for name, dataset in params.datasets.items()
        if dataset.files and (os.path.isabs(dataset.files) or ".." in Path(dataset.files).parts)
    ]


def _keys(params: Params) -> list[str]:
    names = {"sample.openai": params.sample.openai.key, "verify.judge": params.verify.judge.key}
    return [f"`{place}.key` {NOT_A_KEY}." for place, name in names.items() if KEY.fullmatch(name)]


def _passwords(params: Params) -> list[str]:
    """An address is told in the report and in dvc.lock."""
    addresses = {"sample.openai": params.sample.openai.url, "verify.judge": params.verify.judge.url}
    return [
        f"`{place}.url` has a password or a key in it, which would end up in dvc.lock and in the report; take it out "
        f"and let `{place}.key` name the environment variable that holds it."
        for place, url in addresses.items()
        if _tells(url)
    ]


def _tells(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:  # no address at all, which whoever asks there says
        return False
    return "@" in parts.netloc or any(SECRET.search(name) for name, _ in parse_qsl(parts.query)) or masked(url) != url
