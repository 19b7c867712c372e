"""The loop, on one page: p -> network -> A -> solver -> loss, with everything random named by (seed, step)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qubolearn.losses import Loss
from qubolearn.solvers import Solver
from qubolearn.training.callbacks import Callback
from qubolearn.training.distributed import ALONE, Peers
from qubolearn.training.fast import make_steps
from qubolearn.training.folder import Folder
from qubolearn.training.optimizers import Adam
from qubolearn.training.session import Session, Training, spans, surroundings

__all__ = ["Training", "fit", "take_steps"]


def fit(
    network: nn.Module,
    data: Any,
    loss: Loss | Callable[..., torch.Tensor] | None = None,
    *,
    epochs: int = 30,
    optimizer: Adam | torch.optim.Optimizer | None = None,
    schedule: Any = None,
    solver: Solver | None = None,
    callbacks: Sequence[Callback] = (),
    batch_size: int = 128,
    instances: int | None = None,
    fresh: bool = False,
    validation: Any = 1000,
    score_after: Sequence[int] | None = None,
    standardise: bool = True,
    steps_per_epoch: int | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    folder: Folder | Path | str | None = None,
    peers: Peers = ALONE,
) -> Training:
    """Train a network so that the minimiser of its QUBO is the solution.

    Args:
        network: a :class:`qubolearn.QuboNetwork` around any body, or any module that takes p to A ``[batch, n, n]``.
        data: a Problem, arrays ``(p, x)``, :class:`qubolearn.Arrays`, a torch Dataset or a DataLoader of ``(p, x)``.
        loss: a loss of ours, a sum of them, or any callable ``f(A, batch)`` that returns one value per instance.
            Default: ``Likelihood()``.
        epochs: passes over the training instances.
        optimizer: :class:`qubolearn.Adam` (the default, and the fastest) or any optimizer of torch's.
        schedule: a learning-rate scheduler of torch's for an optimizer of torch's; it moves once a step.
        solver: the solver for losses that need one; where it has ``with_seed``, each step gives it a new seed.
            Default: ``ExhaustiveSearch()``.
        callbacks: see :mod:`qubolearn.training.callbacks`.
        batch_size: instances of one step; a DataLoader has its own.
        instances: the size of the training set that is drawn from a Problem; default 5640, or all of arrays.
        fresh: draw new instances from the Problem every epoch.
        validation: how many validation instances to draw from a Problem; or data to score, as for
            :func:`qubolearn.evaluate`. Arrays have their own.
        score_after: the steps after which they are scored; by default the last one of each epoch.
        standardise: fit the network's ``standardise`` layer to the training instances, where it has one.
        steps_per_epoch: for a DataLoader without a length.
        seed: fixes training data, order, dropout and stochastic solvers; the initial weights are the caller's.
        device: where to train; the network is moved there.
        folder: where to keep metrics, checkpoints and the model that is returned. The same call again continues a
            stopped training; one that has ended is not trained again: the network is the folder's model.
        peers: this process among those that train together.

    Returns:
        The :class:`Training` with its history; the network is trained in place and left in evaluation mode.

    Raises:
        QubolearnError: where the parts do not fit together, in one line that names the part, its value and the remedy.

    >>> from qubolearn import Adam, Likelihood, QuboNetwork, evaluate, topology
    >>> pattern = topology("dense", 2)
    >>> _ = torch.manual_seed(0)
    >>> p = 2 * torch.rand(400, 2) - 1
    >>> network = QuboNetwork(nn.Linear(2, pattern.size), pattern)
    >>> fit(network, (p, p > 0), Likelihood(), optimizer=Adam(0.05), epochs=20).step
    60
    >>> evaluate(network, (p, p > 0)).metrics["accuracy"] > 0.9
    True
    """
    arguments = locals()  # as they were given: a session takes the same ones
    with peers.together(), surroundings(device), Session(**arguments) as session:
        take_steps(session)
    return session.training


def take_steps(session: Session) -> None:
    """All steps of a session, by the fastest engine that can take them."""
    training = session.training
    if not session.ended:
        steps = make_steps(session.task)
        for first, end in spans(training.step, session.watched, lambda: steps.max_unsynced_steps):
            session.after(end, steps.advance(first, end))
            if training.stopping:
                break
    session.finish()
