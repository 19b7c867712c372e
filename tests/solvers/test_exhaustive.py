"""Exhaustive search against loops."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from chip_qubos import random_qubos
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.qubo import Groups, energies
from qubolearn.qubo.algebra import code_bits
from qubolearn.solvers import exhaustive, exhaustive_torch
from qubolearn.solvers.exhaustive import ExhaustiveSearch


def compiled_codes(A: Tensor, count: int) -> Tensor:
    """Return codes of the states that the compiled kernel finds."""
    return (ExhaustiveSearch()(A, count).states.long() << torch.arange(A.shape[2])).sum(2)


SEARCHES = [compiled_codes, exhaustive_torch.lowest_codes]


def naive_energies(A: Tensor) -> list[float]:
    """Return sorted energies of one QUBO, by loops."""
    entries = A.double().tolist()
    n = len(entries)
    return sorted(
        sum(entries[i][j] for i in range(n) for j in range(n) if x[i] and x[j])
        for x in itertools.product((0, 1), repeat=n)
    )


def all_energies(A: Tensor) -> Tensor:
    """Return all energies ``[batch, 2**n]`` in order of code, float64."""
    n = A.shape[2]
    return energies(A.double(), code_bits(torch.arange(2**n), n).expand(len(A), -1, -1))


FAMILIES = {
    "normal": lambda n: random_qubos(3, n),
    "ties": lambda n: random_qubos(3, n).round().clamp(-1, 1),
    "zero": lambda n: torch.zeros(2, n, n, dtype=torch.float64),
    "wide range": lambda n: random_qubos(3, n) * 10 ** (4 * random_qubos(3, n, seed=1)).clamp(-6, 8),
    "positive": lambda n: random_qubos(3, n).abs(),
    "negative": lambda n: -random_qubos(3, n).abs(),
    "lower triangle": lambda n: random_qubos(3, n).tril(),
    "subnormal": lambda n: random_qubos(3, n) * 1e-310,
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_agrees_with_naive_loops(family: str, n: int) -> None:
    A = FAMILIES[family](n)
    for count in {1, 2, min(5, 2**n), 2**n}:
        found = ExhaustiveSearch()(A, count)
        naive = torch.tensor([naive_energies(one)[:count] for one in A], dtype=torch.float64)
        torch.testing.assert_close(found.energies, naive, rtol=1e-12, atol=1e-12 * float(A.abs().sum()))
        torch.testing.assert_close(energies(A, found.states), found.energies)
        for states in found.states:
            assert len(states.unique(dim=0)) == count


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [8, 10, 11, 12, 15])
def test_agrees_with_all_energies(search, dtype: torch.dtype, n: int) -> None:
    A = random_qubos(5, n, dtype)
    expected = all_energies(A).sort(1).values
    for count in (1, 2, 10, 300 if n > 8 else 256):
        codes = search(A, count)
        found = energies(A.double(), code_bits(codes, n)).sort(1).values
        torch.testing.assert_close(found, expected[:, :count], rtol=0, atol=1e-9 if count < 100 else 1e-4)
        assert all(len(set(row)) == count for row in codes.tolist())


@pytest.mark.parametrize("n", [19, 20])
def test_parts_of_a_large_qubo_agree_with_torch(n: int) -> None:
    A = random_qubos(2, n, torch.float32)
    found = ExhaustiveSearch()(A, 3)
    codes = exhaustive_torch.lowest_codes(A.double(), 3)
    torch.testing.assert_close(found.energies, energies(A.double(), code_bits(codes, n)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_diagonal_of_26_bits_in_closed_form(dtype: torch.dtype) -> None:
    d = random_qubos(1, 26, dtype)[0, 0]
    states, found = ExhaustiveSearch()(torch.diag(d)[None], 2)
    best = (d < 0).to(dtype)
    assert torch.equal(states[0, 0], best)
    flipped = d.abs().argmin()
    assert (states[0, 1] != best).nonzero().flatten().tolist() == [flipped.item()]
    assert found[0, 1] - found[0, 0] == pytest.approx(d[flipped].abs().item(), rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_degenerate_integers_are_exact(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 12))
    entries = data.draw(st.lists(st.integers(-3, 3), min_size=n * n, max_size=n * n))
    count = data.draw(st.integers(1, min(2**n, 40)))
    dtype = data.draw(st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]))
    A = torch.tensor(entries, dtype=dtype).reshape(1, n, n)
    found = ExhaustiveSearch()(A, count)
    assert found.states.dtype == dtype
    assert torch.equal(found.energies, all_energies(A).sort(1).values[:, :count])


@pytest.mark.parametrize("density", [0.3, 1.0])
def test_rounding_of_float32_does_not_choose_the_wrong_cell(density: float) -> None:
    """Ties are decided by 2^-14, which float32 sums lose."""
    generator = torch.Generator().manual_seed(0)
    shape = (400, 12, 12)
    coarse = torch.randint(-2, 3, shape, generator=generator) * 256.0
    coarse *= torch.rand(shape, generator=generator) < density
    A = coarse + torch.randint(-3, 4, shape, generator=generator) * 2.0**-14
    assert torch.equal(ExhaustiveSearch()(A, 2).energies, all_energies(A).sort(1).values[:, :2])


def test_float32_of_wide_range_is_searched_in_float64_where_it_must() -> None:
    """Float32 leaves more states in question than are compared."""
    A = (random_qubos(800, 12) * 10 ** (4 * random_qubos(800, 12, seed=1)).clamp(0, 16)).float()
    expected = all_energies(A).sort(1).values[:, :3]
    found = ExhaustiveSearch()(A, 3).energies
    assert float(((found - expected).abs() / A.double().abs().sum((1, 2))[:, None]).max()) < 1e-14


def test_too_many_bits() -> None:
    with pytest.raises(QubolearnError, match=r"n=40.*2\*\*36"):
        ExhaustiveSearch()(torch.zeros(1, 40, 40))
    with pytest.raises(QubolearnError, match=r"limit 2\*\*10"):
        ExhaustiveSearch(max_bits=10)(torch.zeros(1, 11, 11))


INTERPRETED = """
import torch
from qubolearn.gpu.exhaustive_triton import SearchPlan
from triton_check import instances, search_error, sum_error

plans = [(10, SearchPlan(3, 1, 1), torch.float64), (11, SearchPlan(4, 2, 0), torch.float32)]
for n, plan, dtype in [*plans, (12, SearchPlan(3, 2, 2), torch.float32)]:
    assert search_error(instances(2, n, dtype, "cpu"), 3, plan) < 1e-9, (n, plan)
for n, lane_bits in [(8, 1), (10, 2)]:
    assert sum_error(instances(2, n, device="cpu"), lane_bits) < 1e-5, (n, lane_bits)
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_triton_kernels_in_the_interpreter() -> None:
    # In its own process: Triton decides on import whether to interpret.
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    tools = Path(__file__).parents[2] / "tools"
    subprocess.run([sys.executable, "-c", INTERPRETED], env=environment, cwd=tools, check=True, timeout=300)


@pytest.mark.parametrize("sizes", [[5] * 6, [2] * 5 + [3] * 3 + [1, 4]])
@pytest.mark.parametrize("whole", [False, True])
def test_groups_in_the_kernel_and_in_torch(monkeypatch, sizes, whole):
    ends = torch.tensor(sizes).cumsum(0).tolist()
    groups = Groups(range(end - size, end) for size, end in zip(sizes, ends, strict=True))
    A = torch.randn(3, ends[-1] + 2, ends[-1] + 2, generator=torch.Generator().manual_seed(0))
    A = A.round() if whole else A
    found = {}
    for few in (0, 2**40):
        monkeypatch.setattr(exhaustive, "FEW_STATES", few)
        states = ExhaustiveSearch().search_groups(A, 4, groups).states.double()
        assert all((states[..., list(group)].sum(-1) == 1).all() for group in groups.members)
        found[few] = energies(A.double(), states)
    torch.testing.assert_close(found[0], found[2**40])
