"""Every check of qubolearn.testing passes what keeps the contract, and fails one deliberate breach each."""

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


@pytest.mark.parametrize("solver", [SimulatedAnnealing(reads=20, sweeps=50), neal(reads=5, sweeps=50)])
def test_our_solvers_pass(solver) -> None:
    check_solver(solver)


def test_exact_solvers_pass() -> None:
    check_solver(good, exact=True)
    check_solver(SimulatedAnnealing(), exact=True)


def changed(**changes):
    """The good solver, with fields of its solution changed by functions of (A, solution)."""

    def solver(A, count=2):
        solution = good(A, count)
        return replace(solution, **{name: change(A, solution) for name, change in changes.items()})

    return solver


def double_energy(A, solution):
    return solution.energies * 2


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


def unrepeatable():
    calls = []

    def solver(A, count=2):
        calls.append(A)
        n = A.shape[2]
        solution = good(A, 2**n)
        first = len(calls) % 2 if n == 8 and count == 2 else 0
        kept = slice(first, first + count)
        return Solution(solution.states[:, kept], solution.energies[:, kept])

    return solver


def unchecked(refuses=lambda A, count: False, error=QubolearnError):
    """Clears what is not finite, square, batched or a float instead of refusing it, except where told to."""

    def solver(A, count=2):
        if refuses(A, count):
            raise error("no")
        A = torch.nan_to_num(A.float() if not A.is_floating_point() else A, posinf=0.0, neginf=0.0)
        A = A[None] if A.ndim == 2 else A
        A = A[:, :, : A.shape[1]]
        return good(A, max(1, min(count, 2 ** A.shape[2])))

    return solver


def not_finite(A, count):
    return not bool(torch.isfinite(A).all())


def not_batched(A, count):
    return not_finite(A, count) or A.ndim != 3


def not_square(A, count):
    return not_batched(A, count) or A.shape[1] != A.shape[2]


def not_float(A, count):
    return not_square(A, count) or not A.is_floating_point()


def no_states(A, count):
    return not_float(A, count) or count == 0


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (one_count, r"states are \[3, 1, 1\]"),
        (changed(energies=lambda A, s: s.energies[:, :1]), r"energies are \[3, 1\]"),
        (changed(states=lambda A, s: s.states.float()), "states are torch.float32.*float16.*A's dtype"),
        (changed(energies=lambda A, s: s.energies.float()), "energies are torch.float32"),
        (changed(energies=lambda A, s: s.energies + 0 * A.sum()), "carries a gradient"),
        (changed(states=lambda A, s: s.states * 2), "other than 0 and 1"),
        (changed(energies=double_energy), "not xᵀAx"),
        (changed(states=lambda A, s: s.states.flip(1), energies=lambda A, s: s.energies.flip(1)), "do not ascend"),
        (
            changed(
                states=lambda A, s: s.states[:, :1].expand_as(s.states),
                energies=lambda A, s: s.energies[:, :1].expand_as(s.energies),
            ),
            "not distinct",
        ),
        (default_of_one, "returns 1 states"),
        (in_place, "changed A in place"),
        (global_random, "global generator"),
        (unrepeatable(), "two solvers with the same seed differ"),
        (unchecked(), "A with nan was accepted"),
        (unchecked(not_finite, ZeroDivisionError), "A with nan raised ZeroDivisionError"),
        (unchecked(not_finite), "without a batch was accepted"),
        (unchecked(not_batched), "not square was accepted"),
        (unchecked(not_square), "integers was accepted"),
        (unchecked(not_float), "count=0 was accepted"),
        (unchecked(no_states), "count=5 .* was accepted"),
    ],
)
def test_each_breach_of_a_solver_is_found(solver, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_solver(solver)


def second_and_third(A, count=2):
    solution = good(A, min(count + 1, 2 ** A.shape[2]))
    return Solution(solution.states[:, -count:], solution.energies[:, -count:])


def test_a_solver_that_misses_the_best_state_is_not_exact() -> None:
    with pytest.raises(AssertionError, match="energies of random QUBOs of 2 bits"):
        check_solver(checked(second_and_third), exact=True)


def checked(solver):
    """Adds the refusals of the contract."""

    def checked_solver(A, count=2):
        good(A, count)
        return solver(A, count)

    return checked_solver


def test_solvers_with_a_seed_are_tried_with_a_fixed_one() -> None:
    @dataclass(frozen=True)
    class Seeded(QuboSolver):
        seed: int | None = None

        def search(self, A, count):
            assert self.seed is not None
            return good.search(A, count)

    check_solver(Seeded())


@dataclass(frozen=True)
class Parity(Problem):
    """A number of 3 bits from its value; the held-out splits have numbers of their own in a second input."""

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
    """Parity with some of its methods replaced, still a frozen dataclass."""
    return dataclass(frozen=True)(type("Broken", (Parity,), methods))()


def sampled(change):
    """A sample method that changes what Parity draws by a function of (instances, generator, split)."""

    def sample(self, count, generator, split="train"):
        return change(Parity.sample(self, count, generator, split), generator, split)

    return sample


def seeded_forgetting_the_device(self, count, generator, split="train"):
    """As problems are that draw by NumPy."""
    seed = int(torch.randint(2**40, (), generator=generator))
    return Parity.sample(self, count, torch.Generator().manual_seed(seed), split)


def drop_one(instances, generator, split):
    return instances.rows(slice(1, None))


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


@dataclass(frozen=True)
class Rounded(Parity):
    scale: float = 1.0

    def __post_init__(self):
        object.__setattr__(self, "scale", self.scale + 1)


@dataclass
class Mutable(Parity.__base__):  # type: ignore[misc]
    name = "mutable"
    input_size = bits = 1
    sample = decode = score = None


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (breach(name=3), "name is not a string"),
        (WithList(), "must be numbers, strings and booleans"),
        (Rounded(), "changes on the way through JSON"),
        (Mutable(), "not frozen"),
        (breach(bits=0), "bits is 0"),
        (breach(input_size=3), r"p is \[16, 2\]"),
        (breach(bits=4), r"x_true is \[16, 3\]"),
        (breach(sample=sampled(drop_one)), r"p is \[15, 2\]"),
        (breach(sample=sampled(lambda i, g, s: i._replace(answer=i.answer[1:]))), "answer holds 15"),
        (breach(sample=sampled(lambda i, g, s: i._replace(p=i.p.double()))), "p is torch.float64"),
        (breach(sample=sampled(lambda i, g, s: i._replace(x_true=i.x_true.long()))), "x_true is torch.int64"),
        (breach(sample=sampled(lambda i, g, s: i._replace(p=i.p / 0))), "p holds values that are not finite"),
        (breach(sample=sampled(lambda i, g, s: i._replace(x_true=i.x_true * 2))), "x_true holds values other"),
        (breach(sample=sampled(draw_globally)), "global generator"),
        (breach(sample=sampled(new_each_time())), "same state of the generator gives other instances"),
        (breach(sample=sampled(ignore_the_generator)), "another seed of the generator gives the same"),
        (breach(sample=sampled(leak)), "train and validation share"),
        (breach(sample=seeded_forgetting_the_device), "never asks for generator.device"),
        (breach(metric="accuracy"), "not the metric 'accuracy'"),
        (breach(score=lambda self, a, i: {"error": (a - i.answer).abs().mean()}), "one per instance"),
        (breach(higher_is_better=True), "the right answer itself is not the best"),
        (breach(decode=lambda self, x: Parity.decode(self, x) + 1), "misses perfection"),
        (breach(decode=lambda self, x: Parity.decode(self, 0 * x + 1)), "misses perfection"),
        (breach(project=lambda self, x, p: x[:, 1:]), "project returns"),
        (breach(project=lambda self, x, p: x * 0.5), r"project\(x\) holds"),
        (breach(project=lambda self, x, p: x.roll(1, 1)), "not idempotent"),
        (breach(project=lambda self, x, p: torch.zeros_like(x)), "changes x_true"),
        (breach(soft_targets=lambda self, i: (i.x_true, torch.ones(len(i.x_true), 3))), r"\[batch, t, n\]"),
        (breach(soft_targets=lambda self, i: (i.x_true[:, None], torch.ones(len(i.x_true)))), "weights are"),
        (
            breach(soft_targets=lambda self, i: (i.x_true[:, None] / 2, torch.ones(len(i.x_true), 1))),
            "soft targets holds",
        ),
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


def test_the_grid_error_is_no_excuse_for_more() -> None:
    with pytest.raises(AssertionError, match=r"misses perfection by 0.4\d+ > 0.1"):
        check_problem(Parity(), grid_error=0.1)


FRESH = counted()


@dataclass(frozen=True)
class FreshReads(SimulatedAnnealing):
    """Says that it takes a seed, and draws other numbers at each call all the same: easy QUBOs do not show it."""

    def search(self, A: Tensor, count: int) -> SearchResult:
        return SimulatedAnnealing(self.reads, self.sweeps, seed=next(FRESH)).search(A, count)


def test_a_solver_that_ignores_its_seed_is_found() -> None:
    with pytest.raises(AssertionError, match="two solvers with the same seed differ"):
        check_solver(FreshReads(reads=1, sweeps=1))


@dataclass(frozen=True)
class FrozenReads(SimulatedAnnealing):
    """Takes a beta and hands out the reads of a frozen anneal."""

    def sample(self, A: Tensor, beta: float | None = None) -> Tensor:
        return super().sample(A)


def test_reads_at_another_temperature_are_found() -> None:
    check_solver(SimulatedAnnealing(reads=50, sweeps=200))
    with pytest.raises(AssertionError, match="miss the exact marginals"):
        check_solver(FrozenReads(reads=50, sweeps=200))
