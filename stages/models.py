"""Models by name: where their weights are and what tells one from another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stages import disk
from stages.errors import LeashError
from stages.params import Params


@dataclass(frozen=True)
class Weights:
    """What an engine needs to load a model."""

    name: str
    source: str
    revision: str | None
    dtype: str

    @property
    def identity(self) -> str:
        """Changes when the weights do: the content of a local folder, or the hub's id and revision."""
        folder = Path(self.source)
        return disk.folder_hash(folder) if folder.is_dir() else f"{self.source}@{self.revision or 'main'}"


def weights(params: Params, name: str) -> Weights:
    if name not in params.models:
        raise LeashError(f"There is no model {name} in params.yaml; its models are {', '.join(params.models)}.")
    model = params.models[name]
    if model.path and not (Path(model.path) / "config.json").is_file():
        raise LeashError(f"`models.{name}.path` is {model.path}, but no model (config.json) is there.")
    return Weights(name, model.path or model.hub or "", model.revision, model.dtype)
