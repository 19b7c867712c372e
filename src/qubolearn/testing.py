"""The contracts of solvers and problems as checks, for third parties too; they need no test framework.

>>> from qubolearn.problems.randgraph import RandGraph
>>> from qubolearn.solvers.exhaustive import ExhaustiveSearch
>>> check_solver(ExhaustiveSearch(), exact=True)
>>> check_problem(RandGraph(k=3))

A check that fails raises ``AssertionError`` and says what was returned and what the contract wants.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from qubolearn.errors import QubolearnError
from qubolearn.problems.contract import Instances, Problem
from qubolearn.qubo import all_states, energies
from qubolearn.solvers.contract import Solution, Solver

__all__ = ["check_problem", "check_solver"]


def check_solver(solver: Solver, *, exact: bool = False, max_bits: int = 8, device: torch.device | str = "cpu") -> None:
    """Raise AssertionError unless the solver keeps the contract of :class:`qubolearn.solvers.contract.Solver`.

    ``exact`` also compares with brute force, on random, tied and all-zero QUBOs of up to ``max_bits`` bits, where
    every solver is tried. A solver with a ``seed`` field is tried with a fixed one.
    """
    seeded = replace(solver, seed=7) if _has_seed(solver) else solver  # type: ignore[type-var]
    sizes = [n for n in (1, 2, 3, 5, 8, 12) if n <= max_bits]
    _check_untouched(seeded, _qubos(2, max(sizes), device))
    for n in sizes:
        for count in sorted({1, 2, min(4, 2**n)}):
            A = _qubos(3, n, device)
            _check_solution(seeded(A, count), A, count)
    for A in _unusual_qubos(max(sizes), device):
        _check_solution(seeded(A, 2), A, 2)
    _check_default_count(seeded, _qubos(2, max(sizes), device))
    _check_repeatable(seeded, _qubos(3, max(sizes), device))
    _check_refusals(seeded, device)
    if exact:
        for n in sizes:
            _check_exact(seeded, n, device)


def _has_seed(solver: Any) -> bool:
    return is_dataclass(solver) and any(field.name == "seed" for field in fields(solver))


def _qubos(batch: int, n: int, device: torch.device | str, seed: int = 0) -> Tensor:
    return torch.randn(batch, n, n, generator=torch.Generator().manual_seed(seed)).to(device)


def _unusual_qubos(n: int, device: torch.device | str) -> list[Tensor]:
    """Forms of A that a solver may forget: no instance, other dtypes, not contiguous, with a gradient, ties."""
    A = _qubos(3, n, device)
    return [
        A[:0],
        A.to(torch.float16),
        A.to(torch.float64),
        A.mT,
        A.repeat_interleave(2, dim=2)[:, :, ::2],
        A.clone().requires_grad_(),
        torch.zeros_like(A),
        A.round(),
    ]


def _check_solution(solution: Solution, A: Tensor, count: int) -> None:
    states, found = solution
    batch, n = A.shape[0], A.shape[2]
    case = f"for A {list(A.shape)} {A.dtype} and count={count}"
    _require(list(states.shape) == [batch, count, n], f"states are {list(states.shape)} {case}, want batch, count, n")
    _require(list(found.shape) == [batch, count], f"energies are {list(found.shape)} {case}, want batch, count")
    _require(states.dtype == A.dtype, f"states are {states.dtype} {case}, want A's dtype")
    _require(found.dtype == torch.float64, f"energies are {found.dtype} {case}, want float64")
    _require(states.device == A.device == found.device, f"states are on {states.device} {case}, want A's device")
    _require(not states.requires_grad and not found.requires_grad, f"the solution carries a gradient {case}")
    _require(bool(((states == 0) | (states == 1)).all()), f"states hold values other than 0 and 1 {case}")
    x = states.to(torch.float64)
    expected = torch.einsum("bci,bij,bcj->bc", x, A.detach().to(torch.float64), x)
    _require(torch.allclose(found, expected, rtol=1e-9, atol=1e-9), f"energies are not xᵀAx of the states {case}")
    _require(bool((found.diff(dim=1) >= 0).all()), f"energies do not ascend {case}: {found.tolist()}")
    distinct = all(len(rows.unique(dim=0)) == count for rows in states)
    _require(distinct, f"states are not distinct {case}: {states.tolist()}")


def _check_default_count(solver: Solver, A: Tensor) -> None:
    states, _ = solver(A)
    _require(states.shape[1] == 2, f"solver(A) returns {states.shape[1]} states, want x* and x⁺ by default")


def _check_untouched(solver: Solver, A: Tensor) -> None:
    before, state = A.clone(), torch.get_rng_state()
    solver(A, 2)
    _require(torch.equal(A, before), "the solver changed A in place")
    _require(torch.equal(torch.get_rng_state(), state), "the solver drew from torch's global generator; take a seed")


def _check_repeatable(solver: Solver, A: Tensor) -> None:
    first, second = solver(A, 2), solver(A, 2)
    same = torch.equal(first.states, second.states) and torch.equal(first.energies, second.energies)
    _require(same, "two calls with the same A and seed differ; all randomness must come from a field `seed`")


def _check_refusals(solver: Solver, device: torch.device | str) -> None:
    A = _qubos(2, 2, device)
    for value in (float("nan"), float("inf"), float("-inf")):
        broken = A.clone()
        broken[1, 0, 1] = value
        _check_refused(lambda broken=broken: solver(broken, 2), f"A with {value}")  # type: ignore[misc]
    _check_refused(lambda: solver(A[0], 2), "A [n, n] without a batch")
    _check_refused(lambda: solver(A[:, :1], 2), "A [batch, 1, 2], which is not square")
    _check_refused(lambda: solver(A.long(), 2), "A of integers")
    _check_refused(lambda: solver(A, 0), "count=0")
    _check_refused(lambda: solver(A, 5), "count=5 distinct states of 2 bits")


def _check_refused(call: Callable[[], object], what: str) -> None:
    try:
        call()
    except QubolearnError:
        return
    except Exception as error:
        raise AssertionError(f"{what} raised {type(error).__name__}, want QubolearnError: {error}") from error
    raise AssertionError(f"{what} was accepted, want QubolearnError")


def _check_exact(solver: Solver, n: int, device: torch.device | str) -> None:
    count = min(3, 2**n)
    A = _qubos(8, n, device, seed=n)
    for kind, qubos in {"random": A, "tied": A.round(), "all-zero": 0 * A, "float64": A.double()}.items():
        states = all_states(n, device=device, dtype=torch.float64).expand(len(A), -1, -1)
        lowest = energies(qubos.to(torch.float64), states).sort(dim=1).values[:, :count]
        found = solver(qubos, count).energies
        agree = torch.allclose(found, lowest, rtol=1e-6, atol=1e-6)
        _require(agree, f"energies of {kind} QUBOs of {n} bits are {found.tolist()}, brute force has {lowest.tolist()}")


def check_problem(problem: Problem, *, count: int = 16, grid_error: float = 0.0) -> None:
    """Raise AssertionError unless the problem keeps the contract of :class:`qubolearn.problems.contract.Problem`.

    ``count`` instances are drawn a few times. ``grid_error`` is how much the metric of the true bits may fall short
    of a perfect answer, where the bits round a number.
    """
    _check_configuration(problem)
    instances = _draw(problem, count, seed=0)
    _check_instances(problem, instances, count)
    _check_draws(problem, instances, count)
    _check_scores(problem, instances, grid_error)
    _check_projection(problem, instances)
    _check_soft_targets(problem, instances)


def _draw(problem: Problem, count: int, seed: int, split: Any = "train") -> Instances:
    return problem.sample(count, Generator().manual_seed(seed), split)


def _check_configuration(problem: Problem) -> None:
    what = type(problem).__name__
    _require(isinstance(getattr(problem, "name", None), str), f"{what}.name is not a string")
    _require(is_dataclass(problem), f"{what} is not a dataclass")
    options = asdict(problem)  # type: ignore[call-overload]
    plain = all(value is None or isinstance(value, (bool, int, float, str)) for value in options.values())
    _require(plain, f"fields of {what} must be numbers, strings and booleans, got {options}")
    again = type(problem)(**json.loads(json.dumps(options)))
    _require(again == problem, f"{what} changes on the way through JSON: {options}")
    try:
        hash(problem)
    except TypeError as error:
        raise AssertionError(f"{what} is not frozen: @dataclass(frozen=True)") from error
    for size in ("input_size", "bits"):
        value = getattr(problem, size)
        _require(isinstance(value, int) and value >= 1, f"{what}.{size} is {value!r}, want an int >= 1")


def _check_instances(problem: Problem, instances: Instances, count: int) -> None:
    p, x_true, answer = instances
    m, n = problem.input_size, problem.bits
    _require(list(p.shape) == [count, m], f"p is {list(p.shape)}, want [count, input_size] = [{count}, {m}]")
    _require(list(x_true.shape) == [count, n], f"x_true is {list(x_true.shape)}, want [count, bits] = [{count}, {n}]")
    _require(len(answer) == count, f"answer holds {len(answer)} instances, want {count}")
    _require(p.dtype == torch.float32, f"p is {p.dtype}, want float32")
    _require(x_true.dtype == torch.float32, f"x_true is {x_true.dtype}, want float32")
    _require(bool(torch.isfinite(p).all()), "p holds values that are not finite")
    _require_bits(x_true, "x_true")


def _check_draws(problem: Problem, instances: Instances, count: int) -> None:
    state = torch.get_rng_state()
    again, other = _draw(problem, count, seed=0), _draw(problem, count, seed=1)
    _require(torch.equal(torch.get_rng_state(), state), "sample draws from torch's global generator")
    same = all(torch.equal(a, b) for a, b in zip(instances, again, strict=True))
    _require(same, "the same state of the generator gives other instances")
    _require(not torch.equal(instances.p, other.p), "another seed of the generator gives the same instances")
    _require(len(_draw(problem, 1, seed=0).p) == 1, "sample(1) does not return one instance")
    for split in ("validation", "test"):
        held_out = _draw(problem, count, seed=2, split=split)
        _check_instances(problem, held_out, count)
        common = (instances.p[:, None] == held_out.p[None]).all(-1).any()
        _require(not bool(common), f"train and {split} share instances")


def _check_scores(problem: Problem, instances: Instances, grid_error: float) -> None:
    _, x_true, answer = instances
    perfect = _metric(problem, answer, answer)
    found = _metric(problem, problem.decode(x_true), answer)
    sign = 1.0 if problem.higher_is_better else -1.0
    loss = sign * (perfect - found)
    _require(bool((loss >= -1e-6).all()), f"{problem.metric} of the right answer itself is not the best")
    worst = float(loss.max())
    _require(worst <= grid_error + 1e-6, f"{problem.metric} of x_true misses perfection by {worst} > {grid_error}")
    flipped = _metric(problem, problem.decode(1 - x_true), answer)
    better = float((sign * (flipped - found)).mean()) <= 1e-6
    _require(better, f"{problem.metric} is better for the opposite of x_true; is higher_is_better right?")


def _metric(problem: Problem, answer: Tensor, answer_true: Tensor) -> Tensor:
    scores = problem.score(answer, answer_true)
    _require(problem.metric in scores, f"score returns {sorted(scores)}, not the metric {problem.metric!r}")
    for name, values in scores.items():
        want = [len(answer_true)]
        _require(list(values.shape) == want, f"score {name!r} is {list(values.shape)}, want one per instance {want}")
    return scores[problem.metric].to(torch.float64)


def _check_projection(problem: Problem, instances: Instances) -> None:
    x_true = instances.x_true
    noise = torch.rand(x_true.shape, generator=Generator().manual_seed(0)) < 0.3
    noisy = torch.where(noise, 1 - x_true, x_true)
    projected = problem.project(noisy)
    _require(projected.shape == x_true.shape, f"project returns {list(projected.shape)}, want {list(x_true.shape)}")
    _require_bits(projected, "project(x)")
    _require(torch.equal(problem.project(projected), projected), "project is not idempotent")
    _require(torch.equal(problem.project(x_true), x_true), "project changes x_true, which says a valid answer")


def _check_soft_targets(problem: Problem, instances: Instances) -> None:
    targets = problem.soft_targets(instances.x_true)
    if targets is None:
        return
    states, weights = targets
    batch, n = instances.x_true.shape
    want = [batch, states.shape[1], n]
    _require(list(states.shape) == want, f"soft targets are {list(states.shape)}, want [batch, t, n] = {want}")
    _require(weights.shape == states.shape[:2], f"weights are {list(weights.shape)}, want {want[:2]}")
    _require_bits(states, "soft targets")
    total = weights.sum(1)
    _require(bool((weights >= 0).all()) and torch.allclose(total, torch.ones_like(total)), "weights do not sum to 1")


def _require_bits(x: Tensor, what: str) -> None:
    _require(bool(((x == 0) | (x == 1)).all()), f"{what} holds values other than 0 and 1")


def _require(condition: bool, message: str) -> None:
    """An assertion that stays when Python runs with -O."""
    if not condition:
        raise AssertionError(message)
