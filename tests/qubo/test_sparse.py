"""Sparse QUBOs against dense ones."""

from __future__ import annotations

import dimod
import pytest
import torch
from dimod.serialization import coo
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from qubolearn.errors import NonFiniteError, QubolearnError
from qubolearn.qubo import (
    SparseQubo,
    all_states,
    check_qubo,
    energies,
    flip_costs,
    from_ising,
    parse_qubo,
    sparse_from_bqm,
    to_bqm,
    to_coo,
    to_ising,
)

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 6)


def random_sparse(seed: int, n: int, batch: int = 3, density: float = 0.5) -> SparseQubo:
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.triu_indices(n, n, 1)
    edges = pairs[:, torch.rand(pairs.shape[1], generator=generator) < density]
    edges = edges[:, torch.randperm(edges.shape[1], generator=generator)]
    linear = torch.randn(batch, n, generator=generator, dtype=torch.float64)
    quadratic = torch.randn(batch, edges.shape[1], generator=generator, dtype=torch.float64)
    return SparseQubo(linear, edges, quadratic)


@settings(max_examples=25, deadline=None)
@given(SEEDS, SIZES)
def test_energies_and_flips_are_those_of_the_dense_qubo(seed: int, n: int) -> None:
    A = random_sparse(seed, n)
    states = all_states(n, dtype=torch.float64).expand(3, -1, -1)
    expected = energies(A.dense(), states)
    torch.testing.assert_close(energies(A, states), expected)
    back = SparseQubo.from_dense(A.dense() + A.dense().mT)
    torch.testing.assert_close(energies(back, states), 2 * expected)
    flipped = torch.arange(2**n)[:, None] ^ (1 << torch.arange(n - 1, -1, -1))  # the order of all_states
    costs = expected[:, flipped] - expected[:, :, None]
    torch.testing.assert_close(flip_costs(A, states), costs)
    torch.testing.assert_close(flip_costs(A.dense(), states), costs)


@settings(max_examples=10, deadline=None)
@given(SEEDS, SIZES)
def test_gradients_are_those_of_the_dense_qubo(seed: int, n: int) -> None:
    A = random_sparse(seed, n)
    linear, quadratic = A.linear.requires_grad_(), A.quadratic.requires_grad_()
    x = torch.randint(0, 2, (3, 4, n), generator=torch.Generator().manual_seed(seed)).double()
    for function in (energies, flip_costs):
        found = torch.autograd.grad(function(A, x).square().sum(), (linear, quadratic))
        expected = torch.autograd.grad(function(A.dense(), x).square().sum(), (linear, quadratic))
        torch.testing.assert_close(found, expected)


@settings(max_examples=25, deadline=None)
@given(SEEDS, SIZES)
def test_ising_and_back_keeps_all_energies(seed: int, n: int) -> None:
    A = random_sparse(seed, n)
    x = all_states(n, dtype=torch.float64).expand(3, -1, -1)
    s, want = 2 * x - 1, energies(A, x)
    for form in (A.dense().mT, A):
        J, b, offset = to_ising(form)
        torch.testing.assert_close(energies(J, s) + (s * b[:, None]).sum(-1) + offset[:, None], want)
        back, back_offset = from_ising(J, b)
        torch.testing.assert_close(energies(back, x) + (back_offset + offset)[:, None], want)
    with_diagonal = J.with_values(A.linear, J.quadratic)  # s² = 1: a constant
    dense, dense_offset = from_ising(with_diagonal.dense(), b)
    sparse, sparse_offset = from_ising(with_diagonal, b)
    torch.testing.assert_close(energies(sparse, x), energies(dense, x))
    torch.testing.assert_close(sparse_offset, dense_offset)


@settings(max_examples=25, deadline=None)
@given(SEEDS, SIZES, st.booleans())
def test_models_of_dimod_in_and_out(seed: int, n: int, spin: bool) -> None:
    A = random_sparse(seed, n)
    models = [to_bqm(A[k]) for k in range(len(A))]
    if spin:
        models[1] = models[1].change_vartype("SPIN", inplace=False)
        models[2].offset = 3.0
    labels = {i: f"bit {n - i}" for i in range(n)}  # not in alphabetical order
    for model in models:
        model.relabel_variables(labels)
    assert list(models[0].variables) == [labels[i] for i in range(n)]
    for model in models:
        back, offset = sparse_from_bqm(model)
        for x in all_states(n, dtype=torch.float64):
            values = 2 * x - 1 if model.vartype is dimod.SPIN else x
            energy = model.energy((values.numpy(), [labels[i] for i in range(n)]))
            assert (energies(back, x[None]) + offset).item() == pytest.approx(float(energy), abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(SEEDS, SIZES)
def test_coo_text_in_and_out(seed: int, n: int) -> None:
    A = random_sparse(seed, n, batch=1)
    text = to_coo(A)
    assert text == to_coo(A.dense()[0])
    assert torch.equal(parse_qubo(text).A.dense(), A.dense())
    assert to_bqm(A) == coo.loads(text) or (A.linear[0] == 0).any() or n > len(coo.loads(text).variables)
    assert parse_qubo("1 0 2\n0 1 3\n2 2 1\n2 2 1").A.dense()[0].tolist() == [[0, 5, 0], [0, 0, 0], [0, 0, 2]]


def test_parts_of_a_batch_and_other_dtypes() -> None:
    A = random_sparse(0, 5, batch=4)
    dense = A.dense()
    assert (len(A), A.n, list(A.shape), A.dtype, A.device.type) == (4, 5, [4, 5, 5], torch.float64, "cpu")
    for index in (slice(1, 3), torch.tensor([2, 0]), torch.tensor([True, False, False, True])):
        assert torch.equal(A[index].dense(), dense[index])
    assert [torch.equal(one.dense()[0], row) for one, row in zip(A, dense, strict=True)] == 4 * [True]
    assert torch.equal(A[-1].dense()[0], dense[-1])
    single = A.to(torch.float32)
    assert torch.equal(single.dense(), dense.float())
    assert not A.with_values(A.linear.requires_grad_(), A.quadratic).detach().linear.requires_grad
    with pytest.raises(IndexError, match="QUBO 4 of a batch of 4"):
        A[4]


def edges(*pairs: tuple[int, int]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T


@pytest.mark.parametrize(
    ("linear", "pairs", "quadratic", "says"),
    [
        (torch.zeros(1, 3), edges((0, 3)), torch.zeros(1, 1), r"edge 0 is \(0, 3\) on n=3 bits"),
        (torch.zeros(1, 3), edges((0, 1), (-1, 1)), torch.zeros(1, 2), r"edge 1 is \(-1, 1\)"),
        (torch.zeros(1, 3), edges((2, 1)), torch.zeros(1, 1), r"edge 0 is \(2, 1\)"),
        (torch.zeros(1, 3), edges((1, 2), (0, 1), (1, 2)), torch.zeros(1, 3), r"\(1, 2\)"),
        (torch.zeros(1, 3), edges((1, 2)).int(), torch.zeros(1, 1), "got torch.int32"),
        (torch.zeros(1, 3), edges((1, 2)), torch.zeros(1, 2), r"quadratic must be .* \[1, 1\]"),
        (torch.zeros(3), edges(), torch.zeros(1, 0), r"linear must have shape \[batch, n\]"),
        (torch.zeros(1, 0), edges(), torch.zeros(1, 0), "n >= 1"),
        (torch.zeros(1, 3), edges((1, 2)), torch.zeros(1, 1).double(), "dtype"),
        (torch.tensor([[0.0, float("nan")]]), edges(), torch.zeros(1, 0), r"linear\[0, 1\] is nan"),
        (torch.zeros(1, 2), edges((0, 1)), torch.tensor([[float("inf")]]), r"quadratic\[0, 0\] is inf"),
        ([[1.0]], edges(), torch.zeros(1, 0), "linear must be a torch.Tensor, got list"),
        (torch.zeros(1, 2, device="meta"), edges(), torch.zeros(1, 0), "meta"),
    ],
)
def test_bad_values_are_rejected(linear, pairs, quadratic, says: str) -> None:
    with pytest.raises(QubolearnError, match=says) as caught:
        SparseQubo(linear, pairs, quadratic)
    assert "\n" not in str(caught.value)


def test_numbers_that_became_nan_are_rejected() -> None:
    A = random_sparse(0, 4)
    A.linear[1, 2] = float("nan")
    with pytest.raises(NonFiniteError, match=r"A.linear\[1, 2\] is nan"):
        check_qubo(A)
    with pytest.raises(NonFiniteError, match=r"linear\[1, 2\] is nan"):
        A.with_values(A.linear, A.quadratic)
    with pytest.raises(QubolearnError, match=r"this graph expects \[batch, 4\]"):
        A.with_values(torch.zeros(3, 5), torch.zeros(3, 2))


def test_what_would_not_fit_is_rejected() -> None:
    none = torch.zeros(2, 0, dtype=torch.int64)
    A = SparseQubo(torch.zeros(100, 5640), none, torch.zeros(100, 0))
    with pytest.raises(QubolearnError, match=r"100 QUBOs of n=5640 bits take 11.8 GiB .*\(limit 4 GiB\)"):
        A.dense()
    with pytest.raises(QubolearnError, match="100"):
        to_bqm(A)
    with pytest.raises(QubolearnError, match="2000001"):
        parse_qubo("0 2000000 1")
    with pytest.raises(NonFiniteError, match="finite"):
        sparse_from_bqm(dimod.BinaryQuadraticModel({"a": float("nan")}, {}, "BINARY"))
