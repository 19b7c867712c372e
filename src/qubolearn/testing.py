"""Check that solvers and problems keep their contracts, without a test framework.

>>> from qubolearn.problems.randgraph import RandGraph
>>> from qubolearn.solvers.exhaustive import ExhaustiveSearch
>>> check_solver(ExhaustiveSearch(), exact=True)
>>> check_problem(RandGraph(k=3))

A failed check raises ``AssertionError`` with the returned and the expected value.
"""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from qubolearn.data.arrays import tensors_of
from qubolearn.data.contract import Instances, Problem
from qubolearn.errors import QubolearnError
from qubolearn.qubo import all_states, energies
from qubolearn.solvers import pair_marginals
from qubolearn.solvers.contract import Solution, Solver, seeded

__all__ = ["check_problem", "check_solution", "check_solver"]


def require(condition: bool, message: str) -> None:
    """Raise AssertionError if a condition is false, even under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def check_solver(
    solver: Solver, *, exact: bool = False, max_bits: int = 8, device: torch.device | str = "cpu"
) -> None:
    """Raise AssertionError unless a solver keeps the contract :class:`qubolearn.solvers.contract.Solver`.

    It is tried on QUBOs of up to ``max_bits`` bits: random, tied, sparse and with large penalties.
    ``exact`` also compares with brute force. ``with_seed`` must make calls repeatable. Reads of
    ``sample`` must be bits; with a beta, they must follow its distribution unless the call raises.
    """
    seeded = _with_seed(solver)
    sizes = [n for n in (1, 2, 3, 5, 8, 12) if n <= max_bits]
    A = _qubos(2, max(sizes), device)
    before, state = A.clone(), torch.get_rng_state()
    found = seeded(A).states.shape[1]
    require(found == 2, f"solver(A) returns {found} states, expected x* and x⁺ by default")
    require(torch.equal(A, before), "the solver changed A in place")
    require(torch.equal(torch.get_rng_state(), state), "the solver drew from torch's global generator")
    for n in sizes:
        for count in sorted({1, 2, min(4, 2**n)}):
            A = _qubos(3, n, device)
            check_solution(seeded(A, count), A, count)
    for A in _unusual_qubos(max(sizes), device):
        check_solution(seeded(A, 2), A, 2)
    _check_repeatable(solver, device, max_bits)
    _check_sample(seeded, device)
    _check_refusals(seeded, device)
    if exact:
        for n in sizes:
            _check_exact(seeded, n, device)


def _with_seed(solver: Any) -> Solver:
    try:
        return seeded(solver, 7)
    except QubolearnError as error:
        raise AssertionError(str(error)) from error


def _qubos(batch: int, n: int, device: torch.device | str, seed: int = 0) -> Tensor:
    return torch.randn(batch, n, n, generator=torch.Generator().manual_seed(seed)).to(device)


def _unusual_qubos(n: int, device: torch.device | str) -> list[Tensor]:
    A = _qubos(3, n, device)
    ones, eye, numbers = torch.ones_like(A), torch.eye(n).to(A), torch.arange(1, n + 1).to(A)
    path = ones.triu(1).tril(1)
    return [
        A[:0],
        A.to(torch.float16),
        A.to(torch.float64),
        A.mT,
        A.repeat_interleave(2, dim=2)[:, :, ::2],
        A.clone().requires_grad_(),
        torch.zeros_like(A),
        A.round(),
        -ones,
        2 * path - eye,  # independent set of a path
        path - torch.diag(path.sum(1)[0] + path.sum(2)[0]) / 2,  # its largest cut
        1e6 * (ones - 2 * eye) + eye * A,  # one bit of all, by a large penalty
        numbers * (numbers[:, None] - numbers.sum() * eye) * ones,  # number partitioning
    ]


def check_solution(solution: Solution, A: Tensor, count: int) -> None:
    """Raise AssertionError unless these are ``count`` distinct states with correct energies."""
    states, found = solution
    batch, n = A.shape[0], A.shape[2]
    case = f"for A {list(A.shape)} {A.dtype} and count={count}"
    for name, tensor, shape, dtype in (
        ("states", states, [batch, count, n], A.dtype),
        ("energies", found, [batch, count], torch.float64),
    ):
        kind = f"{name} are {list(tensor.shape)} {tensor.dtype} on {tensor.device} {case}"
        fits = list(tensor.shape) == shape and tensor.dtype == dtype and tensor.device == A.device
        require(fits, f"{kind}, expected {shape} {dtype} on {A.device}")
        require(not tensor.requires_grad, f"{name} carry a gradient {case}")
    _require_bits(states, f"{case}: states")
    x = states.to(torch.float64)
    scale = max(1.0, float(A.detach().double().abs().sum())) if A.numel() else 1.0
    expected = torch.einsum("bci,bij,bcj->bc", x, A.detach().to(torch.float64), x)
    same = torch.allclose(found, expected, rtol=1e-9, atol=1e-9 * scale)
    require(same, f"energies are not xᵀAx of the states {case}")
    require(bool((found.diff(dim=1) >= 0).all()), f"energies do not ascend {case}: {found.tolist()}")
    distinct = all(len(rows.unique(dim=0)) == count for rows in states)
    require(distinct, f"states are not distinct {case}: {states.tolist()}")


def _check_repeatable(solver: Solver, device: torch.device | str, max_bits: int) -> None:
    """Compare two calls with one seed; skip those that raise."""
    few = min(12, max_bits)
    for n, count in ((max_bits, 2), (few, min(32, 2**few)), (64, 16), (200, 16)):
        A = _qubos(2, n, device)
        try:
            first, second = (_with_seed(solver)(A, count) for _ in range(2))
        except QubolearnError:
            continue
        same = torch.equal(first.states, second.states) and torch.equal(first.energies, second.energies)
        require(same, f"two solvers with the same seed differ at n={n}; draw from with_seed alone")


def _check_sample(solver: Any, device: torch.device | str) -> None:
    if not hasattr(solver, "sample"):
        return
    A = _qubos(16, 4, device)
    try:
        reads = solver.sample(A)
    except QubolearnError:  # one that only draws at a given temperature
        reads = solver.sample(A, 1.0)
    shaped = reads.ndim == 3 and reads.shape[::2] == (len(A), 4) and reads.dtype == A.dtype
    require(shaped, f"sample(A) is {list(reads.shape)} {reads.dtype}, expected [batch, reads, n] as A")
    _require_bits(reads, "sample(A)")
    try:
        reads = solver.sample(A, 1.0)
    except QubolearnError:
        return
    p = pair_marginals(A.double().cpu()).diagonal(dim1=1, dim2=2)
    spread = (p * (1 - p)).clamp(min=0.01) / reads.shape[1]
    off = float(((reads.double().cpu().mean(1) - p).square() / spread).mean())
    require(off < 4, f"reads at beta=1 miss the exact marginals by {off:.1f} variances, expected about 1")


def _check_refusals(solver: Solver, device: torch.device | str) -> None:
    A, one = _qubos(2, 2, device), torch.tensor([1], device=device)
    unusable = [float("nan"), float("inf"), float("-inf")]
    wrong = {f"A with {value}": (A.index_fill(2, one, value), 2) for value in unusable}
    wrong |= {"A [n, n] without a batch": (A[0], 2), "A [batch, 1, 2], which is not square": (A[:, :1], 2)}
    wrong |= {"A of integers": (A.long(), 2), "count=0": (A, 0), "count=5 distinct states of 2 bits": (A, 5)}
    for what, arguments in wrong.items():
        try:
            solver(*arguments)
        except QubolearnError:
            continue
        except Exception as error:
            raise AssertionError(f"{what} raised {error!r}, expected QubolearnError") from error
        raise AssertionError(f"{what} was accepted, expected QubolearnError")


def _check_exact(solver: Solver, n: int, device: torch.device | str) -> None:
    count = min(3, 2**n)
    A = _qubos(8, n, device, seed=n)
    for kind, qubos in {"random": A, "tied": A.round(), "all-zero": 0 * A, "float64": A.double()}.items():
        states = all_states(n, device=device, dtype=torch.float64).expand(len(A), -1, -1)
        lowest = energies(qubos.to(torch.float64), states).sort(dim=1).values[:, :count]
        found = solver(qubos, count).energies
        agree = torch.allclose(found, lowest, rtol=1e-6, atol=1e-6)
        require(agree, f"{kind} QUBOs of {n} bits: energies {found.tolist()}, expected {lowest.tolist()}")


def check_problem(problem: Problem, *, count: int = 16, grid_error: float = 0.0) -> None:
    """Raise AssertionError unless a problem keeps the contract :class:`qubolearn.data.contract.Problem`.

    ``count`` instances are drawn a few times, also on a GPU if there is one. The metric of the true
    bits may differ from that of a perfect answer by ``grid_error``.
    """
    _check_configuration(problem)
    instances = _draw(problem, count, seed=0)
    _check_instances(problem, instances, count)
    _check_draws(problem, instances, count)
    _check_devices(problem, count)
    _check_scores(problem, instances, grid_error)
    _check_projection(problem, instances)
    if (targets := problem.soft_targets(instances)) is not None:
        _check_soft_targets(*targets, *instances.x_true.shape)


def _draw(problem: Problem, count: int, seed: int, split: Any = "train") -> Instances:
    return problem.sample(count, Generator().manual_seed(seed), split)


def _check_configuration(problem: Problem) -> None:
    what = type(problem).__name__
    require(isinstance(getattr(problem, "name", None), str), f"{what}.name is not a string")
    require(is_dataclass(problem), f"{what} is not a dataclass")
    options = asdict(problem)  # type: ignore[call-overload]
    plain = all(value is None or isinstance(value, (bool, int, float, str)) for value in options.values())
    require(plain, f"fields of {what} must be numbers, strings and booleans, got {options}")
    again = type(problem)(**json.loads(json.dumps(options)))
    require(again == problem, f"{what} changes on the way through JSON: {options}")
    try:
        hash(problem)
    except TypeError as error:
        raise AssertionError(f"{what} is not frozen: @dataclass(frozen=True)") from error
    for size in ("input_size", "bits"):
        value = getattr(problem, size)
        require(isinstance(value, int) and value >= 1, f"{what}.{size} is {value!r}, expected an int >= 1")


def _check_instances(problem: Problem, instances: Instances, count: int) -> None:
    p, x_true, answer, _ = instances
    for name, tensor, size in (("p", p, problem.input_size), ("x_true", x_true, problem.bits)):
        fits = list(tensor.shape) == [count, size] and tensor.dtype == torch.float32
        require(fits, f"{name} is {list(tensor.shape)} {tensor.dtype}, expected [{count}, {size}] float32")
    require(len(answer) == count, f"answer holds {len(answer)} instances, expected {count}")
    require(bool(torch.isfinite(p).all()), "p holds values that are not finite")
    _require_bits(x_true, "x_true")


def _check_draws(problem: Problem, instances: Instances, count: int) -> None:
    state = torch.get_rng_state()
    again, other = _draw(problem, count, seed=0), _draw(problem, count, seed=1)
    require(torch.equal(torch.get_rng_state(), state), "sample draws from torch's global generator")
    same = all(torch.equal(a, b) for a, b in zip(tensors_of(instances), tensors_of(again), strict=True))
    require(same, "the same state of the generator gives other instances")
    require(not torch.equal(instances.p, other.p), "another seed of the generator gives the same instances")
    require(len(_draw(problem, 1, seed=0).p) == 1, "sample(1) does not return one instance")
    for split in ("validation", "test"):
        held_out = _draw(problem, count, seed=2, split=split)
        _check_instances(problem, held_out, count)
        common = (instances.p[:, None] == held_out.p[None]).all(-1).any()
        require(not bool(common), f"train and {split} share instances")


class _Watched(Generator):
    was_read = False

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        self.was_read = True
        return super().device


def _check_devices(problem: Problem, count: int) -> None:
    """Require instances on the generator's device, or that ``sample`` reads it."""
    watched = _Watched()
    problem.sample(count, watched.manual_seed(0), "train")
    require(watched.was_read, "sample never reads generator.device, where its tensors have to be")
    if torch.cuda.is_available():
        try:
            drawn = problem.sample(count, Generator("cuda").manual_seed(0), "train")
        except RuntimeError as error:
            raise AssertionError(f"sample fails with a generator on a GPU: {error}") from error
        on = {tensor.device.type for tensor in tensors_of(drawn)}
        require(on == {"cuda"}, f"instances of a generator on a GPU are on {sorted(on)}")


def _check_scores(problem: Problem, instances: Instances, grid_error: float) -> None:
    x_true = instances.x_true
    perfect = _metric(problem, instances.answer, instances)
    found = _metric(problem, problem.decode(x_true), instances)
    sign = 1.0 if problem.higher_is_better else -1.0
    loss = sign * (perfect - found)
    require(bool((loss >= -1e-6).all()), f"{problem.metric} of the right answer itself is not the best")
    worst = float(loss.max())
    require(worst <= grid_error + 1e-6, f"{problem.metric} of x_true is off by {worst} > {grid_error}")
    flipped = _metric(problem, problem.decode(1 - x_true), instances)
    better = float((sign * (flipped - found)).mean()) <= 1e-6
    require(better, f"{problem.metric} is better for the opposite of x_true; is higher_is_better right?")


def _metric(problem: Problem, answer: Tensor, instances: Instances) -> Tensor:
    scores = problem.score(answer, instances)
    require(problem.metric in scores, f"score returns {sorted(scores)}, not the metric {problem.metric!r}")
    for name, values in scores.items():
        one_each = list(values.shape) == [len(instances.x_true)]
        require(one_each, f"score {name!r} is {list(values.shape)}, expected one per instance")
    return scores[problem.metric].to(torch.float64)


def _check_projection(problem: Problem, instances: Instances) -> None:
    x_true = instances.x_true
    noise = torch.rand(x_true.shape, generator=Generator().manual_seed(0)) < 0.3
    projected = problem.project(torch.where(noise, 1 - x_true, x_true), instances.p)
    require(projected.shape == x_true.shape, f"project(x) is {list(projected.shape)}, not as x")
    _require_bits(projected, "project(x)")
    require(torch.equal(problem.project(projected, instances.p), projected), "project is not idempotent")
    kept = torch.equal(problem.project(x_true, instances.p), x_true)
    require(kept, "project changes x_true, which is a valid answer")


def _check_soft_targets(states: Tensor, weights: Tensor, batch: int, n: int) -> None:
    want = [batch, states.shape[1], n]
    require(list(states.shape) == want, f"soft targets are {list(states.shape)}, expected {want}")
    require(weights.shape == states.shape[:2], f"weights are {list(weights.shape)}, expected {want[:2]}")
    _require_bits(states, "soft targets")
    total = weights.sum(1)
    sums = bool((weights >= 0).all()) and torch.allclose(total, torch.ones_like(total))
    require(sums, "weights do not sum to 1")


def _require_bits(x: Tensor, what: str) -> None:
    require(bool(((x == 0) | (x == 1)).all()), f"{what} holds values other than 0 and 1")
