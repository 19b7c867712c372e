"""scene: what couplings add to six labels of a picture, beside scikit-learn's classifier chains.

For each split three networks of each method are trained, with different seeds, and scored one by one and as an
:class:`~qubolearn.networks.Ensemble`. Rivals are support vector machines: one for each label, a chain of them in random
order, and ten chains that vote; C and gamma are chosen on held-out training pictures of the same split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from qubolearn.benchmarks.chip_view import chip_view
from qubolearn.benchmarks.processes import records_of
from qubolearn.benchmarks.rows import Row, row
from qubolearn.errors import missing_extra
from qubolearn.evaluation import solve_instances
from qubolearn.networks import Ensemble
from qubolearn.problems.data import data_root
from qubolearn.problems.scene import Scene
from qubolearn.training.recipes import recipe_for
from qubolearn.training.train import train

__all__ = ["records", "rows"]

Record = dict[str, Any]
METHODS = ("quant", "diag", "pure")
#: 0 is the given split.
SPLITS, SEEDS, CHAINS = range(5), 3, 10
#: What the rivals choose from: scikit-learn's own gamma is 0.043 here.
PENALTIES, GAMMAS = (1.0, 3.0, 10.0), (0.03, 0.06, 0.12)


def records(quick: bool, jobs: int = 1) -> Iterator[Record]:
    """One record for each split and way to learn; data is generated where quick finds none."""
    return records_of(partial(split_records, quick=quick), SPLITS[:1] if quick else SPLITS, jobs)


def split_records(split: int, quick: bool = False) -> Iterator[Record]:
    """The records of one split: our methods, then the rivals."""
    there = (data_root() / "structured" / "scene.npz").is_file()
    source = "generated" if quick and not there else "data"
    problem = Scene(source=source, split_seed=split, held_out=0)  # type: ignore[arg-type]
    test = problem.whole("test")
    right: dict[str, list[Tensor]] = {}
    chip = None
    for method in METHODS:
        short: dict[str, Any] = (
            {"epochs": 10, "hidden": 64, "learning_rate": 1e-2} if quick else {"instances": problem.available("train")}
        )
        recipes = [
            recipe_for("best", problem, method=method, seed=seed, **short) for seed in range(1 if quick else SEEDS)
        ]
        networks = [train(problem, recipe) for recipe in recipes]
        right[method] = [_right(network, test) for network in networks]
        right[f"{method}, mean of {len(networks)}"] = [_right(Ensemble(networks).eval(), test)]
        if method == "quant" and split == 0:
            with torch.no_grad():
                chip = chip_view(networks[0](test.p[:1])[0])
    right |= _rivals(Scene(source=source, split_seed=split), problem, quick)  # type: ignore[arg-type]
    best = right[f"quant, mean of {len(networks)}"][0]
    for name, found in right.items():
        accuracies = [100 * each.float().mean().item() for each in found]
        record: Record = {"split": split, "method": name, "accuracy": fmean(accuracies), "accuracies": accuracies}
        record |= {"pictures": len(best), "source": source}
        if name.startswith("chain"):  # on how many pictures exactly one of both is right, for a paired test
            pairs = [((best & ~each).sum().item(), (each & ~best).sum().item()) for each in found]
            record |= {"only_quant": fmean(a for a, _ in pairs), "only_rival": fmean(b for _, b in pairs)}
        yield record | ({"chip": chip} if name == "quant" and chip else {})


def _right(network: torch.nn.Module, test: Any) -> Tensor:
    """Whether all labels of each test picture are right."""
    found: Tensor = (solve_instances(network, test.p)[0] == test.x_true).all(1)
    return found


def _rivals(tuned: Scene, problem: Scene, quick: bool) -> dict[str, list[Tensor]]:
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
    found[f"chains of SVMs, {number} that vote"] = [(votes == test[1]).all(1)]
    return {name: [torch.from_numpy(one) for one in some] for name, some in found.items()}


def rows(records: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The line of the table "where couplings pay": single networks beside single chains."""
    names = {**{method: method for method in METHODS}, "chain of SVMs": "rival"}
    known = [{names[each["method"]]: each["accuracy"]} for each in records if each["method"] in names]
    splits = len({each["split"] for each in records})
    return [
        row(
            "scene, six labels",
            "all labels right, %",
            "294 features of a picture",
            f"{splits} splits, {SEEDS} seeds each",
            known,
            rival_name="classifier chains of SVMs",
            chip=next((each["chip"] for each in records if "chip" in each), None),
        )
    ]
