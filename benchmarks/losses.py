"""Losses for many bits: recover a planted QUBO from its lowest states, against n.

Bits form a strip of a grid, whose lowest states dynamic programming finds exactly. Couplings are planted once and
shared by all instances; biases are p. The learner receives the graph and p, and learns one coupling per edge. There are
two kinds: single ``bits``, and one-hot ``groups`` of four.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from statistics import fmean, stdev
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks import Record, in_processes, timed
from qubolearn import (
    Adam,
    Groups,
    Hinge,
    Instances,
    Likelihood,
    Loss,
    Problem,
    PseudoLikelihood,
    QubolearnError,
    SimulatedAnnealing,
    SparseQubo,
    fit,
)
from qubolearn.losses import GroupPseudoLikelihood, PersistentContrastive

Kind = Literal["bits", "groups"]
SIZES, SEEDS = (16, 32, 64, 128), 3
#: Instances of a training set and of a test set; a training run has 20 epochs of 20 steps.
TRAINED, TESTED, EPOCHS, BATCH = 1000, 300, 20, 50
#: Standard deviation of biases; that of couplings is 1. Weaker ones leave more to the couplings.
FIELD = 0.5


@dataclass(frozen=True)
class Planted(Problem):
    """The lowest state of planted couplings plus random biases p, on a strip of four bits or two groups of four."""

    name = "planted"

    n: int = 64
    kind: Kind = "bits"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 8 or self.n % self.step:
            raise QubolearnError(f"expected n to be at least 8 and a multiple of {self.step}, got {self.n}")

    @property
    def step(self) -> int:
        """Return the number of bits of a column."""
        return 4 if self.kind == "bits" else 8

    @property
    def input_size(self) -> int:
        return self.n

    @property
    def bits(self) -> int:
        return self.n

    @property
    def groups(self) -> Groups | None:
        return None if self.kind == "bits" else Groups([range(i, i + 4) for i in range(0, self.n, 4)])

    @property
    def edges(self) -> Tensor:
        """Return pairs of bits ``[2, m]`` of neighboring units of the strip."""
        wide, size = (4, 1) if self.kind == "bits" else (2, 4)
        units = torch.arange(self.n // size).reshape(-1, wide)
        along, across = (units[:-1].flatten(), units[1:].flatten()), (units[:, :-1].flatten(), units[:, 1:].flatten())
        pairs = torch.stack([torch.cat(both) for both in zip(along, across, strict=True)])
        i, j = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        return (size * pairs[:, :, None] + torch.stack([i.flatten(), j.flatten()])[:, None]).flatten(1)

    def planted(self) -> tuple[Tensor, Tensor]:
        """Return linear terms ``[n]`` and couplings ``[m]`` ~ N(0, 1) of spins ±1 or of groups."""
        edges = self.edges
        J = torch.randn(edges.shape[1], generator=torch.Generator().manual_seed(1000 * self.seed + self.n))
        if self.kind == "groups":
            return torch.zeros(self.n), J
        linear = torch.zeros(self.n).index_add(0, edges[0], -2 * J).index_add(0, edges[1], -2 * J)
        return linear, 4 * J

    def sample(self, count: int, generator: torch.Generator, split: str = "train") -> Instances:
        scale = 2 * FIELD if self.kind == "bits" else FIELD
        p = scale * torch.randn(count, self.n, generator=generator)
        linear, couplings = self.planted()
        x = self.lowest(linear + p, couplings)
        return Instances(p, x, x)

    def lowest(self, linear: Tensor, couplings: Tensor) -> Tensor:
        """Return the lowest states ``[batch, n]`` of linear terms ``[batch, n]`` and couplings ``[m]``."""
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
        """Return the 16 states ``[16, step]`` of a column."""
        number = torch.arange(16)
        if self.kind == "bits":
            return ((number[:, None] >> torch.arange(4)) & 1).double()
        return torch.cat([torch.eye(4)[number // 4], torch.eye(4)[number % 4]], 1).double()


class SharedCouplings(nn.Module):
    """Map p ``[batch, n]`` to QUBOs with shared couplings and linear terms a + s p."""

    def __init__(self, problem: Planted) -> None:
        super().__init__()
        edges = problem.edges
        self._graph = SparseQubo(torch.zeros(1, problem.n), edges, torch.zeros(1, edges.shape[1]))
        self.linear, self.quadratic = nn.Parameter(torch.zeros(problem.n)), nn.Parameter(torch.zeros(edges.shape[1]))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, p: Tensor) -> SparseQubo:
        return self._graph.with_values(self.linear + self.scale * p, self.quadratic.expand(len(p), -1))


def losses_for(problem: Planted) -> dict[str, Loss]:
    """Return the losses that can train a problem; β and margins are 1, because the scale of A is learned."""
    groups = problem.groups
    found: dict[str, Loss] = {"pseudo": PseudoLikelihood(1.0)}
    if groups is not None:
        found["group pseudo"] = GroupPseudoLikelihood(groups, masking=0.0)
    found["persistent"] = PersistentContrastive(1.0, groups=groups)
    found["persistent, tempered"] = PersistentContrastive(1.0, rungs=4, groups=groups)
    found["hinge, annealing"] = Hinge(1.0)
    if problem.n <= 16 and groups is None:
        found["exact"] = Likelihood(1.0)
    return found


def cosine(step: int, steps: int) -> float:
    """Return the factor of the learning rate."""
    return 0.5 * (1 + math.cos(math.pi * step / steps))


class Task(NamedTuple):
    """One training run for the pool of processes."""

    kind: Kind
    n: int
    loss: str
    seed: int
    quick: bool


def trained(task: Task) -> dict[str, float]:
    """Train and score on unseen biases: percentages of correct states and bits, and seconds."""
    problem = Planted(task.n, task.kind, task.seed)
    loss, network = losses_for(problem)[task.loss], SharedCouplings(problem)
    count, epochs = (200, 2) if task.quick else (TRAINED, EPOCHS)
    test = problem.sample(TESTED, torch.Generator().manual_seed(10_000 + task.seed), "test")
    one = partial(
        fit,
        data=problem,
        loss=loss,
        batch_size=BATCH,
        instances=count,
        optimizer=Adam(0.3, cosine),
        solver=SimulatedAnnealing(reads=10, sweeps=100, seed=0),
        validation=None,
        seed=task.seed,
    )
    one(SharedCouplings(problem), instances=BATCH, epochs=1)  # warm-up
    seconds, _ = timed(partial(one, network, epochs=epochs))
    with torch.no_grad():
        A = network(test.p)
    same = problem.lowest(A.linear, A.quadratic[0]) == test.x_true
    return {
        "right": 100 * same.all(1).double().mean().item(),
        "bits_right": 100 * same.double().mean().item(),
        "seconds": seconds,
    }


def many_bits(quick: bool) -> Iterator[Record]:
    """Yield a record for each kind, n and loss, over three plantings, with one training run per core."""
    sizes, seeds = ((16,), 1) if quick else (SIZES, SEEDS)
    kinds: tuple[Kind, ...] = ("bits", "groups")
    cells = [(kind, n, loss) for kind in kinds for n in sizes for loss in losses_for(Planted(n, kind))]
    tasks = [Task(*cell, seed, quick) for cell in cells for seed in range(seeds)]
    found = in_processes(trained, tasks, quick)
    for kind, n, loss in cells:
        some = [next(found) for _ in range(seeds)]
        values = {name: [each[name] for each in some] for name in some[0]}
        spread = stdev(values["right"]) if seeds > 1 else 0.0
        means = {name: fmean(each) for name, each in values.items()}
        yield {"kind": kind, "n": n, "loss": loss, **means, "right_spread": spread, "seeds": seeds}


def figure(records: list[Record]) -> Any:
    """Draw correct states and training seconds against n: a row per kind, a line per loss."""
    from matplotlib import pyplot

    made, axes = pyplot.subplots(2, 2, figsize=(8.4, 6.4), layout="constrained")
    names = list(dict.fromkeys(record["loss"] for record in records))
    for (left, right), (kind, title) in zip(axes, (("bits", "bits"), ("groups", "groups of four")), strict=True):
        for number, name in enumerate(names):
            some = [record for record in records if (record["kind"], record["loss"]) == (kind, name)]
            n, style = [record["n"] for record in some], f"C{number}{'osv^Dx'[number % 6]}-"
            if some:
                spread = [record["right_spread"] for record in some]
                left.errorbar(n, [record["right"] for record in some], spread, fmt=style, label=name, capsize=2)
                right.plot(n, [record["seconds"] for record in some], style)
        left.set(ylabel="correct states, %", title=title, xlabel="n", xscale="log")
        right.set(ylabel="training, s", xlabel="n", xscale="log", yscale="log")
        left.legend(fontsize=6)
    return made
