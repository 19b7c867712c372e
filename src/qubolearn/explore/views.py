"""Views of p in the explorer: image, table, graph, or a function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from qubolearn.errors import QubolearnError

Show = str | Callable[[Any], dict[str, Any]]
#: Limit of the pixels, rows or edges of one instance.
MAX_INPUTS = 4096


def view(show: Show, p: Any) -> dict[str, Any]:
    """Return p of one instance as a view for JSON; raise if ``show`` fails."""
    if isinstance(show, str) and show not in VIEWS:
        raise QubolearnError(f"show={show!r}; expected {', '.join(VIEWS)}, or a function")
    made = (VIEWS[show] if isinstance(show, str) else show)(p)
    try:
        ((kind, value),) = made.items()
        if kind == "table":
            rows = [[f"{x:.4g}" if isinstance(x, float) else str(x) for x in row] for row in value]
            return {"kind": kind, "rows": rows[: MAX_INPUTS + 1]}
        if kind == "graph":
            names = [str(name) for name in value[0]]
            edges = [[int(i), int(j), float(w[0]) if w else 1.0] for i, j, *w in value[1]][:MAX_INPUTS]
            if any(not (0 <= min(i, j) <= max(i, j) < len(names) and math.isfinite(w)) for i, j, w in edges):
                raise ValueError(f"an edge outside of its {len(names)} nodes or without a finite weight")
            return {"kind": kind, "names": names, "edges": edges}
        pixels = np.asarray({"image": value}[kind], float)
        if pixels.ndim < 2 or pixels.shape[2:] not in ((), (3,)) or not 0 < pixels.size <= MAX_INPUTS:
            raise ValueError(f"an image {list(pixels.shape)}, limit {MAX_INPUTS} numbers")
        numbers = [float(f"{x:.4g}") if math.isfinite(x) else None for x in pixels.ravel()]
        return {"kind": kind, "columns": pixels.shape[1], "rgb": pixels.ndim == 3, "pixels": numbers}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        kinds = "{'image': [h, w] or [h, w, 3]}, {'table': rows} or {'graph': (names, edges)}"
        raise QubolearnError(f"show returned {str(made)[:80]} ({error}); expected {kinds}") from error


def _image(p: Any) -> dict[str, Any]:
    """Return a matrix as it is, other numbers as a padded square."""
    if isinstance(p, np.ndarray) and p.ndim == 2 and p.size <= MAX_INPUTS:
        return {"image": p}
    numbers = _flat(p)
    columns = math.ceil(math.sqrt(len(numbers)))
    padded = np.pad(numbers, (0, -len(numbers) % columns), constant_values=np.nan)
    return {"image": padded.reshape(-1, columns)}


def _graph(p: Any) -> dict[str, Any]:
    """Return the graph of a matrix, of pairs, or of node and pair features."""
    nodes, pairs = p if isinstance(p, tuple) and len(p) == 2 else (None, p)
    pairs = np.asarray(pairs, float)
    n = len(pairs) if pairs.ndim == 2 and nodes is None else math.isqrt(2 * len(pairs)) + 1
    if pairs.shape == (n, n):
        pairs = pairs[np.triu_indices(n, 1)]
    i, j = np.triu_indices(n, 1)
    if len(pairs) != len(i) or (nodes is not None and len(nodes) != n):
        raise QubolearnError(f"show='graph': p has {len(pairs)} pairs; expected n(n-1)/2, or pass a function")
    weights = pairs.reshape(len(pairs), -1)[:, 0]
    names = range(n) if nodes is None else [f"{value:.3g}" for value in np.asarray(nodes)[:, 0]]
    return {"graph": (names, [edge for edge in zip(i, j, weights, strict=True) if edge[2]])}


def _flat(p: Any) -> np.ndarray[Any, Any]:
    parts = p if isinstance(p, (tuple, list)) else p.values() if isinstance(p, dict) else (p,)
    return np.concatenate([np.asarray(part, float).ravel() for part in parts])[:MAX_INPUTS]


VIEWS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "image": _image,
    "table": lambda p: {"table": [["entry", "value"], *enumerate(_flat(p).tolist())]},
    "graph": _graph,
}
