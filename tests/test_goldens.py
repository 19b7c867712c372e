"""Compare seeded results with tests/goldens.json, which was frozen on commit 0bb55be.

``python tests/test_goldens.py --write SECTION`` rewrites one section: losses, answers or distributions.
"""

import argparse
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from qubolearn import (
    MLP,
    Adam,
    Arrays,
    ExhaustiveSearch,
    Gap,
    Groups,
    Hinge,
    Instances,
    Likelihood,
    ParallelTempering,
    Problem,
    PseudoLikelihood,
    QuantumAnnealing,
    QuboNetwork,
    RightAnswers,
    SharedQubo,
    SimulatedAnnealing,
    Solution,
    SparseQubo,
    energies,
    fit,
    log_partition,
    solve,
    topology,
)
from qubolearn.data import SoftTargets
from qubolearn.losses import L1, Contrastive, GroupPseudoLikelihood, SoftLikelihood, SparseFeatures
from qubolearn.losses import HammingHinge as Hamming
from qubolearn.solvers import pair_marginals

PATH = Path(__file__).with_name("goldens.json")
GROUPS = Groups([[0, 1, 2], [3, 4, 5]])


# --- losses of fit


def arrays(seed: int, n: int = 6, groups: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs ``[96, 5]`` and bits ``[96, n]`` that depend on them."""
    generator = np.random.default_rng(seed)
    p = generator.normal(size=(96, 5)).astype(np.float32)
    scores = torch.tensor(np.tanh(p @ generator.normal(size=(5, n)).astype(np.float32)))
    return torch.tensor(p), one_hot(scores) if groups else (scores > 0).float()


def one_hot(scores: torch.Tensor) -> torch.Tensor:
    """Return bits that are 1 for the highest score of each group."""
    hot = [nn.functional.one_hot(scores[:, list(some)].argmax(1), len(some)) for some in GROUPS.members]
    return torch.cat(hot, 1).float()


def mlp(n: int = 6, graph: str = "dense", inputs: int | None = 5, dropout: float = 0.0) -> QuboNetwork:
    pattern = topology(graph, n)
    body = MLP(5, pattern.size, layers=3, hidden=16, dropout=dropout)
    return QuboNetwork(body, pattern, inputs, bound=True)


def own(n: int = 6, graph: str = "dense") -> QuboNetwork:
    pattern = topology(graph, n)
    body = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, pattern.size))
    return QuboNetwork(body, pattern, bound=True)


class Plain(nn.Module):
    """A user's network p -> A without our heads."""

    def __init__(self, n: int = 6) -> None:
        super().__init__()
        self.n, self.linear = n, nn.Linear(5, n * n)

    def forward(self, p: torch.Tensor) -> torch.Tensor:
        return self.linear(p).view(-1, self.n, self.n)


@dataclass(frozen=True)
class Lowest:
    """A user's solver whose ``sample`` returns the 8 lowest states."""

    def __call__(self, A: torch.Tensor, count: int = 2) -> Solution:
        return ExhaustiveSearch(max_bits=20)(A, count)

    def sample(self, A: torch.Tensor, beta: float = 1.0) -> torch.Tensor:
        return self(A, 8).states


@dataclass(frozen=True)
class Signs(Problem):
    """Bits are the signs of p, perhaps clamped or grouped."""

    name = "signs"
    metric = "accuracy"
    held: bool = False
    grouped: bool = False
    input_size = property(lambda self: 5)
    bits = property(lambda self: 6)

    def sample(self, count: int, generator: torch.Generator, split: str = "train") -> Instances:
        p = torch.randn(count, 5, generator=generator)
        scores = torch.cat([p, p[:, :1] * p[:, 1:2]], 1)
        x = one_hot(scores) if self.grouped else (scores > 0).float()
        return Instances(p, x, x)

    @property
    def groups(self) -> Groups | None:
        return GROUPS if self.grouped else None

    def clamp(self, p: torch.Tensor) -> torch.Tensor | None:
        if not self.held:
            return None
        clamp = torch.full((len(p), 6), -1)
        clamp[:, 0] = p[:, 0] > 0
        return clamp

    def soft_targets(self, instances: Instances) -> Any:
        x = instances.x_true
        flipped = torch.cat([1 - x[:, :1], x[:, 1:]], 1)
        weights = torch.tensor([0.8, 0.2]).expand(len(x), -1)
        return SoftTargets(torch.stack([x, flipped], 1), weights)


def both_ways(seed: int) -> Arrays:
    """Return arrays whose complements are right, too."""
    p, x = arrays(seed)
    right = RightAnswers(torch.stack([x, 1 - x], 1), torch.ones(len(x), 2, dtype=torch.bool))
    return Arrays(p, x, validation=0, test=0, seed=0, answer=None, right=right)


def own_loss(A: torch.Tensor, batch: Any) -> torch.Tensor:
    return energies(A, batch.x_true) + A.square().mean((1, 2))


EDGES = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 5, 5]])

#: name: network, data, loss, and arguments of fit that differ from `fit_losses`.
FITS: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "likelihood, mlp": (mlp, arrays(1), Likelihood(beta=6.0), {}),
    "likelihood, chimera": (partial(mlp, 8, "chimera"), arrays(2, 8), Likelihood(beta=2.0), {}),
    "likelihood, shared": (partial(SharedQubo, 6), arrays(3), Likelihood(beta=1.0), {}),
    "likelihood, both ways": (own, both_ways(4), Likelihood(beta=3.0), {}),
    "likelihood, dropout": (partial(mlp, dropout=0.2), arrays(5), Likelihood(beta=6.0), {}),
    "likelihood, torch adam": (Plain, arrays(6), Likelihood(beta=1.0), {"optimizer": torch.optim.Adam}),
    "gap, mlp": (mlp, arrays(7), Gap(weight_unique=1e-3) + 1e-4 * SparseFeatures(), {}),
    "gap, own body": (own, arrays(8), Gap(weight_unique=0.0), {}),
    "hinge, mlp": (mlp, arrays(9), Hinge(margin=0.5), {}),
    "hinge, both ways": (own, both_ways(10), Hinge(margin=1.0), {}),
    "hinge, clamped problem": (mlp, Signs(held=True), Hinge(margin=0.5), {}),
    "hinge, grouped problem": (mlp, Signs(grouped=True), Hinge(margin=0.5), {}),
    "hamming, pegasus": (partial(mlp, 8, "pegasus", None), arrays(11, 8), Hamming(margin=0.3), {}),
    "pseudo, sparse": (partial(SharedQubo, 6, EDGES), arrays(12), PseudoLikelihood(beta=1.0), {}),
    "pseudo, fresh, cosine": (mlp, Signs(), PseudoLikelihood(beta=6.0), {"fresh": True, "schedule": True}),
    "pseudo, chimera": (partial(mlp, 8, "chimera"), arrays(13, 8), PseudoLikelihood(beta=2.0), {}),
    "soft": (mlp, Signs(), SoftLikelihood(beta=2.0), {}),
    "contrastive": (own, arrays(14), Contrastive(beta=2.0), {"solver": Lowest()}),
    "l1, diagonal": (partial(own, 6, "diagonal"), arrays(15), L1() + own_loss, {}),
    "groups, shared": (
        partial(SharedQubo, 6),
        arrays(16, groups=True),
        GroupPseudoLikelihood(GROUPS, beta=1.0, masking=0.9),
        {},
    ),
}


def fit_losses(name: str) -> list[float]:
    """Return the losses after each of three epochs of four steps."""
    make, data, loss, changes = FITS[name]
    torch.manual_seed(17)
    network = make()
    optimizer = changes.get("optimizer")
    falling = (lambda step, steps: 1 - step / steps) if changes.get("schedule") else None
    training = fit(
        network,
        data,
        loss,
        epochs=3,
        optimizer=optimizer(network.parameters(), lr=1e-2) if optimizer else Adam(1e-2, schedule=falling),
        schedule=None,
        solver=changes.get("solver", ExhaustiveSearch(max_bits=20)),
        callbacks=(),
        batch_size=24,
        instances=96 if isinstance(data, Problem) else None,
        fresh=changes.get("fresh", False),
        validation=16 if isinstance(data, Signs) else None,
        score_after=None,
        steps_per_epoch=None,
        seed=3,
        device="cpu",
        folder=None,
        standardize=True,
    )
    return [record["loss"] for record in training.history]


# --- answers of exact solvers


def qubos(n: int, batch: int = 4, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(1000 + n).normal(size=(batch, n, n)), dtype=dtype)


def sparse(n: int, batch: int = 4) -> SparseQubo:
    """Return QUBOs on a ring with chords."""
    generator = np.random.default_rng(2000 + n)
    i = np.arange(n)
    pairs = sorted({(min(a, b), max(a, b)) for a, b in [*zip(i, (i + 1) % n), *zip(i, (i + n // 2) % n)]})  # noqa: B905
    linear, quadratic = generator.normal(size=(batch, n)), generator.normal(size=(batch, len(pairs)))
    return SparseQubo(torch.tensor(linear), torch.tensor(pairs).T, torch.tensor(quadratic))


def threes(n: int) -> Groups:
    """Return groups of three over the first two thirds of n bits."""
    return Groups([range(i, i + 3) for i in range(0, 2 * n // 3 - 2, 3)])


def rows(solution: Solution) -> list[Any]:
    """Return one ``[states, energies]`` per QUBO; states are written as bits."""
    bits = [["".join(str(int(bit)) for bit in state) for state in states] for states in solution.states]
    return [list(pair) for pair in zip(bits, solution.energies.tolist(), strict=True)]


def marginals(A: Any, **options: Any) -> list[Any]:
    """Return E[x_i] and the mean of all E[x_i x_j] per QUBO."""
    found = pair_marginals(A, **options)
    means = found.mean((1, 2)).tolist()
    return [[*row, mean] for row, mean in zip(found.diagonal(0, 1, 2).tolist(), means, strict=True)]


def quantum(n: int, **options: Any) -> list[Any]:
    solver = QuantumAnnealing(
        reads=20, h_error=0.0, J_error=0.0, programmings=1, seed=5, tolerance=0.01, **options
    )
    solution = solver(qubos(n, dtype=torch.float64), 1)
    success = solution.info["success_probability"].tolist()
    return [[*row, value] for row, value in zip(rows(solution), success, strict=True)]


def exact_answers() -> Iterator[tuple[str, list[Any]]]:
    """Yield a name and one answer per QUBO: 200 in all."""
    exact, single, double = ExhaustiveSearch(max_bits=24), torch.float32, torch.float64
    for dtype in (single, double):
        for n in (2, 6, 10, 14, 18):
            yield f"exact {n} {dtype}", rows(solve(qubos(n, dtype=dtype), exact, 3))
    yield "exact 22", rows(solve(qubos(22, 2), exact, 8))
    for n in (8, 16):
        yield f"exact sparse {n}", rows(solve(sparse(n), exact, 4))
    for n in (6, 12, 18):
        A, held = qubos(n), {0: 1, n - 1: 0, n // 2: 1}
        yield f"clamped {n}", rows(solve(A, exact, 3, clamp=held))
        yield f"grouped {n}", rows(solve(A, exact, 3, groups=threes(n)))
        yield f"clamped and grouped {n}", rows(solve(A, exact, 2, clamp={0: 1, n - 1: 0}, groups=threes(n)))
    each = torch.tensor(np.random.default_rng(7).integers(-1, 2, size=(4, 10)))
    yield "clamped each", rows(solve(qubos(10), exact, 1, clamp=each))
    for n in (4, 8, 12, 16):
        for beta in (0.5, 2.0):
            yield f"log Z {n} at {beta}", log_partition(qubos(n, dtype=double), beta).tolist()
        yield f"log Z {n} single", log_partition(qubos(n, dtype=single), 1.0).tolist()
    for n in (6, 12):
        yield f"log Z clamped {n}", log_partition(qubos(n), 1.0, clamp={1: 0}).tolist()
        yield f"log Z grouped {n}", log_partition(qubos(n), 1.0, groups=threes(n)).tolist()
        yield f"marginals {n}", marginals(qubos(n), beta=1.0)
        yield f"marginals clamped {n}", marginals(qubos(n), beta=1.0, clamp={1: 0})
        yield f"marginals grouped {n}", marginals(qubos(n), beta=1.0, groups=threes(n))
    yield "marginals sparse", marginals(sparse(10), beta=2.0)
    yield "marginals 20", marginals(qubos(20, 2), beta=0.5)
    for n in (2, 5, 8):
        yield f"quantum linear {n}", quantum(n, anneal_time=5.0, schedule="linear")
    yield "quantum dwave 6", quantum(6, anneal_time=10.0, schedule="dwave")


# --- distributions of annealing and tempering


def reads_of(solver: Any, A: Any, lowest: torch.Tensor, beta: float | None = None) -> dict[str, list[float]]:
    """Return success probability and mean energy of ``sample``."""
    reads = solver.sample(A, beta) if beta else solver.sample(A)
    E = energies(A.to(torch.float64), reads.double())
    hit = (E - lowest[:, None] <= 1e-6).double()
    return spread("success", hit) | spread("energy", E)


def spread(name: str, values: torch.Tensor) -> dict[str, list[float]]:
    error = values.std(1) / math.sqrt(values.shape[1])
    return {name: values.mean(1).tolist(), f"{name} error": error.tolist()}


def found_by(solver: Any, A: Any, lowest: torch.Tensor, **held: Any) -> dict[str, list[float]]:
    """Return the share solved and the mean energy above the minimum."""
    above = (solve(A, solver, 1, **held).energies[:, 0] - lowest)[None]
    return spread("success", (above <= 1e-6).double()) | spread("energy", above)


def distributions() -> Iterator[tuple[str, dict[str, list[float]]]]:
    exact = ExhaustiveSearch(max_bits=24)
    A, few, ring, many = qubos(18, 6), qubos(10, 4), sparse(16, 6), qubos(90, 80)
    lowest, ring_lowest, few_lowest = (solve(each, exact, 1).energies[:, 0] for each in (A, ring, few))
    annealing = partial(SimulatedAnnealing, beta_range=None)
    yield "annealing, dense", reads_of(annealing(reads=2000, sweeps=4, seed=11), A, lowest)
    yield "annealing, sparse", reads_of(annealing(reads=2000, sweeps=4, seed=11), ring, ring_lowest)
    yield "annealing at beta=0.5", reads_of(annealing(reads=2000, sweeps=200, seed=12), few, few_lowest, 0.5)
    best_known = solve(many, annealing(reads=100, sweeps=1000, seed=13), 1).energies[:, 0]
    yield "annealing, best of 4", found_by(annealing(reads=4, sweeps=10, seed=14), many, best_known)
    tempering = partial(ParallelTempering, replicas=16, target=None, reads=500)
    betas = tuple(np.geomspace(0.05, 2.0, 16).tolist())  # choosing them takes long
    yield "tempering at beta=0.5", reads_of(tempering(sweeps=20_000, seed=15), few, few_lowest, 0.5)
    yield "tempering, 20 sweeps", found_by(tempering(sweeps=20, seed=16, betas=betas), many, best_known)
    groups = Groups([range(i, i + 5) for i in range(0, 90, 5)])
    best_known = solve(many, tempering(sweeps=1000, seed=17), 1, groups=groups).energies[:, 0]
    grouped = found_by(tempering(sweeps=8, seed=18, betas=betas), many, best_known, groups=groups)
    yield "tempering, groups", grouped


# --- the tests


def golden(section: str) -> dict[str, Any]:
    return json.loads(PATH.read_text())[section]


def flat(value: Any) -> list[Any]:
    return [leaf for each in value for leaf in flat(each)] if isinstance(value, list) else [value]


def same(now: Any, then: Any, tolerance: float) -> None:
    """Raise unless two nested lists agree within the tolerance."""
    now, then = flat(now), flat(then)
    assert len(now) == len(then)
    for a, b in zip(now, then, strict=True):
        assert a == b if isinstance(b, str) else abs(a - b) <= tolerance * max(1.0, abs(b)), (a, b)


@pytest.mark.parametrize("name", FITS)
def test_losses_of_fit_are_those_of_the_frozen_commit(name: str) -> None:
    now, then = fit_losses(name), golden("losses")[name]
    assert now == pytest.approx(then, rel=1e-5)


def test_answers_of_exact_solvers_are_those_of_the_frozen_commit() -> None:
    answers, frozen = dict(exact_answers()), golden("answers")
    assert answers.keys() == frozen.keys()
    assert sum(map(len, answers.values())) == 200
    for name, rows in answers.items():
        same(rows, frozen[name], 1e-4 if "quantum" in name else 1e-5)


def test_annealing_and_tempering_draw_from_the_frozen_distributions() -> None:
    frozen = golden("distributions")
    for name, now in distributions():
        then = frozen[name]
        for what in ("success", "energy"):
            a, b = np.array(now[what]), np.array(then[what])
            error = np.hypot(now[f"{what} error"], then[f"{what} error"]) + 1e-9
            z = (a - b) / error
            if "beta" not in name:  # a search may get better
                z = -z if what == "success" else z
            assert np.abs(z).max() < 5 if "beta" in name else z.max() < 5, (name, what, now, then)


def write(section: str) -> None:
    everything = json.loads(PATH.read_text()) if PATH.exists() else {}
    made = {
        "losses": lambda: {name: fit_losses(name) for name in FITS},
        "answers": lambda: dict(exact_answers()),
        "distributions": lambda: dict(distributions()),
    }
    exact = json.dumps(made[section]())
    everything[section] = json.loads(exact, parse_float=lambda text: float(f"{float(text):.9g}"))
    text = json.dumps(everything, sort_keys=True, indent=2)
    PATH.write_text(re.sub(r"\n {6,}|\n {4}(?=[\]}])", " ", text) + "\n")  # one line per result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", required=True, choices=["losses", "answers", "distributions"])
    torch.set_num_threads(1)
    write(parser.parse_args().write)
