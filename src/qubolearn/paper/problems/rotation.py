"""Rotations: the turn between two 3D point clouds with matches, as Euler angles, one network per angle or one for all.

R = R_z(α) R_y(β) R_x(γ), and the clouds are known by their covariance H = Σ x yᵀ, with x = R y.

Wrong matches blur H, and networks that see H alone end up where Procrustes does. But Σ x xᵀ and Σ y yᵀ stay as they
are, and the turn between the principal axes of these says R as well: the *joint* covariance holds all three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Generator, Tensor

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.paper.datasets.alike import clouds_alike
from qubolearn.paper.datasets.modelnet import load_modelnet
from qubolearn.paper.problems.angles import PAPER_CLOUDS, AngleBins, Encoding, best_clouds, geodesic_so2, geodesic_so3
from qubolearn.paper.problems.moments import check_clouds
from qubolearn.paper.problems.splits import split_by_class
from qubolearn.paper.problems.stages import (
    STAGES,
    Stage,
    advance,
    cross_covariance,
    euler_matrix,
    joint_covariance,
    solve_stages,
)
from qubolearn.problems.contract import Instances, Problem, SoftTargets, Split
from qubolearn.problems.data import cached_data, data_folder
from qubolearn.randomness import stream

__all__ = [
    "STAGES",
    "Covariance",
    "MatchedClouds",
    "Rotation",
    "Stage",
    "advance",
    "cross_covariance",
    "euler_matrix",
    "solve_stages",
]

Covariance = Literal["cross", "joint"]

VALIDATION_SHAPES = 60
CHUNK = 2048  # instances whose clouds are held at once


class MatchedClouds(NamedTuple):
    """Clouds with matches: point i of the template goes with point i of the reference, rightly or wrongly."""

    template: Tensor  # [batch, points, 3], centred, mean squared radius 1
    reference: Tensor  # [batch, points, 3]
    angles: Tensor  # [batch, 3], α, β, γ in radians


@dataclass(frozen=True)
class Rotation(Problem):
    """Find the rotation between two matched clouds of ModelNet10, as binned Euler angles.

    p is vec of the covariance of reference x and template y, divided by its norm. Shapes of training, validation
    and test are different ones and no copies of each other (:mod:`qubolearn.paper.datasets.alike`), drawn evenly over
    the classes, test shapes from ModelNet's own test set. In stage beta α is 0, and in stage gamma α and β are, as if
    earlier stages had undone them.
    """

    name: ClassVar[str] = "rotation"
    metric: ClassVar[str] = "degrees"
    higher_is_better: ClassVar[bool] = False

    stage: Stage = "all"
    """Which angle the bits say: alpha, beta or gamma, one network each, or all of them."""
    angle_bits: int = 5
    """Bits of each angle."""
    alpha_degrees: float = 20.0
    """The first angle is between minus and plus this."""
    beta_degrees: float = 10.0
    """The second angle is between minus and plus this."""
    gamma_degrees: float = 20.0
    """The third angle is between minus and plus this."""
    covariance: Covariance = "cross"
    """cross: Σ x yᵀ, 9 numbers (paper); joint: Σ z zᵀ with z = (x, y), 36 numbers, which withstands wrong matches."""
    encoding: Encoding = "binary"
    """How bins are numbered: binary, or gray, where neighbouring bins differ in one bit."""
    soft_width: float = 0.5
    """Neighbouring bins count as nearly right, with a Gaussian of this many bins; 0 for the right bin alone."""
    leftover: bool = False
    """In stages beta and gamma, earlier angles are not 0 but what a bin leaves over."""
    noise: float = 0.0
    """The share of wrong matches in validation and test: so many points take each other's."""
    train_noise: float = 0.0
    """The same in training, where each instance has a share between 0 and this."""
    same_noise: bool = False
    """Every training instance has the whole share (paper)."""
    turned: bool = False
    """Turn the template too, by angles of the same ranges: random pairs of turned shapes (paper), not upright ones."""
    train_shapes: int = 300
    """Shapes to train on."""
    test_shapes: int = 30
    """Shapes to test on."""
    draws: int = 1000
    """Sets of wrong matches that are drawn for each shape, where there is noise. Angles are always new."""
    split_seed: int = 1
    """Which random split of the shapes: 1, 2, ...; 0 is that of older results, with copies on both sides."""

    def __post_init__(self) -> None:
        if self.stage not in get_args(Stage):
            raise unknown_name("stage", self.stage, get_args(Stage))
        if self.covariance not in get_args(Covariance):
            raise unknown_name("covariance", self.covariance, get_args(Covariance))
        for stage in STAGES:
            _ = self.bins(stage)  # raises where bits and range make no sense
        for name in ("noise", "train_noise"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise QubolearnError(f"{name}={share}; want a share of the points between 0 and 1")
        for name in ("train_shapes", "test_shapes", "draws"):
            if getattr(self, name) < 1:
                raise QubolearnError(f"{name}={getattr(self, name)}; want at least 1")
        if self.split_seed < 0:
            raise QubolearnError(f"split_seed={self.split_seed}; want the number of a split, at least 0")
        if not 0 <= self.soft_width < math.inf:
            raise QubolearnError(f"soft_width={self.soft_width}; want 0 or more bins")

    @property
    def input_size(self) -> int:
        return 9 if self.covariance == "cross" else 36

    @property
    def bits(self) -> int:
        return self.angle_bits * len(self._stages)

    def bins(self, stage: Stage) -> AngleBins:
        """The bins of one angle."""
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
        """New clouds of the same kind on the CPU, for pictures and for methods that want the points themselves."""
        points = _shapes(self, split)
        template = points[torch.randint(len(points), (count,), generator=generator)]
        angles = self._angles(count, generator)
        if self.turned:
            template = template @ self._pose(count, generator).mT
        reference = _mismatched(template, self._shares(count, split, generator), generator)
        return MatchedClouds(template, reference @ euler_matrix(angles).mT, angles)

    def describe(self, template: Tensor, reference: Tensor) -> Tensor:
        """p of any matched clouds ``[batch, points, 3]`` -> ``[batch, input_size]``; both are centred first.

        Raises where no rotation can be seen: H = 0, as with all points of a cloud equal. Points on one line leave
        the turn about that line open; any is as good, and which one comes out is not said.
        """
        check_clouds(template, reference, 3)
        if template.shape[1] != reference.shape[1]:
            raise QubolearnError(
                f"a template of {template.shape[1]} points for a reference of {reference.shape[1]}; "
                "rotation wants matches, so as many points in both; pointset does without"
            )
        y, x = (cloud.double() - cloud.double().mean(1, keepdim=True) for cloud in (template, reference))
        Cxx, Cxy, Cyy = x.mT @ x, x.mT @ y, y.mT @ y
        seen = _norm(Cxy) ** 2 > 1e-12 * _norm(Cxx) * _norm(Cyy)
        if not bool(seen.all()):
            raise QubolearnError("the covariance of two clouds is 0, as with all points equal: no rotation can be seen")
        return self._encode(Cxx, Cxy, Cyy).float()

    def decode(self, x: Tensor) -> Tensor:
        if x.ndim != 2 or x.shape[1] != self.bits:
            raise QubolearnError(f"stage {self.stage} wants x of shape [batch, {self.bits}], got {list(x.shape)}")
        parts = torch.split(x, self.angle_bits, 1)
        angles = [self.bins(stage).decode(part) for stage, part in zip(self._stages, parts, strict=True)]
        return torch.stack(angles, 1) if self.stage == "all" else angles[0]

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        """Degrees between rotations; of a single stage, degrees between angles."""
        return {"degrees": self.degrees(answer, instances.answer)}

    def degrees(self, answer: Tensor, answer_true: Tensor) -> Tensor:
        """Degrees between rotations ``[batch, 3]``, or between the angles ``[batch]`` of one stage."""
        if self.stage == "all":
            return geodesic_so3(euler_matrix(answer), euler_matrix(answer_true))
        return geodesic_so2(answer, answer_true)

    @classmethod
    def preset(cls, name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        if name == "paper":
            return {**PAPER_CLOUDS, "instances": 300_000}
        inputs = {"covariance": "joint", "train_noise": 0.2, "leftover": True, "draws": 100}
        return {**inputs, **best_clouds(options), "epochs": 40, "learning_rate": 4e-3}

    def soft_targets(self, instances: Instances) -> SoftTargets | None:
        """The neighbouring bins; for all three angles at once, every combination of them."""
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
        """Blocks of the covariance ``[batch, 3, 3]`` -> p, of norm 1."""
        C = Cxy if self.covariance == "cross" else joint_covariance(Cxx, Cxy, Cyy)
        return torch.nn.functional.normalize(C.flatten(1), dim=1)

    @property
    def _stages(self) -> tuple[Stage, ...]:
        return STAGES if self.stage == "all" else (self.stage,)

    def _angles(self, count: int, generator: Generator) -> Tensor:
        """α, β, γ ``[count, 3]``, uniform; those of earlier stages are 0, or what a bin of them leaves over."""
        limits = torch.tensor([self.bins(stage).high for stage in STAGES])
        for i in range(STAGES.index(self._stages[0])):
            limits[i] = self.bins(STAGES[i]).width / 2 if self.leftover else 0.0
        unit = torch.rand(count, 3, generator=generator, device=generator.device)
        return (2 * unit - 1) * limits.to(unit.device)

    def _pose(self, count: int, generator: Generator) -> Tensor:
        """How templates are turned ``[count, 3, 3]``: by all three angles, whatever the stage."""
        limits = torch.tensor([self.bins(stage).high for stage in STAGES], device=generator.device)
        return euler_matrix((2 * torch.rand(count, 3, generator=generator, device=generator.device) - 1) * limits)

    def _drawn(self, split: Split) -> Rotation:
        """What decides the shapes and matches of a split alone: problems that have it in common draw these once."""
        names = ["draws", "split_seed", "train_shapes", "test_shapes"]
        names += ["train_noise", "same_noise"] if split == "train" else ["noise"]
        return Rotation(**{name: getattr(self, name) for name in names})

    def _shares(self, count: int, split: Split, generator: Generator) -> Tensor:
        """The share of wrong matches of each instance ``[count]``."""
        if split == "train" and not self.same_noise:
            return self.train_noise * torch.rand(count, generator=generator)
        return torch.full((count,), self.train_noise if split == "train" else self.noise)


def _norm(C: Tensor) -> Tensor:
    return C.square().sum((1, 2)).sqrt()


@cached_data(8)
def _shapes(problem: Rotation, split: Split) -> Tensor:
    """Clouds of a split ``[shapes, points, 3]``, centred and of mean squared radius 1."""
    models = load_modelnet()
    number = problem.split_seed
    pools = {
        name: (models.is_test == (name == "test")).nonzero()[0].tolist() for name in ("test", "validation", "train")
    }
    sizes = {"test": problem.test_shapes, "validation": VALIDATION_SHAPES, "train": problem.train_shapes}
    if number:
        alike = _alike(data_folder("modelnet10"))
        chosen = split_by_class(models.classes, sizes, "rotation", number, alike, pools)[split]
    else:
        wanted = {name: size for name, size in sizes.items() if (name == "test") == (split == "test")}
        pool = pools[split]
        chosen = [pool[i] for i in split_by_class([models.classes[i] for i in pool], wanted, "rotation")[split]]
    points = torch.from_numpy(models.points[chosen]).double()
    points = points - points.mean(1, keepdim=True)
    radius = points.square().sum(2).mean(1).sqrt()
    if not bool((radius > 0).all()):
        raise QubolearnError("a shape of ModelNet has all its points in one place; fetch the dataset anew")
    return (points / radius[:, None, None]).float()


@cached_data(2)
def _alike(folder: Path) -> np.ndarray[Any, Any]:
    """Which meshes are copies of each other."""
    return clouds_alike(load_modelnet().points)


@cached_data(128)  # of 10 MB at most: many splits and stages train at once
def _covariances(problem: Rotation, split: Split, device: torch.device) -> tuple[Tensor, Tensor]:
    """Before any turn, with matches π: Σ y_π(i) y_iᵀ ``[shapes · draws, 3, 3]`` and Σ y_i y_iᵀ ``[shapes, 3, 3]``."""
    if device.type != "cpu":
        cross, own = _covariances(problem, split, torch.device("cpu"))
        return cross.to(device), own.to(device)
    points = _shapes(problem, split)
    own = points.mT @ points
    if not (problem.train_noise if split == "train" else problem.noise):
        return own, own
    parts = []
    generator = stream(0, "rotation", split)
    for rows in torch.split(torch.arange(len(points) * problem.draws), CHUNK):
        template = points[rows // problem.draws]
        shares = problem._shares(len(rows), split, generator)
        parts.append(_mismatched(template, shares, generator).mT @ template)
    return torch.cat(parts), own


def _mismatched(points: Tensor, shares: Tensor, generator: Generator) -> Tensor:
    """Each cloud ``[batch, n, 3]`` with a share of its points moved round in a random cycle, all others in place."""
    batch, n, _ = points.shape
    wrong = (shares * n).round().long()[:, None]
    most = int(wrong.max()) if batch else 0
    if most < 2:  # a single point has none to change with
        return points
    chosen = torch.rand(batch, n, generator=generator).topk(most).indices  # in random order
    place = torch.arange(most).expand(batch, -1)
    following = torch.where(place + 1 < wrong, place + 1, 0)
    source = torch.where(place < wrong, chosen.gather(1, following), chosen)
    order = torch.arange(n).repeat(batch, 1).scatter(1, chosen, source)
    return points.gather(1, order[..., None].expand(-1, -1, 3))
