"""Push and pull the outputs of a run with a DVC remote, in three levels.

    everything   all outputs; most of it is completions
    verdicts     what every metric is computed from, at any epsilon and any k that was drawn: megabytes
    report       what people look at

A level is a list of stages in dvc.yaml, and DVC transfers their outputs. Parameters, the numbers of the report and the
embedded weights are not covered: they are in git.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence

import click

STAGES_BY_LEVEL: dict[str, Sequence[str]] = {
    "everything": (),  # DVC transfers all stages if none is named
    "verdicts": ("fetch", "verify", "mass", "categorize", "perplexity", "entropy", "report"),
    "report": ("report",),
}


def run_dvc_transfer(direction: str, level: str, remote: str | None) -> int:
    """Print and run `dvc push` or `dvc pull` for a level; return DVC's exit code."""
    command = [direction, *(("-r", remote) if remote else ()), *STAGES_BY_LEVEL[level]]
    click.echo(shlex.join(["dvc", *command]), err=True)
    return subprocess.run([sys.executable, "-m", "dvc", *command], check=False).returncode
