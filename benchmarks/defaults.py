"""``fit(network, data)`` with nothing else, on three problems whose generators are here, next to chains of logistic
regressions. Settings were chosen on data of the tuning seeds (``variants``); ``defaults`` reports on other seeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import Record
from qubolearn import Adam, Arrays, QuboNetwork, evaluate, fit, topology
from qubolearn.networks import GraphBody
from qubolearn.training.defaults import default_optimizer
from qubolearn.training.optimizers import Cosine

NODES, EDGES = 12, 0.3
SEEDS, TESTED = 5, 2000
#: Seeds of the data that chose the defaults, and of those that report them; test sets have their own.
TUNING, REPORTING, TEST = 1000, 4000, 9000
CHOICES = tuple(10.0**k for k in range(-3, 5))  # C of the chains


class Data(NamedTuple):
    p: Any  # [count, m], or features of nodes and of pairs
    x: Tensor


def signs(count: int, seed: int) -> Data:
    """Return 4 normal numbers and their signs."""
    p = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return Data(p, (p > 0).float())


def vertex_cover(count: int, seed: int) -> Data:
    """Return random graphs with weights of nodes, and the cheapest set of nodes that touches every edge."""
    generator = torch.Generator().manual_seed(seed)
    graph, weights = _graphs(count, generator), 0.5 + torch.rand(count, NODES, generator=generator)
    x, (i, j) = _states(), torch.triu_indices(NODES, NODES, 1)
    uncovered = (1 - x[:, i]) * (1 - x[:, j])
    cost = [w @ x.T + NODES * g @ uncovered.T for w, g in zip(weights.split(250), graph.split(250), strict=True)]
    return Data((weights[..., None], graph[..., None]), x[torch.cat([some.argmin(1) for some in cost])])


def independent_set(count: int, seed: int) -> Data:
    """Return random graphs whose largest set of nodes without an edge is unique, and that set."""
    generator, x, (i, j) = torch.Generator().manual_seed(seed), _states(), torch.triu_indices(NODES, NODES, 1)
    graphs, sets, found = list[Tensor](), list[Tensor](), 0
    while found < count:
        graph = _graphs(500, generator)
        size = x.sum(1) - NODES * graph @ (x[:, i] * x[:, j]).T
        unique = (size == size.amax(1, keepdim=True)).sum(1) == 1
        graphs, sets, found = [*graphs, graph[unique]], [*sets, x[size[unique].argmax(1)]], found + int(unique.sum())
    return Data((torch.ones(count, NODES, 1), torch.cat(graphs)[:count, :, None]), torch.cat(sets)[:count])


def _graphs(count: int, generator: torch.Generator) -> Tensor:
    return (torch.rand(count, NODES * (NODES - 1) // 2, generator=generator) < EDGES).float()


def _states() -> Tensor:
    return ((torch.arange(2**NODES)[:, None] >> torch.arange(NODES)) & 1).float()


#: name -> generator, training instances
PROBLEMS: dict[str, tuple[Callable[[int, int], Data], int]] = {
    "signs": (signs, 400),
    "vertex cover": (vertex_cover, 1000),
    "independent set": (independent_set, 1000),
}


def network_for(data: Data, seed: int, **options: Any) -> QuboNetwork:
    """Return a linear body for numbers, a graph network for graphs."""
    torch.manual_seed(seed)
    pattern = topology("dense", data.x.shape[1])
    body = nn.Linear(4, pattern.size) if isinstance(data.p, Tensor) else GraphBody(pattern, nodes=1)
    return QuboNetwork(body, pattern, **options)


def trained(problem: str, seed: int, change: dict[str, Any] | None = None, **head: Any) -> dict[str, float]:
    """Train on one draw and return the percentage of unseen instances that are exactly right, and CPU seconds."""
    (generate, count), change = PROBLEMS[problem], change or {}
    data, test = generate(count, seed), generate(TESTED, TEST + seed)
    network = network_for(data, seed, **head)
    if (factor := change.pop("factor", None)) is not None:
        decay = change.pop("decay", 0.0)
        change["optimizer"] = Adam(factor * default_optimizer(network).learning_rate, Cosine(), decay)
    began = time.process_time()
    fit(network, (data.p, data.x), seed=seed, **change)
    seconds = time.process_time() - began
    scored = evaluate(network, Arrays(test.p, test.x, validation=0)).metrics
    return {"right": 100 * scored["accuracy"], "seconds": seconds}


def chain(problem: str, seed: int) -> float:
    """Return the same percentage of a chain of logistic regressions whose C is chosen on a fifth of the data."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import ClassifierChain

    generate, count = PROBLEMS[problem]
    (X, data), (T, test) = ((_flat(d.p), d) for d in (generate(count, seed), generate(TESTED, TEST + seed)))
    y, cut = data.x.numpy().astype(int), 4 * count // 5

    def fitted(C: float, rows: slice) -> Any:
        return ClassifierChain(LogisticRegression(C=C, max_iter=2000), random_state=seed).fit(X[rows], y[rows])

    kept = [(fitted(C, slice(cut)).predict(X[cut:]) == y[cut:]).all(1).mean() for C in CHOICES]
    found = torch.tensor(fitted(CHOICES[int(np.argmax(kept))], slice(count)).predict(T)).float()
    return 100 * (found == test.x).all(1).double().mean().item()


def _flat(p: Any) -> Any:
    return p.numpy() if isinstance(p, Tensor) else np.hstack([each.flatten(1).numpy() for each in p])


def defaults(quick: bool) -> Iterator[Record]:
    """Yield a record per problem: fit with its defaults and the chain, over five draws of data and weights."""
    for problem in PROBLEMS:
        seeds = [REPORTING + seed for seed in range(1 if quick else SEEDS)]
        found = [trained(problem, seed) for seed in seeds]
        right, chains = [each["right"] for each in found], [chain(problem, seed) for seed in seeds]
        spread = stdev(right) if len(right) > 1 else 0.0
        cost = {"seconds": fmean(each["seconds"] for each in found), "seeds": len(seeds)}
        yield {"problem": problem, "right": fmean(right), "spread": spread, "chain": fmean(chains), **cost}


def variants(quick: bool) -> Iterator[Record]:
    """Yield a record per problem and change of one default, on the tuning seeds."""
    changes: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "none": ({}, {}),
        "rate / 4": ({"factor": 0.25}, {}),
        "rate * 4": ({"factor": 4.0}, {}),
        "weight decay 0.01": ({"factor": 1.0, "decay": 1e-2}, {}),
        "bounded entries": ({}, {"bound": True}),
        "centered": ({}, {"centered": True}),
        "batch 128": ({"batch_size": 128}, {}),
    }
    for problem in PROBLEMS:
        for name, (change, head) in changes.items():
            found = [trained(problem, TUNING + seed, dict(change), **head) for seed in range(1 if quick else 3)]
            yield {"problem": problem, "change": name, "right": fmean(each["right"] for each in found)}
