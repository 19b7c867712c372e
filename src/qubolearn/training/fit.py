"""The training loop: p -> network -> A -> solver -> loss -> optimizer."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qubolearn.data.contract import Instances
from qubolearn.errors import NonFiniteError, QubolearnError, error_context
from qubolearn.evaluation import score_network
from qubolearn.files import lock_folder
from qubolearn.losses import Likelihood, Loss, as_loss
from qubolearn.solvers import ExhaustiveSearch, Solver
from qubolearn.solvers.contract import check_solver
from qubolearn.training import defaults
from qubolearn.training.batches import Settings, make_batches, make_validation
from qubolearn.training.callbacks import Callback, Record, Training, call, check_callbacks, edits_gradient
from qubolearn.training.captured import CapturedSteps, can_capture
from qubolearn.training.digest import digest_of
from qubolearn.training.folder import Folder
from qubolearn.training.optimizers import Adam, make_update
from qubolearn.training.steps import Steps, Task, check_network, check_task, report_fault, standardize_inputs
from qubolearn.training.threads import deferred_interrupt, training_context

__all__ = ["Settings", "Training", "fit"]

SECONDS_BETWEEN_CHECKPOINTS = 20.0


def fit(
    network: nn.Module,
    data: Any,
    loss: Loss | Callable[..., torch.Tensor] | None = None,
    *,
    epochs: int | None = None,
    optimizer: Adam | torch.optim.Optimizer | None = None,
    schedule: Any = None,
    solver: Solver | None = None,
    callbacks: Sequence[Callback] = (),
    batch_size: int | None = None,
    instances: int | None = None,
    fresh: bool = False,
    validation: Any = 1000,
    score_after: Sequence[int] | None = None,
    standardize: bool = True,
    steps_per_epoch: int | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    folder: Folder | Path | str | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Training:
    """Train a network so that the minimizer of its QUBO is the solution.

    Args:
        network: a :class:`qubolearn.QuboNetwork`, or any module from p to A ``[batch, n, n]``.
        data: a Problem, :class:`qubolearn.Arrays`, or ``(p, x)`` as arrays, Dataset or DataLoader.
        loss: a loss, a sum of losses, or any ``f(A, batch)`` that returns one value per instance.
            Default: ``Likelihood(beta=1)``; if the entries of A are bounded, use a beta of 3 to 10.
        epochs: passes over the training instances. By default at least 10, and at least 2,000 steps;
            training then stops when the loss of held-out instances (the validation part of Arrays,
            else 15 %) no longer improves, and the network gets its best weights.
        optimizer: :class:`qubolearn.Adam` or any torch optimizer. By default Adam with a cosine
            schedule and the rate 1 / fan-in of the widest layer, or more if that is below 16.
        schedule: a torch learning-rate scheduler for a torch optimizer; it moves once per step.
        solver: the solver of losses that need one; each step seeds it with its ``with_seed``, if any.
            Default: ``ExhaustiveSearch()``.
        callbacks: see :mod:`qubolearn.training.callbacks`.
        batch_size: instances per step; by default 32 below 4,096 instances, else 128.
        instances: the size of the training set that is drawn from a Problem; default 5640.
        fresh: draw new instances from the Problem every epoch.
        validation: how many validation instances to draw from a Problem; or data to score.
        score_after: the steps after which to score; by default the last of each epoch, or 25
            steps evenly spaced if ``epochs`` is not given.
        standardize: standardize p and center couplings by the training instances, if the network has such layers.
        steps_per_epoch: for a DataLoader without a length.
        seed: fixes training data, order, dropout and stochastic solvers; not the initial weights.
        device: where to train; the network is moved there.
        folder: where to store metrics, checkpoints and the model. The same call again resumes a
            stopped run or loads a finished one. Ctrl-C saves the last step.
        overwrite: start over if the folder holds a run. Without it, only epochs, device, callbacks
            and ``score_after`` may differ from that run (:mod:`qubolearn.training.digest`).
        progress: show a progress bar; by default on a terminal and in a notebook.

    Returns:
        The :class:`Training` with its history. The network is left in evaluation mode.

    >>> from qubolearn import QuboNetwork, evaluate, topology
    >>> pattern = topology("dense", 2)
    >>> _ = torch.manual_seed(0)
    >>> p = 2 * torch.rand(400, 2) - 1
    >>> network = QuboNetwork(nn.Linear(2, pattern.size), pattern)
    >>> training = fit(network, (p, p > 0))
    >>> evaluate(network, (p, p > 0)).metrics["accuracy"] > 0.9
    True
    """
    settings = Settings(epochs, batch_size, instances, fresh, standardize, steps_per_epoch, seed)
    check_network(network)
    loss, solver = as_loss(loss or Likelihood(1.0)), ExhaustiveSearch() if solver is None else solver
    check_solver(solver)
    with training_context(device), ExitStack() as closing:
        # data, network, loss, solver, optimizer
        network.to(device).train()
        own = epochs is not None or not isinstance(validation, int)
        trained, held = (data, None) if own else defaults.hold_out(data, seed)
        problem, batches = make_batches(trained, settings, device)
        held_out = make_validation(validation if held is None else held, problem, seed, device)
        check_callbacks(callbacks, validated=bool(held_out))
        of_epoch = batches.steps_per_epoch
        training = Training(network, (epochs or defaults.default_epochs(of_epoch)) * of_epoch)
        spacing = of_epoch if epochs else max(1, training.steps // defaults.SCORINGS)
        watched = _scoring_steps(score_after, spacing, training.steps)
        optimizer = optimizer or defaults.default_optimizer(network)
        update = make_update(network, optimizer, schedule, training.steps)
        task = Task(network, update, batches, loss.begin(), solver, seed, problem)
        chosen = any(isinstance(each, defaults.BestWeights) for each in callbacks)
        task.keeps_best = bool(held_out) and (epochs is None or chosen)
        editing = filter(edits_gradient, callbacks)
        task.on_gradient = [partial(call, each, "on_gradient", training) for each in editing]
        check_task(task, held_out)

        # the folder, created only when all arguments have been accepted
        task.folder = writer = Folder.create(folder) if isinstance(folder, (str, Path)) else folder
        if writer:
            closing.enter_context(lock_folder(writer.folder))
        if writer and overwrite:
            writer.clear()
        if standardize:
            standardize_inputs(task)
        if task.folder:  # resume
            compared = {**asdict(settings), "instances": problem and batches.instances, "solver": solver}
            digest = digest_of(network, trained, batches, loss, optimizer, schedule, **compared)
            task.folder.check_digest(digest)
            training.step = task.folder.restore(network, update, training.steps)
            past = (Record(old) for old in task.folder.metrics())
            training.history = [old for old in past if 0 < old["step"] <= training.step]
            ended = training.step > 0 and task.folder.ended(training.steps)
            training.stopping = 2 if ended and training.step < training.steps else 0
            if writer and training.step:
                print(f"resumed at step {training.step}" + " (finished)" * ended)
            elif writer:
                writer.write_digest(digest)
                choices = {name: digest[name] for name in ("loss", "optimizer")}
                writer.write_config(network, held_out, training.steps // of_epoch, seed, **choices)
            if ended and task.folder.finished:
                task.folder.put_into(network)
                writer = None

        # the loop
        callbacks = [*callbacks, *defaults.progress_bar(progress, callbacks)]
        if task.keeps_best and not chosen:
            callbacks.append(defaults.BestWeights(task.folder))
        started = list[Callback]()
        try:
            for each in callbacks:
                call(each, "on_start", training)
                started.append(each)
            with deferred_interrupt(partial(training.stop, False)) if writer else nullcontext():
                _take_steps(task, training, watched, held_out, callbacks, writer)
            if writer and training.stopping != 1:
                writer.checkpoint(network, update, training.step, training.steps)
        except KeyboardInterrupt:
            if writer and training.step and not task.updating:
                writer.checkpoint(network, update, training.step)
                print(f"interrupted: {writer.folder} has step {training.step}; call fit again to resume")
            raise
        finally:
            network.eval()
            with ExitStack() as ending:  # all, even if one raises
                for each in reversed(started):
                    ending.callback(call, each, "on_end", training)
        if writer and training.stopping != 1:
            writer.keep(network)  # on_end may restore the best weights
    return training


def _take_steps(
    task: Task,
    training: Training,
    watched: list[int],
    held_out: list[Instances],
    callbacks: Any,
    writer: Folder | None,
) -> None:
    """Take all steps; score, log and save after the chosen ones."""
    if writer and training.step == 0 and held_out:
        writer.log(step=0, **_scores(task, held_out, 0))
    began = saved = time.perf_counter()
    engine = None
    while training.step < training.steps and not training.stopping:
        engine = engine or (CapturedSteps(task) if can_capture(task) else Steps(task))
        end = min(training.step + engine.max_unsynced_steps, watched[bisect_right(watched, training.step)])
        training.loss = engine.advance(training.step, end)
        training.step, training.scores, training.seconds = end, None, time.perf_counter() - began
        if end in watched:
            training.scores = _scores(task, held_out, end)
            record = Record(step=end, loss=training.loss, seconds=training.seconds, **training.scores)
            training.history.append(record)
            if writer:
                writer.log(**record)
        for each in callbacks:
            call(each, "on_step", training)
        if writer and (training.stopping or time.perf_counter() - saved > SECONDS_BETWEEN_CHECKPOINTS):
            writer.checkpoint(task.network, task.optimizer, end)
            saved = time.perf_counter()


def _scoring_steps(chosen: Iterable[int] | None, spacing: int, steps: int) -> list[int]:
    """Return the steps to score after, in order, with the last step."""
    if not isinstance(found := range(spacing, steps, spacing) if chosen is None else chosen, Iterable):
        raise QubolearnError(f"score_after={chosen!r}; expected a list of steps")
    return [*sorted({step for step in found if 0 < step < steps}), steps]


def _scores(task: Task, held_out: Sequence[Instances], step: int) -> dict[str, Any]:
    """Return the validation metrics after a step."""
    try:
        with error_context("the scoring after step", step):
            found = score_network(task.network, task.problem, held_out) if held_out else {}
            return found | defaults.validation_loss(task, held_out) if task.keeps_best else found
    except NonFiniteError as error:
        raise report_fault(task, max(0, step - 1), held_out[0], error) from error
