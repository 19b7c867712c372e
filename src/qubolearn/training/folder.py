"""The folder of a training run: digest, metrics, checkpoint and model.

Files are written atomically. Loading executes nothing: weights are safetensors, the
rest is JSON, and both are checked before memory is allocated.
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
CHECKPOINT, MODEL, BEST = "checkpoint.safetensors", "model.safetensors", "best.safetensors"
METRICS, DIGEST, INSTANCES = "metrics.jsonl", "digest.json", "instances.npz"
OWN = "own"  # network and problem of a run without a recipe
MAX_HELD_OUT = 1000  # instances that it stores


@dataclass(frozen=True)
class Folder:
    """The files of one training run; ``fit(..., folder=...)`` resumes from them."""

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))

    @classmethod
    def create(cls, folder: Path | str) -> Folder:
        files.make_folder(Path(folder))
        return cls(Path(folder))

    def _path(self, name: str) -> Path:
        return self.folder / name

    def _notes(self) -> dict[str, str]:
        """Return the metadata of the last checkpoint."""
        path = self._path(CHECKPOINT)
        return files.read_metadata(path) if path.is_file() else {}

    @property
    def step(self) -> int:
        """The step of the last checkpoint, 0 without one."""
        step = self._notes().get("step", "0")
        if not (step.isascii() and step.isdecimal()) or len(step) > 18:
            raise QubolearnError(f"{self._path(CHECKPOINT)} has step {step[:20]!r}; expected an integer >= 0")
        return int(step)

    @property
    def finished(self) -> bool:
        """True if the run has finished."""
        return self._path(MODEL).is_file()

    def ended(self, steps: int) -> bool:
        """Return True if a run of ``steps`` steps has ended, maybe by ``stop()``."""
        notes = self._notes()
        return str(steps) in (notes.get("step"), notes.get("ended_of"))

    def clear(self) -> None:
        """Delete all that a training run writes, but not config.json."""
        for name in (CHECKPOINT, MODEL, METRICS, DIGEST, BEST, INSTANCES, "result.json"):
            self._path(name).unlink(missing_ok=True)

    def check_digest(self, now: Mapping[str, str]) -> None:
        """Raise if the stored run differs from this digest; warn if it has none."""
        path = self._path(DIGEST)
        if not self.step:
            return
        if not path.is_file():
            if not self._of_recipe():  # which Run.create has compared
                warnings.warn(f"{self.folder} has no {DIGEST} to compare with; resuming it", stacklevel=3)
            return
        then = files.read_json(path)
        differing = [name for name in now if then.get(name, now[name]) != now[name]]
        changes = [f"{name} was {str(then[name])[:200]}, got {now[name]}" for name in differing]
        if changes:
            remedy = f"choose another, pass overwrite=True to start over, or delete {DIGEST} to resume anyway"
            raise QubolearnError(f"{self.folder} holds another run: {'; '.join(changes)}; {remedy}")

    def write_digest(self, digest: Mapping[str, str]) -> None:
        files.write_json(self._path(DIGEST), digest)

    def _of_recipe(self) -> bool:
        """Return True if Run.create described the run."""
        path = self._path("config.json")
        return path.is_file() and files.read_json(path).get("training", {}).get("network") != OWN

    def write_config(
        self, network: nn.Module, held_out: Sequence[Instances], epochs: int, seed: int, **choices: str
    ) -> None:
        """Write config.json for ``Run.open``, and the validation instances."""
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
        header = {"format": files.FORMAT, "format_version": files.FORMAT_VERSION, "problem": kind}
        head = getattr(network, "head", "own")
        training = {"network": OWN, "head": head, "epochs": epochs, "seed": seed, **choices}
        header |= {"structure": describe(network), "training": training, **provenance(), "code": code()}
        files.write_json(self._path("config.json"), header, checksum=True)

    def log(self, **record: Any) -> None:
        """Add a record to metrics.jsonl, replacing repeated steps."""
        kept = [earlier for earlier in self.metrics() if earlier["step"] < record["step"]]
        files.write_records(self._path(METRICS), [*kept, record])

    def metrics(self) -> list[dict[str, Any]]:
        """Return the valid records of metrics.jsonl in order of their steps."""
        path = self._path(METRICS)
        read = files.read_records(path, MAX_METRICS) if path.is_file() else []
        records = {record["step"]: record for record in read if type(record.get("step")) is int}
        return [records[step] for step in sorted(records)]

    def checkpoint(self, network: nn.Module, optimizer: Update, step: int, ended_of: int = 0) -> None:
        """Save what a resumed run needs; ``ended_of`` is the number of steps if the run has ended."""
        moments, text = optimizer.state()
        tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
        tensors |= {f"optimizer.{name}": tensor for name, tensor in moments.items()}
        files.write_tensors(self._path(CHECKPOINT), tensors, step=step, optimizer=text, ended_of=ended_of)

    def restore(self, network: nn.Module, optimizer: Update | None, steps: int) -> int:
        """Load the last checkpoint, if any, and return its step."""
        path, step = self._path(CHECKPOINT), self.step
        if not path.is_file():
            return 0
        if step > steps:
            raise QubolearnError(f"{path} is of step {step}, beyond the last step {steps}; raise epochs")
        like = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
        tensors, metadata = files.read_tensors(path, like, others="optimizer.")
        if optimizer is not None:
            try:
                optimizer.load(_part(tensors, "optimizer."), metadata.get("optimizer", ""))
            except (KeyError, ValueError, RuntimeError, TypeError, AttributeError) as error:
                what = f"{path} holds the state of another optimizer ({type(error).__name__})"
                raise QubolearnError(f"{what}; use the same one, or another folder") from error
        network.load_state_dict(_part(tensors, "network."))
        return step

    def keep(self, network: nn.Module) -> None:
        """Save the model, whose weights need not be the last step's."""
        files.write_tensors(self._path(MODEL), network.state_dict())

    def weights(self) -> Path:
        """Return the file of the trained weights, or of the last checkpoint."""
        path = self._path(MODEL if self.finished else CHECKPOINT)
        if not path.is_file():
            raise QubolearnError(f"{self.folder} has no model yet; rerun to resume training")
        return path

    def put_into(self, network: nn.Module) -> None:
        """Load the trained weights, or the last checkpoint, into a network."""
        path = self.weights()
        if self.finished:
            network.load_state_dict(files.read_tensors(path, network.state_dict())[0])
        else:
            self.restore(network, None, 2**62)

    def store_fault(self, network: nn.Module, batch: Instances, notes: Mapping[str, Any]) -> str:
        """Write a failed step to files; return where they are."""
        folder = self._path("fault")
        tensors = [tensor.detach().float() for tensor in tensors_of(batch.p)]
        names = ["p"] if len(tensors) == 1 else [f"p_{number}" for number in range(len(tensors))]
        try:
            if folder.is_symlink():  # it may lead elsewhere
                raise QubolearnError(f"{folder} is a link")
            folder.mkdir(exist_ok=True)
            arrays = {"x_true": batch.x_true.byte(), **dict(zip(names, tensors, strict=True))}
            write_arrays(folder / "batch.npz", **arrays)
            files.write_tensors(folder / "weights.safetensors", network.state_dict(), finite=False)
            files.write_json(folder / "fault.json", notes)
        except (OSError, QubolearnError) as error:  # the fault matters more
            return f"the batch could not be stored ({error})"
        return f"the batch and the weights are stored in {folder}"


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors with the prefix, without it in their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
