"""Steps of training, one at a time: batch -> network -> A -> solver -> loss -> gradient -> Adam."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.losses.equations import mlp_loss
from qubolearn.losses.objectives import OBJECTIVES, Context
from qubolearn.networks.network import QuboNetwork
from qubolearn.problems.contract import Instances, Problem
from qubolearn.randomness import derive_seed, stream
from qubolearn.solvers import Solver, make_solver
from qubolearn.training.distributed import ALONE, Peers, add_up
from qubolearn.training.fast.adam import Adam
from qubolearn.training.fast.compiled import FusedStep, can_fuse
from qubolearn.training.faults import keep_fault
from qubolearn.training.recipes import TrainConfig
from qubolearn.training.runs import Run

__all__ = ["Batches", "Steps", "batch_loss", "learning_rate", "mean_loss"]


class Steps:
    """Takes the steps of one training; nothing but their numbers decides what they do."""

    #: Steps that are taken without a look at the loss.
    longest = 1

    def __init__(
        self, network: QuboNetwork, optimizer: Adam, data: Batches, run: Run | None = None, peers: Peers = ALONE
    ) -> None:
        self.network, self.optimizer, self.data, self.run, self.peers = network, optimizer, data, run, peers
        self._fused = FusedStep(network, optimizer) if can_fuse(network) else None

    def advance(self, first: int, end: int) -> float:
        """Take the steps ``first`` to ``end - 1``; the loss of the last one, before it was taken."""
        value = math.nan
        for step in range(first, end):
            value = self._take(step)
        return value

    def _take(self, step: int) -> float:
        data, peers, optimizer = self.data, self.peers, self.optimizer
        batch = data.batch(step)
        with keep_fault(self.run, data.config, self.network, lambda: batch, step):
            mine = peers.share(batch)
            share = len(mine.p) / len(batch.p)
            # no two processes draw the same random numbers
            context = _context(data.problem, data.config, step * peers.size + peers.rank)
            loss = self._fused(mine, context, share) if self._fused else self._by_autograd(mine, context, share)
            value = _finite(*add_up(optimizer.gradient, loss, peers))
            optimizer.step(step + 1, learning_rate(data.config, step))
        return value

    def _by_autograd(self, batch: Instances, context: Context, share: float) -> Tensor:
        """What :class:`FusedStep` does, for any network on any device."""
        loss = share * mean_loss(self.network, batch, context)
        self.optimizer.gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()


def batch_loss(network: QuboNetwork, problem: Problem, config: TrainConfig, batch: Instances, step: int) -> Tensor:
    """The mean loss of a batch, with the randomness of a step."""
    return mean_loss(network, batch, _context(problem, config, step))


def mean_loss(network: QuboNetwork, batch: Instances, context: Context) -> Tensor:
    """p -> network -> A -> solver -> loss."""
    A, features = network.couplings(batch.p)
    losses = OBJECTIVES[context.config.loss](A, batch, context)
    if context.config.weight_mlp:
        losses = losses + context.config.weight_mlp * mlp_loss(features)
    return losses.mean()


def learning_rate(config: TrainConfig, step: int) -> float:
    """Adam's rate at a step."""
    if config.schedule == "constant":
        return config.learning_rate
    warm_up = max(1, config.steps // 50)
    if step < warm_up:
        return config.learning_rate * (step + 1) / warm_up
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, config.steps - warm_up)))


def _context(problem: Problem, config: TrainConfig, draw: int) -> Context:
    return Context(problem.soft_targets, _solver_of(config, draw), config)


def _solver_of(config: TrainConfig, draw: int) -> Solver:
    """The training solver with the randomness of one step of one process."""
    solver = make_solver(config.solver)
    if getattr(solver, "seed", "absent") == "absent":
        return solver
    return replace(solver, seed=derive_seed(config.seed, "solver", draw))  # type: ignore[type-var]


def _finite(loss: float, gradient: float) -> float:
    """The loss, where it and the norm of its gradient are finite: a step along NaN would end the network."""
    if not math.isfinite(loss):
        raise NonFiniteError(f"the loss is {loss}")
    if not math.isfinite(gradient):
        raise NonFiniteError(f"the loss is {loss:g}, but its gradient has norm {gradient}")
    return loss


class Batches:
    """The batch of any step, a pure function of (seed, step): the epoch's instances are drawn at once and kept."""

    def __init__(self, problem: Problem, config: TrainConfig, device: torch.device | str) -> None:
        self.problem, self.config, self.device = problem, config, device
        self._kept: tuple[int, Instances] | None = None
        self._order: tuple[int, Tensor] | None = None

    def epoch(self, number: int) -> Instances:
        """The instances of an epoch."""
        draw = number if self.config.fresh else 0
        if self._kept is None or self._kept[0] != draw:
            generator = stream(self.config.seed, "train", draw, device=self.device)
            self._kept = (draw, self.problem.sample(self.config.instances, generator, "train"))
            if (found := len(self._kept[1].p)) != self.config.instances:
                raise QubolearnError(
                    f"{self.problem} gave {found} instances where {self.config.instances} were asked for"
                )
        return self._kept[1]

    def order(self, epoch: int) -> Tensor:
        """The order in which an epoch goes through instances that it shares with the others."""
        if self._order is None or self._order[0] != epoch:
            generator = stream(self.config.seed, "order", epoch, device=self.device)
            self._order = (epoch, torch.randperm(self.config.instances, generator=generator, device=self.device))
        return self._order[1]

    def batch(self, step: int) -> Instances:
        """The instances of a step."""
        epoch, index = divmod(step, self.config.steps_per_epoch)
        instances = self.epoch(epoch)
        rows = slice(index * self.config.batch_size, (index + 1) * self.config.batch_size)
        if self.config.fresh:
            return Instances(*(tensor[rows] for tensor in instances))
        chosen = self.order(epoch)[rows]
        return Instances(*(tensor.index_select(0, chosen) for tensor in instances))
