"""scene and snakes: labels of pictures, and cells of snakes.

Baselines of scene are support vector machines with the kernel of our networks: one per label,
a chain of them in random order, ten chains that vote, and one whose classes are label sets;
C and gamma are chosen on held-out training images. The baseline of snakes is a random forest
on windows around cells, whose width is chosen on held-out training grids.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from itertools import permutations
from typing import Any

import torch
from torch import Tensor, nn

from quant_reproduction.datasets.willow import CLASSES, KEYPOINTS
from quant_reproduction.grid.models import time_of
from quant_reproduction.networks import Ensemble, symbols_around
from quant_reproduction.presets import Method
from quant_reproduction.problems.scene import Scene
from quant_reproduction.problems.snakes import Snakes
from quant_reproduction.problems.willow_matching import WillowMatching, encode_matching
from qubolearn.data.contract import Instances
from qubolearn.data.encodings import assignments
from qubolearn.errors import missing_extra
from qubolearn.evaluation import evaluate_bits, solve_instances
from qubolearn.random import stream
from qubolearn.recipes import preset, recipe_for, train

METHODS, CHAINS = ("quant", "diag", "pure"), 10
#: Choices of the baselines: C, and gamma times the median distance.
PENALTIES, GAMMAS = (1.0, 3.0, 10.0), (0.5, 1.0, 2.0)


def labeled_pictures(seed: int, quick: bool = False) -> dict[str, Any]:
    """Score all methods on this split, 0 being the given one."""
    from scipy.stats import binomtest

    source: Any = "generated" if quick else "data"
    problem = Scene(source=source, split_seed=seed, held_out=0)
    test = problem.whole("test")
    began = time.perf_counter()
    short: dict[str, Any] = {"epochs": 10} if quick else {"instances": problem.available("train")}
    recipes = {method: recipe_for("best", problem, method=method, seed=seed, **short) for method in METHODS}
    answers = {name: solve_instances(train(problem, recipe), test.p)[0] for name, recipe in recipes.items()}
    right = {name: (x == test.x_true).all(1) for name, x in answers.items()}
    seconds = time.perf_counter() - began
    right |= _baselines(Scene(source=source, split_seed=seed), problem, quick)
    found: dict[str, Any] = {
        name: {"accuracy": each.double().mean().item(), "instances": len(each)}
        for name, each in right.items()
    }
    for name in right.keys() - set(METHODS):  # for a paired test
        ours, theirs = (int((a & ~b).sum()) for a, b in permutations((right["quant"], right[name])))
        chance = float(binomtest(ours, ours + theirs).pvalue) if ours + theirs else 1.0  # McNemar's test
        found[name] |= {"only_quant": ours, "only_rival": theirs, "chance": chance}
    return {**time_of(seconds), **found}


def _baselines(tuned: Scene, problem: Scene, quick: bool) -> dict[str, Tensor]:
    """Score support vector machines, tuned on held-out images."""
    try:
        import numpy as np
        from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
        from sklearn.svm import SVC
    except ImportError as error:
        raise missing_extra("classifier chains", "sklearn") from error

    def arrays(scene: Scene, split: Any) -> tuple[Any, Any]:
        found = scene.whole(split)
        return found.p.numpy(), found.x_true.numpy().astype(int)

    train_part, held_out = arrays(tuned, "train"), arrays(tuned, "validation")
    known, test = arrays(problem, "train"), arrays(problem, "test")
    width = float(torch.pdist(torch.from_numpy(known[0]), 1).median())

    def machine(C: float, gamma: float) -> Any:
        def kernel(a: Any, b: Any) -> Any:
            distance = torch.cdist(torch.from_numpy(a), torch.from_numpy(b), 1)
            return torch.exp(-gamma / width * distance).numpy()

        return SVC(C=C, kernel=kernel)

    def right(model: Any, where: tuple[Any, Any]) -> Any:
        return torch.from_numpy((model.predict(where[0]) == where[1]).all(1))

    class OnLabelSets:
        """One machine whose classes are label sets."""

        def __init__(self, machine: Any) -> None:
            self.machine = machine

        def fit(self, x: Any, y: Any) -> Any:
            self.sets, classes = np.unique(y, axis=0, return_inverse=True)
            self.machine.fit(x, classes.ravel())
            return self

        def predict(self, x: Any) -> Any:
            return self.sets[self.machine.predict(x)]

    def best(kind: Any) -> Any:
        choices = [machine(C, gamma) for C in PENALTIES for gamma in GAMMAS]
        score = lambda each: right(kind(each).fit(*train_part), held_out).double().mean()  # noqa: E731
        return max(choices[:1] if quick else choices, key=score)

    base = best(ClassifierChain)
    orders = range(2 if quick else CHAINS)
    chains = [ClassifierChain(base, order="random", random_state=order).fit(*known) for order in orders]
    votes = np.mean([model.predict(test[0]) for model in chains], 0) >= 0.5
    return {
        "one SVM per label": right(MultiOutputClassifier(best(MultiOutputClassifier)).fit(*known), test),
        "chain of SVMs": right(chains[0], test),
        f"chains of SVMs, {CHAINS} that vote": torch.from_numpy((votes == test[1]).all(1)),
        "SVM on label sets": right(OnLabelSets(best(OnLabelSets)).fit(*known), test),
    }


WINDOWS = (3, 5, 7, 9)


def numbered_cells(seed: int, method: str, quick: bool = False) -> dict[str, Any]:
    """Score one method, or the forest, on the given split."""
    source: Any = "generated" if quick else "data"
    problem = Snakes(source=source, held_out=0)
    test = problem.whole("test")
    if quick:
        test = test.rows(slice(0, 20))
    began, numbers = time.perf_counter(), dict[str, Any]()
    if method == "forest":
        window, answer = _forest(Snakes(source=source), problem, test, seed, quick)
        seconds, numbers = time.perf_counter() - began, {"window": window}
    else:
        short: Any = {"epochs": 2, "hidden": 32} if quick else {"instances": problem.available("train")}
        network = train(problem, recipe_for("best", problem, method=method, seed=seed, **short))
        seconds, began = time.perf_counter() - began, time.perf_counter()
        answer = problem.decode(solve_instances(network, test.p, problem=problem)[0])
        numbers = {"solve_seconds": time.perf_counter() - began}
    return {**time_of(seconds), method: {**_cell_scores(answer, test), **numbers}}


def _cell_scores(answer: Tensor, test: Instances) -> dict[str, Any]:
    """Return shares of right cells, snakes' cells and whole grids."""
    there, body = test.p > 0, test.answer > 0
    right = answer == test.answer
    found = {"accuracy": right[there], "accuracy_snake": right[body]}
    found["accuracy_grid"] = (right | ~there).all(1)
    means = {name: values.double().mean().item() for name, values in found.items()}
    return {**means, "instances": len(answer)}


def _forest(tuned: Snakes, problem: Snakes, test: Instances, seed: int, quick: bool) -> tuple[int, Tensor]:
    """Return the best window on held-out grids, and a forest's labels."""
    try:
        from sklearn.ensemble import RandomForestClassifier
    except ImportError as error:
        raise missing_extra("the random forest", "sklearn") from error

    rows, columns, symbols, _ = problem.grid

    def seen(p: Tensor, window: int) -> Tensor:
        return symbols_around(p.long().reshape(-1, rows, columns), symbols, window)

    def fitted(known: Instances, window: int) -> Any:
        there = known.p > 0
        forest = RandomForestClassifier(20 if quick else 200, random_state=seed)
        return forest.fit(seen(known.p, window)[there].numpy(), known.answer[there].numpy())

    def labels(forest: Any, p: Tensor, window: int) -> Tensor:
        return torch.from_numpy(forest.predict(seen(p, window).flatten(0, 1).numpy())).reshape(p.shape)

    known, held_out = tuned.whole("train"), tuned.whole("validation")

    def quality(window: int) -> float:
        found = labels(fitted(known, window), held_out.p, window)
        return (found == held_out.answer)[held_out.p > 0].float().mean().item()

    best = max(WINDOWS[:2] if quick else WINDOWS, key=quality)
    return best, labels(fitted(problem.whole("train"), best), test.p, best)


PAIRS = 100  # pairs of test images a class
#: Networks whose QUBOs are averaged.
MEMBERS = 3


def matched_pairs(
    seed: int,
    method: Method,
    quick: bool = False,
    first_split: int = 0,
    members: int = MEMBERS,
    inputs: Mapping[str, Any] | None = None,
    **changed: Any,
) -> dict[str, Any]:
    """Score one network and the mean of several, or without couplings also the best permutation.

    Splits are counted from ``first_split``; ``inputs`` and ``changed`` are options of problem and recipe.
    """
    problem = WillowMatching(split_seed=first_split + seed, **(inputs or {}))
    pairs = 10 if quick else PAIRS
    members = members if method == "quant" and not quick else 1
    changed |= {"epochs": 2} if quick else {}
    best = partial(preset, "best", WillowMatching, method=method, **changed)
    recipes = [best(seed=problem.split_seed + 1000 * member).recipe for member in range(members)]
    test = problem.sample(len(CLASSES) * pairs, stream(problem.split_seed, "test"), "test")
    began = time.perf_counter()
    network = Ensemble(train(problem, recipe) for recipe in recipes).eval()
    found: dict[str, Any] = time_of(time.perf_counter() - began)
    began = time.perf_counter()
    if method == "quant":
        both = {"quant": network.networks[0], f"quant, mean of {MEMBERS}": network}
        answers = {name: solve_instances(each, [test.p], problem=problem)[0] for name, each in both.items()}
    else:
        answers = _row_by_row(network, test, method)
    seconds = time.perf_counter() - began
    found |= {name: _matching_scores(problem, x, test) for name, x in answers.items()}
    found[method] |= {"solve_seconds": seconds, "members": members}
    return found


@torch.no_grad()
def _row_by_row(network: nn.Module, test: Instances, method: Method) -> dict[str, Tensor]:
    """Return bits ``[batch, 100]``: the best of each row, and permutation."""
    scores = network(test.p).diagonal(dim1=1, dim2=2).reshape(-1, KEYPOINTS, KEYPOINTS)
    rows = encode_matching(scores.argmin(2))
    return {method: rows, f"{method}, Hungarian": encode_matching(assignments(scores))}


def _matching_scores(problem: WillowMatching, x: Tensor, test: Instances) -> dict[str, Any]:
    """Return mean accuracy, also after projection, and by class."""
    found = evaluate_bits(problem, x, test).metrics
    kinds = len(CLASSES)  # which take turns
    rows = {name: slice(number, None, kinds) for number, name in enumerate(CLASSES)}
    by_class = {name: evaluate_bits(problem, x[some], test.rows(some)) for name, some in rows.items()}
    whole = {name: found[name] for name in ("accuracy", "accuracy_projected", "all_right")}
    parts = {f"accuracy_{name}": scored.metrics["accuracy"] for name, scored in by_class.items()}
    return {**whole, **parts, "instances": len(x)}
