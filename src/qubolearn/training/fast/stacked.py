"""One step of many trainings at once: networks of one shape as one network with weights ``[runs, ...]``.

For networks of the paper's size a GPU takes hardly longer for 72 of them than for one. ``torch.func.vmap`` turns the
network's matrix products into batched ones; search and losses see one batch of ``runs * batch`` QUBOs. Weights and both
moments of each run are rows of ``[runs, size]``, so that every network can be scored and saved at any time.

Runs share nothing but the kernels. Where one meets NaN, its row alone is put back and its steps are taken again one by
one, so that the error names the step that failed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from qubolearn.errors import NonFiniteError
from qubolearn.losses.contract import Batch, Loss
from qubolearn.problems.contract import Instances, SoftTargets
from qubolearn.problems.structures import map_tensors, tensors_of
from qubolearn.qubo import Qubo
from qubolearn.training.batches import Drawn
from qubolearn.training.fast import captured
from qubolearn.training.fast.adam import FlatAdam, move
from qubolearn.training.fast.window import Window, blank
from qubolearn.training.steps import Steps, Task, mean_loss, said_of

__all__ = ["StackedSteps", "can_stack", "shape_of"]

#: A window should take no more seconds, since it can neither be stopped nor saved.
SECONDS = 0.5
#: How far the loss of a run may be from that of the same step taken by itself.
TOLERANCE = 1e-2


def can_stack(task: Task) -> bool:
    """Whether a training can be one of many: alone, with our Adam, and where nothing in its steps needs the host."""
    return captured.needs_no_host(task) and not getattr(task.network, "sparse", False)


def shape_of(task: Task) -> Hashable:
    """What trainings must have in common to take their steps as one, as far as can be seen from outside."""
    assert isinstance(task.batches, Drawn)
    network = task.network
    tensors = [
        (name, tensor.shape, tensor.dtype) for name, tensor in [*network.named_parameters(), *network.named_buffers()]
    ]
    trained = tuple(parameter.requires_grad for parameter in network.parameters())
    data = [(tensor.shape[1:], tensor.dtype) for tensor in tensors_of(task.batches.first())]
    made = (type(network), repr(network), getattr(network, "method", None))
    return (*made, *tensors, trained, *data, task.batches.batch_size, task.loss.soft, repr(task.solver))


class _Part(NamedTuple):
    """A loss, and the runs that have it as a part."""

    loss: Loss
    weights: Tensor  # [chosen]
    runs: Tensor  # [chosen]
    rows: Tensor | slice | None  # the rows of these runs in a batch of all; None where they are all


class _SomeRows(Batch):
    """Some rows of a batch, whose solver is asked once for all."""

    def __init__(self, whole: Batch, A: Tensor, rows: Tensor | slice, instances: Instances) -> None:
        self._pick: Callable[[Tensor], Tensor] = lambda tensor: (
            tensor[rows] if isinstance(rows, slice) else tensor.index_select(0, rows)
        )
        soft = None if whole.soft is None else SoftTargets(*map(self._pick, whole.soft))
        super().__init__(instances.rows(rows), whole.solver, soft, [self._pick(f) for f in whole.features])
        self._of, self._whole_A, self.A = whole, A, self._pick(A)

    def best(self, A: Qubo, count: int) -> Tensor:
        if A.data_ptr() != self.A.data_ptr():  # type: ignore[union-attr]
            return super().best(A, count)
        return self._pick(self._of.best(self._whole_A, count))


class StackedSteps:
    """The steps of trainings that :func:`can_stack` and have one :func:`shape_of`; up to rounding those of each alone.

    Raises a RuntimeError where their steps cannot be taken as one after all, and leaves the networks as they were.
    """

    #: Steps that are taken before anybody looks at the losses.
    max_unsynced_steps = 1

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = list(tasks)
        runs, device = len(self.tasks), next(self.tasks[0].network.parameters()).device
        self._stack_weights()
        self._window = Window(self.tasks, device)
        self._losses = torch.zeros(runs, device=device)
        self._retired = [False] * runs
        self._parts = self._all_parts(device)
        self._states = max(task.loss.states for task in self.tasks)
        before = self._state()
        try:  # on zeros, since a run that begins with NaN is no reason against the others
            self._replay = _ready(self._take, device)
            self._restore(before, range(runs))
            self._check_agreement(before)
        finally:
            self._restore(before, range(runs))

    def advance(self, first: Sequence[int], count: int) -> list[float | NonFiniteError]:
        """Take ``count`` steps of each run, from its step ``first`` on; the last loss, or what ended the run.

        Runs that are retired take none; their loss says nothing.
        """
        before, began = self._state(), time.perf_counter()
        self._window.fill(first, count)
        try:
            for _ in range(count):
                self._replay()
            losses, health = self._look()
        except NonFiniteError:  # outside of a graph somebody looks at the numbers of all runs
            losses = health = [math.nan] * len(self.tasks)
        self.max_unsynced_steps = max(1, min(self._window.room, int(SECONDS * count / (time.perf_counter() - began))))
        found: list[float | NonFiniteError] = list(losses)
        bad = [
            run
            for run, numbers in enumerate(zip(losses, health, strict=True))
            if not (self._retired[run] or all(map(math.isfinite, numbers)))
        ]
        self._restore(before, bad)
        for run in bad:
            try:
                found[run] = Steps(self.tasks[run]).advance(first[run], first[run] + count)
            except NonFiniteError as error:
                found[run] = error
        return found

    def retire(self, run: int) -> None:
        """Take a run out and give it weights of its own; zeros are trained in its row from now on, unseen."""
        optimizer = self.tasks[run].optimizer
        assert isinstance(optimizer, FlatAdam)
        optimizer.lie_in(*(torch.empty_like(tensor[run]) for tensor in self._moving))
        self._retired[run] = True
        self._window.retire(run)
        for tensor in self._moving:
            blank(tensor[run])

    def _stack_weights(self) -> None:
        """Lay weights and moments of all runs into rows, and the buffers of their networks side by side."""
        optimizers = [task.optimizer for task in self.tasks]
        size = self.tasks[0].optimizer.gradient.numel() - 1
        like = self.tasks[0].optimizer.gradient
        self._moving = tuple(like.new_zeros(len(self.tasks), size) for _ in range(3))  # values, first, second
        for run, optimizer in enumerate(optimizers):
            assert isinstance(optimizer, FlatAdam)
            optimizer.lie_in(*(tensor[run] for tensor in self._moving))
        self._template = _Couplings(self.tasks[0].network)
        self._parameters: dict[str, Tensor] = {}
        fixed: list[str] = []
        start = 0
        for name, parameter in self._template.named_parameters():
            if not parameter.requires_grad:
                fixed.append(name)
                continue
            piece = self._moving[0][:, start : start + parameter.numel()].view(-1, *parameter.shape)
            self._parameters[name] = piece.detach().requires_grad_()
            start += parameter.numel()
        named = [
            dict([*net.named_parameters(), *net.named_buffers()]) for net in (_Couplings(t.network) for t in self.tasks)
        ]
        others = [*fixed, *(name for name, _ in self._template.named_buffers())]
        self._others: dict[str, Tensor] = {}
        self._dims: dict[str, int | None] = {}
        for name in others:  # what all share is not multiplied
            tensors = [each[name].detach() for each in named]
            shared = all(torch.equal(tensor, tensors[0]) for tensor in tensors)
            self._others[name] = tensors[0].clone() if shared else torch.stack(tensors)
            self._dims[name] = None if shared else 0

    def _all_parts(self, device: torch.device) -> list[_Part]:
        """Equal losses of several runs are one part: another weight costs nothing, another loss a few kernels."""
        found: list[tuple[Loss, dict[int, float]]] = []
        for run, task in enumerate(self.tasks):
            for weight, loss in task.loss.parts:
                of = next((of for known, of in found if known is loss or known == loss), None)
                if of is None:
                    found.append((loss, of := {}))
                of[run] = of.get(run, 0.0) + weight
        parts = []
        for loss, of in found:
            runs = torch.tensor(list(of), device=device)
            weights = torch.tensor(list(of.values()), dtype=self._moving[0].dtype, device=device)
            parts.append(_Part(loss, weights, runs, self._rows_of(list(of), device)))
        return parts

    def _rows_of(self, runs: Sequence[int], device: torch.device) -> Tensor | slice | None:
        """Where the instances of these runs are in a batch of all; runs that follow one another need no copy."""
        if len(runs) == len(self.tasks):
            return None
        size = self._window.batch_size
        if runs[-1] - runs[0] + 1 == len(runs):
            return slice(runs[0] * size, (runs[-1] + 1) * size)
        return (torch.tensor(runs, device=device)[:, None] * size + torch.arange(size, device=device)).flatten()

    def _take(self) -> None:
        """One step of all runs; nothing in it needs the host."""
        losses = self._loss()
        slopes = torch.autograd.grad(
            losses.sum(), list(self._parameters.values()), allow_unused=True, materialize_grads=True
        )
        values, first, second = self._moving
        move(values, torch.cat([slope.flatten(1) for slope in slopes], 1), first, second, *self._window.rates())
        self._losses.copy_(losses.detach())
        self._window.move_on()

    def _loss(self) -> Tensor:
        """The mean loss of each run ``[runs]`` in the next step of the window."""
        own, soft = self._window.batch()
        A, features = vmap(self._couplings, in_dims=(0, self._dims, 0))(self._parameters, self._others, own.p)
        flat: Callable[[Any], Any] = lambda given: map_tensors(lambda tensor: tensor.flatten(0, 1), given)  # noqa: E731
        A, instances = flat(A), flat(own)
        whole = Batch(instances, self.tasks[0].solver, flat(soft), flat(list(features)))
        if self._states:
            whole.best(A, self._states)
        total = torch.zeros(len(self.tasks), dtype=A.dtype, device=A.device)
        for loss, weights, runs, chosen in self._parts:
            if chosen is None:
                total = total + weights * loss(A, whole).view(len(weights), -1).mean(1)
            else:
                some = _SomeRows(whole, A, chosen, instances)
                total = total.index_add(0, runs, weights * loss(some.A, some).view(len(weights), -1).mean(1))
        return total

    def _couplings(self, weights: Mapping[str, Tensor], others: Mapping[str, Tensor], p: Any) -> tuple[Tensor, Any]:
        """A and hidden features of one run, whose weights are put into the network of the first."""
        return functional_call(self._template, ({**weights, **others},), (p,))  # type: ignore[no-any-return]

    def _check_agreement(self, before: Sequence[Tensor]) -> None:
        """Raise where the first loss of a run is not that of the same step taken by itself.

        Whether a user's network or loss depends on more than its weights cannot be seen from outside.
        """
        buffers = [tensor.clone() for tensor in self._others.values()]
        self._window.fill([0] * len(self.tasks), 1)
        try:
            self._replay()
        except NonFiniteError:  # the first steps will say which run it is
            return
        together = self._losses.tolist()
        self._restore(before, range(len(self.tasks)))
        if any(not torch.equal(*pair) for pair in zip(buffers, self._others.values(), strict=True)):
            raise RuntimeError("a network changes its buffers")
        for task, loss in zip(self.tasks, together, strict=True):
            try:
                with torch.no_grad():
                    alone = float(mean_loss(task, task.batches.batch(0), 0))
            except NonFiniteError:
                continue
            if math.isfinite(alone) and not abs(loss - alone) <= TOLERANCE * max(1.0, abs(alone)):
                raise RuntimeError(f"the run of seed {task.seed} has loss {loss} among the others, {alone} alone")

    def _look(self) -> tuple[list[float], list[float]]:
        """Losses, and a number for each run that is finite only where all of its values and moments are."""
        values, _, second = self._moving
        losses, health = captured.numbers_of(torch.stack([self._losses, values.sum(1) + second.sum(1)]))
        return losses, health

    def _state(self) -> list[Tensor]:
        return [tensor.clone() for tensor in self._moving]

    def _restore(self, state: Sequence[Tensor], runs: Sequence[int]) -> None:
        if chosen := list(runs):
            for place, tensor in zip(self._moving, state, strict=True):
                place[chosen] = tensor[chosen]


def _ready(work: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The work as a CUDA graph; on a CPU as it is."""
    return captured.captured(work) if device.type == "cuda" else work


class _Couplings(nn.Module):
    """A network whose call returns A and hidden features, whatever kind of network it is."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, p: Any) -> tuple[Any, tuple[Tensor, ...]]:
        A, features = said_of(self.network, p)
        return A, tuple(features)
