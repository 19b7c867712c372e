"""What ``fit`` costs beside a loop that a user writes by hand: the same network, likelihood, batches and Adam."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn

from qubolearn.benchmarks import Record, timed
from qubolearn.chips.topologies import topology
from qubolearn.losses import Likelihood
from qubolearn.networks import QuboNetwork
from qubolearn.problems import make_problem
from qubolearn.qubo import energies
from qubolearn.solvers import log_partition
from qubolearn.training.fit import fit
from qubolearn.training.optimizers import Adam

__all__ = ["own_loop"]

BETA, RATE, BATCH = 6.0, 1e-3, 128


class _Own(nn.Module):
    """A body that no kernel knows, so that ``fit`` takes its steps by autograd."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = _stack(inputs, outputs)

    def forward(self, p: Tensor) -> Tensor:
        outputs: Tensor = self.layers(p)
        return outputs


def _stack(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 78), nn.ReLU(), nn.Linear(78, 78), nn.ReLU(), nn.Linear(78, outputs))


def own_loop(quick: bool) -> Iterator[Record]:
    """Seconds of an epoch through ``fit`` and by hand, in turns, medians: RandGraph k=4, dense, batches of 128."""
    problem = make_problem("randgraph", k=4)
    pattern = topology("dense", problem.bits)
    drawn = problem.sample(1280 if quick else 12_800, torch.Generator().manual_seed(0))
    for name, body in (("a stack of layers", _stack), ("a module of the user's own", _Own)):
        times: dict[str, list[float]] = {"fit": [], "by_hand": []}
        for _ in range(2 if quick else 7):
            for loop, train in (("fit", _fit), ("by_hand", _by_hand)):
                network = QuboNetwork(body(problem.input_size, pattern.size), pattern)
                times[loop].append(timed(partial(train, network, drawn.p, drawn.x_true))[0])
        found = {f"{loop}_seconds": median(seconds[1:]) for loop, seconds in times.items()}  # the first one compiles
        ratios = [a / b for a, b in zip(times["fit"][1:], times["by_hand"][1:], strict=True)]
        yield {"network": name, "steps": len(drawn.p) // BATCH, **found, "fit_over_by_hand": median(ratios)}


def _fit(network: nn.Module, p: Tensor, x: Tensor) -> None:
    fit(network, (p, x), Likelihood(BETA), optimizer=Adam(RATE), epochs=1, batch_size=BATCH, validation=None)


def _by_hand(network: nn.Module, p: Tensor, x: Tensor) -> None:
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    for rows in torch.split(torch.randperm(len(p)), BATCH):
        A = network(p[rows])
        loss = (BETA * energies(A, x[rows]) + log_partition(A, BETA)).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
