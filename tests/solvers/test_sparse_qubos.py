"""Sparse QUBOs through every solver."""

from __future__ import annotations

import pytest
import torch

from qubolearn.errors import QubolearnError
from qubolearn.qubo import SparseQubo, energies
from qubolearn.solvers import ExhaustiveSearch, log_partition, make_solver, pair_marginals, solve


def random_sparse(batch: int, n: int, seed: int = 0, density: float = 0.4) -> SparseQubo:
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.triu_indices(n, n, 1)
    edges = pairs[:, torch.rand(pairs.shape[1], generator=generator) < density]
    linear = torch.randn(batch, n, generator=generator)
    return SparseQubo(linear, edges, torch.randn(batch, edges.shape[1], generator=generator))


@pytest.mark.parametrize(
    "spec", ["exhaustive", "annealing:seed=0", "quantum:seed=0", "neal:seed=0", "dwave-mock:seed=0"]
)
def test_the_lowest_states_are_those_of_the_dense_qubos(spec: str) -> None:
    A = random_sparse(3, 6)
    found = solve(A, make_solver(spec), 2)
    torch.testing.assert_close(found.energies, ExhaustiveSearch()(A.dense(), 2).energies)
    torch.testing.assert_close(energies(A, found.states).double(), found.energies)
    assert (found.states.dtype, found.states.shape) == (torch.float32, (3, 2, 6))
    assert solve(A[:0], make_solver(spec), 2).states.shape == (0, 2, 6)


def test_sums_over_all_states_are_differentiable_in_the_sparse_numbers() -> None:
    A = random_sparse(2, 5).to(torch.float64)
    A.linear.requires_grad_(), A.quadratic.requires_grad_()
    log_partition(A, 0.7).sum().backward()
    marginals = pair_marginals(A, 0.7)
    torch.testing.assert_close(A.linear.grad, -0.7 * marginals.diagonal(dim1=1, dim2=2))
    torch.testing.assert_close(A.quadratic.grad, -0.7 * marginals[:, A.edges[0], A.edges[1]])


@pytest.mark.parametrize("spec", ["exhaustive", "quantum", "neal"])
def test_too_large_ones_are_rejected_with_the_limit(spec: str) -> None:
    none = torch.zeros(2, 0, dtype=torch.int64)
    with pytest.raises(QubolearnError, match="limit"):
        make_solver(spec)(SparseQubo(torch.ones(1000, 5640), none, torch.zeros(1000, 0)))
