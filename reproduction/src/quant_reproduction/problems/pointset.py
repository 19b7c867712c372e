"""Point sets: find the rotation that aligns two planar point sets."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from quant_reproduction.datasets import outlines_alike, turned_misfit
from quant_reproduction.datasets.files import cached_data
from quant_reproduction.datasets.shapes2d import NO_CLASS, Outlines, load_outlines
from quant_reproduction.problems import check_range, split_by_class
from quant_reproduction.problems import clouds as planar
from quant_reproduction.problems.clouds import AngleBins, CloudProblem, Encoding, pair_moments, rotation_2d
from qubolearn.data.contract import Instances, SoftTargets, Split
from qubolearn.errors import QubolearnError, convert
from qubolearn.random import stream

Form = Literal["matrix", "features"]
Shapes = Literal["all", "near-symmetric", "others"]

VALIDATION_SHAPES = 100
HELD_OUT_ROTATIONS = 100  # of each held-out shape, as in the paper
CHUNK = 8192  # instances per chunk


class CloudPairs(NamedTuple):
    """Point sets; only the first ``counts`` points of a row are real."""

    template: Tensor  # [batch, m, 2], centered
    reference: Tensor  # [batch, n, 2], centered: the template's shape, rotated
    template_counts: Tensor  # [batch] int64
    reference_counts: Tensor  # [batch] int64
    angle: Tensor  # [batch], radians, counter-clockwise to the reference


@dataclass(frozen=True)
class PointSet(CloudProblem):
    """Find the rotation between two outlines of the 2D Shape Structure dataset.

    p is vec of AQM's 21 x 21 QUBO matrix of each template point with its nearest reference points.
    Both clouds are centered and divided by the template's largest radius. Splits have different
    shapes without near-copies, drawn evenly over the classes.
    """

    name: ClassVar[str] = "pointset"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {**planar.PAPER, "instances": 500_000},
        "best": {"starts": 4, "form": "features", "train_noise": 0.2, "rotations": 300}
        | {**planar.BEST, "epochs": 100, "learning_rate": 2e-3},
    }
    old_names: ClassVar[Mapping[str, str]] = {"neighbours": "neighbors"}

    angle_bits: int = 9
    """Bits of the angle."""
    low_degrees: float = 0.0
    """The smallest angle that the bits can encode."""
    high_degrees: float = 60.0
    """The largest angle that the bits can encode."""
    encoding: Encoding = "binary"
    """Numbering of bins: binary, or gray, where neighboring bins differ in one bit."""
    soft_width: float = 2.0
    """Neighboring bins count as nearly correct, with a Gaussian of this many bins; 0 for the correct bin only."""
    neighbors: int = 3
    """Reference points paired with each template point."""
    starts: int = 0
    """Pair the template rotated to the middle of each of this many parts of the range; 0 for no rotation (paper)."""
    form: Form = "matrix"
    """matrix: all 441 entries (paper); features: the 4 different numbers among them, scaled. Once per start."""
    noise: float = 0.0
    """Uniform noise on the reference of validation and test, relative to the largest extent."""
    train_noise: float = 0.0
    """The same in training, where each instance has a noise between 0 and this."""
    interval: str = "all"
    """Angles of validation and test in degrees, as in 10-20; all for the whole range."""
    shapes: Shapes = "all"
    """Shapes of validation and test: all, the quarter nearest to rotational symmetry, or the others."""
    template_points: int = 0
    """Points of the template, a random subset of the outline; 0 for all."""
    reference_points: int = 0
    """Points of the reference, another random subset; 0 for all."""
    train_shapes: int = 500
    """Shapes to train on."""
    test_shapes: int = 50
    """Shapes to test on."""
    rotations: int = 1000
    """Rotations of each training shape."""
    split_seed: int = 1
    """Number of the random split of the shapes, from 1."""

    def __post_init__(self) -> None:
        _ = self._bins, self._interval()  # raise if invalid
        convert(self.form, Form, "form")
        convert(self.shapes, Shapes, "shapes")
        if self.shapes != "all" and self.test_shapes < 4:
            raise QubolearnError(f"{self.shapes} needs at least 4 test shapes, got {self.test_shapes}")
        check_range(self, 0, 1, "noise", "train_noise")
        check_range(self, 1, math.inf, "neighbors", "train_shapes", "test_shapes", "rotations", "split_seed")
        numbers = ("starts", "template_points", "reference_points", "soft_width")
        check_range(self, 0, sys.float_info.max, *numbers)

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
        """Return the point sets that :meth:`sample` draws."""
        rows = self._drawn(count, generator, split).cpu()
        chunks, order = (rows // CHUNK).sort(stable=True)
        parts = []
        for chunk in dict.fromkeys(chunks.tolist()):
            inside = rows[order][chunks == chunk] - chunk * CHUNK
            parts.append([tensor[inside] for tensor in _clouds(self, split, chunk * CHUNK)])
        return CloudPairs(*(torch.cat(tensors)[order.argsort()] for tensors in zip(*parts, strict=True)))

    def _drawn(self, count: int, generator: Generator, split: Split) -> Tensor:
        """Draw rows ``[count]`` of a pool; held-out ones once if possible."""
        size, device = _pool_size(self, split), generator.device
        if split == "train" or count > size:
            return torch.randint(size, (count,), generator=generator, device=device)
        return torch.randperm(size, generator=generator, device=device)[:count]

    def describe(self, template: Tensor, reference: Tensor) -> Tensor:
        """Return p of point sets ``[batch, m, 2]`` and ``[batch, n, 2]``."""
        planar.check_clouds(template, reference, 2)
        template = template - template.mean(1, keepdim=True)
        reference = reference - reference.mean(1, keepdim=True)
        return self._expand(_pair_numbers(self, template, reference))

    def decode(self, x: Tensor) -> Tensor:
        return self._bins.decode(x)

    def soft_targets(self, instances: Instances) -> SoftTargets | None:
        return self._bins.soft_targets(instances.x_true, self.soft_width) if self.soft_width else None

    @property
    def _bins(self) -> AngleBins:
        low, high = math.radians(self.low_degrees), math.radians(self.high_degrees)
        return AngleBins(low, high, self.angle_bits, self.encoding)

    def _interval(self) -> tuple[float, float]:
        if self.interval == "all":
            return self._bins.low, self._bins.high
        try:
            low, high = (float(number) for number in self.interval.split("-"))
        except ValueError:
            raise QubolearnError(f"expected an interval as 10-20, or all, got {self.interval!r}") from None
        if not self.low_degrees <= low < high <= self.high_degrees:
            whole = f"{self.low_degrees:g}-{self.high_degrees:g}"
            raise QubolearnError(f"expected an interval within {whole}, got {self.interval}")
        return math.radians(low), math.radians(high)

    def _starts(self) -> list[float]:
        span = (self._bins.high - self._bins.low) / max(1, self.starts)
        return [self._bins.low + (part + 0.5) * span for part in range(self.starts)] or [0.0]

    def _expand(self, numbers: Tensor) -> Tensor:
        """Convert the four numbers of each start ``[batch, starts, 4]`` to p."""
        if self.form == "features":
            return planar.pair_features(numbers).flatten(1)
        return planar.aqm_matrix(numbers).flatten(1)


@cached_data(128)  # 10 MB at most each: many splits train at once
def _pool(problem: PointSet, split: Split, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return numbers ``[size, starts, 4]`` and angles ``[size]`` of a split."""
    parts = []
    for start in range(0, _pool_size(problem, split), CHUNK):
        clouds = _clouds(problem, split, start, device)
        parts.append((_pair_numbers(problem, *clouds[:4]), clouds.angle))
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _pair_numbers(problem: PointSet, template: Tensor, reference: Tensor, *counts: Tensor) -> Tensor:
    """Return |x|², |y|², x·y, y×x of neighbor pairs ``[batch, starts, 4]``."""
    radius = torch.linalg.vector_norm(template, dim=2).amax(1)[:, None, None]
    if not bool((radius > 0).all()):
        raise QubolearnError("all points of a template are equal; drop that point set")
    numbers = []
    for start in problem._starts():
        turned = template @ rotation_2d(torch.tensor(start)).to(template).mT
        moments = pair_moments(turned / radius, reference / radius, problem.neighbors, *counts)
        numbers.append(torch.stack(moments[:4], 1))
    return torch.stack(numbers, 1)


def _pool_size(problem: PointSet, split: Split) -> int:
    return len(_shapes(problem, split)[1]) * (problem.rotations if split == "train" else HELD_OUT_ROTATIONS)


@cached_data(8)
def _shapes(problem: PointSet, split: Split) -> tuple[Tensor, Tensor]:
    """Return padded outlines ``[shapes, points, 2]`` and their sizes."""
    outlines = load_outlines()
    known = _with_class(outlines)
    sizes = {"test": problem.test_shapes, "validation": VALIDATION_SHAPES, "train": problem.train_shapes}
    alike, classes = _alike(), [outlines.classes[i] for i in known]
    chosen = split_by_class(classes, sizes, "pointset", problem.split_seed, alike)
    kept = [outlines.points[known[i]] for i in chosen[split]]
    if problem.shapes != "all" and split != "train":
        quarter = len(kept) // 4
        by_misfit = sorted(kept, key=turned_misfit)
        kept = by_misfit[:quarter] if problem.shapes == "near-symmetric" else by_misfit[quarter:]
    points = [torch.from_numpy(outline) for outline in kept]
    counts = torch.tensor([len(outline) for outline in points])
    for wanted in (problem.template_points, problem.reference_points):
        if wanted > int(counts.min()):
            raise QubolearnError(f"expected at most {int(counts.min())} points of an outline, got {wanted}")
    return torch.nn.utils.rnn.pad_sequence(points, batch_first=True), counts


def _with_class(outlines: Outlines) -> list[int]:
    return [i for i, name in enumerate(outlines.classes) if name != NO_CLASS]  # others may be squares


@cached_data(2)
def _alike() -> np.ndarray[Any, Any]:
    outlines = load_outlines()
    return outlines_alike([outlines.points[i] for i in _with_class(outlines)])


def _clouds(problem: PointSet, split: Split, start: int, device: torch.device | str = "cpu") -> CloudPairs:
    """Return one chunk of a split's point sets; random numbers are the CPU's."""
    outlines, sizes = (each.to(device) for each in _shapes(problem, split))
    generator = stream(0, "pointset", split, start)
    rows = torch.arange(start, min(start + CHUNK, _pool_size(problem, split)), device=device)
    shape = rows * len(sizes) // _pool_size(problem, split)
    low, high = (problem._bins.low, problem._bins.high) if split == "train" else problem._interval()
    angle = low + (high - low) * torch.rand(len(rows), generator=generator).to(device)
    template, template_counts = _subset(outlines[shape], sizes[shape], problem.template_points, generator)
    reference, reference_counts = _subset(outlines[shape], sizes[shape], problem.reference_points, generator)
    reference = reference @ rotation_2d(angle).mT
    level = torch.full((len(rows), 1, 1), problem.noise, device=device)
    if split == "train":
        level = problem.train_noise * torch.rand(len(rows), 1, 1, generator=generator).to(device)
    if bool(level.any()):
        inside = _inside(reference, reference_counts)
        highest = reference.masked_fill(~inside, -math.inf).amax(1)
        lowest = reference.masked_fill(~inside, math.inf).amin(1)
        extent = (highest - lowest).amax(1)[:, None, None]
        drawn = torch.rand(reference.shape, generator=generator).to(device)
        reference = reference + level * extent * (drawn - 0.5)
    template, reference = _centered(template, template_counts), _centered(reference, reference_counts)
    return CloudPairs(template, reference, template_counts, reference_counts, angle)


def _subset(points: Tensor, counts: Tensor, wanted: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return ``wanted`` of each cloud's points; all if it is 0."""
    if not wanted:
        return points, counts
    drawn = torch.rand(points.shape[:2], generator=generator).to(points.device)
    rank = drawn.masked_fill(~_inside(points, counts)[..., 0], 2)
    kept = rank.topk(wanted, largest=False).indices.sort().values
    return points.gather(1, kept[..., None].expand(-1, -1, 2)), torch.full_like(counts, wanted)


def _inside(points: Tensor, counts: Tensor) -> Tensor:
    return (torch.arange(points.shape[1], device=points.device) < counts[:, None])[..., None]


def _centered(points: Tensor, counts: Tensor) -> Tensor:
    inside = _inside(points, counts)
    center = (points * inside).sum(1, keepdim=True) / counts[:, None, None]
    return (points - center) * inside
