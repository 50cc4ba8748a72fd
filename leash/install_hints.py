"""The commands that error messages give to install what is missing.

They work from a clone. They are never `pip install leash`: that package on PyPI belongs to somebody else.
"""

from __future__ import annotations


def install_command(extra: str | None = None) -> str:
    """The command that installs Leash from this clone, with one of the extras in pyproject.toml if given."""
    return f"`pip install -e '.[{extra}]'`" if extra else "`pip install -e .`"


def install_vllm_command(gpu: bool) -> str:
    """The command that installs vLLM. Its CPU build needs its own environment, which the Makefile creates."""
    if gpu:
        return install_command("vllm")
    return "`make install-vllm` (its CPU build) and run with `PATH=.venv-vllm/bin:$PATH`"
