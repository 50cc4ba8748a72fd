"""The file system that a program in the sandbox sees: Python and an empty /tmp, all read-only; nothing else of the
machine. No solution writes files, and even empty ones would be memory that no limit on a process counts.

bwrap_arguments()  ->  ("--unshare-pid", …, "--ro-bind", "/usr/bin/python3.11", "/usr/bin/python3.11", …)
"""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from leash.grading.sandbox import inside

PACKAGES_DIR = "/packages"  # where numpy is inside the sandbox


def python_command() -> list[str]:
    """Start inside.py without site-packages, without the user's folder, and without importing from /tmp."""
    return [_python_executable(), "-s", "-S", "-P", "-B", "-X", "utf8", "/inside.py"]


@lru_cache
def bwrap_arguments() -> tuple[str, ...]:
    """Bubblewrap's arguments: namespaces, rights and mounts."""
    # Root can mount without a user namespace, and inside one inside.py could not become another user.
    user = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"] if os.geteuid() == 0 else ["--unshare-user"]
    return (
        *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL", *user),
        # /tmp comes before all other mounts, because Python itself may be installed below /tmp.
        *("--perms", "755", "--dir", "/tmp"),
        *_python_mounts(),
        # If Leash does not run as root, the first process, bubblewrap's, has the program's user and none of its limits:
        # a program that can write into its memory is free of them.
        *("--proc", "/proc", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"),
        *("--perms", "755", "--dir", "/dev", "--dev-bind", "/dev/null", "/dev/null"),
        *("--symlink", "/proc/self/fd/0", "/dev/stdin"),
        *("--ro-bind", inside.__file__, "/inside.py", "--remount-ro", "/", "--chdir", "/tmp"),
    )


def _python_mounts() -> list[str]:
    """Mount Python without the packages installed in it, apart from numpy, which the benchmarks' own runners have."""
    paths = _runtime_paths()
    links = {path: next(filter(Path.is_symlink, (*reversed(path.parents), path)), None) for path in paths}
    arguments = []
    # Without these, bubblewrap creates the parent folders readable for their owner only.
    real = [path for path in paths if links[path] is None]
    parents = {folder for path in real for folder in path.parents if folder != Path("/")}
    for folder in sorted(folder for folder in parents if not any(folder.is_relative_to(path) for path in real)):
        arguments += ["--perms", "755", "--dir", str(folder)]
    arguments += ["--perms", "755", "--dir", PACKAGES_DIR]
    for path, link in links.items():
        # A link such as /lib -> usr/lib stays a link.
        arguments += ["--symlink", os.readlink(link), str(link)] if link else ["--ro-bind", str(path), str(path)]
    site_packages = _stdlib_dir() / "site-packages"
    hides_packages = site_packages.is_dir()
    if hides_packages:
        arguments += ["--tmpfs", str(site_packages)]
    spec = find_spec("numpy")
    if spec and spec.origin:
        packages = Path(os.path.realpath(spec.origin)).parent.parent
        for name in ("numpy", "numpy.libs"):
            if (packages / name).is_dir():
                arguments += ["--ro-bind", str(packages / name), f"{PACKAGES_DIR}/{name}"]
    if hides_packages:
        arguments += ["--remount-ro", str(site_packages)]
    return arguments


def _runtime_paths() -> list[Path]:
    """The interpreter and its modules, wherever they are (pyenv, conda, uv, the system), and the system's libraries."""
    base, multiarch = Path(os.path.realpath(sys.base_prefix)), sysconfig.get_config_var("MULTIARCH")
    has_multiarch = bool(multiarch) and Path("/usr/lib", multiarch).is_dir()
    system = [Path(folder, multiarch if has_multiarch else "") for folder in ("/usr/lib", "/lib")]
    modules = [_stdlib_dir(), Path(os.path.realpath(sysconfig.get_config_var("DESTSHARED")))]
    own = [] if base == Path("/usr") else [base / "lib"]
    candidates = [Path(_python_executable()), *own, *modules, Path("/lib64"), Path("/usr/lib64"), *system]
    existing = [path for path in dict.fromkeys(candidates) if path.exists()]
    return [path for path in existing if not any(folder in path.parents for folder in existing)]


def _stdlib_dir() -> Path:
    return Path(os.path.realpath(os.__file__)).parent


def _python_executable() -> str:
    """The interpreter itself. That of a virtual environment is a link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
