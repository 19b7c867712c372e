"""Pictures of aligned point clouds in 2D and 3D: the template stays, the reference is turned back onto it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from qubolearn.errors import QubolearnError
from qubolearn.paper.problems.angles import geodesic_so2, geodesic_so3, rotation_2d
from qubolearn.paper.problems.pointset import CloudPairs
from qubolearn.paper.problems.rotation import MatchedClouds
from qubolearn.paper.problems.stages import euler_matrix
from qubolearn.plots import BLUE, RED, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Panel", "draw_panels", "misfit", "planar_panels", "spatial_panels", "wrong_matches"]

GREEN = "#1a9850"
#: Template, reference and wrongly matched points of the reference: shapes and shades that stay apart in grey, too.
STYLES: dict[str, dict[str, Any]] = {
    "template": {"color": BLUE, "marker": "o", "s": 5},
    "reference": {"color": RED, "marker": "^", "s": 6},
    "reference, wrong match": {"color": GREEN, "marker": "s", "s": 9},
}
#: Points of a cloud that are drawn in 3D, where more hide one another.
MAX_POINTS_3D = 600
#: Clouds have a radius of about 1; matched points that are further apart after the true turn are no match.
SAME_POINT = 1e-3


class Panel(NamedTuple):
    """Two clouds over each other."""

    template: Tensor  # [m, d], d = 2 or 3
    reference: Tensor  # [n, d]
    title: str
    wrong: Tensor | None = None  # [n], bool: which points of the reference have a wrong match


def planar_panels(pairs: CloudPairs, index: int, angle: Tensor) -> tuple[Panel, Panel]:
    """Pair ``index`` before and after the reference is turned back by the angle ``[]`` that was found."""
    template = pairs.template[index, : pairs.template_counts[index]]
    reference = pairs.reference[index, : pairs.reference_counts[index]]
    error = geodesic_so2(angle, pairs.angle[index]).item()
    return (
        Panel(template, reference, f"turned by {torch.rad2deg(pairs.angle[index]).item():.1f}°"),
        Panel(template, reference @ rotation_2d(angle), f"turned back, {error:.1f}° left"),
    )


def spatial_panels(clouds: MatchedClouds, index: int, angles: Tensor, stages: bool = True) -> list[Panel]:
    """Clouds ``index`` at first and after α, then β, then γ ``[3]`` are undone; without stages all three at once."""
    template, reference = clouds.template[index], clouds.reference[index]
    wrong = wrong_matches(clouds)[index]
    R = euler_matrix(clouds.angles[index])
    panels = [Panel(template, reference, f"turned by {geodesic_so3(R, torch.eye(3)).item():.1f}°", wrong)]
    for count in (1, 2, 3) if stages else (3,):
        undone = euler_matrix(angles * (torch.arange(3) < count))  # x = R y, so that a row xᵀ goes to xᵀ · undone
        title = f"{', '.join('αβγ'[:count])} undone, {geodesic_so3(R, undone).item():.1f}° left"
        panels.append(Panel(template, reference @ undone, title, wrong))
    return panels


def wrong_matches(clouds: MatchedClouds) -> Tensor:
    """Which points of the references are matched with another point than their own: ``[batch, points]``, bool."""
    own = clouds.template @ euler_matrix(clouds.angles).mT
    return (clouds.reference - own).square().sum(-1) > SAME_POINT**2


def misfit(template: Tensor, reference: Tensor) -> float:
    """How far points of the reference ``[n, d]`` are from the template ``[m, d]``, as a share of its extent, mean.

    Nearly symmetric shapes have a small one after a wrong turn, too.
    """
    extent = (template.amax(0) - template.amin(0)).amax()
    return (torch.cdist(reference, template).amin(1).mean() / extent).item()


def draw_panels(rows: Sequence[Sequence[Panel]], title: str) -> Figure:
    """A grid of panels, all planar or all spatial, and what the colours mean below it."""
    panels = [panel for row in rows for panel in row]
    if not panels or any(len(row) != len(rows[0]) for row in rows):
        raise QubolearnError(f"rows of {[len(row) for row in rows]} panels; want at least one, as many in each row")
    spatial = panels[0].template.shape[1] == 3
    width, height = (2.9, 2.7) if spatial else (2.3, 2.4)
    made, axes = figure(len(rows[0]), len(rows), width, height)
    if spatial:
        made.clear()
        projection = {"projection": "3d"}
        axes = list(made.subplots(len(rows), len(rows[0]), squeeze=False, subplot_kw=projection).flat)
    for axis, panel in zip(axes, panels, strict=True):
        (_draw_spatial if spatial else _draw_planar)(axis, panel)
        axis.set_title(panel.title, fontsize=8)
    labels = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    made.legend(list(labels.values()), list(labels), loc="outside lower center", ncols=3, fontsize=8, markerscale=1.5)
    made.suptitle(title, fontsize=9)
    return made


def _draw_planar(axis: Axes, panel: Panel) -> None:
    for label, points in _layers(panel):
        axis.scatter(*points.T.tolist(), label=label, linewidths=0, **STYLES[label])
    limit = 1.05 * _radius(panel)
    axis.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", xticks=[], yticks=[])


def _draw_spatial(axis: Any, panel: Panel) -> None:
    """From a corner above; the axes of the room are left out, since only the clouds' turn counts."""
    step = -(-len(panel.template) // MAX_POINTS_3D)
    wrong = None if panel.wrong is None else panel.wrong[::step]
    for label, points in _layers(Panel(panel.template[::step], panel.reference[::step], panel.title, wrong)):
        axis.scatter(*points.T.tolist(), label=label, linewidths=0, depthshade=False, **STYLES[label])
    limit = 0.58 * _radius(panel)
    axis.set(xlim=(-limit, limit), ylim=(-limit, limit), zlim=(-limit, limit), box_aspect=(1, 1, 1))
    axis.view_init(elev=25, azim=-60)
    axis.set_axis_off()


def _layers(panel: Panel) -> list[tuple[str, Tensor]]:
    wrong = torch.zeros(len(panel.reference), dtype=torch.bool) if panel.wrong is None else panel.wrong
    template, reference, odd = STYLES
    layers = [(template, panel.template), (reference, panel.reference[~wrong]), (odd, panel.reference[wrong])]
    return [(label, points) for label, points in layers if len(points)]


def _radius(panel: Panel) -> float:
    """The largest distance from the centre, which no turn changes: panels of one case have the same scale."""
    return max(points.square().sum(1).max().sqrt().item() for points in (panel.template, panel.reference))
