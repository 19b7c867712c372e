"""Many trainings at the price of one: networks of one shape that differ in seed, data, loss, weight or rate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from inspect import signature
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader

from qubolearn.errors import CallbackError, NonFiniteError, QubolearnError
from qubolearn.problems.contract import Problem
from qubolearn.training.batches import Batches, batches_of
from qubolearn.training.fast.stacked import StackedSteps, can_stack, shape_of
from qubolearn.training.fit import fit, take_steps
from qubolearn.training.session import Session, Training, surroundings
from qubolearn.training.steps import Task
from qubolearn.training.threads import own_stream

__all__ = ["fit_many"]

T = TypeVar("T")
#: What ends one training and leaves the others alone.
ITS_OWN = (NonFiniteError, CallbackError)


def fit_many(runs: Iterable[Mapping[str, Any]], **shared: Any) -> list[Training]:
    """Train many networks, each as :func:`qubolearn.fit` would; those of one shape take their steps together.

    ``fit_many([dict(network=a, seed=0), dict(network=b, seed=1)], data=data, epochs=30)`` is the same as
    ``fit(a, data, epochs=30, seed=0)`` and ``fit(b, data, epochs=30, seed=1)`` up to rounding. On a GPU, where a step
    of small networks takes hardly longer for 72 of them than for one, networks with the same layers, batch size and
    number of bits become one network with batched matrix products. They may differ in weights, data, seed, loss, rate,
    epochs, callbacks and folder. On a CPU, and for what cannot be taken together (other solvers than exhaustive search,
    optimizers of torch's, a DataLoader), trainings are run one after the other.

    Args:
        runs: the arguments of :func:`qubolearn.fit` that differ, one mapping for each training.
        shared: those that all trainings have in common; ``device`` must be one of them.

    Returns:
        One :class:`Training` for each run, in their order. A training that meets NaN, or whose callback fails,
        does not touch the others: its ``error`` says at which step and why. After NaN its network is that of before
        the step.

    Raises:
        QubolearnError: where the arguments of a run do not fit together or a callback fails in ``on_start``, as in
            ``fit``; then nothing of that group has been trained.

    >>> from torch import nn
    >>> from qubolearn import Adam, QuboNetwork, topology
    >>> pattern = topology("dense", 2)
    >>> p = 2 * torch.rand(400, 2) - 1
    >>> networks = [QuboNetwork(nn.Linear(2, pattern.size), pattern) for _ in range(3)]
    >>> runs = [dict(network=network, seed=seed, optimizer=Adam(0.05)) for seed, network in enumerate(networks)]
    >>> [training.step for training in fit_many(runs, data=(p, p > 0), epochs=2)]
    [6, 6, 6]
    """
    wanted = [{**shared, **run} for run in runs]
    devices = {str(run.get("device", "cpu")) for run in wanted}
    if len(devices) > 1:
        raise QubolearnError(f"runs on the devices {', '.join(sorted(devices))}; want one device for all of them")
    if twice := len(wanted) - len({id(run.get("network")) for run in wanted}):
        raise QubolearnError(f"{twice} of {len(wanted)} runs train another run's network; give each its own")
    device = devices.pop() if devices else "cpu"
    trainings: dict[int, Training] = {}
    with surroundings(device):
        for group in _grouped(range(len(wanted)), lambda run: _seen_from_outside(wanted[run], run)):
            trainings |= zip(group, _fit_group([wanted[run] for run in group], device), strict=True)
    return [trainings[run] for run in range(len(wanted))]


def _seen_from_outside(run: Mapping[str, Any], number: int) -> Hashable:
    """What tells shapes apart before data is drawn; on a CPU every run is a group, for there is nothing to gain."""
    on_gpu = torch.device(run.get("device", "cpu")).type == "cuda"
    return (repr(run.get("network")), run.get("batch_size")) if on_gpu else number


def _fit_group(runs: Sequence[Mapping[str, Any]], device: str) -> list[Training]:
    """Runs whose data are in memory at the same time."""
    with ExitStack() as opened:
        find = _shared_batches()
        sessions = [opened.enter_context(Session(**_with_defaults(run), find_batches=find)) for run in runs]
        by_loss = sorted(sessions, key=lambda each: repr(each.task.loss))  # equal ones side by side need no copies
        for group in _grouped(by_loss, _kind):
            with own_stream(device):
                steps = _stack([session.task for session in group]) if len(group) > 1 else None
                if steps is not None:
                    _run_stack(group, steps)
                else:
                    for session in group:
                        _run_alone(session)
        return [session.training for session in sessions]


def _kind(session: Session) -> Hashable:
    """What sessions that take their steps together have in common; one that has ended in its folder takes none."""
    return shape_of(session.task) if can_stack(session.task) and not session.ended else id(session)


def _with_defaults(run: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of :func:`qubolearn.fit`, those that a run does not give as ``fit`` has them."""
    bound = signature(fit).bind(**run)
    bound.apply_defaults()
    return dict(bound.arguments)


def _stack(tasks: Sequence[Task]) -> StackedSteps | None:
    """The steps of all, or None where they cannot be taken as one after all."""
    try:
        return StackedSteps(tasks)
    except Exception:  # of vmap, of a graph, or of a user's part, as the steps of that run by itself will say
        return None


def _run_alone(session: Session) -> None:
    try:
        take_steps(session)
    except ITS_OWN as error:
        session.training.error = error
    _close(session)


def _close(session: Session) -> None:
    """End one training; where its callbacks fail at that, the others go on."""
    try:
        session.close()
    except CallbackError as error:
        session.training.error = session.training.error or error


def _run_stack(sessions: Sequence[Session], steps: StackedSteps) -> None:
    """All steps of all sessions; each may end, fail or be stopped by itself."""
    running = dict(enumerate(sessions))
    while running:
        due = min(session.next_watched - session.training.step for session in running.values())
        count = min(due, steps.max_unsynced_steps)
        first = [session.training.step for session in sessions]
        found = steps.advance(first, count)
        for run, session in list(running.items()):
            try:
                if isinstance(loss := found[run], NonFiniteError):
                    raise loss
                session.after(first[run] + count, loss)
                if not session.ended:
                    continue
                session.finish()
            except ITS_OWN as error:
                session.training.error = error
            steps.retire(run)
            _close(session)
            del running[run]


def _grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    groups: dict[Hashable, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return list(groups.values())


def _shared_batches() -> Callable[..., tuple[Problem | None, Batches]]:
    """:func:`batches_of` that draws what several runs train on once."""
    known: dict[Hashable, tuple[Problem | None, Batches]] = {}

    def find(data: Any, **options: Any) -> tuple[Problem | None, Batches]:
        whose = data if isinstance(data, Problem) and isinstance(data, Hashable) else id(data)
        key = (whose, *(str(value) for value in options.values()))
        if isinstance(data, DataLoader):  # which has a place of its own
            return batches_of(data, **options)
        if key not in known:
            known[key] = batches_of(data, **options)
        return known[key]

    return find
