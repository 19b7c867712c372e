"""Losses for many bits side by side: a planted QUBO is to be found again from its lowest states, against n.

The bits stand on a strip of a grid, whose lowest states dynamic programming finds exactly. Couplings are planted once
and shared by all instances; biases are p. The learner is given the graph and p, and learns one coupling for each edge.
Two kinds: ``bits`` by themselves, and one-hot ``groups`` of four.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from statistics import fmean, stdev
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from qubolearn.benchmarks import timed
from qubolearn.benchmarks.processes import Planned, in_processes
from qubolearn.errors import QubolearnError
from qubolearn.losses import (
    BlockLikelihood,
    GroupPseudoLikelihood,
    Hinge,
    Likelihood,
    Loss,
    PersistentContrastive,
    PseudoLikelihood,
)
from qubolearn.problems.contract import Instances, Problem, Split
from qubolearn.qubo import Groups, SparseQubo
from qubolearn.randomness import stream
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.training.fit import fit
from qubolearn.training.optimizers import Adam, Cosine

__all__ = ["Planted", "many_bits"]

Kind = Literal["bits", "groups"]
SIZES, SEEDS = (16, 32, 64, 128), 3
#: Instances of a training set and of a test set; a training is 20 epochs of 20 steps.
TRAINED, TESTED, EPOCHS, BATCH = 1000, 300, 20, 50
#: Standard deviation of biases; that of couplings is 1. Weaker ones leave more to the couplings.
FIELD = 0.5


@dataclass(frozen=True)
class Planted(Problem):
    """The lowest state of planted couplings beside random biases p, on a strip of four bits or two groups of four."""

    name = "planted"

    n: int = 64
    kind: Kind = "bits"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 8 or self.n % self.step:
            raise QubolearnError(f"n={self.n}; want a multiple of {self.step}, the bits of a column, and at least 8")

    @property
    def step(self) -> int:
        """The bits of a column."""
        return 4 if self.kind == "bits" else 8

    @property
    def input_size(self) -> int:
        return self.n

    @property
    def bits(self) -> int:
        return self.n

    @property
    def groups(self) -> Groups | None:
        return None if self.kind == "bits" else Groups.consecutive(self.n // 4, 4)

    @property
    def edges(self) -> Tensor:
        """Bits that may be coupled ``[2, m]``: of neighbouring units of the strip."""
        wide, size = (4, 1) if self.kind == "bits" else (2, 4)
        units = torch.arange(self.n // size).reshape(-1, wide)
        along, across = (units[:-1].flatten(), units[1:].flatten()), (units[:, :-1].flatten(), units[:, 1:].flatten())
        pairs = torch.stack([torch.cat(both) for both in zip(along, across, strict=True)])
        i, j = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        return (size * pairs[:, :, None] + torch.stack([i.flatten(), j.flatten()])[:, None]).flatten(1)

    def planted(self) -> tuple[Tensor, Tensor]:
        """Linear terms ``[n]`` and couplings ``[m]``: of spins ±1 with J ~ N(0, 1), or of groups with N(0, 1)."""
        edges = self.edges
        J = torch.randn(edges.shape[1], generator=stream(self.seed, "planted", self.n))
        if self.kind == "groups":
            return torch.zeros(self.n), J
        linear = torch.zeros(self.n).index_add(0, edges[0], -2 * J).index_add(0, edges[1], -2 * J)
        return linear, 4 * J

    def sample(self, count: int, generator: torch.Generator, split: Split = "train") -> Instances:
        scale = 2 * FIELD if self.kind == "bits" else FIELD
        p = scale * torch.randn(count, self.n, generator=generator)
        linear, couplings = self.planted()
        x = self.lowest(linear + p, couplings)
        return Instances(p, x, x)

    def lowest(self, linear: Tensor, couplings: Tensor) -> Tensor:
        """The lowest states ``[batch, n]`` of linear terms ``[batch, n]`` and couplings ``[m]``, column by column."""
        states, k = self._column_states(), self.step
        J = torch.zeros(self.n, self.n, dtype=torch.float64)
        J[self.edges[0], self.edges[1]] = couplings.double()
        cost = torch.zeros(len(linear), len(states), dtype=torch.float64)  # of the best way to end a column in a state
        before: list[Tensor] = []
        for first in range(0, self.n, k):
            own, last = slice(first, first + k), slice(first - k, first)
            if first:
                cost, best = (cost[:, :, None] + states @ J[last, own] @ states.T).min(1)
                before.append(best)
            cost = cost + linear[:, own].double() @ states.T + ((states @ J[own, own]) * states).sum(1)
        chosen = [cost.argmin(1)]
        for best in reversed(before):
            chosen.append(best.gather(1, chosen[-1][:, None])[:, 0])
        return torch.cat([states[each] for each in reversed(chosen)], 1).float()

    def _column_states(self) -> Tensor:
        """The 16 states ``[16, step]`` of a column."""
        number = torch.arange(16)
        if self.kind == "bits":
            return ((number[:, None] >> torch.arange(4)) & 1).double()
        return torch.cat([torch.eye(4)[number // 4], torch.eye(4)[number % 4]], 1).double()


class SharedCouplings(nn.Module):
    """p ``[batch, n]`` -> A with couplings that all instances share, and linear terms a + s p."""

    def __init__(self, problem: Planted) -> None:
        super().__init__()
        edges = problem.edges
        self._graph = SparseQubo(torch.zeros(1, problem.n), edges, torch.zeros(1, edges.shape[1]))
        self.linear, self.quadratic = nn.Parameter(torch.zeros(problem.n)), nn.Parameter(torch.zeros(edges.shape[1]))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, p: Tensor) -> SparseQubo:
        return self._graph.with_values(self.linear + self.scale * p, self.quadratic.expand(len(p), -1))


def losses_for(problem: Planted) -> dict[str, Loss]:
    """The losses that can train a problem; β and margins are 1, as the scale of A is learned."""
    groups = problem.groups
    found: dict[str, Loss] = {"pseudo": PseudoLikelihood(1.0)}
    if groups is not None:
        found["group pseudo"] = GroupPseudoLikelihood(groups, masking=0.0)
    for bits in (8, 12) if groups else (12, 16, 20):
        found[f"block {bits}"] = BlockLikelihood(bits, 1.0, groups=groups)
    if groups is None:
        found["block 12, scattered"] = BlockLikelihood(12, 1.0, connected=False)
    found["persistent"] = PersistentContrastive(1.0, groups=groups)
    found["persistent, tempered"] = PersistentContrastive(1.0, rungs=4, groups=groups)
    found["hinge, annealing"] = Hinge(1.0)
    if problem.n <= 16:
        found["exact"] = Likelihood(1.0) if groups is None else BlockLikelihood(16, 1.0, groups=groups)
    return found


class Task(NamedTuple):
    """One training; a pool of processes takes it."""

    kind: Kind
    n: int
    loss: str
    seed: int
    quick: bool


def trained(task: Task) -> dict[str, float]:
    """Train, and score on unseen biases: shares of states and of bits that are right, in %, and the seconds it took."""
    problem = Planted(task.n, task.kind, task.seed)
    loss, network = losses_for(problem)[task.loss], SharedCouplings(problem)
    count, epochs = (200, 2) if task.quick else (TRAINED, EPOCHS)
    test = problem.sample(TESTED, stream(task.seed, "test"), "test")
    one = partial(
        fit,
        data=problem,
        loss=loss,
        batch_size=BATCH,
        instances=count,
        optimizer=Adam(0.3, Cosine()),
        solver=SimulatedAnnealing(reads=10, sweeps=100, seed=0),
        validation=None,
        seed=task.seed,
    )
    one(SharedCouplings(problem), instances=BATCH, epochs=1)  # compiles
    seconds, _ = timed(partial(one, network, epochs=epochs))
    with torch.no_grad():
        A = network(test.p)
    same = problem.lowest(A.linear, A.quadratic[0]) == test.x_true
    return {
        "right": 100 * same.all(1).double().mean().item(),
        "bits_right": 100 * same.double().mean().item(),
        "seconds": seconds,
    }


def many_bits(quick: bool) -> Planned:
    """A record for each kind, n and loss, over three plantings; all cores of the machine, one training each."""
    sizes, seeds = ((16,), 1) if quick else (SIZES, SEEDS)
    kinds: tuple[Kind, ...] = ("bits", "groups")
    wanted = [(kind, n, loss) for kind in kinds for n in sizes for loss in losses_for(Planted(n, kind))]
    tasks = [Task(*each, seed, quick) for each in wanted for seed in range(seeds)]

    def records() -> Iterator[dict[str, Any]]:
        found = in_processes(trained, tasks, 1 if quick else None)
        for kind, n, loss in wanted:
            some = [next(found) for _ in range(seeds)]
            values = {name: [each[name] for each in some] for name in some[0]}
            spread = stdev(values["right"]) if seeds > 1 else 0.0
            means = {name: fmean(each) for name, each in values.items()}
            yield {"kind": kind, "n": n, "loss": loss, **means, "right_spread": spread, "seeds": seeds}

    return Planned(len(wanted), records())
