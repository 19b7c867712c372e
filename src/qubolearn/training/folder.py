"""A folder that stores one training run: digest.json, metrics.jsonl, checkpoint.safetensors, model.safetensors.

Every file is written atomically. Nothing in a folder is executed on loading: weights are safetensors, the rest is JSON,
and both are checked against what they should be before anything of their size is allocated.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from qubolearn import files
from qubolearn.data.arrays import tensors_of
from qubolearn.data.contract import Instances
from qubolearn.data.files import write_arrays
from qubolearn.errors import QubolearnError
from qubolearn.networks.saving import describe
from qubolearn.provenance import code, provenance
from qubolearn.training.optimizers import Update

MAX_METRICS = 2**28  # bytes
CHECKPOINT, MODEL, METRICS, DIGEST = "checkpoint.safetensors", "model.safetensors", "metrics.jsonl", "digest.json"
BEST, INSTANCES = "best.safetensors", "instances.npz"
OWN = "own"  # the network and the problem of a run that is not of a recipe
MAX_HELD_OUT = 1000  # instances that such a run stores


@dataclass(frozen=True)
class Folder:
    """The files of one training run; ``fit(..., folder=...)`` resumes from them."""

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))

    @classmethod
    def create(cls, folder: Path | str) -> Folder:
        """Open a folder, new or with an earlier part of the run."""
        files.make_folder(Path(folder))
        return cls(Path(folder))

    def _path(self, name: str) -> Path:
        return self.folder / name

    def _notes(self) -> dict[str, str]:
        """Return the metadata of the last checkpoint, empty without one."""
        path = self._path(CHECKPOINT)
        return files.read_metadata(path) if path.is_file() else {}

    @property
    def step(self) -> int:
        """The step of the last checkpoint, 0 without one."""
        step = self._notes().get("step", "0")
        if not (step.isascii() and step.isdecimal()) or len(step) > 18:
            raise QubolearnError(f"{self._path(CHECKPOINT)} has step {step[:20]!r}; expected an integer of at least 0")
        return int(step)

    @property
    def finished(self) -> bool:
        """True if the run has finished."""
        return self._path(MODEL).is_file()

    def ended(self, steps: int) -> bool:
        """Return True if a run of ``steps`` steps has ended here, after the last one or by ``stop()``."""
        notes = self._notes()
        return str(steps) in (notes.get("step"), notes.get("ended_of"))

    def clear(self) -> None:
        """Delete all that a training run writes; config.json of a Run stays."""
        for name in (CHECKPOINT, MODEL, METRICS, DIGEST, BEST, INSTANCES, "result.json"):
            self._path(name).unlink(missing_ok=True)

    def check_digest(self, now: Mapping[str, str]) -> None:
        """Raise a QubolearnError that names what differs from the stored run; warn if it has no digest."""
        path = self._path(DIGEST)
        if not self.step:
            return
        if not path.is_file():
            if not self._of_recipe():  # which Run.create has compared
                warnings.warn(f"{self.folder} has no {DIGEST} to compare this run with; resuming it", stacklevel=3)
            return
        then = files.read_json(path)
        differing = [name for name in now if then.get(name, now[name]) != now[name]]
        changes = [f"{name} was {str(then[name])[:200]}, got {now[name]}" for name in differing]
        if changes:
            remedy = f"pass overwrite=True to start over, or delete {DIGEST} to resume anyway"
            raise QubolearnError(f"{self.folder} holds another run: {'; '.join(changes)}; choose another, {remedy}")

    def write_digest(self, digest: Mapping[str, str]) -> None:
        """Store the digest of the run that begins."""
        files.write_json(self._path(DIGEST), digest)

    def _of_recipe(self) -> bool:
        """Return True if the folder holds the run of a recipe, which Run.create described."""
        path = self._path("config.json")
        return path.is_file() and files.read_json(path).get("training", {}).get("network") != OWN

    def write_config(self, network: nn.Module, held_out: Sequence[Instances], **training: Any) -> None:
        """Describe a run of own data: config.json for ``Run.open`` and commands, and its validation instances."""
        if self._of_recipe():
            return
        arrays: dict[str, Tensor] = {}
        if held_out:
            some = held_out[0].rows(slice(0, MAX_HELD_OUT))
            parts = some.p if isinstance(some.p, Mapping) else dict(enumerate(tensors_of(some.p)))
            arrays = {f"p_{name}": tensor for name, tensor in parts.items() if isinstance(tensor, Tensor)}
            arrays |= {"x_true": some.x_true.byte()} | (some.right._asdict() if some.right else {})
            write_arrays(self._path(INSTANCES), **arrays)
        named = isinstance(held_out[0].p, Mapping) if held_out else False
        kind = {"name": OWN, "bits": getattr(network, "n", None), "arrays": list(arrays), "named": named}
        header: dict[str, Any] = {"format": files.FORMAT, "format_version": files.FORMAT_VERSION, "problem": kind}
        training = {"network": OWN, "head": getattr(network, "head", "own"), **training}
        header |= {"structure": describe(network), "training": training, **provenance(), "code": code()}
        files.write_json(self._path("config.json"), header, checksum=True)

    def log(self, **record: Any) -> None:
        """Add a record to metrics.jsonl; a resumed run replaces those of the steps that it repeats."""
        kept = [earlier for earlier in self.metrics() if earlier["step"] < record["step"]]
        files.write_records(self._path(METRICS), [*kept, record])

    def metrics(self) -> list[dict[str, Any]]:
        """Return the records of metrics.jsonl in order of their steps; lines that are not records are skipped."""
        path = self._path(METRICS)
        read = files.read_records(path, MAX_METRICS) if path.is_file() else []
        records = {record["step"]: record for record in read if type(record.get("step")) is int}
        return [records[step] for step in sorted(records)]

    def checkpoint(self, network: nn.Module, optimizer: Update, step: int, ended_of: int = 0) -> None:
        """Save what a resumed run needs; ``ended_of`` is the number of its steps once the run has ended."""
        moments, text = optimizer.state()
        tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
        tensors |= {f"optimizer.{name}": tensor for name, tensor in moments.items()}
        files.write_tensors(self._path(CHECKPOINT), tensors, step=step, optimizer=text, ended_of=ended_of)

    def restore(self, network: nn.Module, optimizer: Update | None, steps: int) -> int:
        """Load the last checkpoint, if there is one, and return its step."""
        path, step = self._path(CHECKPOINT), self.step
        if not path.is_file():
            return 0
        if step > steps:
            raise QubolearnError(f"{path} is of step {step}; expected at most {steps}: train as many epochs or more")
        like = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
        tensors, metadata = files.read_tensors(path, like, others="optimizer.")
        if optimizer is not None:
            try:
                optimizer.load(_part(tensors, "optimizer."), metadata.get("optimizer", ""))
            except (KeyError, ValueError, RuntimeError, TypeError, AttributeError) as error:
                what = f"{path} holds the state of another optimizer ({type(error).__name__})"
                raise QubolearnError(f"{what}; use the one that it was trained with, or another folder") from error
        network.load_state_dict(_part(tensors, "network."))
        return step

    def keep(self, network: nn.Module) -> None:
        """Save the trained model, whose weights need not be those of the last step."""
        files.write_tensors(self._path(MODEL), network.state_dict())

    def weights(self) -> Path:
        """Return the file of the trained weights; before the end, that of the last checkpoint."""
        path = self._path(MODEL if self.finished else CHECKPOINT)
        if not path.is_file():
            raise QubolearnError(f"{self.folder} has no model yet; rerun to resume training")
        return path

    def put_into(self, network: nn.Module) -> None:
        """Load the trained weights into a network; before the end, those of the last checkpoint."""
        path = self.weights()
        if self.finished:
            network.load_state_dict(files.read_tensors(path, network.state_dict())[0])
        else:
            self.restore(network, None, 2**62)

    def store_fault(self, network: nn.Module, batch: Instances, notes: Mapping[str, Any]) -> str:
        """Write batch.npz, weights.safetensors and fault.json of a step that failed; return where they are."""
        folder = self._path("fault")
        tensors = [tensor.detach().float() for tensor in tensors_of(batch.p)]
        names = ["p"] if len(tensors) == 1 else [f"p_{number}" for number in range(len(tensors))]
        try:
            if folder.is_symlink():  # it may lead out of the folder
                raise QubolearnError(f"{folder} is a link")
            folder.mkdir(exist_ok=True)
            write_arrays(folder / "batch.npz", x_true=batch.x_true.byte(), **dict(zip(names, tensors, strict=True)))
            files.write_tensors(folder / "weights.safetensors", network.state_dict(), finite=False)
            files.write_json(folder / "fault.json", notes)
        except (OSError, QubolearnError) as error:  # the fault itself matters more
            return f"the batch could not be stored ({error})"
        return f"the batch and the weights are stored in {folder}"


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose name begins with the prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
