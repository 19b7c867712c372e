"""The loop, on one page: p -> network -> A -> solver -> loss, with everything random named by (seed, step)."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from qubolearn.chips.topologies import topology
from qubolearn.evaluation import evaluate_bits
from qubolearn.files import lock_folder
from qubolearn.kernels.parallel import kernel_threads
from qubolearn.networks.network import QuboNetwork, build_network
from qubolearn.problems.contract import Instances, Problem
from qubolearn.randomness import derive_seed, stream
from qubolearn.solvers import ExhaustiveSearch, Solver, make_solver
from qubolearn.training.distributed import ALONE, Peers
from qubolearn.training.fast.adam import Adam
from qubolearn.training.fast.captured import CapturedSteps, can_capture
from qubolearn.training.faults import keep_fault
from qubolearn.training.recipes import TrainConfig
from qubolearn.training.runs import Run
from qubolearn.training.steps import Batches, Steps

__all__ = ["Progress", "new_network", "one_thread", "train"]

EVALUATIONS = 20  # times that validation instances are scored, more densely early on, where most changes
SECONDS_BETWEEN_CHECKPOINTS = 20.0


@dataclass(frozen=True)
class Progress:
    """What the loop tells after each step, on a GPU after some; ``scores`` where validation instances were scored."""

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


def current_device(device: torch.device | str) -> AbstractContextManager[Any]:
    """Streams, events and graphs are those of the current GPU, which another one can be than that of the tensors."""
    return torch.cuda.device(device) if torch.device(device).type == "cuda" else nullcontext()


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

    ``stop`` is asked after every step, on a GPU after those of about half a second; where it answers True, the state is
    saved and the network returned as it is.
    With ``peers``, this process does its share of every step; all of them read the run, the first one writes it.
    """
    lock = lock_folder(run.folder) if run and peers.rank == 0 else nullcontext()
    with lock, one_thread(device), current_device(device):
        network = new_network(problem, config).to(device)
        optimizer = Adam(network)
        data = Batches(problem, config, device)
        held_out = problem.sample(config.validation, stream(config.seed, "validation", device=device), "validation")
        if config.standardise:
            network.standardise.fit(data.epoch(0).p)
        start = run.restore(network, optimizer) if run else 0
        writer = run if peers.rank == 0 else None
        if writer and start == 0:
            writer.log(step=0, **validation_scores(network, problem, held_out))

        kind = CapturedSteps if can_capture(network, data, peers) else Steps
        steps = kind(network, optimizer, data, run, peers)
        watched = evaluation_steps(config)
        began = saved = time.perf_counter()
        for step, done in spans(start, watched, lambda: steps.longest):
            value, scores = steps.advance(step, done), None
            if done in watched and peers.rank == 0:
                with keep_fault(run, config, network, partial(data.batch, done - 1), done - 1):
                    scores = validation_scores(network, problem, held_out)

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


def new_network(problem: Problem, config: TrainConfig) -> QuboNetwork:
    """The untrained network of a configuration, its weights drawn from the seed and from nothing else."""
    pattern = topology(config.topology, problem.bits)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(config.seed, "weights"))
        return build_network(config.network, problem, pattern, config.method, config.layers, config.hidden)


def evaluation_steps(config: TrainConfig) -> list[int]:
    """The steps after which validation instances are scored, in order; the last one of all is among them."""
    return sorted({math.ceil(config.steps * (i / EVALUATIONS) ** 2) for i in range(1, EVALUATIONS + 1)})


def spans(start: int, watched: Sequence[int], longest: Callable[[], int]) -> Iterator[tuple[int, int]]:
    """All steps from ``start`` on in spans of at most ``longest``, none across a step that is watched.

    >>> list(spans(1, [3, 8], lambda: 4))
    [(1, 3), (3, 7), (7, 8)]
    """
    while start < watched[-1]:
        end = min(start + longest(), watched[bisect_right(watched, start)])
        yield start, end
        start = end


@torch.no_grad()
def validation_scores(network: QuboNetwork, problem: Problem, held_out: Instances) -> dict[str, Any]:
    """Mean metrics, Hamming histogram and the first couplings on held-out instances."""
    A = network(held_out.p)
    # Watching must not need the solver that training uses: SA would cost more than the step. n > 24 is sampled.
    solver: Solver = ExhaustiveSearch() if problem.bits <= 24 else make_solver("annealing:reads=32,sweeps=200,seed=0")
    x_star = solver(A, 1).states[:, 0]
    return {**evaluate_bits(problem, x_star, held_out).as_dict(), "couplings": A[0].tolist()}
