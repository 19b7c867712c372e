"""When numbers stop being finite in training: what is needed to see it happen again, in a folder beside the run.

``RUN/fault`` holds the batch (batch.npz), the weights (weights.safetensors), and the step, the seed of the batch and
the error (fault.json).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.files import read_json, read_tensors, write_json, write_tensors
from qubolearn.networks.network import QuboNetwork
from qubolearn.problems.contract import Instances
from qubolearn.problems.data import load_npz
from qubolearn.problems.files import write_instances
from qubolearn.randomness import derive_seed
from qubolearn.training.recipes import TrainConfig
from qubolearn.training.runs import Run

__all__ = ["Fault", "keep_fault", "load_fault"]


@dataclass(frozen=True)
class Fault:
    """A step that could not be taken, ready to be tried again."""

    run: Run
    step: int
    batch_seed: int
    error: str
    batch: Instances
    network: QuboNetwork  # with the weights of that moment: before the step, unless the step itself broke them

    def loss(self) -> Tensor:
        """Compute the loss of the batch again, which may raise as it did in training."""
        from qubolearn.training.steps import batch_loss

        return batch_loss(self.network, self.run.problem, self.run.config, self.batch, self.step)


@contextmanager
def keep_fault(
    run: Run | None, config: TrainConfig, network: nn.Module, batch: Callable[[], Instances], step: int
) -> Iterator[None]:
    """Where a step meets NaN or an infinity, say which step it was and keep it and its batch in the run's folder."""
    try:
        yield
    except NonFiniteError as error:
        epoch = step // config.steps_per_epoch
        seed = derive_seed(config.seed, "train", epoch if config.fresh else 0)
        where = f"step {step} (seed {config.seed}, epoch {epoch}, batch seed {seed})"
        kept = _write(run, network, batch(), step, seed, str(error)) if run else "train with a run folder to keep it"
        raise NonFiniteError(
            f"{error} at {where}; lower learning_rate={config.learning_rate} or look for outliers in p; {kept}"
        ) from error


def _write(run: Run, network: nn.Module, batch: Instances, step: int, seed: int, error: str) -> str:
    folder = run.folder / "fault"
    try:
        if folder.is_symlink():  # it may lead out of the run's folder
            raise QubolearnError(f"{folder} is a link")
        folder.mkdir(exist_ok=True)
        write_instances(folder / "batch.npz", batch)
        write_tensors(folder / "weights.safetensors", network.state_dict(), finite=False)
        write_json(folder / "fault.json", {"step": step, "batch_seed": seed, "error": error})
    except (OSError, QubolearnError) as problem:  # the fault itself matters more
        return f"it could not be kept ({problem})"
    return f"kept in {folder}, see qubolearn.training.faults.load_fault"


def load_fault(folder: Path | str) -> Fault:
    """The fault in ``RUN/fault``: ``load_fault("runs/k4/fault").loss()`` meets it again."""
    from qubolearn.training.loop import new_network

    folder = Path(folder)
    run = Run.open(folder.parent)
    notes = read_json(folder / "fault.json")
    if not (type(notes.get("step")) is int and type(notes.get("batch_seed")) is int and notes["step"] >= 0):
        raise QubolearnError(f"{folder / 'fault.json'} lacks a step or a batch_seed; was it made by a training?")
    arrays = load_npz(folder / "batch.npz", {"p": ("f", 2), "x_true": ("u", 2)}, finite=False)
    p, x_true = torch.tensor(arrays["p"]), torch.tensor(arrays["x_true"]).float()
    if p.shape != (len(x_true), run.problem.input_size) or x_true.shape[1] != run.problem.bits:
        raise QubolearnError(f"{folder / 'batch.npz'} does not fit the problem of config.json above it")
    network = new_network(run.problem, run.config)
    weights, _ = read_tensors(folder / "weights.safetensors", network.state_dict(), finite=False)
    network.load_state_dict(weights)
    batch = Instances(p, x_true, run.problem.decode(x_true))
    return Fault(run, notes["step"], notes["batch_seed"], str(notes.get("error")), batch, network)
