"""Losses for many bits: recover a planted QUBO from its lowest states, against n.

Bits form a strip of a grid, solved by dynamic programming. All instances share planted
couplings; biases are p. The learner gets graph and p, and learns one coupling per edge,
of single ``bits`` or of one-hot ``groups`` of four.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import fmean, stdev
from typing import Any, Literal

import torch
from torch import Tensor, nn

import qubolearn as ql
from benchmarks import Record, in_processes, timed
from qubolearn.losses import GroupPseudoLikelihood, PersistentContrastive
from qubolearn.training.optimizers import Cosine

Kind = Literal["bits", "groups"]
SIZES, SEEDS = (16, 32, 64, 128), 3
#: Training and test instances; a run has 20 epochs of 20 steps.
TRAINED, TESTED, EPOCHS, BATCH = 1000, 300, 20, 50
#: Standard deviation of biases; that of couplings is 1.
FIELD = 0.5


class Planted:
    """Planted couplings on a strip, whose lowest states are the labels."""

    def __init__(self, n: int, kind: Kind = "bits", seed: int = 0) -> None:
        self.n, self.kind, wide, size = n, kind, *((4, 1) if kind == "bits" else (2, 4))
        units = torch.arange(n // size).reshape(-1, wide)
        first = torch.cat([units[:-1].flatten(), units[:, :-1].flatten()])
        pairs = torch.stack([first, torch.cat([units[1:].flatten(), units[:, 1:].flatten()])])
        i, j = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        self.edges = (size * pairs[:, :, None] + torch.stack([i.flatten(), j.flatten()])[:, None]).flatten(1)
        J = torch.randn(self.edges.shape[1], generator=torch.Generator().manual_seed(1000 * seed + n))
        self.linear, self.couplings = torch.zeros(n), J  # of groups
        if kind == "bits":  # of spins ±1
            self.linear = self.linear.index_add(0, self.edges.flatten(), -2 * J.repeat(2))
            self.couplings = 4 * J
        number = torch.arange(16)  # the states of a column
        pair = torch.cat([torch.eye(4)[number // 4], torch.eye(4)[number % 4]], 1)
        self.states = (((number[:, None] >> torch.arange(4)) & 1) if kind == "bits" else pair).double()
        self.groups = None if kind == "bits" else ql.Groups.consecutive(n // 4, 4)

    def draw(self, count: int, seed: int) -> tuple[Tensor, Tensor]:
        """Return random biases p ``[count, n]`` and the lowest states."""
        scale = 2 * FIELD if self.kind == "bits" else FIELD
        p = scale * torch.randn(count, self.n, generator=torch.Generator().manual_seed(seed))
        return p, self.lowest(self.linear + p, self.couplings)

    def lowest(self, linear: Tensor, couplings: Tensor) -> Tensor:
        """Return the lowest states ``[batch, n]``."""
        states, k = self.states, self.states.shape[1]
        J = torch.zeros(self.n, self.n, dtype=torch.float64)
        J[self.edges[0], self.edges[1]] = couplings.double()
        # of the best way to end a column in a state
        cost = torch.zeros(len(linear), len(states), dtype=torch.float64)
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


class Labeled(ql.Arrays):
    """Arrays whose solvers obey groups."""

    groups: ql.Groups | None = None  # type: ignore[assignment]


class SharedCouplings(ql.SharedQubo):
    """Map p ``[batch, n]`` to QUBOs with shared couplings and linear terms a + s p."""

    def __init__(self, n: int, edges: Tensor) -> None:
        super().__init__(n, edges)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, p: Tensor) -> ql.SparseQubo:
        A = super().forward(p)
        return A.with_values(A.linear + self.scale * p, A.quadratic)


def losses_for(planted: Planted) -> dict[str, ql.Loss]:
    """Return the losses for a problem, β and margins 1: the scale of A is learned."""
    groups = planted.groups
    found: dict[str, ql.Loss] = {"pseudo": ql.PseudoLikelihood(1.0)}
    if groups is not None:
        found["group pseudo"] = GroupPseudoLikelihood(groups, masking=0.0)
    found["persistent"] = PersistentContrastive(1.0, groups=groups)
    found["persistent, tempered"] = PersistentContrastive(1.0, rungs=4, groups=groups)
    found["hinge, annealing"] = ql.Hinge(1.0)
    if planted.n <= 16 and groups is None:
        found["exact"] = ql.Likelihood(1.0)
    return found


def trained(kind: Kind, n: int, loss: str, seed: int, quick: bool) -> dict[str, float]:
    """Train and score on unseen biases: percentages and seconds."""
    planted = Planted(n, kind, seed)
    network = SharedCouplings(n, planted.edges)
    data = Labeled(*planted.draw(200 if quick else TRAINED, seed), validation=0)
    data.groups = planted.groups
    solver = ql.SimulatedAnnealing(reads=10, sweeps=100, seed=0)
    how: Any = {"batch_size": BATCH, "optimizer": ql.Adam(0.3, Cosine(0.0)), "solver": solver, "seed": seed}
    one = partial(ql.fit, data=data, loss=losses_for(planted)[loss], validation=None, **how)
    one(SharedCouplings(n, planted.edges), epochs=1)  # warm-up
    seconds, _ = timed(partial(one, network, epochs=2 if quick else EPOCHS))
    p, x = planted.draw(TESTED, 10_000 + seed)
    with torch.no_grad():
        A = network(p)
    same = (planted.lowest(A.linear, A.quadratic[0]) == x).double()
    right = 100 * same.amin(1).mean().item()
    return {"right": right, "bits_right": 100 * same.mean().item(), "seconds": seconds}


def many_bits(quick: bool) -> Iterator[Record]:
    """Yield a record per kind, n and loss, over three plantings."""
    sizes, seeds = ((16,), 1) if quick else (SIZES, SEEDS)
    kinds: tuple[Kind, ...] = ("bits", "groups")
    cells = [(kind, n, loss) for kind in kinds for n in sizes for loss in losses_for(Planted(n, kind))]
    tasks = [(*cell, seed, quick) for cell in cells for seed in range(seeds)]
    found = in_processes(trained, tasks, serial=quick)
    for kind, n, loss in cells:
        some = [found[kind, n, loss, seed, quick] for seed in range(seeds)]
        spread = stdev([each["right"] for each in some]) if seeds > 1 else 0.0
        means = {name: fmean([each[name] for each in some]) for name in some[0]}
        yield {"kind": kind, "n": n, "loss": loss, **means, "right_spread": spread, "seeds": seeds}
