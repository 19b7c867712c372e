"""A folder that keeps one training: metrics.jsonl, checkpoint.safetensors, model.safetensors, and what was trained.

Every file is written beside its place, flushed and renamed, so that a reader sees the old one or the new one.
Nothing in a folder is executed on loading: weights are safetensors, the rest is JSON, and both are checked against
what they should be before anything of their size is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from qubolearn.errors import QubolearnError
from qubolearn.files import make_folder, read_metadata, read_records, read_tensors, write_records, write_tensors
from qubolearn.training.optimizers import Update

__all__ = ["Folder"]

MAX_METRICS = 2**28  # bytes


@dataclass(frozen=True)
class Folder:
    """Where a training keeps its metrics, its checkpoint and its model; ``fit(..., folder=...)`` resumes from it."""

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))

    @classmethod
    def create(cls, folder: Path | str) -> Folder:
        """A folder for a training, new or one that holds an earlier part of it."""
        made = cls(Path(folder))
        make_folder(made.folder)
        return made

    def _path(self, name: str) -> Path:
        return self.folder / name

    @property
    def finished(self) -> bool:
        """Whether the training has ended."""
        return self._path("model.safetensors").is_file()

    def log(self, **record: Any) -> None:
        """Add a record to metrics.jsonl; what a resumed run does again takes the place of what it did before."""
        kept = [earlier for earlier in self.metrics() if earlier["step"] < record["step"]]
        write_records(self._path("metrics.jsonl"), [*kept, record])

    def metrics(self) -> list[dict[str, Any]]:
        """The records of metrics.jsonl in order of their steps; lines that are no record are skipped."""
        path = self._path("metrics.jsonl")
        read = read_records(path, MAX_METRICS) if path.is_file() else []
        records = {record["step"]: record for record in read if type(record.get("step")) is int}
        return [records[step] for step in sorted(records)]

    def checkpoint(self, network: nn.Module, optimizer: Update, step: int, ended_of: int = 0) -> None:
        """Save all that a resumed training needs: the rest follows from what was asked and from the step.

        ``ended_of`` is the number of its steps once the training has ended, after the last one or before.
        """
        moved, text = optimizer.state()
        tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
        tensors |= {f"optimizer.{name}": tensor for name, tensor in moved.items()}
        write_tensors(self._path("checkpoint.safetensors"), tensors, step=step, optimizer=text, ended_of=ended_of)

    def restore(self, network: nn.Module, optimizer: Update | None, steps: int) -> int:
        """Load the last checkpoint, if there is one, and return the step that comes next."""
        path = self._path("checkpoint.safetensors")
        if not path.is_file():
            return 0
        like = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
        tensors, metadata = read_tensors(path, like, others="optimizer.")
        step = metadata.get("step", "")
        if not (step.isascii() and step.isdecimal()) or len(step) > 18 or int(step) > steps:
            raise QubolearnError(f"{path} says step {step[:20]!r}; want 0 ... {steps}")
        if optimizer is not None:
            try:
                optimizer.load(_part(tensors, "optimizer."), metadata.get("optimizer", ""))
            except (KeyError, ValueError, RuntimeError, TypeError, AttributeError) as error:
                raise QubolearnError(
                    f"{path} holds the state of another optimizer ({type(error).__name__}); use the one that it was "
                    "trained with, or another folder"
                ) from error
        network.load_state_dict(_part(tensors, "network."))
        return int(step)

    def ended(self, steps: int) -> bool:
        """Whether a training of so many steps has ended here, after the last one or stopped for good."""
        path = self._path("checkpoint.safetensors")
        notes = read_metadata(path) if path.is_file() else {}
        return str(steps) in (notes.get("step"), notes.get("ended_of"))

    def keep(self, network: nn.Module) -> None:
        """Save the trained model, whose weights need not be those of the last step."""
        write_tensors(self._path("model.safetensors"), network.state_dict())

    def weights(self) -> Path:
        """The file of the trained weights; before the end, that of the last checkpoint."""
        path = self._path("model.safetensors" if self.finished else "checkpoint.safetensors")
        if not path.is_file():
            raise QubolearnError(f"{self.folder} holds no model yet; to go on, train it again")
        return path

    def put_into(self, network: nn.Module) -> None:
        """Put the trained weights into a network of the same shape; before the end, those of the last checkpoint."""
        path = self.weights()
        if self.finished:
            network.load_state_dict(read_tensors(path, network.state_dict())[0])
        else:
            self.restore(network, None, 2**62)


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose name begins with the prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
