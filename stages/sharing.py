"""Sharing: what of a run goes to a DVC remote and comes from there, in three levels.

    everything   all that the stages made: completions are most of it
    verdicts     what every metric is computed from, at any epsilon and any k that was drawn: megabytes
    report       what people look at

A level names stages of dvc.yaml, and DVC transfers what these made. Parameters, the numbers of the report and the
embedded weights are in git.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence

import click

LEVELS: dict[str, Sequence[str]] = {
    "everything": (),  # to DVC, no stage is all of them
    "verdicts": ("fetch", "verify", "mass", "categorize", "perplexity", "entropy", "report"),
    "report": ("report",),
}


def transfer(direction: str, level: str, remote: str | None) -> int:
    """Have DVC `push` or `pull` a level, after showing the command; return its exit code."""
    command = [direction, *(("-r", remote) if remote else ()), *LEVELS[level]]
    click.echo(shlex.join(["dvc", *command]), err=True)
    return subprocess.run([sys.executable, "-m", "dvc", *command], check=False).returncode
