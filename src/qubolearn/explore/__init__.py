"""The explorer: an interactive page about a run, whose QUBOs the browser solves."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, is_dataclass
from typing import Any

import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from torch import Tensor

from qubolearn.chips.topologies import FAMILIES, Topology, topology
from qubolearn.data.arrays import map_tensors, tensors_of
from qubolearn.data.contract import Instances, Problem
from qubolearn.errors import QubolearnError
from qubolearn.evaluation import solve_instances
from qubolearn.explore.views import Show, view
from qubolearn.problems.sudoku import Sudoku
from qubolearn.qubo import FREE, Groups, Qubo, SparseQubo
from qubolearn.random import stream
from qubolearn.recipes import pattern_of
from qubolearn.runs import Run
from qubolearn.training.folder import OWN

__all__ = ["contents", "page", "positions"]

#: Limits of the numbers of all instances and of the couplers of one.
MAX_NUMBERS, MAX_COUPLERS = 120_000, 50_000
#: Limit of the bits of all right answers to one instance.
MAX_RIGHT = 4096
#: Limit of the words of all answers.
MAX_WORDS = 8192
#: Instances of few bits that are scored, to show wrong ones.
SCORED, FEW_BITS, WRONG = 2000, 20, 4

Point = tuple[float, float]

#: Distance of cells, and positions of a cell's four qubits.
PITCH, ALONG = 1.2, (-0.42, -0.18, 0.18, 0.42)


def page(
    run: Run, instances: int = 24, seed: int = 0, show: Show | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the page of a run as one HTML document, and its numbers.

    Args:
        run: Any run.
        instances: Number of unseen instances; fewer if a page would exceed 2 MB.
        seed: Seed of the instances.
        show: How p is drawn, by default ``run.problem.show``, or an image: ``"image"``,
            ``"table"`` or ``"graph"`` (p lists the pairs of nodes, or is the input of a
            :class:`qubolearn.networks.GraphBody`). A function receives p of one instance
            as NumPy and returns ``{"image": array}``, ``[h, w]`` or ``[h, w, 3]``,
            ``{"table": rows}`` with headers first, or ``{"graph": (names, edges)}`` with
            edges (i, j) or (i, j, weight).
    """
    data = contents(run, instances, seed, show)
    loader = PackageLoader("qubolearn.explore")
    templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    return templates.get_template("page.html").render(data=data), data  # texts are escaped


def contents(run: Run, instances: int, seed: int, show: Show | None = None) -> dict[str, Any]:
    """Return the contents of the page for JSON."""
    problem, network = run.problem, run.network()
    shown_as: Show = getattr(problem, "show", "image") if show is None else show
    scored = max(instances, SCORED if (few := problem.bits <= FEW_BITS) else 0)
    scored = min(scored, problem.available("test") or scored)
    test = problem.sample(scored, stream(seed, "test"), "test")
    with torch.no_grad():
        A, dropped = _sparse(network(test.rows(slice(0, 2)).p))
        first = json.dumps(view(shown_as, _numpy(test.p, 0)))
        numbers = 2 * A.n + (0 if _is_shared(A) else A.edges.shape[1]) + len(first) // 8
        shown = max(1, min(instances, scored, MAX_NUMBERS // numbers))
        test = test.rows(slice(0, scored if few else shown))
        found, _ = solve_instances(network, test.p, problem=problem)
        scores = problem.score(problem.decode(found), test)
        hits = scores["accuracy"] == 1 if "accuracy" in scores else test.wrong_bits(found) == 0
        kept = _with_wrong(hits, shown)
        test = test.rows(kept)
        A, dropped = _sparse(network(test.p))
    return {
        "title": run.folder.name if problem.name == OWN else type(problem).__name__,
        "options": _options(problem),
        "head": run.recipe.head,
        "topology": run.recipe.topology,
        "n": A.n,
        "inputs": sum(tensor[0].numel() for tensor in tensors_of(test.p)),
        "scored": [int(hits.sum()), len(hits)],
        "positions": _positions(run),
        "rows": A.edges[0].tolist(),
        "columns": A.edges[1].tolist(),
        "dropped": dropped,
        "groups": [list(group) for group in problem.groups.members] if problem.groups else [],
        "sudoku": problem.size if isinstance(problem, Sudoku) else 0,
        "answers": _answers(problem, seed),
        "instances": _instances(problem, test, A, (found[kept], hits[kept]), shown_as),
        **({"quadratic": _short(A.quadratic[0])} if _is_shared(A) else {}),
    }


def _options(problem: Problem) -> str:
    options: dict[str, Any] = asdict(problem) if is_dataclass(problem) else {}
    chosen = {name: value for name, value in options.items() if value is not None and value is not False}
    return ", ".join(f"{name} = {value}" for name, value in chosen.items())


def _sparse(A: Qubo) -> tuple[SparseQubo, int]:
    """Return QUBOs on one graph, and how many weak couplers were dropped."""
    if not isinstance(A, SparseQubo):
        A = SparseQubo.from_dense(A)
    dropped = A.edges.shape[1] - MAX_COUPLERS
    if dropped <= 0:
        return A, 0
    kept = A.quadratic.abs().amax(0).topk(MAX_COUPLERS).indices.sort().values
    return SparseQubo(A.linear, A.edges[:, kept], A.quadratic[:, kept]), dropped


def _is_shared(A: SparseQubo) -> bool:
    return bool((A.quadratic == A.quadratic[:1]).all())


def _numpy(p: Any, row: int) -> Any:
    return map_tensors(lambda tensor: tensor[row].cpu().numpy(), p)


def _positions(run: Run) -> list[tuple[float, float]]:
    if run.recipe.network in ("shared", "keypoints", "own"):  # without a pattern
        return positions(topology("diagonal", run.problem.bits), run.problem.groups)
    return positions(pattern_of(run.problem, run.recipe), run.problem.groups)


def _with_wrong(hits: Tensor, shown: int) -> Tensor:
    """Return the first rows, with wrong ones at the end if too few are wrong.

    >>> _with_wrong(torch.tensor([True, False, True, True, False, True, False]), 4).tolist()
    [0, 1, 4, 6]
    """
    missing = max(0, WRONG - int((~hits[:shown]).sum()))
    later = shown + (~hits[shown:]).nonzero()[: min(missing, shown // 2), 0]
    return torch.cat([torch.arange(shown - len(later)), later])


def _instances(
    problem: Problem, test: Instances, A: SparseQubo, solved: tuple[Tensor, Tensor], show: Show
) -> list[dict[str, Any]]:
    found, hits = solved
    held = problem.clamp(test.p)
    clamp = torch.full(found.shape, FREE) if held is None else held
    shared, listed = _is_shared(A), []
    for i in range(len(found)):
        right = test.x_true[i : i + 1] if test.right is None else test.right.states[i][test.right.valid[i]]
        one = {
            "view": view(show, _numpy(test.p, i)),
            "linear": _short(A.linear[i]),
            "clamp": [int(bit) for bit in clamp[i]],
            "right": [_bits(x) for x in right[: max(1, MAX_RIGHT // A.n)]],
            "found": _bits(found[i]),
            "hit": bool(hits[i]),
        }
        listed.append(one if shared else {**one, "quadratic": _short(A.quadratic[i])})
    return listed


def _answers(problem: Problem, seed: int) -> list[list[str]]:
    """Return words for parts of equal length: of each part, of all its 2**length values.

    It is empty if bits are the answer, or if a part depends on too many bits.
    """
    n = problem.bits
    if type(problem).decode is Problem.decode or isinstance(problem, Sudoku):
        return []
    size = problem.decode(torch.zeros(1, n))[0].numel()
    for parts in (size, 1):
        if parts < 1 or n % parts or n // parts > 20 or parts << n // parts > MAX_WORDS:
            continue
        length = n // parts
        values = torch.arange(2**length)
        block = (values[:, None] >> torch.arange(length) & 1).float()  # bit 0 comes first
        words = []
        for part in range(parts):
            x = torch.zeros(len(values), n)
            x[:, part * length : (part + 1) * length] = block
            answer = problem.decode(x).reshape(len(values), -1)
            words.append([_words(row[part : part + 1] if parts > 1 else row) for row in answer])
        if _words_match(problem, words, length, seed):
            return words
    return []


def _words_match(problem: Problem, words: list[list[str]], length: int, seed: int) -> bool:
    """Return True if joined words of parts are the answers to random bits."""
    x = torch.randint(2, (256, problem.bits), generator=stream(seed, "explore")).float()
    value = (x.reshape(256, len(words), length).long() << torch.arange(length)).sum(-1)
    said = [" ".join(words[part][v] for part, v in enumerate(row)) for row in value.tolist()]
    return said == [_words(row) for row in problem.decode(x).reshape(256, -1)]


def _words(answer: Tensor) -> str:
    return " ".join(f"{value:.4g}" for value in answer.tolist())


def _bits(x: Tensor) -> str:
    return "".join("1" if bit else "0" for bit in x.tolist())


def _short(values: Tensor) -> list[float]:
    """Round to five digits."""
    numbers = [float(f"{value:.5g}") for value in values.tolist()]
    if not all(map(math.isfinite, numbers)):
        raise QubolearnError("the run's network returns numbers that are not finite; train it again")
    return [int(number) if number == int(number) else number for number in numbers]


def positions(pattern: Topology, groups: Groups | None = None) -> list[Point]:
    """Return a point for each bit; y goes down, and cells are 1.2 apart.

    The eight qubits of a cell form a cross. Without a chip, groups are small circles in
    rows; if not all bits are in groups, all bits are on one circle.

    >>> from qubolearn.chips.topologies import topology
    >>> positions(topology("chimera", 8))[:5]
    [(-0.42, 0.0), (-0.18, 0.0), (0.18, 0.0), (0.42, 0.0), (0.0, -0.42)]
    >>> [(round(x), round(y)) for x, y in positions(topology("dense", 4))]
    [(0, -1), (1, 0), (0, 1), (-1, 0)]
    """
    if pattern.qubits is None or pattern.name not in FAMILIES:
        return _circles(pattern.n, groups)
    places = [FAMILIES[pattern.name].place(qubit) for qubit in pattern.qubits]
    # planes of some families have gaps, so only the order counts
    rows, columns = (sorted({cell[axis] for cell, _ in places}) for axis in (0, 1))
    found = []
    for (y, x, *layer), slot in places:
        shift = PITCH / 2 * sum(layer)  # Zephyr has two cells per crossing
        along = ALONG[slot % 4]
        right, down = (along, 0.0) if slot < 4 else (0.0, along)
        found.append((PITCH * columns.index(x) + shift + right, PITCH * rows.index(y) + shift + down))
    return found


def _circles(n: int, groups: Groups | None) -> list[Point]:
    members = groups.members if groups and sum(map(len, groups.members)) == n else (tuple(range(n)),)
    columns = math.ceil(math.sqrt(len(members)))
    found = [(0.0, 0.0)] * n
    for number, group in enumerate(members):
        y, x = divmod(number, columns)
        for place, bit in enumerate(group):
            angle = 2 * math.pi * place / len(group)
            found[bit] = round(3 * x + math.sin(angle), 4), round(3 * y - math.cos(angle), 4)
    return found
