"""The explorer: a run as one page to play with, its QUBOs solved by the reader's own browser."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from qubolearn.explore.numbers import contents
from qubolearn.training.runs import Run

__all__ = ["contents", "page", "rendered"]


def page(run: Run, instances: int = 24, seed: int = 0) -> tuple[str, dict[str, Any]]:
    """The page of a run as one HTML document, and the numbers that stand in it.

    Args:
        run: any run folder.
        instances: how many unseen instances the reader may leaf through; fewer where their QUBOs are large, since a
            page stays below 2 MB.
        seed: which ones.
    """
    data = contents(run, instances, seed)
    return rendered(data), data


def rendered(data: dict[str, Any]) -> str:
    """The page of what :func:`contents` gathered; texts from a run are escaped."""
    templates = Environment(loader=PackageLoader("qubolearn.explore"), autoescape=True, undefined=StrictUndefined)
    return templates.get_template("page.html").render(data=data)
