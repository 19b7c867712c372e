"""QUBO algebra against brute force and dimod."""

from __future__ import annotations

import dimod
import numpy as np
import pytest
import torch
from dimod.serialization import coo
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import (
    SparseQubo,
    all_states,
    check_qubo,
    energies,
    from_bqm,
    from_ising,
    parse_qubo,
    reflected,
    symmetric,
    to_bqm,
    to_coo,
    upper_triangular,
)

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 6)


def random_qubos(seed: int, n: int, batch: int = 3) -> Tensor:
    return torch.randn(batch, n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def naive_energy(A: Tensor, x: Tensor) -> float:
    n = len(x)
    return sum(float(x[i] * A[i, j] * x[j]) for i in range(n) for j in range(n))


@settings(max_examples=25, deadline=None)
@given(SEEDS, SIZES)
def test_energies_equal_the_double_sum_and_dimod(seed: int, n: int) -> None:
    A = random_qubos(seed, n)
    states = all_states(n, dtype=torch.float64).expand(3, -1, -1)
    found = energies(A, states)
    bqm = to_bqm(A[1])
    for r in range(2**n):
        assert found[0, r].item() == pytest.approx(naive_energy(A[0], states[0, r]), abs=1e-9)
        assert found[1, r].item() == pytest.approx(bqm.energy(states[1, r].int().tolist()), abs=1e-9)


@settings(max_examples=10, deadline=None)
@given(SEEDS, SIZES)
def test_a_reflected_qubo_has_the_energies_of_changed_states(seed: int, n: int) -> None:
    A, states = random_qubos(seed, n), all_states(n, dtype=torch.float64).expand(3, -1, -1)
    x = states[0, torch.tensor([0, 2**n - 1, seed % 2**n])]
    want = energies(A, (states - x[:, None]).abs())
    for form in (A, SparseQubo.from_dense(A)):
        found = energies(reflected(form, x), states)
        torch.testing.assert_close(found - found[:, :1], want - want[:, :1])


@settings(max_examples=25, deadline=None)
@given(SEEDS, SIZES)
def test_normal_forms_keep_all_energies(seed: int, n: int) -> None:
    A = random_qubos(seed, n)
    states = all_states(n, dtype=torch.float64).expand(3, -1, -1)
    for form in (symmetric(A), upper_triangular(A)):
        torch.testing.assert_close(energies(form, states), energies(A, states))
    assert torch.equal(symmetric(A), symmetric(A).mT)
    assert not upper_triangular(A).tril(-1).any()


@settings(max_examples=25, deadline=None)
@given(SEEDS, SIZES)
def test_any_ising_model_becomes_the_qubo_of_dimod(seed: int, n: int) -> None:
    J = random_qubos(seed, n)  # not symmetric, with a diagonal
    b = random_qubos(seed + 1, n)[:, 0]
    x = all_states(n, dtype=torch.float64).expand(3, -1, -1)
    s = 2 * x - 1
    A, offset = from_ising(J, b)
    want = energies(J, s) + (s * b[:, None]).sum(-1)
    torch.testing.assert_close(energies(A, x) + offset[:, None], want)
    h = dict(enumerate(b[0].tolist()))
    couplers = {(i, j): J[0, i, j].item() + J[0, j, i].item() for i in range(n) for j in range(i + 1, n)}
    bqm = dimod.BinaryQuadraticModel.from_ising(h, couplers, J[0].diagonal().sum().item())
    from_dimod, dimod_offset = from_bqm(bqm)
    torch.testing.assert_close(upper_triangular(A[0]), from_dimod)
    assert offset[0].item() == pytest.approx(dimod_offset)


def test_coo_text_is_what_dimod_reads() -> None:
    A = upper_triangular(random_qubos(5, 4)[0])
    bqm = coo.loads(to_coo(A))
    np.testing.assert_allclose(from_bqm(bqm)[0], A)
    written = coo.dumps(to_bqm(A), vartype_header=True)  # dimod rounds to six digits
    torch.testing.assert_close(parse_qubo(written).A.dense()[0], A, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no entries"),
        ("0 0", "not 'i j value'"),
        ("0 0 nan", "not finite"),
        ("0 -1 2.0", "-1"),
        ("# vartype=SPIN\n0 0 1", "only BINARY"),
        ("0 ² 1", "²"),
        ("# n=1000000\n0 0 1", "GiB"),
        ("# n=100000000\n0 0 1", "100000000"),
        ("#made by dimod, vartype=SPIN\n0 0 1", "only BINARY"),
    ],
)
def test_bad_coo_is_rejected_in_one_line(text: str, says: str) -> None:
    with pytest.raises(QubolearnError, match=says) as caught:
        parse_qubo(text, "coo").A.dense()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("A", "says"),
    [
        (torch.zeros(3, 3), r"pass A\[None\]"),
        (torch.zeros(1, 2, 3), r"\[1, 2, 3\]"),
        (torch.zeros(1, 0, 0), "n >= 1"),
        (torch.zeros(1, 2, 2, dtype=torch.int64), "floating point"),
        (torch.full((2, 2, 2), float("nan")), r"A\[0, 0, 0\] is nan"),
        (torch.tensor([[[0.0, float("inf")], [0.0, 0.0]]]), r"A\[0, 0, 1\] is inf"),
        ([[1.0]], "Tensor"),
        (torch.zeros(1, 2, 2).to(torch.float8_e4m3fn), r"call A\.float\(\)"),
    ],
)
def test_bad_qubos_are_rejected(A: Tensor, says: str) -> None:
    with pytest.raises(QubolearnError, match=says):
        check_qubo(A)


@pytest.mark.parametrize("n", [4, 4096, 4097])
def test_any_size_goes_to_text_and_back(n: int) -> None:
    A = torch.zeros(n, n, dtype=torch.float64)
    A[0, 1], A[n // 2, n // 2], A[n - 2, n - 1] = 1.0, -2.0, 0.1
    assert torch.equal(parse_qubo(to_coo(A)).A.dense()[0], A)
    assert torch.equal(from_bqm(to_bqm(A))[0], A)


def test_anything_but_a_single_model_is_rejected_in_one_line() -> None:
    with pytest.raises(QubolearnError, match=r"\[2, 3, 3\]"):
        to_bqm(torch.zeros(2, 3, 3))
    with pytest.raises(QubolearnError, match=r"\[1, 3, 3\]"):
        to_coo(torch.zeros(1, 3, 3))
    with pytest.raises(QubolearnError, match="ConstrainedQuadraticModel"):
        from_bqm(dimod.ConstrainedQuadraticModel())
