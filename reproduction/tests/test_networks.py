"""Symmetries of the networks."""

from __future__ import annotations

import pytest
import torch

from quant_reproduction.networks import PairMatching
from quant_reproduction.problems.willow_matching import KeypointPair


@pytest.fixture
def network() -> PairMatching:
    torch.manual_seed(0)
    return PairMatching(features=6).double().eval()


@pytest.fixture
def p() -> KeypointPair:
    generator = torch.Generator().manual_seed(1)
    draw = [torch.randn(3, 2, 5, m, generator=generator, dtype=torch.float64) for m in (6, 2)]
    return KeypointPair(*draw)


def test_renumbering_keypoints_renumbers_bits(network: PairMatching, p: KeypointPair) -> None:
    first, second = torch.tensor([3, 1, 4, 0, 2]), torch.tensor([2, 0, 1, 4, 3])
    renumbered = KeypointPair(*(torch.stack([part[:, 0, first], part[:, 1, second]], 1) for part in p))
    bits = (first[:, None] * 5 + second).flatten()
    torch.testing.assert_close(network(renumbered), network(p)[:, bits][:, :, bits])


def test_exchanging_the_images_transposes_the_matching(network: PairMatching, p: KeypointPair) -> None:
    bits = torch.arange(25).reshape(5, 5).T.flatten()
    exchanged = KeypointPair(*(part.flip(1) for part in p))
    torch.testing.assert_close(network(exchanged), network(p)[:, bits][:, :, bits])


def test_each_coupling_comes_from_its_two_edges(network: PairMatching, p: KeypointPair) -> None:
    A, g = network(p).reshape(3, 5, 5, 5, 5), network.edges(p)
    for i, a, j, b in ((0, 1, 2, 3), (4, 0, 1, 2), (3, 3, 0, 0)):
        said = (g[:, 0, i, j] * g[:, 1, a, b] + g[:, 0, j, i] * g[:, 1, b, a]).sum(1)
        torch.testing.assert_close(A[:, i, a, j, b], -0.5 * network.edge_scale * said)
    rows = A.diagonal(
        dim1=1, dim2=3
    )  # [batch, a, b, i]: couplings within a row, and linear terms where a = b
    assert (rows[:, ~torch.eye(5, dtype=torch.bool)] == 0).all()


def test_scale_and_place_do_not_matter(network: PairMatching, p: KeypointPair) -> None:
    torch.testing.assert_close(network(KeypointPair(p.features, 30 * p.points + 100)), network(p))


def test_without_couplings_a_is_diagonal(p: KeypointPair) -> None:
    A = PairMatching(features=6, couplings=False).double().eval()(p)
    assert (torch.diag_embed(A.diagonal(dim1=1, dim2=2)) == A).all()
    assert A.abs().sum() > 0


def test_keypoints_at_one_place_give_finite_numbers_and_gradients(
    network: PairMatching, p: KeypointPair
) -> None:
    A = network(KeypointPair(p.features, torch.zeros_like(p.points)))
    A.sum().backward()
    assert A.isfinite().all()
    assert all(w.grad is None or w.grad.isfinite().all() for w in network.parameters())
