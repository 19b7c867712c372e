"""What is kept of a step that met NaN or an infinity, so that it can be taken again.

``RUN/fault`` holds the batch (batch.npz), the weights (weights.safetensors), and the step, the seed of the batch, the
number of its random draw and the error (fault.json). Where several processes train together, each keeps its own part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.files import read_json, read_tensors, write_json, write_tensors
from qubolearn.problems.contract import Instances, Problem
from qubolearn.problems.data import load_npz
from qubolearn.problems.files import write_arrays
from qubolearn.problems.structures import tensors_of

if TYPE_CHECKING:
    from qubolearn.training.runs import Run
    from qubolearn.training.steps import Task

__all__ = ["Fault", "keep_fault", "load_fault"]


@contextmanager
def keep_fault(task: Task, step: int, instances: Callable[[], Instances]) -> Iterator[None]:
    """Where a step meets NaN or an infinity, say which step it was and keep it and its batch in the run's folder."""
    try:
        yield
    except NonFiniteError as error:
        epoch, seed = step // task.batches.steps_per_epoch, task.batches.seed_of(step)
        where = f"step {step} (seed {task.seed}, epoch {epoch}" + (f", batch seed {seed})" if seed is not None else ")")
        kept = _write(task, instances(), step, str(error)) if task.folder else "train with a run folder to keep it"
        message = f"{error} at {where}; lower the learning rate or look for outliers in p; {kept}"
        raise NonFiniteError(message) from error


def _write(task: Task, instances: Instances, step: int, error: str) -> str:
    assert task.folder is not None
    rank = task.peers.rank
    folder = task.folder.folder / ("fault" if rank == 0 else f"fault-{rank}")
    notes = {"step": step, "batch_seed": task.batches.seed_of(step), "draw": task.draw(step), "error": error}
    try:
        if folder.is_symlink():  # it may lead out of the run's folder
            raise QubolearnError(f"{folder} is a link")
        folder.mkdir(exist_ok=True)
        _write_batch(folder / "batch.npz", task.peers.share(instances))
        write_tensors(folder / "weights.safetensors", task.network.state_dict(), finite=False)
        write_json(folder / "fault.json", notes)
    except (OSError, QubolearnError) as problem:  # the fault itself matters more
        return f"it could not be kept ({problem})"
    how = "see qubolearn.training.faults.load_fault" if _of_recipe(folder) else "in batch.npz and weights.safetensors"
    return f"kept in {folder}, {how}"


def _of_recipe(folder: Path) -> bool:
    """Whether config.json says what was trained; with parts of a user's own nothing can."""
    return (folder.parent / "config.json").is_file()


def _write_batch(path: Path, batch: Instances) -> None:
    """x_true and p, or p_0, p_1, ... where p is a structure of several tensors."""
    tensors = [tensor.detach().float() for tensor in tensors_of(batch.p)]
    names = ["p"] if len(tensors) == 1 else [f"p_{number}" for number in range(len(tensors))]
    write_arrays(path, x_true=batch.x_true.to(torch.uint8), **dict(zip(names, tensors, strict=True)))


@dataclass(frozen=True)
class Fault:
    """A step that could not be taken, ready to be tried again."""

    run: Run
    step: int
    batch_seed: int
    draw: int
    error: str
    batch: Instances
    network: nn.Module  # with the weights of that moment: before the step, unless the step itself broke them

    def loss(self) -> Tensor:
        """Compute the loss of the batch again, which may raise as it did in training."""
        from qubolearn.training.steps import mean_loss
        from qubolearn.training.train import task_of

        return mean_loss(task_of(self.run.problem, self.run.recipe, self.network), self.batch, self.draw)


def load_fault(folder: Path | str, problem: Problem | type[Problem] | None = None) -> Fault:
    """The fault in ``RUN/fault``: ``load_fault("runs/k4/fault").loss()`` meets it again.

    ``problem`` is as for :meth:`Run.open <qubolearn.training.runs.Run.open>`. Where ``fit`` was given parts of your
    own, nothing can make them again: then this is a QubolearnError that says which files hold what.
    """
    from qubolearn.training.build import new_network
    from qubolearn.training.runs import Run

    folder = Path(folder)
    if folder.is_dir() and not _of_recipe(folder):
        raise QubolearnError(
            f"{folder} is of parts that only you can make: load weights.safetensors into your network with "
            "qubolearn.files.read_tensors(..., finite=False), and p and x_true from batch.npz with numpy.load"
        )
    run = Run.open(folder.parent, problem)
    notes = read_json(folder / "fault.json")
    if not (type(notes.get("step")) is int and type(notes.get("batch_seed")) is int and notes["step"] >= 0):
        raise QubolearnError(f"{folder / 'fault.json'} lacks a step or a batch_seed; was it made by a training?")
    arrays = load_npz(folder / "batch.npz", {"p": ("f", 2), "x_true": ("u", 2)}, finite=False)
    p, x_true = torch.tensor(arrays["p"]), torch.tensor(arrays["x_true"]).float()
    if p.shape != (len(x_true), run.problem.input_size) or x_true.shape[1] != run.problem.bits:
        raise QubolearnError(f"{folder / 'batch.npz'} does not fit the problem of config.json above it")
    network = new_network(run.problem, run.recipe)
    weights, _ = read_tensors(folder / "weights.safetensors", network.state_dict(), finite=False)
    network.load_state_dict(weights)
    batch = Instances(p, x_true, run.problem.decode(x_true))
    draw = notes.get("draw", notes["step"])
    return Fault(run, notes["step"], notes["batch_seed"], draw, str(notes.get("error")), batch, network)
