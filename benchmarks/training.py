"""Training steps: fit against a loop written by hand, and on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn

import qubolearn as ql
from benchmarks import Record, seconds_of, timed
from qubolearn.problems.randgraph import RandGraph

BETA, RATE, BATCH = 6.0, 1e-3, 128


def on_gpu(quick: bool) -> Iterator[Record]:
    """Measure a step on the CPU, and on a GPU kernel by kernel and as a graph."""
    for k, name in ((4, "gap"),) if quick else ((4, "gap"), (4, "nll"), (5, "gap"), (5, "nll")):
        problem = RandGraph(k=k)
        pattern = ql.topology("chimera" if k == 4 else "pegasus", problem.bits)
        drawn = problem.sample(141 * 400, torch.Generator().manual_seed(0))
        loss = ql.Gap() if name == "gap" else ql.Likelihood(BETA)
        taken = {}
        for engine, device in (("cpu", "cpu"), ("gpu", "cuda"), ("graph", "cuda")):

            def epoch(steps: int, engine: str = engine, device: str = device, drawn: object = drawn) -> None:
                network = ql.QuboNetwork(ql.MLP(problem.input_size, pattern.size), pattern).to(device)  # noqa: B023
                adam = ql.Adam(RATE) if engine != "gpu" else torch.optim.Adam(network.parameters(), RATE)
                rows = slice(0, 141 * steps)
                how = {"batch_size": 141, "validation": None, "epochs": 1, "device": device}
                ql.fit(network, (drawn.p[rows], drawn.x_true[rows]), loss, optimizer=adam, **how)  # noqa: B023

            taken[engine] = (seconds_of(partial(epoch, 400), 3) - seconds_of(partial(epoch, 8), 3)) / 392
        record = {f"{engine}_us": 1e6 * seconds for engine, seconds in taken.items()}
        ratios = {f"graph_over_{engine}": taken[engine] / taken["graph"] for engine in ("gpu", "cpu")}
        yield {"k": k, "n": problem.bits, "loss": name, **record, **ratios}


def stack(inputs: int, outputs: int) -> nn.Sequential:
    first = nn.Linear(inputs, 78), nn.ReLU(), nn.Linear(78, 78), nn.ReLU()
    return nn.Sequential(*first, nn.Linear(78, outputs))


class Own(nn.Module):
    """A user's body, unknown to qubolearn."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = stack(inputs, outputs)

    def forward(self, p: Tensor) -> Tensor:
        return self.layers(p)


def against_a_loop(quick: bool) -> Iterator[Record]:
    """Measure an epoch through fit and by hand, in turns: RandGraph k=4, dense, batches of 128."""
    problem = RandGraph(k=4)
    pattern = ql.topology("dense", problem.bits)
    drawn = problem.sample(1280 if quick else 12_800, torch.Generator().manual_seed(0))
    for name, body in (("a stack of layers", stack), ("a user-defined module", Own)):
        network = ql.QuboNetwork(body(problem.input_size, pattern.size), pattern)
        loops = [partial(loop, network, drawn.p, drawn.x_true) for loop in (_fit, _by_hand)]
        turns = [[timed(loop)[0] for loop in loops] for _ in range(2 if quick else 7)]
        ours, theirs = zip(*turns[1:], strict=True)  # the first is a warm-up
        found = {"fit_seconds": median(ours), "by_hand_seconds": median(theirs)}
        ratio = median(a / b for a, b in turns[1:])
        yield {"network": name, "steps": len(drawn.p) // BATCH, **found, "fit_over_by_hand": ratio}


def _fit(network: nn.Module, p: Tensor, x: Tensor) -> None:
    how = {"epochs": 1, "batch_size": BATCH, "validation": None, "solver": ql.ExhaustiveSearch()}
    ql.fit(network, (p, x), ql.Likelihood(BETA), optimizer=ql.Adam(RATE), **how)


def _by_hand(network: nn.Module, p: Tensor, x: Tensor) -> None:
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    for rows in torch.split(torch.randperm(len(p)), BATCH):
        A = network(p[rows])
        loss = (BETA * ql.energies(A, x[rows]) + ql.log_partition(A, BETA)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
