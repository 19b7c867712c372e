"""The defaults of ``fit``; ``make benchmark NAME=defaults`` measures them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, random_split

from qubolearn.data.arrays import map_tensors
from qubolearn.data.contract import Instances
from qubolearn.errors import QubolearnError
from qubolearn.files import read_tensors, write_tensors
from qubolearn.random import stream
from qubolearn.training.batches import as_arrays
from qubolearn.training.callbacks import Callback, EarlyStopping, ProgressBar, Training
from qubolearn.training.folder import BEST, Folder
from qubolearn.training.optimizers import Adam, Cosine
from qubolearn.training.steps import Task, forward_with_features

#: Fewest steps and epochs of a run.
STEPS, EPOCHS = 2000, 10
#: The share of arrays and datasets that is held out, from this size on.
HELD_OUT, MIN_INSTANCES = 0.15, 40
#: Number of scorings, and how many without a better one stop a run.
SCORINGS, PATIENCE = 25, 10
#: Range of the default learning rate 1 / fan-in, and fan-in below which it grows.
SLOWEST, FASTEST, NARROW = 1e-4, 1.0, 16
#: Scales of A for the validation loss, and its maximum instances.
SCALES, MAX_SCORED = tuple(2.0 ** (k / 2) for k in range(-4, 5)), 512


def default_epochs(steps_per_epoch: int) -> int:
    """Return the number of epochs: at least 10, and at least 2,000 steps."""
    return max(EPOCHS, -(-STEPS // steps_per_epoch))


def default_optimizer(network: nn.Module) -> Adam:
    """Return Adam with a cosine schedule and the rate 1 / fan-in.

    The fan-in is that of the widest layer: the sum over a neuron's inputs moves
    by at most about 1 per step. Below 16, narrow bodies learn better at a rate
    multiplied by sqrt(16 / fan-in).

    >>> default_optimizer(nn.Sequential(nn.Linear(6, 50), nn.ReLU(), nn.Linear(50, 10))).learning_rate
    0.02
    >>> default_optimizer(nn.Linear(4, 10)).learning_rate
    0.5
    """
    fan_in = max((weight[0].numel() for weight in network.parameters() if weight.ndim > 1), default=1)
    return Adam(min(FASTEST, max(SLOWEST, max(1, NARROW / fan_in) ** 0.5 / fan_in)), Cosine())


def hold_out(data: Any, seed: int) -> tuple[Any, Any]:
    """Return data without 15 % of its instances, and the held-out part, or None if data holds it."""
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset) and len(data) >= MIN_INSTANCES:  # type: ignore[arg-type]
        trained, held = random_split(data, [1 - HELD_OUT, HELD_OUT], stream(seed, "hold out"))
        return trained, held
    enough = isinstance(data, (tuple, list)) and np.shape(data[1])[:1] >= (MIN_INSTANCES,)
    return as_arrays(data, HELD_OUT if enough else 0, seed), None


@torch.no_grad()
def validation_loss(task: Task, held_out: Sequence[Instances]) -> dict[str, float]:
    """Return mean and standard error of the held-out loss at the best scale of A.

    The scale does not change the minimizer, and an overconfident A would hide
    progress. Losses that call the solver are computed at one scale.
    """
    network, loss = task.network.eval(), task.loss
    scales, values, left = (1.0,) if loss.solves else SCALES, list[Tensor](), MAX_SCORED
    for piece in held_out:
        some = piece.rows(slice(0, left))
        A, features = forward_with_features(network, some)
        batch, left = task.batch(some, 0, features), left - len(some.x_true)
        scaled = (map_tensors(partial(torch.mul, other=scale), A) for scale in scales)
        values.append(torch.stack([loss(each, batch).double().cpu() for each in scaled]))
        if left <= 0:
            break
    network.train()
    each = torch.cat(values, 1)  # [scales, instances]
    best = each[each.mean(1).argmin()]
    error = float(best.std()) / len(best) ** 0.5 if len(best) > 1 else 0.0
    return {"validation_loss": float(best.mean()), "validation_loss_error": error}


class BestWeights(EarlyStopping):
    """Keep the last weights within one standard error of the lowest validation loss.

    Later weights are better on average, because the rate falls.

    Args:
        folder: stores the weights for a resumed run.
    """

    def __init__(self, folder: Folder | None = None) -> None:
        super().__init__("validation_loss", PATIENCE)
        self._path = folder.folder / BEST if folder else None
        self._weights: dict[str, Tensor] = {}

    def on_start(self, training: Training) -> None:
        super().on_start(training)
        if training.step and self._path and self._path.is_file():
            self._weights, _ = read_tensors(self._path, training.network.state_dict())

    def on_step(self, training: Training) -> None:
        super().on_step(training)
        if training.scores is not None and self._bad == 0:
            self._weights = {name: tensor.clone() for name, tensor in training.network.state_dict().items()}
            if self._path:
                write_tensors(self._path, self._weights, step=training.step)

    def on_end(self, training: Training) -> None:
        if self._weights:
            training.network.load_state_dict(self._weights)

    def _count(self, record: Mapping[str, Any]) -> int:
        self.improved(record)
        near = record[self.metric] <= -self.best + record["validation_loss_error"]
        self._bad = 0 if near else self._bad + 1
        return self._bad


def progress_bar(progress: bool | None, callbacks: Sequence[Callback]) -> list[Callback]:
    """Return a progress bar unless it is off or among the callbacks."""
    if progress not in (None, True, False):
        raise QubolearnError(f"progress={progress!r}; expected True, False or None")
    shown = sys.stdout.isatty() or "ipykernel" in sys.modules if progress is None else progress
    return [ProgressBar()] if shown and not any(isinstance(each, ProgressBar) for each in callbacks) else []
