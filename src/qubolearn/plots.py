"""Pictures of a run as matplotlib axes, new ones or those of ``ax=``."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qubolearn.errors import QubolearnError, missing_extra
from qubolearn.files import make_folder, write_atomic

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qubolearn.runs import Run

__all__ = [
    "answers",
    "curves",
    "figure",
    "grid_couplings",
    "hamming_over_training",
    "pictures",
    "qubo",
    "save",
]

BLUE, RED = "#2166ac", "#b2182b"
SHADES = "RdBu_r"  # costs red, rewards blue
MOMENTS = 4  # columns of the pictures over training
LARGEST = 1e100  # matplotlib finds no ticks beyond


def figure(columns: int, rows: int = 1, width: float = 2.6, height: float = 2.4) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes, row by row."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("drawing", "plots") from error
    made = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return made, list(made.subplots(rows, columns, squeeze=False).flat)


def _axes(ax: Any, count: int, width: float = 2.6, height: float = 2.4) -> list[Axes]:
    if ax is None:
        return figure(count, width=width, height=height)[1]
    given = list(np.atleast_1d(np.asarray(ax, dtype=object)).flat)
    if len(given) != count:
        raise QubolearnError(f"ax has {len(given)} axes, but this picture has {count} parts; pass {count}")
    return given


def _headline(axes: Sequence[Axes], ax: object, text: str) -> None:
    """Set the title of a figure that is not the caller's."""
    if ax is None:
        axes[0].figure.suptitle(text, fontsize=9)


def save(made: Figure | Axes | Sequence[Axes], path: Path) -> Path:
    """Write a figure as .png or .svg, reproducibly."""
    from matplotlib.figure import Figure

    part: Any = made[0] if isinstance(made, Sequence) else made
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    buffer = io.BytesIO()
    whole = part if isinstance(part, Figure) else part.figure
    whole.savefig(buffer, format=path.suffix[1:], dpi=150, metadata=metadata)
    make_folder(path.parent)
    write_atomic(path, buffer.getvalue())
    return path


def answers(run: Run, count: int = 4, ax: Axes | Sequence[Axes] | None = None) -> list[Axes]:
    """Draw unseen instances with a run's answers; its problem needs a method ``picture``."""
    from qubolearn.evaluation import solve_instances
    from qubolearn.random import stream

    draw = getattr(run.problem, "picture", None)
    if draw is None:
        raise QubolearnError(f"{run.problem} draws no instances: it has no picture(axis, instances, answer)")
    instances = run.problem.sample(count, stream(run.recipe.seed, "picture"), "test")
    found = run.problem.decode(solve_instances(run.network(), instances.p, problem=run.problem)[0])
    axes = _axes(ax, count)
    for row, axis in enumerate(axes):
        some = slice(row, row + 1)
        draw(axis, instances.rows(some), found[some])
        score = run.problem.score(found[some], instances.rows(some))[run.problem.metric].item()
        axis.set_title(f"{run.problem.metric} {score:.3g}", fontsize=9)
        axis.set(xticks=[], yticks=[])
    _headline(axes, ax, _title(run))
    return axes


def pictures(run: Run) -> dict[str, list[Axes]]:
    """Draw all pictures that suit a run, and return them by name."""
    from qubolearn.networks import SharedQubo
    from qubolearn.problems.sudoku import Sudoku

    made = {}
    if run.problem.available("validation") != 0:
        made["hamming"] = hamming_over_training(run)
    if hasattr(run.problem, "picture"):
        made["answers"] = answers(run)
    if isinstance(run.problem, Sudoku) and isinstance(network := run.network(), SharedQubo):
        size = run.problem.size
        made["couplings"] = grid_couplings(network.soft().detach(), size, [0, size**2 // 2, size**2 - size])
    return made


def hamming_over_training(run: Run, ax: Axes | Sequence[Axes] | None = None) -> list[Axes]:
    """Draw histograms of wrong bits over training; red is the end, after projection to valid answers."""
    records = _moments(run)
    axes = _axes(ax, len(records))
    for axis, record in zip(axes, records, strict=True):
        projected = record.get("hamming_projected", []) if record is records[-1] else []
        both = record["hamming"], projected
        shown = 1 + max(int(np.flatnonzero(counts).max(initial=8)) for counts in both)
        counts = record["hamming"][:shown]  # few of a thousand bits are wrong
        if projected:
            axis.bar(range(len(counts)), projected[:shown], color=RED, label="projected")
        axis.bar(range(len(counts)), counts, width=0.5, color=BLUE, label="as solved")
        axis.set_title(f"step {record['step']}", fontsize=9)
        axis.set_xlabel("wrong bits")
    axes[0].set_ylabel("instances")
    axes[-1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    _headline(axes, ax, _title(run))
    return axes


def curves(runs: Sequence[Run], ax: Axes | Sequence[Axes] | None = None) -> list[Axes]:
    """Draw loss and validation metric over training, one line per run."""
    left, right = _axes(ax, 2, width=3.6, height=2.8)
    for run in runs:
        records = _records(run)
        steps = [record["step"] for record in records]
        losses = [record.get("loss", float("nan")) for record in records]  # none before the first step
        left.plot(steps, losses, label=run.recipe.head)
        right.plot(steps, [record[run.problem.metric] for record in records], label=run.recipe.head)
    left.set(xlabel="step", ylabel="training loss")
    right.set(xlabel="step", ylabel=f"validation {runs[0].problem.metric}")
    right.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return [left, right]


def qubo(A: torch.Tensor, ax: Axes | None = None) -> Axes:
    """Draw a QUBO ``[n, n]`` with a color scale: costs red, rewards blue."""
    (axis,) = _axes(ax, 1, width=3.8, height=2.8)
    limit = float(A.abs().max()) or 1.0
    image = axis.imshow(A.detach().cpu().numpy(), cmap=SHADES, vmin=-limit, vmax=limit)
    axis.figure.colorbar(image, ax=axis, shrink=0.8, label="energy")
    axis.set(xticks=[], yticks=[], xlabel="bit", ylabel="bit")
    return axis


def grid_couplings(
    A: torch.Tensor, size: int, cells: Sequence[int], ax: Axes | Sequence[Axes] | None = None
) -> list[Axes]:
    """Draw the couplings of some cells to the same digit elsewhere, mean over digits.

    A is ``[size ** 3, size ** 3]``. Learned rules show as each cell's row, column and box.
    """
    couplings = (A + A.T).reshape(size**2, size, size**2, size).diagonal(dim1=1, dim2=3).mean(-1)
    axes = _axes(ax, len(cells), width=2.4, height=2.5)
    limit = float(couplings.abs().max()) or 1.0
    for axis, cell in zip(axes, cells, strict=True):
        image = axis.imshow(couplings[cell].reshape(size, size).numpy(), cmap=SHADES, vmin=-limit, vmax=limit)
        axis.plot(cell % size, cell // size, "kx")
        axis.set_title(f"row {cell // size + 1}, column {cell % size + 1}", fontsize=9)
        axis.set(xticks=[], yticks=[])
    axes[0].figure.colorbar(image, ax=axes, shrink=0.8, label="cost of equal digits")
    _headline(axes, ax, "A cell (cross) repels its own digit in its row, column and box")
    return axes


def _records(run: Run) -> list[dict[str, Any]]:
    records = run.metrics()
    if not records:
        raise QubolearnError(f"{run.folder} has no metrics yet; train it first")
    n = run.problem.bits
    shapes: dict[str, tuple[int, ...]] = {"step": (), run.problem.metric: (), "hamming": (n + 1,)}
    for record in records:  # untrusted input
        shown = {**{name: record.get(name) for name in shapes}, "loss": record.get("loss", 0.0)}
        shown |= {name: record[name] for name in ("hamming_projected",) if name in record}
        try:
            arrays = {name: np.asarray(value, float) for name, value in shown.items()}
            loss, projected = arrays.pop("loss"), arrays.get("hamming_projected", arrays["hamming"])
            right = all(arrays[name].shape == shape for name, shape in shapes.items())
            right &= loss.ndim == 0 and projected.shape == (n + 1,)
            right &= all(bool((np.abs(values) < LARGEST).all()) for values in arrays.values())
        except (TypeError, ValueError, OverflowError):
            right = False
        if not right or LARGEST <= abs(loss) < math.inf:
            where, step = run.folder / "metrics.jsonl", str(record["step"])[:20]
            raise QubolearnError(f"{where}: the record of step {step} is damaged; train it again")
    return records


def _moments(run: Run) -> list[dict[str, Any]]:
    records = _records(run)
    chosen = {round((len(records) - 1) * moment / (MOMENTS - 1)) for moment in range(MOMENTS)}
    return [records[index] for index in sorted(chosen)]


def _title(run: Run) -> str:
    c = run.recipe
    if c.network == "own":
        return f"{run.problem}, loss {c.loss}, seed {c.seed}"
    return f"{run.problem}, {c.head}, L{c.layers} H{c.hidden}, {c.topology}, loss {c.loss}, seed {c.seed}"
