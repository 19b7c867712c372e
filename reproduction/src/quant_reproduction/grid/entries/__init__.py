"""One declarative entry per table and figure: the jobs that fill it."""

from __future__ import annotations

from collections.abc import Mapping

from quant_reproduction.grid.entries import annealers, clouds, couplings, graphs
from quant_reproduction.grid.views import Entry

ENTRIES: Mapping[str, Entry] = {
    **graphs.ENTRIES,
    **annealers.ENTRIES,
    **clouds.ENTRIES,
    **clouds.SEARCHES,
    **couplings.ENTRIES,
}
