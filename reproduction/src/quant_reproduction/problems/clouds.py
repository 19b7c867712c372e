"""Angles as bits, rotations and their distances, and Euler angles in stages.

Angles are radians; errors are degrees. R = R_z(α) R_y(β) R_x(γ). With H = Σ x yᵀ and x = R y, R_z(α)ᵀH is the
covariance of the same clouds with α = 0, so a stage can undo its angle in the covariance alone.

AQM finds the planar rotation R = Σ_k q_k Q_k that brings a template y to a reference x, with bits q_k and the basis
Q_k = w·C, w in {0.5, 0.2, 0.1, 0.1, 0.05}, C in {I, M, -I, -M}, M the quarter turn. The cost Σ |x_n - R y_m|² over
neighbor pairs (n, m) is qᵀPq, with q_0 fixed at 1 and P = ΦΦᵀ, where Φ stacks x_n over -Q_k y_m. P is 21 x 21, but
since the Q_k are multiples of C it has only four different numbers: the means of |x|², |y|², x·y and y×x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from qubolearn.data.contract import Instances, Problem, SoftTargets
from qubolearn.errors import QubolearnError, convert

Encoding = Literal["binary", "gray"]
Stage = Literal["alpha", "beta", "gamma", "all"]
STAGES: tuple[Stage, ...] = ("alpha", "beta", "gamma")
AXES = {"alpha": 2, "beta": 1, "gamma": 0}

MAX_BITS = 24  # float32 counts bins exactly up to 2**24


def index_to_bits(index: Tensor, bits: int, encoding: Encoding = "binary") -> Tensor:
    """Convert bin numbers ``[...]`` to bits ``[..., bits]``, float32."""
    code = index ^ (index >> 1) if encoding == "gray" else index
    return ((code[..., None] >> torch.arange(bits - 1, -1, -1, device=index.device)) & 1).float()


def bits_to_index(x: Tensor, encoding: Encoding = "binary") -> Tensor:
    """Convert bits ``[..., bits]`` to bin numbers ``[...]``, int64."""
    bits = x.shape[-1]
    digits = x.round().long()
    if encoding == "gray":
        digits = digits.cumsum(-1) & 1  # parities of the Gray code
    return (digits << torch.arange(bits - 1, -1, -1, device=x.device)).sum(-1)


@dataclass(frozen=True)
class AngleBins:
    """Angles in [low, high] as 2**bits equal bins, decoded as centers."""

    low: float
    high: float
    bits: int
    encoding: Encoding = "binary"

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MAX_BITS:
            raise QubolearnError(f"expected 1 to {MAX_BITS} bits for an angle, got {self.bits}")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise QubolearnError(f"expected an increasing range of angles, got {self.low} to {self.high}")
        convert(self.encoding, Encoding, "encoding")

    @property
    def width(self) -> float:
        """Width of a bin; half of it is the largest rounding error."""
        return (self.high - self.low) / (1 << self.bits)

    def encode(self, angle: Tensor) -> Tensor:
        """Convert angles ``[...]`` to bits ``[..., bits]``."""
        slack = 1e-6 * (self.high - self.low)  # of float32
        outside = ~((angle >= self.low - slack) & (angle <= self.high + slack))  # NaN is outside too
        if bool(outside.any()):
            value = angle[outside][0].item()
            raise QubolearnError(f"expected angles in [{self.low:.6g}, {self.high:.6g}], got {value:.6g}")
        index = ((angle.double() - self.low) / self.width).long().clamp_(0, 2**self.bits - 1)
        return index_to_bits(index, self.bits, self.encoding)

    def decode(self, x: Tensor) -> Tensor:
        """Convert bits ``[..., bits]`` to centers of bins ``[...]``."""
        if x.shape[-1:] != (self.bits,):
            raise QubolearnError(f"expected x of shape [..., {self.bits}], got {list(x.shape)}")
        return (self.low + (bits_to_index(x, self.encoding).double() + 0.5) * self.width).float()

    def soft_targets(self, x: Tensor, sigma: float) -> SoftTargets:
        """Return the bins around x ``[batch, bits]`` and their Gaussian weights."""
        reach = min(math.ceil(3 * sigma), 2**self.bits - 1)
        offset = torch.arange(-reach, reach + 1, device=x.device)
        index = bits_to_index(x, self.encoding)[:, None] + offset
        inside = (index >= 0) & (index < 2**self.bits)
        weight = torch.exp(-0.5 * (offset / sigma) ** 2) * inside
        states = index_to_bits(index.clamp(0, 2**self.bits - 1), self.bits, self.encoding)
        return SoftTargets(states, weight / weight.sum(1, keepdim=True))


def geodesic_so2(angle: Tensor, other: Tensor) -> Tensor:
    """Return degrees between plane rotations by angles ``[...]``, in [0, 180]."""
    return torch.rad2deg((torch.remainder(angle - other + math.pi, 2 * math.pi) - math.pi).abs())


def geodesic_so3(R: Tensor, other: Tensor) -> Tensor:
    """Return the angle of RᵀR' for rotations ``[..., 3, 3]`` in degrees, in [0, 180].

    It uses ‖R - R'‖ = 2√2 sin(angle / 2): the arccos of the trace loses half of the digits near 0.
    """
    chord = torch.linalg.matrix_norm(R.double() - other.double())
    return torch.rad2deg(2 * torch.asin((chord / math.sqrt(8)).clamp(max=1))).to(R.dtype)


def rotation_2d(angle: Tensor) -> Tensor:
    """Return counter-clockwise rotations ``[..., 2, 2]`` by angles ``[...]``."""
    c, s = torch.cos(angle), torch.sin(angle)
    return torch.stack([c, -s, s, c], -1).reshape(*angle.shape, 2, 2)


def rotation_3d(angle: Tensor, axis: int) -> Tensor:
    """Return rotations ``[..., 3, 3]`` by angles ``[...]`` about an axis."""
    plane = rotation_2d(angle)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = torch.eye(3, dtype=plane.dtype, device=plane.device).repeat(*angle.shape, 1, 1)
    R[..., i, i], R[..., i, j] = plane[..., 0, 0], plane[..., 0, 1]
    R[..., j, i], R[..., j, j] = plane[..., 1, 0], plane[..., 1, 1]
    return R


def euler_matrix(angles: Tensor) -> Tensor:
    """Return R_z(α) R_y(β) R_x(γ) ``[..., 3, 3]`` for angles ``[..., 3]``."""
    alpha, beta, gamma = angles.unbind(-1)
    return rotation_3d(alpha, 2) @ rotation_3d(beta, 1) @ rotation_3d(gamma, 0)


def cross_covariance(p: Tensor) -> Tensor:
    """Return H = Σ x yᵀ up to scale, ``[batch, 3, 3]``, for p ``[batch, 9 or 36]``."""
    if p.ndim != 2 or p.shape[1] not in (9, 36):
        raise QubolearnError(f"expected p [batch, 9] or [batch, 36], got {list(p.shape)}")
    return p.reshape(-1, 3, 3) if p.shape[1] == 9 else p.reshape(-1, 6, 6)[:, :3, 3:]


def advance(p: Tensor, stage: Stage, angle: Tensor) -> Tensor:
    """Return p ``[batch, 9 or 36]`` after undoing one stage's angle ``[batch]``."""
    H = cross_covariance(p)
    Q = rotation_3d(angle.to(p), AXES[stage]).mT
    if p.shape[1] == 9:
        return (Q @ H).flatten(1)
    J = p.reshape(-1, 6, 6)
    return joint_covariance(Q @ J[:, :3, :3] @ Q.mT, Q @ H, J[:, 3:, 3:]).flatten(1)


def solve_stages(predictors: Sequence[Callable[[Tensor], Tensor]], p: Tensor) -> Tensor:
    """Predict α, β, γ in turn, ``[batch, 3]``, each from p ``[batch, m]``."""
    angles = []
    for stage, predict in zip(STAGES, predictors, strict=True):
        angles.append(predict(p))
        p = advance(p, stage, angles[-1])
    return torch.stack(angles, 1)


def joint_covariance(Cxx: Tensor, Cxy: Tensor, Cyy: Tensor) -> Tensor:
    """Join three blocks ``[batch, 3, 3]`` to ``[batch, 6, 6]``."""
    return torch.cat([torch.cat([Cxx, Cxy], 2), torch.cat([Cxy.mT, Cyy], 2)], 1)


#: The presets of both kinds of clouds.
_SOLVED = {"loss": "gap", "solver": "exhaustive", "standardize": False, "topology": "dense"}
PAPER: Mapping[str, Any] = {**_SOLVED, "epochs": 20, "batch_size": 32}
BEST: Mapping[str, Any] = {"loss": "soft-nll", "beta": 10.0, "batch_size": 512, "instances": 51_200}


class CloudProblem(Problem):
    """Find the rotation between two clouds; errors are degrees."""

    metric: ClassVar[str] = "degrees"
    higher_is_better: ClassVar[bool] = False

    def degrees(self, answer: Tensor, answer_true: Tensor) -> Tensor:
        """Return the degrees between angles ``[batch]``."""
        return geodesic_so2(answer, answer_true)

    def score(self, answer: Tensor, instances: Instances) -> dict[str, Tensor]:
        return {"degrees": self.degrees(answer, instances.answer)}

    @classmethod
    def preset(cls, name: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
        soft = name != "best" or options.get("soft_width", 2.0)
        return {**super().preset(name, options), **({} if soft else {"loss": "nll"})}


#: (cos, sin) parts of the basis: c = Σ q_k BASIS[k, 0], s = Σ q_k BASIS[k, 1].
TURNS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
BASIS = torch.cat([weight * TURNS for weight in (0.5, 0.2, 0.1, 0.1, 0.05)])
MAX_DISTANCES = {"cpu": 2**19, "cuda": 2**26}  # per chunk; those of a CPU fit its cache


class PairMoments(NamedTuple):
    """Means over the neighbor pairs (x, y) of each instance."""

    xx: Tensor  # [batch], |x|²
    yy: Tensor  # [batch], |y|²
    dot: Tensor  # [batch], x·y
    cross: Tensor  # [batch], y×x = x·My; atan2(cross, dot) turns y best
    x: Tensor  # [batch, 2]
    y: Tensor  # [batch, 2]


def check_clouds(template: Tensor, reference: Tensor, dimensions: int) -> None:
    """Raise unless both are finite: ``[batch, points, dimensions]``."""
    for name, cloud in (("template", template), ("reference", reference)):
        shape = list(cloud.shape)
        if cloud.ndim != 3 or shape[2] != dimensions or not cloud.dtype.is_floating_point:
            wanted = f"{name} [batch, points, {dimensions}] in floats"
            raise QubolearnError(f"expected {wanted}, got {cloud.dtype} {shape}")
        if shape[1] == 0 or not bool(torch.isfinite(cloud).all()):
            raise QubolearnError(f"expected finite coordinates and at least 1 point in {name}, got {shape}")
    if len(template) != len(reference):
        raise QubolearnError(f"{len(template)} templates and {len(reference)} references; expected as many")


def pair_moments(
    template: Tensor,
    reference: Tensor,
    neighbors: int = 3,
    template_counts: Tensor | None = None,
    reference_counts: Tensor | None = None,
) -> PairMoments:
    """Return moments of template points and their nearest reference points.

    Only the first ``counts`` ``[batch]`` points of each cloud are real.
    """
    counts = []
    for cloud, given in ((template, template_counts), (reference, reference_counts)):
        whole = torch.full((len(cloud),), cloud.shape[1], device=cloud.device)
        counts.append(whole if given is None else given.to(cloud.device, torch.int64))
    fewest = int(counts[1].min()) if len(template) else neighbors
    if not 1 <= neighbors <= fewest:
        raise QubolearnError(f"expected 1 to {fewest} neighbors, the points of a reference, got {neighbors}")
    sums = _means(template.detach().float(), reference.detach().float(), counts[0], counts[1], neighbors)
    xx, yy, dot, cross = sums[:, :4].unbind(1)
    return PairMoments(xx, yy, dot, cross, sums[:, 4:6], sums[:, 6:])


def _means(y: Tensor, x: Tensor, y_counts: Tensor, x_counts: Tensor, k: int) -> Tensor:
    """Return the eight means of :class:`PairMoments`, ``[batch, 8]``, in chunks."""
    batch, m, n = len(y), y.shape[1], x.shape[1]
    rows = max(1, MAX_DISTANCES[y.device.type] // (m * n))
    if batch > rows:
        chunks = [slice(start, start + rows) for start in range(0, batch, rows)]
        return torch.cat([_means(y[part], x[part], y_counts[part], x_counts[part], k) for part in chunks])
    distance = (y[:, :, None] - x[:, None]).square().sum(-1)  # cdist loses digits
    unreal = torch.arange(n, device=y.device) >= x_counts[:, None]
    near = distance.masked_fill_(unreal[:, None], torch.inf).topk(k, largest=False).indices
    u, v = x.gather(1, near.flatten(1)[..., None].expand(-1, -1, 2)).reshape(batch, m, k, 2).unbind(-1)
    y0, y1 = (part.expand_as(u) for part in y[:, :, None].unbind(-1))
    products = [u * u + v * v, y0 * y0 + y1 * y1, u * y0 + v * y1, v * y0 - u * y1]
    pairs = torch.stack([*products, u, v, y0, y1], -1)
    real = torch.arange(m, device=y.device) < y_counts[:, None]
    return (pairs.mean(2) * real[..., None]).sum(1) / y_counts[:, None]


def aqm_matrix(numbers: Tensor) -> Tensor:
    """Return P ``[..., 21, 21]`` for (xx, yy, dot, cross) ``[..., 4]``."""
    expansion = aqm_expansion().to(numbers.device, numbers.dtype)
    return (numbers @ expansion).reshape(*numbers.shape[:-1], 21, 21)


def pair_features(numbers: Tensor) -> Tensor:
    """Transform (xx, yy, dot, cross) ``[..., 4]`` to numbers of similar size.

    They are the angle that aligns the pairs, and logarithms of their mean squared distance,
    of |x|² / |y|² and of |y|².
    """
    xx, yy, dot, cross = numbers.unbind(-1)
    distance = (xx - 2 * dot + yy).clamp_min(0) / yy
    return torch.stack([torch.atan2(cross, dot), (distance + 1e-4).log(), (xx / yy).log(), yy.log()], -1)


@cache
def aqm_expansion() -> Tensor:
    """Return P as a linear function of (xx, yy, dot, cross): ``[4, 441]``."""
    P = torch.zeros(4, 21, 21)
    P[0, 0, 0] = 1
    P[1, 1:, 1:] = BASIS @ BASIS.T  # C_kᵀC_l is I, -I or a quarter turn, and y·My = 0
    P[2, 0, 1:] = P[2, 1:, 0] = -BASIS[:, 0]
    P[3, 0, 1:] = P[3, 1:, 0] = -BASIS[:, 1]
    return P.flatten(1)
