"""scene: what couplings add to six labels of a picture, beside scikit-learn's classifier chains.

For each split three networks of each method are trained, with different seeds, and scored one by one and as an
ensemble. Baselines are support vector machines: one per label, a chain of them in random order, and ten chains that
vote; C and gamma are chosen on held-out training pictures of the same split.
"""

from __future__ import annotations

import time
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from quant_reproduction.grid import panels
from quant_reproduction.grid.trained import time_of
from quant_reproduction.networks import Ensemble
from quant_reproduction.problems.scene import LABELS, Scene
from qubolearn.data.contract import Instances
from qubolearn.errors import missing_extra
from qubolearn.evaluation import solve_instances
from qubolearn.recipes import recipe_for, train

__all__ = ["labelled_pictures"]

METHODS = ("quant", "diag", "pure")
SEEDS, CHAINS = 3, 10
#: Choices of the baselines: scikit-learn's own gamma is 0.043 here.
PENALTIES, GAMMAS = (1.0, 3.0, 10.0), (0.03, 0.06, 0.12)


def labelled_pictures(seed: int, quick: bool = False) -> dict[str, Any]:
    """All ways to learn on the split of this number, 0 being the given one; quick ones on generated data."""
    source: Any = "generated" if quick else "data"
    problem = Scene(source=source, split_seed=seed, held_out=0)
    test = problem.whole("test")
    right: dict[str, list[Tensor]] = {}
    began, figure = time.perf_counter(), None
    for method in METHODS:
        networks = _trained(problem, method, quick)
        right[method] = [_right(network, test) for network in networks]
        right[f"{method}, mean of {SEEDS}"] = [_right(Ensemble(networks).eval(), test)]
        figure = figure or _figure(networks[0], test)
    seconds = time.perf_counter() - began
    right |= _baselines(Scene(source=source, split_seed=seed), problem, quick)
    found: dict[str, Any] = {
        name: {"accuracy": fmean(each.double().mean().item() for each in some), "instances": len(some[0])}
        for name, some in right.items()
    }
    best = right[f"quant, mean of {SEEDS}"][0]
    for name in (name for name in right if name.startswith("chain")):
        # on how many pictures exactly one of both is right, for a paired test
        pairs = [((best & ~each).sum().item(), (each & ~best).sum().item()) for each in right[name]]
        ours, theirs = fmean(a for a, _ in pairs), fmean(b for _, b in pairs)
        found[name] |= {"only_quant": ours, "only_rival": theirs, "chance": _mcnemar(round(ours), round(theirs))}
    return {**time_of(seconds), **found, "couplings": {"figure": figure}}


def _mcnemar(ours: int, theirs: int) -> float:
    """Return the probability of a difference as large if both are equally good."""
    from scipy.stats import binomtest

    return float(binomtest(ours, ours + theirs).pvalue) if ours + theirs else 1.0


def _trained(problem: Scene, method: str, quick: bool) -> list[nn.Module]:
    short: dict[str, Any] = {"instances": problem.available("train")}
    if quick:
        short = {"epochs": 10, "hidden": 64, "learning_rate": 1e-2}
    recipes = [recipe_for("best", problem, method=method, seed=seed, **short) for seed in range(1 if quick else SEEDS)]
    return [train(problem, recipe) for recipe in recipes]


def _right(network: nn.Module, test: Instances) -> Tensor:
    """Return whether all labels of each test picture are right."""
    found: Tensor = (solve_instances(network, test.p)[0] == test.x_true).all(1)
    return found


@torch.no_grad()
def _figure(network: nn.Module, test: Instances) -> dict[str, Any]:
    """Couplings of the labels, mean over the test pictures, beside how often two labels stand together."""
    A = network.eval()(test.p).mean(0)
    off = 1 - torch.eye(len(A))
    together = 100 * (test.x_true.T @ test.x_true) / len(test.x_true)
    note = f"Labels in their order: {', '.join(LABELS)}. Above 0 a coupling says that two labels exclude each other."
    drawn = [
        panels.matrix("learned couplings, mean over the test pictures", ((A + A.T) * off).tolist()),
        panels.matrix("test pictures with both labels, %", (together * off).tolist()),
    ]
    return panels.titled("Labels of scene that exclude each other", drawn, note)


def _baselines(tuned: Scene, problem: Scene, quick: bool) -> dict[str, list[Tensor]]:
    """The same of support vector machines: tuned on held-out pictures of ``tuned``, trained on all of ``problem``."""
    try:
        import numpy as np
        from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
        from sklearn.svm import SVC
    except ImportError as error:
        raise missing_extra("classifier chains", "sklearn") from error

    def arrays(scene: Scene, split: Any) -> tuple[Any, Any]:
        found = scene.whole(split)
        return found.p.numpy(), found.x_true.numpy().astype(int)

    def right(model: Any, where: tuple[Any, Any]) -> Any:
        return (model.predict(where[0]) == where[1]).all(1)

    choices = [(C, gamma) for C in PENALTIES for gamma in GAMMAS]
    train_part, held_out = arrays(tuned, "train"), arrays(tuned, "validation")

    def quality(kind: Any, C: float, gamma: float) -> float:
        return float(right(kind(SVC(C=C, gamma=gamma)).fit(*train_part), held_out).mean())

    known, test = arrays(problem, "train"), arrays(problem, "test")
    alone, chain = (
        max(choices[:1] if quick else choices, key=lambda choice: quality(kind, *choice))
        for kind in (MultiOutputClassifier, ClassifierChain)
    )
    each = MultiOutputClassifier(SVC(C=alone[0], gamma=alone[1])).fit(*known)
    base = SVC(C=chain[0], gamma=chain[1])
    number = 2 if quick else CHAINS
    chains = [ClassifierChain(base, order="random", random_state=seed).fit(*known) for seed in range(number)]
    votes = np.mean([model.predict(test[0]) for model in chains], 0) >= 0.5
    found = {"one SVM a label": [right(each, test)], "chain of SVMs": [right(model, test) for model in chains[:SEEDS]]}
    found[f"chains of SVMs, {CHAINS} that vote"] = [(votes == test[1]).all(1)]
    return {name: [torch.from_numpy(one) for one in some] for name, some in found.items()}
