"""The commands that error messages tell people to type to install what is missing.

They work from a clone. Never `pip install leash`: the package of that name on PyPI is somebody else's.
"""

from __future__ import annotations


def install(extra: str | None = None) -> str:
    """The command that installs Leash, or one of the extras in pyproject.toml, from this clone."""
    return f"`pip install -e '.[{extra}]'`" if extra else "`pip install -e .`"


def install_vllm(gpu: bool) -> str:
    """vLLM's CPU build needs an environment of its own, which the Makefile creates."""
    if gpu:
        return install("vllm")
    return "`make install-vllm` (its CPU build) and run with `PATH=.venv-vllm/bin:$PATH`"
