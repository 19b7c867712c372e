"""Steps of training on a GPU, each as one CUDA graph: batch, network, solver, loss, gradient and Adam.

For a network of the paper's size a step is many kernels, which a GPU runs faster than Python can start them. A graph is
started at once, finds its batch and its learning rate by a number that it raises itself, and needs no answer from the
host. So many steps run, for about half a second, before anyone looks at the loss. Where it is no number any more, they
are taken again one by one from where they began, which says where that happened.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from qubolearn.errors import NonFiniteError
from qubolearn.losses.objectives import Context
from qubolearn.networks.network import QuboNetwork
from qubolearn.problems.contract import Instances
from qubolearn.solvers import ExhaustiveSearch, make_solver
from qubolearn.training.distributed import ALONE, Peers
from qubolearn.training.fast.adam import Adam, rates
from qubolearn.training.recipes import TrainConfig
from qubolearn.training.runs import Run
from qubolearn.training.steps import Batches, Steps, learning_rate, mean_loss

__all__ = ["CapturedSteps", "can_capture", "needs_no_host"]

#: Losses that need no solver.
WITHOUT_SOLVER = ("nll", "pseudo", "l1")
#: Steps that a graph wants to be run before it is captured, so that libraries have set themselves up.
WARM_UP = 3
#: A span of steps should take no more seconds, since it can neither be stopped nor saved, and has so many at most.
SECONDS, MOST = 0.5, 100
#: Soft targets of an epoch that are kept on the GPU.
MOST_BYTES = 2**31


def can_capture(network: QuboNetwork, data: Batches, peers: Peers) -> bool:
    """Whether steps can be a graph: on a GPU, alone, and where nothing in them needs the host."""
    return network.column.is_cuda and peers.size == 1 and needs_no_host(data.config) and _targets_fit(data)


def needs_no_host(config: TrainConfig) -> bool:
    """Whether all of a step can run on a GPU: exact search, or a loss without a solver."""
    return config.loss in WITHOUT_SOLVER or isinstance(make_solver(config.solver), ExhaustiveSearch)


def _targets_fit(data: Batches) -> bool:
    if data.config.loss != "nll":
        return True
    of_one = data.problem.soft_targets(data.epoch(0).x_true[:1]) or ()
    return data.config.instances * sum(tensor.nbytes for tensor in of_one) <= MOST_BYTES


class CapturedSteps(Steps):
    """The same steps as a graph, up to rounding."""

    def __init__(
        self, network: QuboNetwork, optimizer: Adam, data: Batches, run: Run | None = None, peers: Peers = ALONE
    ) -> None:
        super().__init__(network, optimizer, data, run, peers)
        config = data.config
        self._solver, self._parameters = make_solver(config.solver), list(network.parameters())
        self._moving = optimizer.values, optimizer.first, optimizer.second
        # what a graph reads has one place in memory
        self._pool = Instances(*(tensor.clone() for tensor in data.epoch(0))) if config.fresh else data.epoch(0)
        self._targets = tuple(tensor.clone() for tensor in self._soft_targets())
        device = self._pool.p.device
        self._order = torch.arange(config.instances, device=device)
        self._batch = torch.arange(min(config.instances, config.batch_size), device=device)
        self._step = torch.zeros((), dtype=torch.int64, device=device)
        table = [rates(step + 1, learning_rate(config, step)) for step in range(config.steps + WARM_UP)]
        self._rates = torch.from_numpy(np.array(table, np.float32)).to(device)
        self._loss = torch.zeros((), device=device)
        self._epoch = -1
        before = self._state()
        try:
            self._replay: Callable[[], None] | None = captured(self._take_captured)
        except NonFiniteError:  # the steps themselves say where
            self._replay = None
        self._restore(before)

    def advance(self, first: int, end: int) -> float:
        if self._replay is None:
            return super().advance(first, end)
        before, began = self._state(), time.perf_counter()
        self._step.fill_(first)
        for step in range(first, end):
            self._load(step // self.data.config.steps_per_epoch)
            self._replay()
        loss, health = self._look()
        self.longest = max(1, min(MOST, int(SECONDS * (end - first) / (time.perf_counter() - began))))
        if math.isfinite(loss) and math.isfinite(health):
            return loss
        self._restore(before)
        return super().advance(first, end)

    def _load(self, epoch: int) -> None:
        """Put the instances of an epoch, or their order, where the graph reads them."""
        if epoch == self._epoch:
            return
        self._epoch = epoch
        if self.data.config.fresh:
            for place, tensor in zip(self._pool, self.data.epoch(epoch), strict=True):
                place.copy_(tensor)
            for place, tensor in zip(self._targets, self._soft_targets(), strict=True):
                place.copy_(tensor)
        else:
            self._order.copy_(self.data.order(epoch))

    def _soft_targets(self) -> tuple[Tensor, ...]:
        """States and weights of all instances of the epoch: a problem may want the host for them."""
        wanted = self.data.config.loss == "nll"
        return (self.data.problem.soft_targets(self._pool.x_true) if wanted else None) or ()

    def _take_captured(self) -> None:
        config, optimizer = self.data.config, self.optimizer
        place = self._step % config.steps_per_epoch * config.batch_size
        rows = self._order.index_select(0, self._batch + place)
        p, x_true, answer, *targets = (tensor.index_select(0, rows) for tensor in (*self._pool, *self._targets))
        context = Context(lambda x_true: (targets[0], targets[1]) if targets else None, self._solver, config)
        loss = mean_loss(self.network, Instances(p, x_true, answer), context)
        slopes = torch.autograd.grad(loss, self._parameters, allow_unused=True, materialize_grads=True)
        torch.cat([slope.flatten() for slope in slopes], out=optimizer.gradient[1:])
        optimizer.move(*self._rates.index_select(0, self._step[None])[0])
        self._loss.copy_(loss.detach())
        self._step.add_(1)

    def _look(self) -> list[float]:
        """The loss, and a number that is not finite where a value or a moment is not, for these stay so."""
        seen = torch.stack([self._loss, self.optimizer.values.sum() + self.optimizer.second.sum()])
        if seen.is_cuda:  # wait without keeping a core busy, which other jobs want
            ended = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            ended.record()
            ended.synchronize()
        numbers: list[float] = seen.tolist()
        return numbers

    def _state(self) -> list[Tensor]:
        return [tensor.clone() for tensor in self._moving]

    def _restore(self, state: list[Tensor]) -> None:
        for place, tensor in zip(self._moving, state, strict=True):
            place.copy_(tensor)


def captured(work: Callable[[], None]) -> Callable[[], None]:
    """The work as a CUDA graph, ready to be run again and again; it is done a few times before."""
    beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(WARM_UP):
            work()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay
