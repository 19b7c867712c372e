"""One declarative entry per table and figure of the paper, and ours beside it: which jobs fill it."""

from __future__ import annotations

from collections.abc import Mapping

from quant_reproduction.grid.entries import annealers, clouds, couplings, graphs, search
from quant_reproduction.grid.entries.contract import SEEDS, Entry

__all__ = ["ENTRIES", "SEEDS", "Entry"]

ENTRIES: Mapping[str, Entry] = {
    **graphs.ENTRIES,
    **annealers.ENTRIES,
    **clouds.ENTRIES,
    **search.ENTRIES,
    **couplings.ENTRIES,
}
