"""Tuning."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from qubolearn import DWaveSolver, ExhaustiveSearch, QubolearnError, SimulatedAnnealing, SparseQubo
from qubolearn.tuning import measure, tune_chain_strength, tune_penalties

SOLVER = SimulatedAnnealing(reads=60, sweeps=50)


def build(values: Tensor, weight: float) -> Tensor:
    """Choose one item: exactly one bit is 1."""
    n = len(values)
    return weight * (torch.ones(n, n) - 2 * torch.eye(n)) - torch.diag(values)


def cost(values: Tensor, x: Tensor) -> Tensor:
    return torch.where(x.sum(1) == 1, -(x @ values), torch.inf)


def items(count: int) -> list[Tensor]:
    return list(torch.rand(count, 5, generator=torch.Generator().manual_seed(0)) + 0.5)


def test_halving_keeps_the_best_candidate_with_few_calls() -> None:
    """Candidate k is right with probability (k + 1) / 9."""
    draw = np.random.default_rng(0)

    def read(number: int, weight: Any) -> Tensor:
        return torch.from_numpy(draw.random((200, 1)) < (weight + 1) / 9)

    found = measure(read, lambda number, x: torch.where(x[:, 0], 0.0, 1.0), 16, range(8))
    assert found.best == 7
    assert found.calls == 8 * 4 + 4 * 4 + 2 * 8 < 8 * 16
    assert found.instances == (4, 4, 4, 4, 8, 8, 16, 16)
    for k in range(8):
        assert found.low[k] - 0.03 < (k + 1) / 9 < found.high[k] + 0.03


def test_penalties_below_the_values_leave_no_feasible_optimum() -> None:
    found = tune_penalties(build, cost, items(8), SOLVER, [0.1, 0.3, 2.0, 50.0])
    assert found.best == 2.0
    assert found.share[0] == found.feasible[0] == 0
    assert found.low[2] <= found.share[2] <= found.high[2]
    assert found.share[2] <= found.feasible[2]
    again = tune_penalties(build, cost, items(8), SOLVER, [0.1, 0.3, 2.0, 50.0])
    assert again == found

    def sparse(values: Tensor, weight: float) -> SparseQubo:
        return SparseQubo.from_dense(build(values, weight)[None])

    assert tune_penalties(sparse, cost, items(8), SOLVER, [0.1, 2.0]).best == 2.0


def test_known_best_costs_count_the_optimum_only() -> None:
    given = items(3)
    best = [-values.max().item() - 1 for values in given]
    found = tune_penalties(build, cost, given, SOLVER, [2.0], best=best)
    assert found.share == (0.0,)
    assert found.feasible[0] > 0.5


def test_curves_are_drawn(tmp_path: Any) -> None:
    pytest.importorskip("matplotlib")
    found = tune_penalties(build, cost, items(4), SOLVER, [0.1, 2.0, 4.0])
    axes = found.plot()
    assert axes.lines[0].get_xdata().tolist() == [0.1, 2.0, 4.0]
    pairs = tune_penalties(lambda v, w: build(v, w[0]), cost, items(4), SOLVER, [(2.0, 1.0), (0.1, 1.0)])
    assert pairs.plot(axes).lines[-1].get_xdata().tolist() == [0.0, 1.0]


def test_chain_strength_of_a_mock_chip() -> None:
    solver = DWaveSolver.mock("chimera", size=4, sweeps=50, seed=0, reads=50)
    qubos = list(torch.randn(4, 6, 6, generator=torch.Generator().manual_seed(0)))
    reads = solver.sample(torch.stack(qubos))
    assert reads.shape == (4, 50, 6)
    assert "states" not in solver(torch.stack(qubos), 1).info
    found = tune_chain_strength(qubos, solver, [0.01, 1.0])
    assert found.best == 1.0  # weak chains break
    with pytest.raises(QubolearnError, match=r"beta=2\.0"):
        solver.sample(torch.stack(qubos), 2.0)


@dataclass(frozen=True)
class Zeros:
    """A solver that never finds a feasible read."""

    def __call__(self, A: Any, count: int = 2) -> Any:
        raise NotImplementedError

    def sample(self, A: Any, beta: float | None = None) -> Tensor:
        return torch.zeros(1, 10, A.shape[2])


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (
            {"build": lambda v, w: build(v[: 4 + int(w > 1)], w), "cost": lambda v, x: x.sum(1)},
            r"4 bits for instance 0, then 5 at weights 2\.0",
        ),
        ({"build": lambda v, w: torch.zeros(2, 5, 5)}, "instance 0 is a batch of 2"),
        ({"build": lambda v, w: torch.full((5, 5), torch.nan)}, "nan"),
        ({"cost": lambda v, x: torch.zeros(3)}, r"\[3\] .* instance 0"),
        ({"cost": lambda v, x: torch.full((60,), torch.nan)}, "instance 0"),
        ({"solver": Zeros()}, "instance 0 is feasible"),
        ({"solver": ExhaustiveSearch()}, "ExhaustiveSearch"),
        ({"solver": "annealing"}, "annealing"),
        ({"candidates": []}, "0 candidates"),
        ({"instances": []}, "0 instances"),
        ({"best": [1.0]}, "1 best costs"),
    ],
)
def test_bad_input_is_rejected(change: dict[str, Any], value: str) -> None:
    given: dict[str, Any] = {"build": build, "cost": cost, "instances": items(2), "solver": SOLVER}
    with pytest.raises(QubolearnError, match=value):
        tune_penalties(**{**given, "candidates": [0.5, 2.0], **change})
