"""Small trained models that come with the package: `python tools/pretrained.py` makes them anew."""

from __future__ import annotations

from pathlib import Path

from qubolearn.errors import unknown_name
from qubolearn.training.runs import Run

__all__ = ["MODELS", "pretrained", "pretrained_names"]

MODELS = Path(__file__).parent / "models"


def pretrained(name: str) -> Run:
    """A trained model that comes with qubolearn, to evaluate, to solve with or to look at.

    Args:
        name: ``knapsack`` (six items), ``matching`` (graphs of four nodes), ``maxcut`` (eight nodes) or ``sudoku``
            (four by four); ``qubolearn info`` lists them, and commands take ``pretrained:NAME`` for a run folder.

    Returns:
        The run: its ``problem``, its ``recipe``, :meth:`Run.network`, and the score when it was made,
        :meth:`Run.scored`.

    Raises:
        QubolearnError: for a name that is none of these.

    >>> run = pretrained("maxcut")
    >>> run.problem.bits, run.scored()["accuracy"] > 0.9
    (8, True)
    """
    if name not in pretrained_names():
        raise unknown_name("pretrained model", name, pretrained_names())
    return Run.load(MODELS / f"{name}.safetensors")


def pretrained_names() -> list[str]:
    """The names that :func:`pretrained` takes."""
    return sorted(path.stem for path in MODELS.glob("*.safetensors"))
