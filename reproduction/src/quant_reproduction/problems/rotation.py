"""Rotations: find the rotation between two matched 3D clouds as Euler angles.

R = R_z(α) R_y(β) R_x(γ), and the input is the covariance H = Σ x yᵀ with x = R y. Wrong matches
blur H, and networks that see only H perform like Procrustes. But Σ x xᵀ and Σ y yᵀ do not change,
and their principal axes determine R as well: the *joint* covariance contains all three.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from quant_reproduction.datasets import clouds_alike
from quant_reproduction.datasets.files import cached_data
from quant_reproduction.datasets.modelnet import load_modelnet
from quant_reproduction.problems import check_range, split_by_class
from quant_reproduction.problems import clouds as spatial
from quant_reproduction.problems.clouds import STAGES, AngleBins, CloudProblem, Encoding, Stage, euler_matrix
from qubolearn.data.contract import Instances, SoftTargets, Split
from qubolearn.errors import QubolearnError, convert
from qubolearn.random import stream

Covariance = Literal["cross", "joint"]

VALIDATION_SHAPES = 60
CHUNK = 2048  # instances per chunk


class MatchedClouds(NamedTuple):
    """Clouds whose points i are matched, correctly or not."""

    template: Tensor  # [batch, points, 3], centered, mean squared radius 1
    reference: Tensor  # [batch, points, 3]
    angles: Tensor  # [batch, 3], α, β, γ in radians


@dataclass(frozen=True)
class Rotation(CloudProblem):
    """Find the rotation between two matched clouds, as binned Euler angles.

    p is vec of the covariance of reference x and template y, of norm 1. Splits have different shapes
    without copies, drawn evenly over the classes. In stage beta α is 0, in stage gamma also β.
    """

    name: ClassVar[str] = "rotation"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {**spatial.PAPER, "instances": 300_000},
        "best": {"covariance": "joint", "train_noise": 0.2, "leftover": True, "draws": 100}
        | {**spatial.BEST, "epochs": 40, "learning_rate": 4e-3},
    }

    stage: Stage = "all"
    """The angle that the bits encode: alpha, beta or gamma, one network each, or all of them."""
    angle_bits: int = 5
    """Bits of each angle."""
    alpha_degrees: float = 20.0
    """The first angle is between minus and plus this."""
    beta_degrees: float = 10.0
    """The second angle is between minus and plus this."""
    gamma_degrees: float = 20.0
    """The third angle is between minus and plus this."""
    covariance: Covariance = "cross"
    """cross: Σ x yᵀ, 9 numbers (paper); joint: Σ z zᵀ with z = (x, y), 36 numbers, robust to wrong matches."""
    encoding: Encoding = "binary"
    """Numbering of bins: binary, or gray, where neighboring bins differ in one bit."""
    soft_width: float = 0.5
    """Neighboring bins count as nearly correct, with a Gaussian of this many bins; 0 for the correct bin only."""
    leftover: bool = False
    """In stages beta and gamma, earlier angles are not 0 but the rounding error of a bin."""
    noise: float = 0.0
    """Share of wrong matches in validation and test."""
    train_noise: float = 0.0
    """The same in training, where each instance has a share between 0 and this."""
    same_noise: bool = False
    """Every training instance has the full share (paper)."""
    turned: bool = False
    """Rotate the template too, by angles of the same ranges (paper)."""
    train_shapes: int = 300
    """Shapes to train on."""
    test_shapes: int = 30
    """Shapes to test on."""
    draws: int = 1000
    """Sets of wrong matches per shape, if there is noise. Angles are always new."""
    split_seed: int = 1
    """Number of the random split of the shapes, from 1."""

    def __post_init__(self) -> None:
        convert(self.stage, Stage, "stage")
        convert(self.covariance, Covariance, "covariance")
        for stage in STAGES:
            _ = self.bins(stage)  # raises for an invalid range
        check_range(self, 0, 1, "noise", "train_noise")
        check_range(self, 1, math.inf, "train_shapes", "test_shapes", "draws", "split_seed")
        check_range(self, 0, sys.float_info.max, "soft_width")

    @property
    def input_size(self) -> int:
        return 9 if self.covariance == "cross" else 36

    @property
    def bits(self) -> int:
        return self.angle_bits * len(self._stages)

    def bins(self, stage: Stage) -> AngleBins:
        """Return the bins of one angle."""
        limit = math.radians(getattr(self, f"{stage}_degrees"))
        return AngleBins(-limit, limit, self.angle_bits, self.encoding)

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        device = generator.device
        cross, own = _covariances(self._drawn(split), split, device)
        rows = torch.randint(len(cross), (count,), generator=generator, device=device)
        angles = self._angles(count, generator)
        R = euler_matrix(angles)
        C, Cyy = cross[rows], own[rows * len(own) // len(cross)]
        if self.turned:
            Q = self._pose(count, generator)
            C, Cyy = Q @ C @ Q.mT, Q @ Cyy @ Q.mT
        Cxy = R @ C
        p = self._encode(R @ Cyy @ R.mT, Cxy, Cyy)
        columns = [STAGES.index(stage) for stage in self._stages]
        x_true = [self.bins(STAGES[column]).encode(angles[:, column]) for column in columns]
        return Instances(p, torch.cat(x_true, 1), angles if self.stage == "all" else angles[:, columns[0]])

    def clouds(self, count: int, generator: Generator, split: Split = "test") -> MatchedClouds:
        """Draw clouds on the CPU, for methods that use the points."""
        points = _shapes(self, split)
        template = points[torch.randint(len(points), (count,), generator=generator)]
        angles = self._angles(count, generator)
        if self.turned:
            template = template @ self._pose(count, generator).mT
        reference = _mismatched(template, self._shares(count, split, generator), generator)
        return MatchedClouds(template, reference @ euler_matrix(angles).mT, angles)

    def describe(self, template: Tensor, reference: Tensor) -> Tensor:
        """Return p ``[batch, input_size]`` of matched clouds ``[batch, points, 3]``."""
        spatial.check_clouds(template, reference, 3)
        if template.shape[1] != reference.shape[1]:
            sizes = f"{template.shape[1]} and {reference.shape[1]}"
            raise QubolearnError(f"expected matched clouds, got {sizes} points")
        y, x = (cloud.double() - cloud.double().mean(1, keepdim=True) for cloud in (template, reference))
        Cxx, Cxy, Cyy = x.mT @ x, x.mT @ y, y.mT @ y
        xx, xy, yy = map(torch.linalg.matrix_norm, (Cxx, Cxy, Cyy))
        if not bool((xy**2 > 1e-12 * xx * yy).all()):
            raise QubolearnError("the covariance of two clouds is 0, so no rotation is defined; drop them")
        return self._encode(Cxx, Cxy, Cyy).float()

    def decode(self, x: Tensor) -> Tensor:
        if x.ndim != 2 or x.shape[1] != self.bits:
            raise QubolearnError(f"expected x [batch, {self.bits}] of {self.stage}, got {list(x.shape)}")
        parts = torch.split(x, self.angle_bits, 1)
        angles = [self.bins(stage).decode(part) for stage, part in zip(self._stages, parts, strict=True)]
        return torch.stack(angles, 1) if self.stage == "all" else angles[0]

    def degrees(self, answer: Tensor, answer_true: Tensor) -> Tensor:
        """Return degrees between rotations ``[batch, 3]``, or angles ``[batch]``."""
        if self.stage == "all":
            return spatial.geodesic_so3(euler_matrix(answer), euler_matrix(answer_true))
        return super().degrees(answer, answer_true)

    def soft_targets(self, instances: Instances) -> SoftTargets | None:
        """Return the neighboring bins, or every combination of them."""
        if not self.soft_width:
            return None
        x_true = instances.x_true
        batch = len(x_true)
        states, weights = x_true.new_zeros(batch, 1, 0), x_true.new_ones(batch, 1)
        for stage, part in zip(self._stages, torch.split(x_true, self.angle_bits, 1), strict=True):
            more, factor = self.bins(stage).soft_targets(part, self.soft_width)
            old, new = states.shape[1], more.shape[1]
            states = torch.cat([states.repeat_interleave(new, 1), more.repeat(1, old, 1)], 2)
            weights = weights.repeat_interleave(new, 1) * factor.repeat(1, old)
        return SoftTargets(states, weights)

    def _encode(self, Cxx: Tensor, Cxy: Tensor, Cyy: Tensor) -> Tensor:
        """Return p, of norm 1, for blocks of the covariance ``[batch, 3, 3]``."""
        C = Cxy if self.covariance == "cross" else spatial.joint_covariance(Cxx, Cxy, Cyy)
        return torch.nn.functional.normalize(C.flatten(1), dim=1)

    @property
    def _stages(self) -> tuple[Stage, ...]:
        return STAGES if self.stage == "all" else (self.stage,)

    def _angles(self, count: int, generator: Generator) -> Tensor:
        """Draw α, β, γ ``[count, 3]``; earlier stages are 0, or a rounding error."""
        limits = [self.bins(stage).high for stage in STAGES]
        for i in range(STAGES.index(self._stages[0])):
            limits[i] = self.bins(STAGES[i]).width / 2 if self.leftover else 0.0
        unit = torch.rand(count, 3, generator=generator, device=generator.device)
        return (2 * unit - 1) * torch.tensor(limits, device=unit.device)

    def _pose(self, count: int, generator: Generator) -> Tensor:
        """Draw rotations of templates ``[count, 3, 3]``."""
        return euler_matrix(replace(self, stage="all")._angles(count, generator))

    def _drawn(self, split: Split) -> Rotation:
        """Return the options of shapes and matches, as a key."""
        names = ["draws", "split_seed", "train_shapes", "test_shapes"]
        names += ["train_noise", "same_noise"] if split == "train" else ["noise"]
        return Rotation(**{name: getattr(self, name) for name in names})

    def _shares(self, count: int, split: Split, generator: Generator) -> Tensor:
        if split == "train" and not self.same_noise:
            return self.train_noise * torch.rand(count, generator=generator)
        return torch.full((count,), self.train_noise if split == "train" else self.noise)


@cached_data(8)
def _shapes(problem: Rotation, split: Split) -> Tensor:
    """Return clouds ``[shapes, points, 3]``, centered, of mean squared radius 1."""
    models, alike = load_modelnet(), _alike()
    sizes = {"test": problem.test_shapes, "validation": VALIDATION_SHAPES, "train": problem.train_shapes}
    pools = {name: (models.is_test == (name == "test")).nonzero()[0].tolist() for name in sizes}
    chosen = split_by_class(models.classes, sizes, "rotation", problem.split_seed, alike, pools)[split]
    points = torch.from_numpy(models.points[chosen]).double()
    points = points - points.mean(1, keepdim=True)
    radius = points.square().sum(2).mean(1).sqrt()
    if not bool((radius > 0).all()):
        raise QubolearnError("all points of a shape of ModelNet are equal; download the dataset again")
    return (points / radius[:, None, None]).float()


@cached_data(2)
def _alike() -> np.ndarray[Any, Any]:
    return clouds_alike(load_modelnet().points)


@cached_data(128)  # 10 MB at most each: many splits and stages train at once
def _covariances(problem: Rotation, split: Split, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return Σ y_π(i) y_iᵀ ``[shapes · draws, 3, 3]`` with matches π, and Σ y_i y_iᵀ ``[shapes, 3, 3]``."""
    points = _shapes(problem, split).to(device)
    own = points.mT @ points
    if not (problem.train_noise if split == "train" else problem.noise):
        return own, own
    parts = []
    generator = stream(0, "rotation", split)
    for rows in torch.split(torch.arange(len(points) * problem.draws, device=device), CHUNK):
        template = points[rows // problem.draws]
        shares = problem._shares(len(rows), split, generator)
        parts.append(_mismatched(template, shares, generator).mT @ template)
    return torch.cat(parts), own


def _mismatched(points: Tensor, shares: Tensor, generator: Generator) -> Tensor:
    """Permute a share of points ``[batch, n, 3]`` in a random cycle; shares and draws are the CPU's."""
    batch, n, _ = points.shape
    wrong = (shares * n).round().long()[:, None].to(points.device)
    most = int(wrong.max()) if batch else 0
    if most < 2:  # a single point cannot be permuted
        return points
    drawn = torch.rand(batch, n, generator=generator).to(points.device)
    chosen = drawn.topk(most).indices  # in random order
    place = torch.arange(most, device=points.device).expand(batch, -1)
    following = torch.where(place + 1 < wrong, place + 1, 0)
    source = torch.where(place < wrong, chosen.gather(1, following), chosen)
    order = torch.arange(n, device=points.device).repeat(batch, 1).scatter(1, chosen, source)
    return points.gather(1, order[..., None].expand(-1, -1, 3))
