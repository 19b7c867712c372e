"""AQM by its settings."""

from __future__ import annotations

import torch

from quant_reproduction.baselines import aqm_angle, solve_exactly
from quant_reproduction.grid.tasks import _aqm_answers, _matched_moments
from quant_reproduction.problems.clouds import geodesic_so2, rotation_2d
from quant_reproduction.problems.pointset import CloudPairs


def pairs() -> CloudPairs:
    """Return padded ellipses with a bump, turned by 5 to 55 degrees."""
    t = torch.linspace(0, 2 * torch.pi, 61)[:-1]
    outline = torch.stack([t.cos() + 0.3 * (t < 1), 0.4 * t.sin()], 1)
    outline = outline - outline.mean(0)
    angle = torch.deg2rad(torch.linspace(5, 55, 11))
    y = torch.cat([outline, torch.zeros(5, 2)]).expand(11, 65, 2)
    counts = torch.full((11,), 60)
    return CloudPairs(y, y @ rotation_2d(angle).mT, counts, counts, angle)


def test_with_the_right_matches_one_round_finds_the_turn() -> None:
    y, x, counts, _, angle = pairs()
    found = aqm_angle(solve_exactly(_matched_moments(y, x, counts)))
    assert float(geodesic_so2(found, angle).max()) < 3  # what its basis can say


def test_neighbors_find_less_and_rounds_and_starts_more_of_it() -> None:
    known = pairs()
    error = {
        label: float(geodesic_so2(angle, known.angle).mean())
        for label, angle in _aqm_answers(known, [3], [1, 10])
    }
    assert error.keys() == {"3, 1", "3, 10", "starts, 1", "starts, 10", "own, 1"}
    assert max(error["own, 1"], error["starts, 10"]) < error["3, 1"] / 2
    assert error["3, 10"] < error["3, 1"] > error["starts, 1"]
