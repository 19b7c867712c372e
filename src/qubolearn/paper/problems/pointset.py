"""Point sets: the rotation that aligns two planar point sets of any sizes, without correspondences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Generator, Tensor

from qubolearn.errors import QubolearnError, unknown_name
from qubolearn.paper.datasets.alike import outlines_alike, turned_misfit
from qubolearn.paper.datasets.shapes2d import Outlines, load_outlines
from qubolearn.paper.problems.angles import PAPER_CLOUDS, AngleBins, Encoding, best_clouds, geodesic_so2, rotation_2d
from qubolearn.paper.problems.moments import aqm_matrix, check_clouds, pair_features, pair_moments
from qubolearn.paper.problems.splits import split_by_class
from qubolearn.problems.contract import Instances, Problem, SoftTargets, Split
from qubolearn.problems.data import cached_data, data_folder
from qubolearn.randomness import stream

__all__ = ["CloudPairs", "Form", "PointSet"]

Form = Literal["matrix", "features"]
Shapes = Literal["all", "near-symmetric", "others"]

VALIDATION_SHAPES = 100
HELD_OUT_ROTATIONS = 100  # rotations of each validation and test shape, as in the paper
CHUNK = 8192  # instances whose clouds are held at once


class CloudPairs(NamedTuple):
    """Point sets to align; of each row only the first ``counts`` points are real, the others are 0."""

    template: Tensor  # [batch, m, 2], centred
    reference: Tensor  # [batch, n, 2], centred: the template's shape, turned
    template_counts: Tensor  # [batch] int64
    reference_counts: Tensor  # [batch] int64
    angle: Tensor  # [batch], radians, counter-clockwise from the template to the reference


@dataclass(frozen=True)
class PointSet(Problem):
    """Find the rotation between two outlines of the 2D Shape Structure dataset, as one binned angle.

    p is vec of AQM's 21 x 21 QUBO matrix of the pairs of each template point with its nearest reference points, both
    clouds centred and divided by the template's largest radius. Outlines of training, validation and test are
    different shapes and no near-copies of each other, turned or mirrored (:mod:`qubolearn.paper.datasets.alike`), drawn
    evenly over the classes. Each shape is turned by ``rotations`` random angles once; sampling draws from this set,
    which is built on first use (500,000 pairs: seconds) and kept in memory. A turn of both clouds leaves p as it is, so
    that random pairs of turned shapes are these.
    """

    name: ClassVar[str] = "pointset"
    metric: ClassVar[str] = "degrees"
    higher_is_better: ClassVar[bool] = False

    angle_bits: int = 9
    """Bits of the angle."""
    low_degrees: float = 0.0
    """The smallest angle that the bits can say."""
    high_degrees: float = 60.0
    """The largest angle that the bits can say."""
    encoding: Encoding = "binary"
    """How bins are numbered: binary, or gray, where neighbouring bins differ in one bit."""
    soft_width: float = 2.0
    """Neighbouring bins count as nearly right, with a Gaussian of this many bins; 0 for the right bin alone."""
    neighbours: int = 3
    """Reference points that each template point is paired with."""
    starts: int = 0
    """Pair the template turned to the middle of each of so many parts of the range; 0 pairs it as it is (paper)."""
    form: Form = "matrix"
    """matrix: all 441 entries (paper); features: the 4 different numbers among them, well scaled. Once per start."""
    noise: float = 0.0
    """Uniform noise on the reference of validation and test: its range as a share of the largest extent."""
    train_noise: float = 0.0
    """The same in training, where each instance has a share between 0 and this."""
    interval: str = "all"
    """Angles of validation and test in degrees, as in 10-20; all for the whole range."""
    shapes: Shapes = "all"
    """Those of validation and test: all, the quarter of them nearest to rotational symmetry, or the others."""
    template_points: int = 0
    """Points of the template, drawn at random from the outline; 0 for all."""
    reference_points: int = 0
    """Points of the reference, drawn by themselves; 0 for all."""
    train_shapes: int = 500
    """Shapes to train on."""
    test_shapes: int = 50
    """Shapes to test on."""
    rotations: int = 1000
    """Angles by which each training shape is turned."""
    split_seed: int = 1
    """Which random split of the shapes: 1, 2, ...; 0 is that of older results, by number, with copies on both sides."""

    def __post_init__(self) -> None:
        _ = self._bins, self._interval()  # raise where bits, range and interval make no sense
        if self.form not in ("matrix", "features"):
            raise unknown_name("form", self.form, ("matrix", "features"))
        if self.shapes not in get_args(Shapes):
            raise unknown_name("shapes", self.shapes, get_args(Shapes))
        if self.shapes != "all" and self.test_shapes < 4:
            raise QubolearnError(f"shapes={self.shapes} of {self.test_shapes} test shapes; want at least 4 of them")
        for name in ("noise", "train_noise"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise QubolearnError(f"{name}={share}; want a share of the extent between 0 and 1")
        least = {"neighbours": 1, "train_shapes": 1, "test_shapes": 1, "rotations": 1}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < least.get(field.name, 0):
                raise QubolearnError(f"{field.name}={value}; want at least {least.get(field.name, 0)}")
        if not 0 <= self.soft_width < math.inf:
            raise QubolearnError(f"soft_width={self.soft_width}; want 0 or more bins")

    @property
    def input_size(self) -> int:
        return max(1, self.starts) * (441 if self.form == "matrix" else 4)

    @property
    def bits(self) -> int:
        return self.angle_bits

    def sample(self, count: int, generator: Generator, split: Split = "train") -> Instances:
        numbers, angles = _pool(self, split, generator.device)
        rows = self._drawn(count, generator, split)
        return Instances(self._expand(numbers[rows]), self._bins.encode(angles[rows]), angles[rows])

    def sample_pairs(self, count: int, generator: Generator, split: Split = "train") -> CloudPairs:
        """The point sets behind the instances that :meth:`sample` draws from the same generator, in the same order."""
        rows = self._drawn(count, generator, split).cpu()
        chunks, order = (rows // CHUNK).sort(stable=True)
        parts = []
        for chunk in dict.fromkeys(chunks.tolist()):
            inside = rows[order][chunks == chunk] - chunk * CHUNK
            parts.append([tensor[inside] for tensor in _clouds(self, split, chunk * CHUNK)])
        return CloudPairs(*(torch.cat(tensors)[order.argsort()] for tensors in zip(*parts, strict=True)))

    def _drawn(self, count: int, generator: Generator, split: Split) -> Tensor:
        """Rows of a split's pool that are drawn ``[count]``; held-out ones at most once where there are enough."""
        size, device = _pool_size(self, split), generator.device
        if split == "train" or count > size:
            return torch.randint(size, (count,), generator=generator, device=device)
        return torch.randperm(size, generator=generator, device=device)[:count]

    def pairs(self, split: Split = "test", count: int | None = None) -> CloudPairs:
        """The point sets themselves, for methods that do not start from p: the first ``count`` of a split, or all.

        All of them are what :meth:`sample` draws from. Instances of one shape follow one another.
        """
        size = _pool_size(self, split)
        wanted = size if count is None else min(count, size)
        parts = [_clouds(self, split, start) for start in range(0, max(1, wanted), CHUNK)]
        return CloudPairs(*(torch.cat(tensors)[:count] for tensors in zip(*parts, strict=True)))

    def describe(self, template: Tensor, reference: Tensor) -> Tensor:
        """p of any point sets ``[batch, m, 2]`` and ``[batch, n, 2]`` -> ``[batch, input_size]``; m and n may differ.

        Both are centred first. Raises where all points of a template are equal, since no rotation can be seen then;
        points on one line are fine, as long as the range of angles is below 180 degrees.
        """
        check_clouds(template, reference, 2)
        template = template - template.mean(1, keepdim=True)
        reference = reference - reference.mean(1, keepdim=True)
        return self._expand(_pair_numbers(self, template, reference))

    def decode(self, x: Tensor) -> Tensor:
        return self._bins.decode(x)

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        return {"degrees": self.degrees(answer, instances.answer)}

    def degrees(self, answer: Tensor, answer_true: Tensor) -> Tensor:
        """Degrees between angles ``[batch]``."""
        return geodesic_so2(answer, answer_true)

    def soft_targets(self, instances: Instances) -> SoftTargets | None:
        return self._bins.soft_targets(instances.x_true, self.soft_width) if self.soft_width else None

    @classmethod
    def preset(cls, name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        if name == "paper":
            return {**PAPER_CLOUDS, "instances": 500_000}
        inputs = {"starts": 4, "form": "features", "train_noise": 0.2, "rotations": 300}
        return {**inputs, **best_clouds(options), "epochs": 100, "learning_rate": 2e-3}

    @property
    def _bins(self) -> AngleBins:
        low, high = math.radians(self.low_degrees), math.radians(self.high_degrees)
        return AngleBins(low, high, self.angle_bits, self.encoding)

    def _interval(self) -> tuple[float, float]:
        """The angles of validation and test, in radians."""
        if self.interval == "all":
            return self._bins.low, self._bins.high
        try:
            low, high = (float(number) for number in self.interval.split("-"))
        except ValueError:
            raise QubolearnError(f"interval={self.interval!r}; want two numbers as in 10-20, or all") from None
        if not self.low_degrees <= low < high <= self.high_degrees:
            raise QubolearnError(
                f"interval {self.interval} degrees is not within {self.low_degrees:g}-{self.high_degrees:g}, "
                "which is what the bits can say"
            )
        return math.radians(low), math.radians(high)

    def _starts(self) -> list[float]:
        """How far the template is turned before its neighbours are looked for, in radians."""
        span = (self._bins.high - self._bins.low) / max(1, self.starts)
        return [self._bins.low + (part + 0.5) * span for part in range(self.starts)] or [0.0]

    def _expand(self, numbers: Tensor) -> Tensor:
        """The four numbers of each start ``[batch, starts, 4]`` -> p."""
        if self.form == "features":
            return pair_features(numbers).flatten(1)
        return aqm_matrix(numbers).flatten(1)


@cached_data(128)  # of 10 MB at most: many splits and stages train at once
def _pool(problem: PointSet, split: Split, device: torch.device) -> tuple[Tensor, Tensor]:
    """All instances of a split: numbers ``[size, starts, 4]`` and angles ``[size]``."""
    parts = []
    for start in range(0, _pool_size(problem, split), CHUNK):
        clouds = CloudPairs(*(tensor.to(device) for tensor in _clouds(problem, split, start)))
        parts.append((_pair_numbers(problem, *clouds[:4]), clouds.angle))
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _pair_numbers(
    problem: PointSet,
    template: Tensor,
    reference: Tensor,
    template_counts: Tensor | None = None,
    reference_counts: Tensor | None = None,
) -> Tensor:
    """|x|², |y|², x·y, y×x of the neighbour pairs of centred clouds, for each start: ``[batch, starts, 4]``."""
    radius = torch.linalg.vector_norm(template, dim=2).amax(1)[:, None, None]
    if not bool((radius > 0).all()):
        raise QubolearnError("all points of a template are equal: no rotation can be seen; drop that point set")
    numbers = []
    for start in problem._starts():
        turned = template @ rotation_2d(torch.tensor(start)).to(template).mT
        moments = pair_moments(
            turned / radius, reference / radius, problem.neighbours, template_counts, reference_counts
        )
        numbers.append(torch.stack(moments[:4], 1))
    return torch.stack(numbers, 1)


def _pool_size(problem: PointSet, split: Split) -> int:
    return len(_shapes(problem, split)[1]) * (problem.rotations if split == "train" else HELD_OUT_ROTATIONS)


@cached_data(8)
def _shapes(problem: PointSet, split: Split) -> tuple[Tensor, Tensor]:
    """Outlines of a split ``[shapes, points, 2]``, filled up with 0, and their sizes ``[shapes]``."""
    outlines = load_outlines()
    labelled = _labelled(outlines)
    sizes = {"test": problem.test_shapes, "validation": VALIDATION_SHAPES, "train": problem.train_shapes}
    alike = _alike(data_folder("shapes2d")) if problem.split_seed else None
    chosen = split_by_class([outlines.classes[i] for i in labelled], sizes, "pointset", problem.split_seed, alike)[
        split
    ]
    kept = [outlines.points[labelled[i]] for i in chosen]
    if problem.shapes != "all" and split != "train":
        quarter = len(kept) // 4
        by_misfit = sorted(kept, key=turned_misfit)
        kept = by_misfit[:quarter] if problem.shapes == "near-symmetric" else by_misfit[quarter:]
    points = [torch.from_numpy(outline) for outline in kept]
    counts = torch.tensor([len(outline) for outline in points])
    for wanted in (problem.template_points, problem.reference_points):
        if wanted > int(counts.min()):
            raise QubolearnError(f"{wanted} points of an outline, but the smallest has {int(counts.min())}")
    return torch.nn.utils.rnn.pad_sequence(points, batch_first=True), counts


def _labelled(outlines: Outlines) -> list[int]:
    return [i for i, name in enumerate(outlines.classes) if name != "unlabelled"]  # of the others some are squares


@cached_data(2)
def _alike(folder: Path) -> np.ndarray[Any, Any]:
    """Which of the labelled outlines are copies of each other."""
    outlines = load_outlines()
    return outlines_alike([outlines.points[i] for i in _labelled(outlines)])


def _clouds(problem: PointSet, split: Split, start: int) -> CloudPairs:
    """One chunk of a split's point sets, a pure function of its arguments."""
    outlines, sizes = _shapes(problem, split)
    generator = stream(0, "pointset", split, start)
    rows = torch.arange(start, min(start + CHUNK, _pool_size(problem, split)))
    shape = rows * len(sizes) // _pool_size(problem, split)
    low, high = (problem._bins.low, problem._bins.high) if split == "train" else problem._interval()
    angle = low + (high - low) * torch.rand(len(rows), generator=generator)
    template, template_counts = _subset(outlines[shape], sizes[shape], problem.template_points, generator)
    reference, reference_counts = _subset(outlines[shape], sizes[shape], problem.reference_points, generator)
    reference = reference @ rotation_2d(angle).mT
    level = torch.full((len(rows), 1, 1), problem.noise)
    if split == "train":
        level = problem.train_noise * torch.rand(len(rows), 1, 1, generator=generator)
    if bool(level.any()):
        inside = _inside(reference, reference_counts)
        highest = reference.masked_fill(~inside, -math.inf).amax(1)
        lowest = reference.masked_fill(~inside, math.inf).amin(1)
        extent = (highest - lowest).amax(1)[:, None, None]
        reference = reference + level * extent * (torch.rand(reference.shape, generator=generator) - 0.5)
    return CloudPairs(
        _centred(template, template_counts),
        _centred(reference, reference_counts),
        template_counts,
        reference_counts,
        angle,
    )


def _subset(points: Tensor, counts: Tensor, wanted: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """``wanted`` of the real points of each cloud, in their order; all where it is 0."""
    if not wanted:
        return points, counts
    rank = torch.rand(points.shape[:2], generator=generator).masked_fill(~_inside(points, counts)[..., 0], 2)
    kept = rank.topk(wanted, largest=False).indices.sort().values
    return points.gather(1, kept[..., None].expand(-1, -1, 2)), torch.full_like(counts, wanted)


def _inside(points: Tensor, counts: Tensor) -> Tensor:
    """Which points are real, ``[batch, m, 1]``."""
    return (torch.arange(points.shape[1]) < counts[:, None])[..., None]


def _centred(points: Tensor, counts: Tensor) -> Tensor:
    inside = _inside(points, counts)
    centre = (points * inside).sum(1, keepdim=True) / counts[:, None, None]
    return (points - centre) * inside
