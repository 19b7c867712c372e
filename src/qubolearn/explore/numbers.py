"""What the page knows of a run: instances with their QUBOs as plain numbers, positions of bits, words for answers."""

from __future__ import annotations

import math
from dataclasses import asdict, is_dataclass
from typing import Any

import torch
from torch import Tensor

from qubolearn.chips.topologies import topology
from qubolearn.errors import QubolearnError
from qubolearn.evaluation import solve_instances
from qubolearn.explore.layout import positions
from qubolearn.problems.contract import Instances, Problem
from qubolearn.problems.structures import tensors_of
from qubolearn.problems.sudoku import Sudoku
from qubolearn.qubo import FREE, Qubo, SparseQubo
from qubolearn.randomness import stream
from qubolearn.training.build import pattern_of
from qubolearn.training.runs import Run

__all__ = ["contents"]

#: Numbers that all instances of a page may have together, and couplers of one: either is about 1 MB of text.
MOST_NUMBERS, MOST_COUPLERS = 120_000, 50_000
#: Numbers of p that are shown, and bits of all right answers to one instance that the page knows.
MOST_INPUTS, MOST_RIGHT = 4096, 4096
#: Words for all parts of answers, each with all its values.
MOST_WORDS = 8192


def contents(run: Run, instances: int, seed: int) -> dict[str, Any]:
    """All that the page is made of, as one object that can be written as JSON."""
    problem, network = run.problem, run.network()
    shown = min(instances, problem.available("test") or instances)
    test = problem.sample(shown, stream(seed, "test"), "test")
    with torch.no_grad():
        A, dropped = _sparse(network(test.rows(slice(0, 2)).p))
        inputs = _inputs(test).shape[1]
        numbers = 2 * A.n + (0 if _is_shared(A) else A.edges.shape[1]) + min(inputs, MOST_INPUTS)
        test = test.rows(slice(0, max(1, min(shown, MOST_NUMBERS // numbers))))
        A, dropped = _sparse(network(test.p))
    found, _ = solve_instances(network, test.p, problem=problem)
    return {
        "title": type(problem).__name__,
        "options": _options(problem),
        "problem": problem.name,
        "method": run.recipe.method,
        "topology": run.recipe.topology,
        "n": A.n,
        "inputs": inputs,
        "positions": _positions(run),
        "rows": A.edges[0].tolist(),
        "columns": A.edges[1].tolist(),
        "dropped": dropped,
        "groups": [list(group) for group in problem.groups.members] if problem.groups else [],
        "sudoku": problem.size if isinstance(problem, Sudoku) else 0,
        "answers": _answers(problem, seed),
        "metric": problem.metric,
        "instances": _instances(problem, test, A, found),
        **({"quadratic": _short(A.quadratic[0])} if _is_shared(A) else {}),
    }


def _options(problem: Problem) -> str:
    """The options that say something: ``k = 4``."""
    options: dict[str, Any] = asdict(problem) if is_dataclass(problem) else {}
    return ", ".join(f"{name} = {value}" for name, value in options.items() if value is not None and value is not False)


def _sparse(A: Qubo) -> tuple[SparseQubo, int]:
    """QUBOs on one graph, and how many couplers were left out: the weakest, where there are too many for a page."""
    if not isinstance(A, SparseQubo):
        A = SparseQubo.from_dense(A)
    dropped = A.edges.shape[1] - MOST_COUPLERS
    if dropped <= 0:
        return A, 0
    kept = A.quadratic.abs().amax(0).topk(MOST_COUPLERS).indices.sort().values
    return SparseQubo(A.linear, A.edges[:, kept], A.quadratic[:, kept]), dropped


def _is_shared(A: SparseQubo) -> bool:
    return bool((A.quadratic == A.quadratic[:1]).all())


def _inputs(test: Instances) -> Tensor:
    """p as one row of numbers for each instance, ``[count, m]``."""
    parts = [tensor.flatten(1).float() for tensor in tensors_of(test.p)]
    return torch.cat(parts, 1).nan_to_num()


def _positions(run: Run) -> list[tuple[float, float]]:
    if run.recipe.network in ("shared", "keypoints"):  # these have no pattern
        return positions(topology("diagonal", run.problem.bits), run.problem.groups)
    return positions(pattern_of(run.problem, run.recipe), run.problem.groups)


def _instances(problem: Problem, test: Instances, A: SparseQubo, found: Tensor) -> list[dict[str, Any]]:
    scores = problem.score(problem.decode(found), test)
    hits = scores["accuracy"] == 1 if "accuracy" in scores else test.wrong_bits(found) == 0
    held = problem.clamp(test.p)
    clamp = torch.full(found.shape, FREE) if held is None else held
    inputs, shared = _inputs(test)[:, :MOST_INPUTS], _is_shared(A)
    listed = []
    for i in range(len(found)):
        right = test.x_true[i : i + 1] if test.right is None else test.right.states[i][test.right.valid[i]]
        one = {
            "p": _short(inputs[i]),
            "linear": _short(A.linear[i]),
            "clamp": [int(bit) for bit in clamp[i]],
            "right": [_bits(x) for x in right[: max(1, MOST_RIGHT // A.n)]],
            "found": _bits(found[i]),
            "hit": bool(hits[i]),
            "score": float(f"{scores[problem.metric][i].item():.4g}"),
        }
        listed.append(one if shared else {**one, "quadratic": _short(A.quadratic[i])})
    return listed


def _answers(problem: Problem, seed: int) -> list[list[str]]:
    """Words for the bits: parts of equal length in bits, and for each part the words of all its 2**length values.

    A permutation's entries depend on a few bits each, an angle on all. Nothing is said where bits are the answer, and
    where its parts depend on too many bits.
    """
    n = problem.bits
    if type(problem).decode is Problem.decode or isinstance(problem, Sudoku):
        return []
    size = problem.decode(torch.zeros(1, n))[0].numel()
    for parts in (size, 1):
        if parts < 1 or n % parts or n // parts > 20 or parts << n // parts > MOST_WORDS:
            continue
        length = n // parts
        values = torch.arange(2**length)
        block = (values[:, None] >> torch.arange(length) & 1).float()  # bit 0 of a value is the first bit of the part
        words = []
        for part in range(parts):
            x = torch.zeros(len(values), n)
            x[:, part * length : (part + 1) * length] = block
            answer = problem.decode(x).reshape(len(values), -1)
            words.append([_words(row[part : part + 1] if parts > 1 else row) for row in answer])
        if _says(problem, words, length, seed):
            return words
    return []


def _says(problem: Problem, words: list[list[str]], length: int, seed: int) -> bool:
    """Whether words of parts, one after the other, are the answers to random bits."""
    x = torch.randint(2, (256, problem.bits), generator=stream(seed, "explore")).float()
    value = (x.reshape(256, len(words), length).long() << torch.arange(length)).sum(-1)
    said = [" ".join(words[part][v] for part, v in enumerate(row)) for row in value.tolist()]
    return said == [_words(row) for row in problem.decode(x).reshape(256, -1)]


def _words(answer: Tensor) -> str:
    return " ".join(f"{value:.4g}" for value in answer.tolist())


def _bits(x: Tensor) -> str:
    return "".join("1" if bit else "0" for bit in x.tolist())


def _short(values: Tensor) -> list[float]:
    """Numbers of five digits, which is as many as a page needs."""
    numbers = [float(f"{value:.5g}") for value in values.tolist()]
    if not all(map(math.isfinite, numbers)):
        raise QubolearnError("the run's network says numbers that are not finite; train it again")
    return [int(number) if number == int(number) else number for number in numbers]
