"""Training steps: fit against a loop written by hand, against neal as the solver, and on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn

from benchmarks import Record, in_turns, seconds_of, timed
from qubolearn import MLP, Adam, ExhaustiveSearch, Gap, Likelihood, QuboNetwork, energies, fit, log_partition, topology
from qubolearn.problems.randgraph import RandGraph
from qubolearn.solvers import make_solver

BETA, RATE, BATCH = 6.0, 1e-3, 128


def against_neal(quick: bool) -> Iterator[Record]:
    """Measure an epoch of 40 steps of 141 instances as in QuAnt, and the same with one neal call per instance."""
    for k, graph in ((4, "chimera"),) if quick else ((4, "chimera"), (5, "pegasus")):
        problem = RandGraph(k=k)
        pattern = topology(graph, problem.bits)

        def epoch(solver: str, instances: int, problem: RandGraph = problem, pattern: object = pattern) -> None:
            network = QuboNetwork(MLP(problem.input_size, pattern.size), pattern)
            how = {"batch_size": 141, "instances": instances, "validation": None, "epochs": 1}
            fit(network, problem, Gap(), solver=make_solver(solver), optimizer=Adam(RATE), **how)

        ours = seconds_of(partial(epoch, "exhaustive", 5640), 7)
        theirs = 40 * timed(partial(epoch, "neal", 141))[0]
        yield {"k": k, "n": problem.bits, "epoch_seconds": ours, "neal_epoch_seconds": theirs, "ratio": theirs / ours}


def on_gpu(quick: bool) -> Iterator[Record]:
    """Measure a step on the CPU, on a GPU with a torch optimizer (kernel by kernel), and as a CUDA graph."""
    for k, name in ((4, "gap"),) if quick else ((4, "gap"), (4, "nll"), (5, "gap"), (5, "nll")):
        problem = RandGraph(k=k)
        pattern = topology("chimera" if k == 4 else "pegasus", problem.bits)
        drawn = problem.sample(141 * 400, torch.Generator().manual_seed(0))
        loss = Gap() if name == "gap" else Likelihood(BETA)
        taken = {}
        for engine, device in (("cpu", "cpu"), ("gpu", "cuda"), ("graph", "cuda")):

            def epoch(steps: int, engine: str = engine, device: str = device, drawn: object = drawn) -> None:
                network = QuboNetwork(MLP(problem.input_size, pattern.size), pattern).to(device)  # noqa: B023
                adam = Adam(RATE) if engine != "gpu" else torch.optim.Adam(network.parameters(), RATE)
                rows = slice(0, 141 * steps)
                how = {"batch_size": 141, "validation": None, "epochs": 1, "device": device}
                fit(network, (drawn.p[rows], drawn.x_true[rows]), loss, optimizer=adam, **how)  # noqa: B023

            taken[engine] = (seconds_of(partial(epoch, 400), 3) - seconds_of(partial(epoch, 8), 3)) / 392
        record = {f"{engine}_us": 1e6 * seconds for engine, seconds in taken.items()}
        more = {"graph_over_gpu": taken["gpu"] / taken["graph"], "graph_over_cpu": taken["cpu"] / taken["graph"]}
        yield {"k": k, "n": problem.bits, "loss": name, **record, **more}


def stack(inputs: int, outputs: int) -> nn.Sequential:
    """Return three linear layers with ReLU."""
    return nn.Sequential(nn.Linear(inputs, 78), nn.ReLU(), nn.Linear(78, 78), nn.ReLU(), nn.Linear(78, outputs))


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
    pattern = topology("dense", problem.bits)
    drawn = problem.sample(1280 if quick else 12_800, torch.Generator().manual_seed(0))
    bodies: dict[str, Callable[[int, int], nn.Module]] = {"a stack of layers": stack, "a user-defined module": Own}
    for name, body in bodies.items():
        network = QuboNetwork(body(problem.input_size, pattern.size), pattern)
        loops = {"fit": _fit, "by_hand": _by_hand}
        works = {name: partial(loop, network, drawn.p, drawn.x_true) for name, loop in loops.items()}
        times = in_turns(works, 2 if quick else 7)
        found = {f"{loop}_seconds": median(seconds[1:]) for loop, seconds in times.items()}  # the first is a warm-up
        ratios = [a / b for a, b in zip(times["fit"][1:], times["by_hand"][1:], strict=True)]
        yield {"network": name, "steps": len(drawn.p) // BATCH, **found, "fit_over_by_hand": median(ratios)}


def _fit(network: nn.Module, p: Tensor, x: Tensor) -> None:
    how = {"epochs": 1, "batch_size": BATCH, "validation": None, "solver": ExhaustiveSearch()}
    fit(network, (p, x), Likelihood(BETA), optimizer=Adam(RATE), **how)


def _by_hand(network: nn.Module, p: Tensor, x: Tensor) -> None:
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    for rows in torch.split(torch.randperm(len(p)), BATCH):
        A = network(p[rows])
        loss = (BETA * energies(A, x[rows]) + log_partition(A, BETA)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
