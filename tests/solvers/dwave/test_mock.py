"""The mocked chip."""

from __future__ import annotations

import random

import dimod
import numpy as np
import pytest
import torch
from chip_qubos import exact, qubos
from hypothesis import given, settings
from hypothesis import strategies as st

from qubolearn.chips.embedding import Chip
from qubolearn.chips.packing import Packing, Ranges, pack, program, unpack
from qubolearn.chips.topologies import topology
from qubolearn.qubo import to_ising
from qubolearn.solvers.dwave.solver import DWaveSolver
from qubolearn.testing import check_solver

RANGES = Ranges((-4.0, 4.0), (-1.0, 1.0), (-2.0, 1.0), (-18.0, 15.0))


def test_a_thousand_bipartite_qubos_take_two_calls_and_all_are_answered() -> None:
    A = qubos("chimera", 8, 1000)
    solution = DWaveSolver.mock("pegasus", 16, sweeps=30, seed=0, reads=30)(A)
    assert solution.info["calls"] == 2
    assert solution.info["source"] == "mock"
    assert solution.states.shape == (1000, 2, 8)
    torch.testing.assert_close(solution.energies[:, 0], exact(A)[:, 0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "n", "chip", "size", "embedding"),
    [
        ("chimera", 8, "chimera", 3, "direct"),
        ("pegasus", 12, "pegasus", 4, "direct"),
        ("zephyr", 12, "zephyr", 3, "direct"),
        ("chimera", 12, "zephyr", 3, "direct"),
        ("dense", 7, "pegasus", 4, "minor"),
        ("dense", 9, "zephyr", 3, "minor"),
        ("diagonal", 5, "chimera", 3, "direct"),
        ("dense", 1, "pegasus", 3, "direct"),
    ],
)
def test_both_best_states_are_those_of_brute_force(
    name: str, n: int, chip: str, size: int, embedding: str
) -> None:
    A = qubos(name, n, 60)
    solution = DWaveSolver.mock(chip, size, seed=1)(A)
    torch.testing.assert_close(solution.energies, exact(A), rtol=0, atol=1e-5)
    assert solution.info["embedding"] == embedding
    assert solution.info["calls"] == -(-60 // solution.info["tiles"])


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([("dense", 6), ("chimera", 8), ("pegasus", 10), ("diagonal", 3)]),
    st.integers(0, 2**20),
)
def test_the_programmed_energy_is_the_sum_of_the_scaled_energies(kind: tuple[str, int], seed: int) -> None:
    """Physical energy = Σ scale · logical energy - chain couplings."""
    name, n = kind
    packing = pack(n, frozenset(topology(name, n).couplers), Chip.ideal("pegasus", 3))
    J, h, _ = to_ising(qubos(name, n, packing.tiles, seed).double())
    packed = program(packing, J.numpy(), h.numpy(), RANGES, 1.4)
    s = torch.from_numpy(np.random.default_rng(seed).choice([-1.0, 1.0], (packing.tiles, n)))
    logical = torch.einsum("bi,bij,bj->b", s, J, s) + (h * s).sum(1)

    physical = dimod.BinaryQuadraticModel.from_numpy_vectors(
        packed.h, (*packing.ends, packed.J), 0.0, dimod.SPIN, variable_order=packing.qubits.tolist()
    )
    spins = dict(zip(packing.qubits.tolist(), s.reshape(-1)[packing.node].tolist(), strict=True))
    chains = packed.J[packing.pair[0] == packing.pair[1]].sum()
    scaled = float((torch.from_numpy(packed.scale) * logical).sum())
    assert physical.energy(spins) == pytest.approx(scaled + chains)
    assert np.abs(packed.h).max() <= 4
    assert packed.J.min(initial=0) >= -2
    assert packed.J.max(initial=0) <= 1


def test_each_qubo_fills_the_ranges() -> None:
    packing = pack(8, frozenset(topology("chimera", 8).couplers), Chip.ideal("chimera", 2))
    A = qubos("chimera", 8, 4).double() * torch.tensor([1.0, 10.0, 0.1, 0.0])[:, None, None]
    J, h, _ = (part.numpy() for part in to_ising(A))
    packed = program(packing, J, h, RANGES, 1.0)
    for tile in range(3):
        h_part = np.abs(packed.h[packing.node // 8 == tile]).max() / 4
        assert max(h_part, np.abs(packed.J[packing.coupler_tile == tile]).max()) == pytest.approx(1)
    assert packed.scale[0] == pytest.approx(10 * program(packing, J * 10, h * 10, RANGES, 1.0).scale[0])


def test_the_sum_of_a_qubits_couplings_stays_in_its_range() -> None:
    packing = pack(8, frozenset(topology("chimera", 8).couplers), Chip.ideal("chimera", 2))
    J = np.zeros((4, 8, 8))
    J[:, :4, 4:] = 1.0
    tight = RANGES._replace(qubit=(-3.0, 2.0))
    packed = program(packing, J, np.zeros((4, 8)), tight, 1.0)
    totals = sum(np.bincount(end, packed.J, minlength=len(packing.qubits)) for end in packing.ends)
    assert totals.max() == pytest.approx(2.0)


def test_chains_are_read_by_majority_and_their_breaks_are_counted() -> None:
    packing = Packing(
        n=2,
        tiles=2,
        method="minor",
        qubits=np.arange(7),
        node=np.array([0, 0, 0, 1, 2, 2, 3]),  # chains of 3, 1, 2 and 1 qubits
        ends=np.zeros((2, 0), dtype=np.int64),
        coupler_tile=np.zeros(0, dtype=np.int64),
        pair=np.zeros((2, 0), dtype=np.int64),
        share=np.zeros(0),
    )
    spins = np.array([[1, 1, -1, -1, -1, 1, 1], [-1, -1, -1, 1, 1, -1, -1]], dtype=np.int8)
    bits, broken = unpack(packing, spins)
    assert bits.tolist() == [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    assert broken.tolist() == [0.25, 0.5]


def test_weak_chains_break_and_are_reported() -> None:
    A = qubos("dense", 9, 10)
    strong = DWaveSolver.mock("pegasus", 4, seed=0)(A)
    weak = DWaveSolver.mock("pegasus", 4, seed=0, chain_strength=0.05)(A)
    assert strong.info["chain_break_fraction"].mean() < 0.05 < weak.info["chain_break_fraction"].mean()
    assert weak.info["chain_break_fraction"].shape == (10,)
    assert weak.info["success_probability"].mean() < strong.info["success_probability"].mean()


def test_broken_qubits_and_couplers_are_avoided() -> None:
    A = qubos("chimera", 8, 40)
    whole = DWaveSolver.mock("pegasus", 4, seed=0)(A)
    rng = random.Random(0)
    chip = Chip.ideal("pegasus", 4).graph
    qubits, couplers = rng.sample(sorted(chip), 10), rng.sample(sorted(chip.edges), 10)
    # The mock raises on a qubit or coupler that it does not have.
    part = DWaveSolver.mock("pegasus", 4, seed=0, broken_qubits=qubits, broken_couplers=couplers)(A)
    assert part.info["tiles"] < whole.info["tiles"]
    torch.testing.assert_close(part.energies, exact(A), rtol=0, atol=1e-5)


def test_the_contract_of_solvers_is_kept() -> None:
    check_solver(DWaveSolver.mock("pegasus", 3, sweeps=5, reads=10, seed=0), max_bits=5)
