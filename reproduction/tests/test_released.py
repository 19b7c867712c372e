"""Protocol (r) against the facts that were computed from the released code, naive loops, and single networks."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from quant_reproduction import released
from quant_reproduction.datasets.files import data_folder
from quant_reproduction.released import Data, Net, Stack
from qubolearn.errors import QubolearnError

CPU = torch.device("cpu")


def needs(name: str) -> None:
    try:
        data_folder(name)
    except QubolearnError as error:
        pytest.skip(str(error))


def outline() -> torch.Tensor:
    t = torch.linspace(0, 2 * torch.pi, 101, dtype=torch.float64)[:-1]
    points = torch.stack([t.cos() + 0.3 * (2 * t).cos(), 0.5 * t.sin()], 1)
    return (points - points.mean(0)) / points.std(0, correction=0)


@pytest.mark.parametrize("neighbors", [1, 3, 10])
def test_pairs_are_those_of_the_released_code_and_p_is_the_matrix_of_stacked_products(neighbors: int) -> None:
    """x = P_i is paired with H_j where P_j is near to H_i, so that y is turned twice."""
    P, angle = outline(), 0.4
    c, s = math.cos(angle), math.sin(angle)
    H = P.numpy() @ np.array([[c, -s], [s, c]]).T
    M, rows = np.array([[0.0, -1.0], [1.0, 0.0]]), []
    for i in range(len(P)):
        for j in np.argsort(((P.numpy() - H[i]) ** 2).sum(1))[:neighbors]:
            blocks = [np.eye(2), M, -np.eye(2), -M]
            basis = [w * block for block in blocks for w in (0.5, 0.2, 0.1, 0.1, 0.05)]
            rows.append(np.stack([P[i].numpy(), *(-Q @ H[j] for Q in basis)]))
    wanted = sum(phi @ phi.T for phi in rows)
    numbers = released.planar_numbers(P, torch.tensor([angle], dtype=torch.float64), neighbors)
    found = (numbers.float() @ released.planar_expansion()).reshape(21, 21)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-2)
    assert numbers[0, 0].item() == pytest.approx(2 * len(P) * neighbors)


def test_the_input_of_point_sets_holds_twice_the_angle() -> None:
    needs("shapes2d")
    for degrees, twice in ((10, 17), (30, 54), (60, 122)):
        angle, found = torch.tensor([math.radians(degrees)]), []
        for P in released.planar_shapes()[:480:40]:
            _, _, c, d = released.planar_numbers(P.float(), angle, 10)[0].tolist()
            found.append(math.degrees(math.atan2(-d, c)))
        assert np.mean(found) == pytest.approx(twice, abs=6)


def test_angles_labels_and_scores_of_rotations_have_the_released_distribution() -> None:
    needs("modelnet10")
    angles = torch.rad2deg(released.spatial_angles(20_000, torch.Generator().manual_seed(0)))
    assert angles.mean(0).tolist() == pytest.approx([5, 0, 5], abs=0.1)
    assert angles.std(0).tolist() == pytest.approx([2, 0.8, 2], abs=0.1)
    labels = released.spatial_labels(torch.deg2rad(angles))
    assert bool((labels[:, [0, 2]] >= 16).all())  # the first bit of α and γ
    found = released.levels(0, few=30)
    assert found["constant, exhaustive"]["degrees"] == pytest.approx(2.2, abs=0.2)
    assert found["constant, exhaustive"]["degrees_median"] == 2
    assert found["random, exhaustive"]["degrees"] == pytest.approx(3.3, abs=0.3)
    assert found["procrustes, exhaustive"]["degrees"] < 1
    assert found["procrustes, noise 20%"]["degrees"] > 60  # the shuffle displaces nearly all points
    assert found["random, 2d"]["degrees"] == pytest.approx(12.5, abs=1.5)  # wrapped at 30


def test_the_shuffle_moves_a_share_to_the_front_and_keeps_the_order_of_the_others() -> None:
    order = released.shuffled(50, 0.2, 3, torch.Generator().manual_seed(1))
    assert torch.equal(order.sort(1).values, torch.arange(50).expand(3, 50))
    assert bool((order[:, 10:].diff() > 0).all())
    assert torch.equal(released.shuffled(50, 0.01, 2, torch.Generator()), torch.arange(50).expand(2, 50))


@pytest.mark.parametrize("pairs", [True, False])
def test_the_loss_is_the_double_sum(pairs: bool) -> None:
    stack = Stack("2d", "quant", 5, 32, [Net(0, 3, 0, pairs)], CPU)
    p, label = torch.randn(1, 4, 441), torch.tensor([[3, 500, 7, 100]])
    z, hidden = stack.outputs(p)
    A = stack.couplings(z)[0].reshape(4, 9, 9).detach().numpy()
    np.testing.assert_allclose(
        A, np.sin((z[0].reshape(4, 9, 9) + z[0].reshape(4, 9, 9).mT).detach().numpy()), atol=1e-6
    )
    states = stack.states.numpy()
    energy = np.einsum("si,bij,sj->bs", states, A, states)
    true, (best, second) = energy[np.arange(4), label[0]], np.sort(energy, 1)[:, :2].T
    apart = lambda other: np.mean([abs(t - o) for t in true for o in other] if pairs else abs(true - other))  # noqa: E731
    mlp = sum(float(each.detach().abs().mean()) for each in hidden) + float(torch.relu(z.detach()).mean())
    wanted = apart(best) - 1e-3 * apart(second) + 1e-3 * mlp
    assert stack.loss(p, label).item() == pytest.approx(wanted, rel=1e-4)


def test_a_stack_trains_each_network_as_if_alone_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(released, "CHECKPOINT", 0.0)
    nets = [Net(seed, 0, stage, True) for seed in (0, 1) for stage in (0, 1)]
    inputs, labels = torch.randn(4, 320, 9), torch.randint(32, (4, 320))
    whole = Stack("3d", "quant", 5, 32, nets, CPU)
    released.trained(whole, inputs, labels, tmp_path / "whole", epochs=2)
    for index in (0, 3):
        alone = Stack("3d", "quant", 5, 32, [nets[index]], CPU)
        released.trained(alone, inputs[[index]], labels[[index]], tmp_path / f"{index}", epochs=1)
        again = Stack("3d", "quant", 5, 32, [nets[index]], CPU)  # which resumes after the other
        released.trained(again, inputs[[index]], labels[[index]], tmp_path / f"{index}", epochs=2)
        for mine, other in zip(whole.parameters, again.parameters, strict=True):
            torch.testing.assert_close(mine[index], other[0], rtol=1e-4, atol=1e-6)
            assert not torch.equal(mine[0], mine[3])


def test_scores_wrap_and_are_whole_degrees() -> None:
    data = Data(torch.zeros(2, 4), torch.tensor([0, 400]), torch.zeros(2), torch.ones(2, dtype=torch.bool))
    assert released.planar_scores(torch.tensor([255, 0]), data).tolist() == pytest.approx(
        [255 * 60 / 511, 144 * 60 / 511]
    )
    angles = torch.deg2rad(torch.tensor([[5.0, 0.0, 5.0]]))
    turned = released.euler_matrix(released.spatial_decoded(released.spatial_labels(angles) + torch.tensor([3, 0, 0])))
    rotation = Data(torch.zeros(1, 9), torch.zeros(1), angles, torch.ones(1, dtype=torch.bool))
    assert released.spatial_scores(turned, rotation).tolist() == [1.0]  # 1.875 degrees
