"""What a program in the sandbox can see: Python, read-only, an empty /tmp, and nothing else of the machine.

arguments()  ->  ("--unshare-pid", …, "--ro-bind", "/usr/bin/python3.11", "/usr/bin/python3.11", …)  for bubblewrap
"""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from stages.verify.sandbox import inside

SCRATCH = 16 << 20  # bytes of /tmp
PACKAGES = "/packages"  # where numpy is found in there, wherever it is out here


@lru_cache
def arguments() -> tuple[str, ...]:
    """Bubblewrap's arguments: namespaces, rights and what there is to see."""
    # To root's mounts a user namespace adds nothing, and in it inside.py could not become another user.
    user = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"] if os.geteuid() == 0 else ["--unshare-user"]
    alone = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    return (
        *alone,
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL", *user),
        # First of all mounts: Python itself may be installed below /tmp.
        *("--perms", "1777", "--size", str(SCRATCH), "--tmpfs", "/tmp"),
        *_seen(),
        *("--proc", "/proc", "--perms", "755", "--dir", "/dev", "--dev-bind", "/dev/null", "/dev/null"),
        *("--symlink", "/proc/self/fd/0", "/dev/stdin"),
        *("--ro-bind", inside.__file__, "/inside.py", "--remount-ro", "/", "--chdir", "/tmp"),
    )


def _seen() -> list[str]:
    """Python without the packages of its owner, numpy aside, which the benchmarks' own runners have."""
    site, libraries = _modules() / "site-packages", _libraries()
    masked = [site] if site.is_dir() else []
    return [
        *(word for folder in [*_parents(libraries), PACKAGES] for word in ("--perms", "755", "--dir", str(folder))),
        *(word for path in libraries for word in _bound(path)),
        *(word for folder in masked for word in ("--tmpfs", str(folder))),
        *(word for path in _numpy() for word in ("--ro-bind", str(path), f"{PACKAGES}/{path.name}")),
        *(word for folder in masked for word in ("--remount-ro", str(folder))),
    ]


def _parents(paths: list[Path]) -> list[Path]:
    """The folders that lead to these paths. Left to itself bubblewrap makes them for their owner alone."""
    real = [path for path in paths if _link(path) is None]
    leading = {folder for path in real for folder in path.parents if folder != Path("/")}
    return sorted(folder for folder in leading if not any(folder.is_relative_to(path) for path in real))


def _libraries() -> list[Path]:
    """The interpreter and its modules, wherever they are (pyenv, conda, uv, the system), and the system's libraries."""
    base, multiarch = Path(os.path.realpath(sys.base_prefix)), sysconfig.get_config_var("MULTIARCH")
    several = bool(multiarch) and Path("/usr/lib", multiarch).is_dir()
    system = [Path(folder, multiarch if several else "") for folder in ("/usr/lib", "/lib")]
    modules = [_modules(), Path(os.path.realpath(sysconfig.get_config_var("DESTSHARED")))]
    own = [] if base == Path("/usr") else [base / "lib"]
    wanted = [Path(_executable()), *own, *modules, Path("/lib64"), Path("/usr/lib64"), *system]
    there = [path for path in dict.fromkeys(wanted) if path.exists()]
    return [path for path in there if not any(folder in path.parents for folder in there)]


def _bound(path: Path) -> tuple[str, ...]:
    """A path as it is outside, where /lib may be a link to usr/lib."""
    if link := _link(path):
        return "--symlink", os.readlink(link), str(link)
    return "--ro-bind", str(path), str(path)


def _link(path: Path) -> Path | None:
    """The first part of a path that is a link."""
    return next((part for part in (*reversed(path.parents), path) if part.is_symlink()), None)


def _numpy() -> list[Path]:
    packages = _packages()
    return [path for name in ("numpy", "numpy.libs") if packages and (path := Path(packages, name)).is_dir()]


@lru_cache
def _packages() -> str | None:
    """The folder that numpy is in."""
    numpy = find_spec("numpy")
    return str(Path(os.path.realpath(numpy.origin)).parent.parent) if numpy and numpy.origin else None


def _modules() -> Path:
    """The folder of the standard library."""
    return Path(os.path.realpath(os.__file__)).parent


def python() -> list[str]:
    """No site-packages, no user's folder, nothing imported from /tmp; the environment is ours."""
    return [_executable(), "-s", "-S", "-P", "-B", "-X", "utf8", "/inside.py"]


def _executable() -> str:
    """The interpreter itself: that of an environment is a link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
