"""Predict-then-optimize: regret of QUBOs learned from costs, and PyEPO.

Costs are PyEPO's: c = (((B p) / √5 + 3)^degree + 1) / 3.5^degree, with random B of 0 and
1 and uniform noise of ±50 %. The network, linear in p, fits degree 1 only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, permutations
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import Record, threads, timed
from qubolearn import Adam, ExhaustiveSearch, Likelihood, QuboLayer, QuboNetwork, evaluate, fit, topology
from qubolearn.costs import CostData, CostRegression, ListedStates, PerturbedFenchelYoung, SPOPlus
from qubolearn.solvers.constrained import Constrained
from qubolearn.training.optimizers import Cosine

INPUTS, TRAINED, TESTED, BATCH, RATE = 5, 1000, 1000, 32, 3e-2
#: Losses and their epochs.
LOSSES = {
    "two-stage": (CostRegression(), 60),
    "SPO+": (SPOPlus(), 30),
    "Fenchel-Young": (PerturbedFenchelYoung(), 10),
    "likelihood": (Likelihood(1.0), 20),
}


def costs(count: int, size: int, degree: int, seed: int) -> tuple[Tensor, Tensor]:
    random = np.random.default_rng(seed)
    B, p = random.binomial(1, 0.5, (size, INPUTS)), random.normal(size=(count, INPUTS))
    mean = ((p @ B.T / np.sqrt(INPUTS) + 3) ** degree + 1) / 3.5**degree
    c = mean * random.uniform(0.5, 1.5, (count, size))
    return torch.tensor(p, dtype=torch.float32), torch.tensor(c / c.mean(), dtype=torch.float32)


def pairs(c: Tensor, n: int) -> Tensor:
    """Return symmetric matrices of upper triangles ``[count, n(n-1)/2]``."""
    i, j = torch.triu_indices(n, n, 1)
    W = c.new_zeros(len(c), n, n)
    W[:, i, j] = c
    return W + W.mT


def max_cut(n: int, degree: int, count: int, seed: int) -> dict[str, Any]:
    """Return cuts: edge weights are costs less their mean; node 0 is fixed."""
    p, c = costs(count, n * (n - 1) // 2, degree, seed)
    W = pairs(c - c.mean(), n)
    return {"p": p, "A_true": W - torch.diag_embed(W.sum(2)), "clamp": {0: 0}, "solver": ExhaustiveSearch()}


def quadratic_knapsack(n: int, degree: int, count: int, seed: int) -> dict[str, Any]:
    """Return subsets within a capacity, with values of items and pairs."""
    p, c = costs(count, n * (n + 1) // 2, degree, seed)
    weights = torch.from_numpy(np.random.default_rng(seed + 1).uniform(3, 8, n))
    every = torch.cartesian_prod(*[torch.arange(2)] * n)
    A = -pairs(c[:, n:], n) / 4 - torch.diag_embed(c[:, :n])
    return {"p": p, "A_true": A, "solver": ListedStates(every[every.double() @ weights <= weights.sum() / 2])}


def portfolio(n: int, degree: int, count: int, seed: int) -> dict[str, Any]:
    """Return four assets: predicted returns, known covariances."""
    p, c = costs(count, n, degree, seed)
    factors = torch.from_numpy(np.random.default_rng(seed + 1).normal(size=(n, 4))).float() / 2
    chosen = torch.stack([torch.eye(n)[list(some)].sum(0) for some in combinations(range(n), 4)])
    return {"p": p, "A_true": 0.5 * factors @ factors.T - torch.diag_embed(c), "solver": ListedStates(chosen)}


def assignment(n: int, degree: int, count: int, seed: int) -> dict[str, Any]:
    """Return quadratic assignment: known flows, predicted distances."""
    p, c = costs(count, n * (n - 1) // 2, degree, seed)
    drawn = np.random.default_rng(seed + 1).uniform(size=(1, n * (n - 1) // 2))
    flows = pairs(torch.from_numpy(drawn).float(), n)[0]
    A = torch.einsum("ij,kab->kiajb", flows, pairs(c, n)).reshape(count, n * n, n * n)
    states = torch.stack([torch.eye(n)[list(order)].flatten() for order in permutations(range(n))])
    return {"p": p, "A_true": A, "solver": ListedStates(states)}


TASKS: dict[str, tuple[Callable[..., dict[str, Any]], int, tuple[int, ...]]] = {
    "max-cut, 12 nodes": (max_cut, 12, (1, 4, 6)),
    "max-cut, 20 nodes": (max_cut, 20, (6,)),
    "quadratic knapsack, 12 items": (quadratic_knapsack, 12, (1, 6)),
    "portfolio, 4 of 12 assets": (portfolio, 12, (1, 6)),
    "quadratic assignment, 4 facilities": (assignment, 4, (1, 6)),
}


def quadratic(quick: bool) -> Iterator[Record]:
    """Yield regrets of all losses on quadratic tasks."""
    cells = [(task, make, n, degree) for task, (make, n, degrees) in TASKS.items() for degree in degrees]
    with threads(1):
        for task, make, n, degree in cells[2:3] if quick else cells:
            given = make(n, degree, 400 if quick else TRAINED + TESTED, 0)
            data = CostData(**given, validation=0, test=0.5)
            record: Record = {"task": task, "bits": data.bits, "degree": degree}
            for name, (loss, epochs) in LOSSES.items():
                network, optimizer = untrained(data), Adam(RATE, schedule=Cosine())
                how: Any = {"epochs": epochs, "batch_size": BATCH, "optimizer": optimizer, "validation": None}
                work = partial(fit, network, data, loss, solver=given["solver"], **how)
                record[f"{name} s"], _ = timed(work, time.process_time)
                found = 100 * evaluate(network, data).scores["regret"]
                record |= {name: found.mean().item(), f"{name} error": found.std().item() / len(found) ** 0.5}
            yield {**record, "QuboLayer": 100 * through_layer(data, given)}


def untrained(data: CostData) -> QuboNetwork:
    torch.manual_seed(0)
    graph = topology("dense", data.bits)
    return QuboNetwork(nn.Linear(INPUTS, graph.size), graph, INPUTS)


def through_layer(data: CostData, given: dict[str, Any]) -> float:
    """Return the regret after training through the pairs of ``QuboLayer``."""
    network, train = untrained(data), data.whole("train")
    solver = Constrained(given["solver"], given.get("clamp"), None)
    layer, optimizer = QuboLayer(solver, pairs=True), torch.optim.Adam(network.parameters(), RATE)
    for _ in range(20):
        for rows in torch.randperm(len(train.p)).split(BATCH):
            some = train.rows(rows)
            cost = (some.answer * layer(network(some.p))).sum((1, 2)).mean()
            optimizer.zero_grad()
            cost.backward()
            optimizer.step()
    return evaluate(network, data).metrics["regret"]


def linear(quick: bool) -> Iterator[Record]:
    """Yield regret and seconds of SPO+ in PyEPO (Pyomo and HiGHS) and here."""
    from pyepo import data, model

    train, epochs = (20, 1) if quick else (200, 20)
    how = {"num_data": train + (20 if quick else 500), "num_features": INPUTS, "deg": 6, "noise_width": 0.5}
    options = {"backend": "pyomo", "solver": "appsi_highs"}
    weights, *items = data.knapsack.genData(num_items=12, dim=2, **how)
    path, tour = model.shortestPathModel((5, 5), **options), model.tspModel(6, formulation="GG", **options)
    sack = model.knapsackModel(weights, weights.sum(1) / 2, **options)
    every = torch.cartesian_prod(*[torch.arange(2)] * 12)
    fits = (every.double() @ torch.tensor(weights.T) <= torch.tensor(weights.sum(1) / 2)).all(1)
    tasks = {
        "shortest path, 5 x 5": (path, paths(path.arcs), *data.shortestpath.genData(grid=(5, 5), **how)),
        "knapsack, 12 items": (sack, every[fits], *items),
        "TSP, 6 cities": (tour, tours(tour.edges), *data.tsp.genData(num_nodes=6, **how)),
    }
    with threads(1):
        for task, (solved, states, p, c) in list(tasks.items())[: 1 if quick else None]:
            c = c / c.mean()
            seconds, theirs = timed(lambda: in_pyepo(solved, p, c, train, epochs), time.process_time)  # noqa: B023
            own_seconds, ours = timed(lambda: here(solved, states, p, c, train, epochs), time.process_time)  # noqa: B023
            record = {"task": task, "trained": train, "states": len(states), "PyEPO": 100 * theirs.mean()}
            apart = 100 * (ours - theirs)
            record |= {"qubolearn": 100 * ours.mean(), "difference error": apart.std() / len(apart) ** 0.5}
            yield {**record, "PyEPO s": seconds, "qubolearn s": own_seconds, "ratio": seconds / own_seconds}


def paths(arcs: list[tuple[int, int]]) -> Tensor:
    """Return all paths from the first to the last node as bits of arcs."""
    last, done, open_ = max(max(arc) for arc in arcs), [], [(0, [])]
    while open_:
        node, taken = open_.pop()
        if node == last:
            done.append(taken)
        open_ += [(v, [*taken, number]) for number, (u, v) in enumerate(arcs) if u == node]
    return torch.stack([torch.zeros(len(arcs)).index_fill(0, torch.tensor(taken), 1.0) for taken in done])


def tours(edges: list[tuple[int, int]]) -> Tensor:
    cities = 1 + max(max(edge) for edge in edges)
    orders = permutations(range(1, cities))
    rounds = [{frozenset(step) for step in zip((0, *o), (*o, 0), strict=True)} for o in orders]
    return torch.tensor([[float(frozenset(edge) in some) for edge in edges] for some in rounds]).unique(dim=0)


def in_pyepo(model: Any, p: Any, c: Any, train: int, epochs: int) -> Any:
    """Return the regret of each test instance of SPO+ in PyEPO."""
    import pyepo
    from torch.utils.data import DataLoader

    torch.manual_seed(0)
    network, some = nn.Linear(INPUTS, c.shape[1]), pyepo.data.dataset.optDataset(model, p[:train], c[:train])
    optimizer, loss = torch.optim.Adam(network.parameters(), RATE), pyepo.func.SPOPlus(model)
    for _ in range(epochs):
        for x, cost, w, z in DataLoader(some, BATCH, shuffle=True):
            optimizer.zero_grad()
            loss(network(x), cost, w, z).backward()
            optimizer.step()
    test = pyepo.data.dataset.optDataset(model, p[train:], c[train:])
    found = pyepo.metric.regret(network, model, DataLoader(test, BATCH), reduction="none")
    return np.asarray(found, np.float64).ravel() / np.abs(np.asarray(test.objs, np.float64)).mean()


def here(model: Any, states: Tensor, p: Any, c: Any, train: int, epochs: int) -> Any:
    """Return the same with our SPO+ and exact search."""
    A, listed = torch.diag_embed(torch.tensor(c)) * int(model.modelSense), ListedStates(states)
    rows = slice(train), slice(train, None)
    first, test = (CostData(p[k], A[k], solver=listed, validation=0) for k in rows)
    torch.manual_seed(0)
    network = QuboNetwork(nn.Linear(INPUTS, c.shape[1]), topology("diagonal", c.shape[1]))
    how = {"epochs": epochs, "batch_size": BATCH, "optimizer": Adam(RATE), "validation": None}
    fit(network, first, SPOPlus(), solver=listed, **how)
    return evaluate(network, test, split="train").scores["regret"].numpy()
