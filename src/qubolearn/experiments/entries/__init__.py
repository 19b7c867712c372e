"""One declarative entry per table and figure of the paper, and ours beside it: which jobs fill it."""

from __future__ import annotations

from collections.abc import Mapping

from qubolearn.errors import unknown_name
from qubolearn.experiments.entries import annealers, graphs, pointset, rotation
from qubolearn.experiments.entries.contract import Entry

__all__ = ["ENTRIES", "Entry", "entry"]

ENTRIES: Mapping[str, Entry] = {**graphs.ENTRIES, **annealers.ENTRIES, **pointset.ENTRIES, **rotation.ENTRIES}


def entry(name: str) -> Entry:
    """An entry by name."""
    if name not in ENTRIES:
        raise unknown_name("item", name, ENTRIES)
    return ENTRIES[name]
