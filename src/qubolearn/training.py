"""The loop, on one page: p -> network -> A -> solver -> loss, with everything random named by (seed, step)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from qubolearn.adam import Adam
from qubolearn.config import TrainConfig
from qubolearn.distributed import ALONE, Peers, add_up
from qubolearn.evaluation import evaluate_bits
from qubolearn.faults import keep_fault
from qubolearn.fused import FusedStep, can_fuse
from qubolearn.losses import mlp_loss
from qubolearn.networks import QuboNetwork, build_network
from qubolearn.objectives import OBJECTIVES, Context
from qubolearn.problems.contract import Instances, Problem
from qubolearn.qubo import NonFiniteError
from qubolearn.randomness import derive_seed, stream
from qubolearn.runs import Run
from qubolearn.solvers import ExhaustiveSearch, Solver, make_solver
from qubolearn.solvers.parallel import kernel_threads
from qubolearn.topologies import topology

__all__ = ["Progress", "new_network", "train"]

EVALUATIONS = 20  # times that validation instances are scored, more densely early on, where most changes
SECONDS_BETWEEN_CHECKPOINTS = 20.0


@dataclass(frozen=True)
class Progress:
    """What the loop tells after each step; ``scores`` only after those that score validation instances."""

    step: int
    steps: int
    loss: float
    scores: dict[str, Any] | None


@contextmanager
def one_thread(device: torch.device | str) -> Iterator[None]:
    """One thread for the small matrices of a network on the CPU: faster, and the same bits on any number of cores.

    Solvers keep all threads. Numbers below 1e-38 are zero meanwhile: Adam's moments of features that died end there,
    and a CPU takes many times as long for them.
    """
    before, on_cpu = torch.get_num_threads(), torch.device(device).type == "cpu"
    flushed = torch.set_flush_denormal(True)
    if on_cpu:
        torch.set_num_threads(1)
    try:
        with kernel_threads(before), _one_blas_thread() if on_cpu else nullcontext():
            yield
    finally:
        torch.set_num_threads(before)
        if flushed:
            torch.set_flush_denormal(False)


def _one_blas_thread() -> AbstractContextManager[Any]:
    import scipy.linalg.cython_blas  # noqa: F401  # numba's, which can be told only when it is there

    limits: AbstractContextManager[Any] = threadpool_limits(1, "blas")
    return limits


def train(
    problem: Problem,
    config: TrainConfig,
    run: Run | None = None,
    device: torch.device | str = "cpu",
    report: Callable[[Progress], None] = lambda progress: None,
    stop: Callable[[], bool] = lambda: False,
    peers: Peers = ALONE,
) -> QuboNetwork:
    """Train a network for a problem; with a run folder, keep metrics, checkpoints and the model there, and resume.

    ``stop`` is asked after every step; where it answers True, the state is saved and the network returned as it is.
    With ``peers``, this process does its share of every step; all of them read the run, the first one writes it.
    """
    with one_thread(device):
        network = new_network(problem, config).to(device)
        optimizer = Adam(network)
        gradients = FusedStep(network, optimizer) if can_fuse(network) else partial(_by_autograd, network)
        data = _Batches(problem, config, device)
        held_out = problem.sample(config.validation, stream(config.seed, "validation", device=device), "validation")
        if config.standardise:
            network.standardise.fit(data.epoch(0).p)
        start = run.restore(network, optimizer) if run else 0
        writer = run if peers.rank == 0 else None
        if writer and start == 0:
            writer.log(step=0, **validation_scores(network, problem, held_out))

        watched = evaluation_steps(config) if peers.rank == 0 else set()
        began = saved = time.perf_counter()
        for step in range(start, config.steps):
            batch, done = data.batch(step), step + 1
            with keep_fault(run, config, network, batch, step):
                mine = peers.share(batch)
                context = _context(problem, config, step, peers)
                loss = gradients(mine, context, len(mine.p) / len(batch.p))
                value = _finite(*add_up(optimizer.gradient, loss, peers))
                optimizer.step(done, learning_rate(config, step))
                scores = validation_scores(network, problem, held_out) if done in watched else None

            if writer and scores:
                writer.log(step=done, loss=value, seconds=time.perf_counter() - began, **scores)
            report(Progress(done, config.steps, value, scores))
            stopping = peers.largest(stop())
            if writer and (stopping or time.perf_counter() - saved > SECONDS_BETWEEN_CHECKPOINTS):
                writer.checkpoint(network, optimizer, done)
                saved = time.perf_counter()
            if stopping:
                return network.eval()
        if writer:
            writer.finish(network, optimizer, config.steps)
        return network.eval()


def batch_loss(network: QuboNetwork, problem: Problem, config: TrainConfig, batch: Instances, step: int) -> Tensor:
    """The mean loss of a batch, with the randomness of a step."""
    return _mean_loss(network, batch, _context(problem, config, step, ALONE))


def _mean_loss(network: QuboNetwork, batch: Instances, context: Context) -> Tensor:
    """p -> network -> A -> solver -> loss."""
    A, features = network.couplings(batch.p)
    losses = OBJECTIVES[context.config.loss](A, batch, context)
    if context.config.weight_mlp:
        losses = losses + context.config.weight_mlp * mlp_loss(features)
    return losses.mean()


def _by_autograd(network: QuboNetwork, batch: Instances, context: Context, share: float) -> Tensor:
    """What :class:`FusedStep` does, for any network on any device."""
    loss = share * _mean_loss(network, batch, context)
    network.zero_grad(set_to_none=False)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def _context(problem: Problem, config: TrainConfig, step: int, peers: Peers) -> Context:
    # no two processes draw the same random numbers
    return Context(problem, _solver_of(config, step * peers.size + peers.rank), config)


def new_network(problem: Problem, config: TrainConfig) -> QuboNetwork:
    """The untrained network of a configuration, its weights drawn from the seed and from nothing else."""
    pattern = topology(config.topology, problem.bits)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(config.seed, "weights"))
        return build_network(config.network, problem, pattern, config.method, config.layers, config.hidden)


def learning_rate(config: TrainConfig, step: int) -> float:
    """Adam's rate at a step."""
    if config.schedule == "constant":
        return config.learning_rate
    warm_up = max(1, config.steps // 50)
    if step < warm_up:
        return config.learning_rate * (step + 1) / warm_up
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, config.steps - warm_up)))


def evaluation_steps(config: TrainConfig) -> set[int]:
    """The steps after which validation instances are scored; the last one is among them."""
    return {math.ceil(config.steps * (i / EVALUATIONS) ** 2) for i in range(1, EVALUATIONS + 1)}


@torch.no_grad()
def validation_scores(network: QuboNetwork, problem: Problem, held_out: Instances) -> dict[str, Any]:
    """Mean metrics, Hamming histogram and the first couplings on held-out instances."""
    A = network(held_out.p)
    # Watching must not need the solver that training uses: SA would cost more than the step. n > 24 is sampled.
    solver: Solver = ExhaustiveSearch() if problem.bits <= 24 else make_solver("annealing:reads=32,sweeps=200,seed=0")
    x_star = solver(A, 1).states[:, 0]
    return {**evaluate_bits(problem, x_star, held_out).as_dict(), "couplings": A[0].tolist()}


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


class _Batches:
    """The batch of any step, a pure function of (seed, step): the epoch's instances are drawn at once and kept."""

    def __init__(self, problem: Problem, config: TrainConfig, device: torch.device | str) -> None:
        self.problem, self.config, self.device = problem, config, device
        self._kept: tuple[int, Instances] | None = None
        self._order: tuple[int, Tensor] | None = None

    def epoch(self, number: int) -> Instances:
        draw = number if self.config.fresh else 0
        if self._kept is None or self._kept[0] != draw:
            generator = stream(self.config.seed, "train", draw, device=self.device)
            self._kept = (draw, self.problem.sample(self.config.instances, generator, "train"))
        return self._kept[1]

    def batch(self, step: int) -> Instances:
        epoch, index = divmod(step, self.config.steps_per_epoch)
        instances = self.epoch(epoch)
        rows = slice(index * self.config.batch_size, (index + 1) * self.config.batch_size)
        if self.config.fresh:
            return Instances(*(tensor[rows] for tensor in instances))
        if self._order is None or self._order[0] != epoch:
            generator = stream(self.config.seed, "order", epoch, device=self.device)
            self._order = (epoch, torch.randperm(len(instances.p), generator=generator, device=self.device))
        chosen = self._order[1][rows]
        return Instances(*(tensor.index_select(0, chosen) for tensor in instances))
