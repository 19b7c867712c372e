"""Checks of qubolearn.testing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count as counted

import pytest
import torch
from torch import Tensor

from qubolearn.data.contract import Instances, Problem, SoftTargets
from qubolearn.errors import QubolearnError
from qubolearn.qubo import all_states
from qubolearn.solvers.annealing import SimulatedAnnealing
from qubolearn.solvers.contract import QuboSolver, SearchResult, Solution
from qubolearn.solvers.dimod_adapter import neal
from qubolearn.testing import check_problem, check_solver


@dataclass(frozen=True)
class AllStates(QuboSolver):
    """The shortest solver that is right."""

    def search(self, A, count):
        return SearchResult(all_states(A.shape[2]).expand(len(A), -1, -1), {})


good = AllStates()


def test_good_solvers_pass() -> None:
    check_solver(good, exact=True)
    check_solver(neal(reads=5, sweeps=50))
    check_solver(SimulatedAnnealing(), exact=True)


def changed(**changes):
    """Return the good solver with changed solutions."""

    def solver(A, count=2):
        solution = good(A, count)
        return replace(solution, **{name: change(A, solution) for name, change in changes.items()})

    return solver


def one_count(A, count=2):
    return good(A, 1)


def default_of_one(A, count=1):
    return good(A, count)


def in_place(A, count=2):
    solution = good(A, count)
    A.detach()[:] = 0
    return solution


def global_random(A, count=2):
    torch.rand(1)
    return good(A, count)


def repeated(A, s):
    return s.states[:, :1].expand_as(s.states)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (one_count, "returns 1 states"),
        (changed(energies=lambda A, s: s.energies[:, :1]), r"\[3, 1\]"),
        (changed(states=lambda A, s: s.states.float()), "float32.*float16"),
        (changed(energies=lambda A, s: s.energies.float()), "float32"),
        (changed(energies=lambda A, s: s.energies + 0 * A.sum()), "gradient"),
        (changed(states=lambda A, s: s.states * 2), "0 and 1"),
        (changed(energies=lambda A, s: s.energies * 2), "xᵀAx"),
        (changed(states=lambda A, s: s.states.flip(1), energies=lambda A, s: s.energies.flip(1)), "ascend"),
        (changed(states=repeated, energies=lambda A, s: s.energies[:, :1].expand_as(s.energies)), "distinct"),
        (default_of_one, "returns 1"),
        (in_place, "in place"),
        (global_random, "global generator"),
    ],
)
def test_each_breach_of_a_solver_is_found(solver, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_solver(solver)


#: Bad input in the order in which it is tried.
BAD_INPUT = {
    "nan": lambda A, count: not bool(torch.isfinite(A).all()),
    "batch": lambda A, count: A.ndim != 3,
    "square": lambda A, count: A.shape[1] != A.shape[2],
    "integers": lambda A, count: not A.is_floating_point(),
    "count=0": lambda A, count: count == 0,
    "count=5": lambda A, count: False,
}


@pytest.mark.parametrize("accepted", BAD_INPUT)
def test_bad_input_that_a_solver_accepts_is_found(accepted: str) -> None:
    rejected = list(BAD_INPUT.values())[: list(BAD_INPUT).index(accepted)]

    def solver(A, count=2):
        if any(check(A, count) for check in rejected):
            raise QubolearnError("no")
        A = torch.nan_to_num(A.float() if not A.is_floating_point() else A, posinf=0.0, neginf=0.0)
        A = A[None] if A.ndim == 2 else A
        A = A[:, :, : A.shape[1]]
        return good(A, max(1, min(count, 2 ** A.shape[2])))

    with pytest.raises(AssertionError, match=accepted):
        check_solver(solver)


def second_and_third(A, count=2):
    good(A, count)  # rejects bad input
    solution = good(A, min(count + 1, 2 ** A.shape[2]))
    return Solution(solution.states[:, -count:], solution.energies[:, -count:])


def test_a_solver_that_misses_the_best_state_is_not_exact() -> None:
    with pytest.raises(AssertionError, match="2 bits"):
        check_solver(second_and_third, exact=True)


@dataclass(frozen=True)
class Parity(Problem):
    """A number of 3 bits from its value."""

    name = "parity"
    metric = "error"
    higher_is_better = False
    scale: float = 1.0

    @property
    def input_size(self) -> int:
        return 2

    @property
    def bits(self) -> int:
        return 3

    def sample(self, count, generator, split="train"):
        device = generator.device
        value = torch.rand(count, generator=generator, device=device) * 7
        source = torch.full((count,), float(["train", "validation", "test"].index(split)), device=device)
        x_true = ((value.round().long()[:, None] >> torch.arange(3, device=device)) & 1).float()
        return Instances(torch.stack([value * self.scale, source], 1), x_true, value)

    def decode(self, x):
        return (x * 2 ** torch.arange(3)).sum(-1)

    def score(self, answer, instances):
        return {"error": (answer - instances.answer).abs()}

    def soft_targets(self, instances):
        return SoftTargets(instances.x_true[:, None], torch.ones(len(instances.x_true), 1))


GRID = 0.5


def test_a_good_problem_passes() -> None:
    check_problem(Parity(), grid_error=GRID)


def breach(**methods):
    """Return Parity with some methods replaced."""
    return dataclass(frozen=True)(type("Broken", (Parity,), methods))()


def sampled(change):
    """Return a sample method that changes what Parity draws."""

    def sample(self, count, generator, split="train"):
        return change(Parity.sample(self, count, generator, split), generator, split)

    return sample


def seeded_forgetting_the_device(self, count, generator, split="train"):
    """Draw on the CPU, as problems do that use NumPy."""
    seed = int(torch.randint(2**40, (), generator=generator))
    return Parity.sample(self, count, torch.Generator().manual_seed(seed), split)


def draw_globally(instances, generator, split):
    torch.rand(1)
    return instances


def ignore_the_generator(instances, generator, split):
    return Parity.sample(Parity(), len(instances.p), torch.Generator().manual_seed(0), split)


def new_each_time():
    calls = []

    def change(instances, generator, split):
        calls.append(split)
        return instances._replace(p=instances.p + len(calls))

    return change


def leak(instances, generator, split):
    first = Parity.sample(Parity(), 1, torch.Generator().manual_seed(0))
    return Instances(*(torch.cat([a, b[1:]]) for a, b in zip(first[:3], instances[:3], strict=True)))


@dataclass(frozen=True)
class WithList(Parity):
    values: list = field(default_factory=list)


@dataclass
class Mutable(Parity.__base__):  # type: ignore[misc]
    name = "mutable"
    input_size = bits = 1
    sample = decode = score = None


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (WithList(), "must be numbers, strings and booleans"),
        (Mutable(), "not frozen"),
        (breach(bits=0), "bits is 0"),
        (breach(input_size=3), r"p is \[16, 2\]"),
        (breach(sample=sampled(lambda i, g, s: i._replace(answer=i.answer[1:]))), "answer holds 15"),
        (
            breach(sample=sampled(lambda i, g, s: i._replace(x_true=i.x_true.long()))),
            "x_true is .* torch.int64",
        ),
        (breach(sample=sampled(lambda i, g, s: i._replace(p=i.p / 0))), "p holds values that are not finite"),
        (
            breach(sample=sampled(lambda i, g, s: i._replace(x_true=i.x_true * 2))),
            "x_true holds values other",
        ),
        (breach(sample=sampled(draw_globally)), "global generator"),
        (breach(sample=sampled(new_each_time())), "same state of the generator gives other instances"),
        (breach(sample=sampled(ignore_the_generator)), "another seed of the generator gives the same"),
        (breach(sample=sampled(leak)), "train and validation share"),
        (breach(sample=seeded_forgetting_the_device), "never reads generator.device"),
        (breach(metric="accuracy"), "not the metric 'accuracy'"),
        (breach(score=lambda self, a, i: {"error": (a - i.answer).abs().mean()}), "one per instance"),
        (breach(higher_is_better=True), "the right answer itself is not the best"),
        (breach(decode=lambda self, x: Parity.decode(self, x) + 1), "is off by"),
        (breach(project=lambda self, x, p: x[:, 1:]), "not as x"),
        (breach(project=lambda self, x, p: x.roll(1, 1)), "not idempotent"),
        (breach(project=lambda self, x, p: torch.zeros_like(x)), "changes x_true"),
        (breach(soft_targets=lambda self, i: (i.x_true, torch.ones(len(i.x_true), 3))), "soft targets are"),
        (
            breach(soft_targets=lambda self, i: (i.x_true[:, None], torch.full((len(i.x_true), 1), 0.5))),
            "do not sum to 1",
        ),
    ],
)
def test_each_breach_of_a_problem_is_found(problem, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_problem(problem, grid_error=GRID)


def test_bits_with_the_opposite_meaning_are_found_even_under_a_coarse_grid() -> None:
    backwards = breach(decode=lambda self, x: Parity.decode(self, 1 - x))
    with pytest.raises(AssertionError, match="better for the opposite of x_true"):
        check_problem(backwards, grid_error=10.0)


FRESH = counted()


@dataclass(frozen=True)
class FreshReads(SimulatedAnnealing):
    """A solver that ignores its seed."""

    def search(self, A: Tensor, count: int) -> SearchResult:
        return SimulatedAnnealing(self.reads, self.sweeps, seed=next(FRESH)).search(A, count)


def test_a_solver_that_ignores_its_seed_is_found() -> None:
    with pytest.raises(AssertionError, match="two solvers with the same seed differ"):
        check_solver(FreshReads(reads=1, sweeps=1))


@dataclass(frozen=True)
class FrozenReads(SimulatedAnnealing):
    """A solver that takes a beta and returns the reads of a frozen anneal."""

    def sample(self, A: Tensor, beta: float | None = None) -> Tensor:
        return super().sample(A)


def test_reads_at_another_temperature_are_found() -> None:
    check_solver(SimulatedAnnealing(reads=50, sweeps=200))
    with pytest.raises(AssertionError, match="miss the exact marginals"):
        check_solver(FrozenReads(reads=50, sweeps=200))
