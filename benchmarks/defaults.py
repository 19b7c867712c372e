"""``fit(network, data)`` alone on three problems, next to chains of logistic regressions.

Defaults were compared on data of the choosing seeds; reports are on other seeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import Record, timed
from qubolearn import Adam, Arrays, QuboNetwork, evaluate, fit, topology
from qubolearn.networks import GraphBody
from qubolearn.qubo import all_states
from qubolearn.training.defaults import default_optimizer
from qubolearn.training.optimizers import Cosine

NODES, EDGES = 12, 0.3
SEEDS, TESTED = 5, 2000
#: First seeds of choosing and of reporting, and the offset for test data.
CHOOSING, REPORTING, TEST = 1000, 4000, 9000
CHOICES = tuple(10.0**k for k in range(-3, 5))  # C of the chains
Data = tuple[Any, Tensor]  # p, or features of nodes and pairs, and x


def signs(count: int, seed: int) -> Data:
    """Return 4 normal numbers and their signs."""
    p = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return p, (p > 0).float()


def vertex_cover(count: int, seed: int) -> Data:
    """Return random weighted graphs and their cheapest vertex covers."""
    generator = torch.Generator().manual_seed(seed)
    graph, weights = _graphs(count, generator), 0.5 + torch.rand(count, NODES, generator=generator)
    x, (i, j) = all_states(NODES), torch.triu_indices(NODES, NODES, 1)
    uncovered = (1 - x[:, i]) * (1 - x[:, j])
    parts = zip(weights.split(250), graph.split(250), strict=True)
    best = [(w @ x.T + NODES * g @ uncovered.T).argmin(1) for w, g in parts]
    return (weights[..., None], graph[..., None]), x[torch.cat(best)]


def independent_set(count: int, seed: int) -> Data:
    """Return random graphs with unique largest independent sets."""
    generator, x = torch.Generator().manual_seed(seed), all_states(NODES)
    i, j = torch.triu_indices(NODES, NODES, 1)
    graphs, sets, found = list[Tensor](), list[Tensor](), 0
    while found < count:
        graph = _graphs(500, generator)
        size = x.sum(1) - NODES * graph @ (x[:, i] * x[:, j]).T
        unique = (size == size.amax(1, keepdim=True)).sum(1) == 1
        graphs.append(graph[unique])
        sets.append(x[size[unique].argmax(1)])
        found += int(unique.sum())
    return (torch.ones(count, NODES, 1), torch.cat(graphs)[:count, :, None]), torch.cat(sets)[:count]


def _graphs(count: int, generator: torch.Generator) -> Tensor:
    return (torch.rand(count, NODES * (NODES - 1) // 2, generator=generator) < EDGES).float()


#: name -> generator, training instances
PROBLEMS: dict[str, tuple[Callable[[int, int], Data], int]] = {
    "signs": (signs, 400),
    "vertex cover": (vertex_cover, 1000),
    "independent set": (independent_set, 1000),
}


#: name -> factor of the learning rate, arguments of the network, arguments of fit
CHANGES: dict[str, tuple[float, Record, Record]] = {
    "none": (1, {}, {}),
    "rate / 4": (0.25, {}, {}),
    "rate * 4": (4, {}, {}),
    "batch 128": (1, {}, {"batch_size": 128}),
    "entries bounded": (1, {"bound": True}, {}),
    "couplings centered": (1, {"centered": True}, {}),
}


def trained(problem: str, seed: int, change: str = "none") -> tuple[float, float]:
    """Return the percentage of right answers of a network, and CPU seconds."""
    (generate, count), (factor, head, options) = PROBLEMS[problem], CHANGES[change]
    (p, x), test = generate(count, seed), Arrays(*generate(TESTED, TEST + seed), validation=0)
    torch.manual_seed(seed)
    pattern = topology("dense", x.shape[1])
    body = nn.Linear(4, pattern.size) if isinstance(p, Tensor) else GraphBody(pattern, nodes=1)
    network = QuboNetwork(body, pattern, **head)
    if factor != 1:
        options = {"optimizer": Adam(factor * default_optimizer(network).learning_rate, Cosine())}
    seconds, _ = timed(partial(fit, network, (p, x), seed=seed, **options), time.process_time)
    return 100 * evaluate(network, test).metrics["accuracy"], seconds


def chain(problem: str, seed: int) -> float:
    """Return the percentage of a chain, whose C is chosen on a fifth of the data."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import ClassifierChain

    generate, count = PROBLEMS[problem]
    (X, y), (T, z) = (_rows(*data) for data in (generate(count, seed), generate(TESTED, TEST + seed)))
    cut = 4 * count // 5
    chains = [ClassifierChain(LogisticRegression(C=C, max_iter=2000), random_state=seed) for C in CHOICES]
    kept = [(one.fit(X[:cut], y[:cut]).predict(X[cut:]) == y[cut:]).all(1).mean() for one in chains]
    found = chains[int(np.argmax(kept))].fit(X, y).predict(T)
    return 100 * float((found == z).all(1).mean())


def _rows(p: Any, x: Tensor) -> tuple[Any, Any]:
    """Return arrays of all features and of labels."""
    features = [p] if isinstance(p, Tensor) else p
    return np.hstack([each.flatten(1).numpy() for each in features]), x.numpy().astype(int)


def defaults(quick: bool) -> Iterator[Record]:
    """Yield a record per problem: fit and the chain over five draws."""
    for problem in PROBLEMS:
        seeds = [REPORTING + seed for seed in range(1 if quick else SEEDS)]
        right, seconds = zip(*(trained(problem, seed) for seed in seeds), strict=True)
        spread = stdev(right) if len(right) > 1 else 0.0
        chains = fmean(chain(problem, seed) for seed in seeds)
        found = {"problem": problem, "right": fmean(right), "spread": spread, "chain": chains}
        yield {**found, "seconds": fmean(seconds), "seeds": len(seeds)}


def variants(quick: bool) -> Iterator[Record]:
    """Yield a record per changed default, on choosing and reporting seeds."""
    for change in list(CHANGES)[:1] if quick else CHANGES:
        found: Record = {"change": change}
        for (part, first), problem in product((("choosing", CHOOSING), ("reporting", REPORTING)), PROBLEMS):
            seeds = range(first, first + (1 if quick else 3))
            found[f"{problem}, {part}"] = fmean(trained(problem, seed, change)[0] for seed in seeds)
        yield found
