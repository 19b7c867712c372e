import itertools

import pytest
import torch

from qubolearn.chips.programming import Embedding
from qubolearn.errors import QubolearnError

SQUARE = [(0, 1), (1, 2), (2, 3), (3, 0)]
TRIANGLE = {0: [0], 1: [1], 2: [2, 3]}  # on the square


def ising_energy(J, h, s):
    return float(s @ J @ s + h @ s)


def test_intact_chains_have_the_logical_energy_up_to_a_constant():
    generator = torch.Generator().manual_seed(0)
    J = torch.randn(1, 3, 3, generator=generator, dtype=torch.float64).triu(1)
    h = torch.randn(1, 3, generator=generator, dtype=torch.float64)
    physical_J, physical_h = Embedding.of(TRIANGLE, SQUARE).embed(J, h, 1.5)
    assert (physical_J.tril() == 0).all()
    differences = []
    for a, b, c in itertools.product([-1.0, 1.0], repeat=3):
        logical = ising_energy(J[0], h[0], torch.tensor([a, b, c], dtype=torch.float64))
        physical = ising_energy(physical_J[0], physical_h[0], torch.tensor([a, b, c, c], dtype=torch.float64))
        differences.append(logical - physical)
    assert max(differences) - min(differences) < 1e-12


def test_couplings_are_shared_by_all_couplers_and_biases_by_the_chain():
    embedding = Embedding.of({0: [10, 11], 1: [20]}, [(10, 11), (10, 20), (20, 11), (10, 99)])
    J = torch.tensor([[[0.0, 3.0], [0.0, 0.0]]])
    physical_J, physical_h = embedding.embed(J, torch.tensor([[4.0, 1.0]]), 2.0)
    assert physical_h.tolist() == [[2.0, 2.0, 1.0]]
    # chains have 2 · rms 3 · √degree 1
    assert physical_J.tolist() == [[[0.0, -6.0, 1.5], [0.0, 0.0, 1.5], [0.0, 0.0, 0.0]]]


def test_chain_strength_is_that_of_dwave():
    dimod = pytest.importorskip("dimod")
    strengths = pytest.importorskip("dwave.embedding.chain_strength")
    J = torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64).triu(1)
    physical_J, _ = Embedding.of(TRIANGLE, SQUARE).embed(J, torch.zeros(1, 3, dtype=torch.float64), 1.414)
    pairs = {(i, j): float(J[0, i, j]) for i, j in itertools.combinations(range(3), 2)}
    bqm = dimod.BinaryQuadraticModel.from_ising({}, pairs)
    expected = strengths.uniform_torque_compensation(bqm, prefactor=1.414)
    assert -float(physical_J[0, 2, 3]) == pytest.approx(expected)


def test_without_couplings_the_biases_set_the_chain_strength():
    h = torch.tensor([[1.0, -2.0, 0.5]])
    physical_J, _ = Embedding.of(TRIANGLE, SQUARE).embed(torch.zeros(1, 3, 3), h, 1.4)
    assert physical_J[0, 2, 3] == -2.0


def test_majority_and_broken_by_hand():
    embedding = Embedding.of({0: [0, 1, 2], 1: [3, 4], 2: [5]}, [(0, 1), (1, 2), (3, 4), (2, 3), (4, 5)])
    bits = torch.tensor([[1, 1, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0], [1, 0, 0, 1, 0, 1]])
    assert embedding.majority(bits).tolist() == [[1, 0, 1], [0, 1, 0], [0, 1, 1]]
    assert embedding.broken(bits).tolist() == pytest.approx([2 / 3, 0, 2 / 3])


@pytest.mark.parametrize(
    ("chains", "edges", "message"),
    [
        ({0: [0], 2: [1]}, [(0, 1)], "0 ... n-1"),
        ({0: [0], 1: [0]}, [], "in two chains"),
        ({0: [0, 2], 1: [1]}, [(0, 1), (1, 2)], "not connected"),
    ],
)
def test_bad_embeddings(chains, edges, message):
    with pytest.raises(QubolearnError, match=message):
        Embedding.of(chains, edges)


def test_a_coupling_without_coupler():
    J = torch.ones(1, 3, 3).triu(1)
    with pytest.raises(QubolearnError, match=r"\[0, 2\]"):
        Embedding.of({0: [0], 1: [1], 2: [2]}, [(0, 1), (1, 2)]).embed(J, torch.zeros(1, 3), 1.0)
