"""The log-partition function."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from chip_qubos import random_qubos
from torch import Tensor

from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.qubo import all_states, energies
from qubolearn.solvers import exhaustive_torch
from qubolearn.solvers.partition import _sums, log_partition, pair_marginals

METHODS = [_sums, exhaustive_torch.log_partition_and_marginals]


def naive(A: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """Return log Z and E[x xᵀ] by all states, differentiable."""
    n = A.shape[2]
    x = all_states(n, dtype=torch.float64)
    exponents = -beta * energies(A.double(), x.expand(len(A), -1, -1))
    p = exponents.softmax(1)
    return exponents.logsumexp(1), torch.einsum("bs,si,sj->bij", p, x, x)


def assert_same(found: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor], tolerance: float) -> None:
    """Compare log Z and E[x xᵀ]; large values of log Z are rounded more."""
    torch.testing.assert_close(found[0].double(), right[0], rtol=1e-6, atol=tolerance)
    torch.testing.assert_close(found[1].double(), right[1], rtol=0, atol=tolerance)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 10, 11, 12, 14])
@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0, -1.5, 4.0])
def test_agrees_with_all_states(method, dtype: torch.dtype, n: int, beta: float) -> None:
    A = random_qubos(4, n, dtype)
    tolerance = 1e-10 if dtype == torch.float64 else 2e-5 * (1 + abs(beta))
    assert_same(method(A, beta), naive(A, beta), tolerance)


@pytest.mark.parametrize("n", [19, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parts_of_a_large_qubo_agree_with_torch(n: int, dtype: torch.dtype) -> None:
    A = random_qubos(2, n, dtype)
    right = exhaustive_torch.log_partition_and_marginals(A.double(), 0.7)
    torch.testing.assert_close(_sums(A, 0.7), right, rtol=0, atol=1e-10 if dtype == torch.float64 else 2e-5)


def test_independent_bits_in_closed_form() -> None:
    d = random_qubos(1, 22)[0, 0]
    A, beta = torch.diag(d)[None], 1.3
    q = torch.sigmoid(-beta * d)
    product = torch.outer(q, q)
    product.diagonal().copy_(q)
    log_z = torch.nn.functional.softplus(-beta * d).sum().item()
    assert log_partition(A, beta).item() == pytest.approx(log_z)
    torch.testing.assert_close(pair_marginals(A, beta)[0], product)


@pytest.mark.parametrize("scale", [10.0, 40.0, 300.0, 1e4, 1e8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steep_energies_next_to_flat_ones(scale: float, dtype: torch.dtype) -> None:
    A = random_qubos(6, 12, dtype)
    A[::2] *= scale
    assert_same(_sums(A, 1.0), naive(A, 1.0), 1e-7 if dtype == torch.float64 else 3e-4)


@pytest.mark.parametrize("lowered", [0, 8, 9, 10, 11])
def test_all_weight_on_a_state_that_looks_negligible_at_first(lowered: int) -> None:
    """One bit lowers the energy beyond float32's factors."""
    for size in (50.0, 80.0, 120.0, 1000.0):
        A = torch.zeros(1, 12, 12)
        A[0].diagonal()[:] = size / 2
        A[0, lowered, lowered] = -size
        assert_same(_sums(A, 1.0), naive(A, 1.0), 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient_is_that_of_free_entries(dtype: torch.dtype) -> None:
    A = random_qubos(3, 9, dtype).requires_grad_()
    upstream = torch.tensor([1.0, -2.0, 0.5], dtype=dtype)
    (gradient,) = torch.autograd.grad(log_partition(A, 0.8), A, upstream)
    free = A.detach().double().requires_grad_()
    (right,) = torch.autograd.grad(naive(free, 0.8)[0], free, upstream.double())
    assert gradient.dtype == dtype
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(gradient.double(), right, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_results_have_the_dtype_of_A(dtype: torch.dtype) -> None:
    A = random_qubos(2, 5, dtype)
    assert log_partition(A).dtype == dtype
    assert pair_marginals(A).dtype == dtype
    right, right_marginals = naive(A, 1.0)
    torch.testing.assert_close(log_partition(A).double(), right, rtol=1e-2, atol=0)
    torch.testing.assert_close(pair_marginals(A).double(), right_marginals, rtol=0, atol=1e-2)


def test_empty_batch() -> None:
    A = torch.zeros(0, 4, 4, requires_grad=True)
    log_partition(A).sum().backward()
    assert A.grad is not None
    assert A.grad.shape == (0, 4, 4)
    assert pair_marginals(A).shape == (0, 4, 4)


BAD: list[tuple[str, type[Exception], Tensor, Any]] = [
    ("n=31", QubolearnError, torch.zeros(1, 31, 31), 1.0),
    ("nan", QubolearnError, torch.zeros(1, 3, 3), float("nan")),
    ("inf", QubolearnError, torch.zeros(1, 3, 3), float("inf")),
    ("2.5", QubolearnError, torch.zeros(1, 3, 3), torch.tensor([2.5])),
    ("2.5", QubolearnError, torch.zeros(1, 3, 3), "2.5"),
    ("shape", QubolearnError, torch.zeros(3, 3), 1.0),
    ("inf", NonFiniteError, torch.full((1, 3, 3), float("inf")), 1.0),
    ("float32", NonFiniteError, torch.full((1, 5, 5), -3e38), 1.0),
    ("float64", NonFiniteError, torch.full((1, 5, 5), -1e308, dtype=torch.float64), 1.0),
]


@pytest.mark.parametrize(("value", "error", "A", "beta"), BAD)
def test_bad_input_is_named(value: str, error: type[Exception], A: Tensor, beta: Any) -> None:
    with pytest.raises(error, match=value):
        log_partition(A, beta)
    if "float" not in value:
        with pytest.raises(error, match=value):
            pair_marginals(A, beta)


def test_a_second_derivative_is_rejected() -> None:
    """They were silently zero once."""
    A = torch.randn(1, 3, 3, dtype=torch.float64, requires_grad=True)
    first = torch.autograd.grad(log_partition(A).sum(), A, create_graph=True)[0]
    with pytest.raises(QubolearnError):
        first.square().sum().backward()


def test_torch_func_differentiates_and_rejects_vmap() -> None:
    A = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = torch.func.grad(lambda B: log_partition(B).sum())(A)
    torch.testing.assert_close(found, -pair_marginals(A))
    with pytest.raises(RuntimeError, match="vmap"):
        torch.func.vmap(lambda B: log_partition(B[None]))(A)


@pytest.mark.parametrize("size", [1.0, 1e6, 1e12, 1e16])
@pytest.mark.parametrize("n", [2, 8, 9, 10, 11])
def test_marginals_of_large_integers_are_probabilities(n: int, size: float) -> None:
    """They once were up to 5: log Z was rounded too early."""
    A = torch.randint(-2, 3, (6, n, n), generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    found = pair_marginals(size * A)
    states = all_states(n, dtype=torch.float64)
    E = torch.einsum("si,bij,sj->bs", states, A, states)
    weights = torch.softmax(-size * (E - E.amin(1, keepdim=True)), 1)
    right = torch.einsum("bs,si,sj->bij", weights, states, states)
    torch.testing.assert_close(found, right, atol=1e-9, rtol=0)


def test_torch_compile_runs_them_as_they_are() -> None:
    """Trace where no kernel has run."""
    program = """
import torch
from qubolearn.solvers import ExhaustiveSearch, log_partition
A = torch.randn(2, 4, 4, requires_grad=True)
value = torch.compile(lambda A: 2 * log_partition(A).sum(), backend="eager")(A)
value.backward()
assert torch.allclose(value, 2 * log_partition(A).sum()) and A.grad is not None
solved = torch.compile(lambda A: ExhaustiveSearch()(2 * A, 2).energies, backend="eager")(A)
assert torch.equal(solved, ExhaustiveSearch()(2 * A, 2).energies)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_marginals_are_probabilities() -> None:
    """Rounding once left some above 1 by 2.4e-7."""
    A = 2 * torch.randn(300, 11, 11, generator=torch.Generator().manual_seed(0)) - 6 * torch.eye(11)
    for beta in (0.1, 1.0, 5.0):
        marginals = pair_marginals(A, beta)
        assert 0 <= float(marginals.min()) <= float(marginals.max()) <= 1
