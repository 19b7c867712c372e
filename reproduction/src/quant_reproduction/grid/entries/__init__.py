"""One declarative entry per table and figure: the jobs that fill it."""

from __future__ import annotations

from collections.abc import Mapping

from quant_reproduction.grid.entries import annealers, clouds, couplings, graphs
from quant_reproduction.grid.views import Entry

_PARTS = (graphs.ENTRIES, annealers.ENTRIES, clouds.ENTRIES, clouds.SEARCHES, couplings.ENTRIES)
ENTRIES: Mapping[str, Entry] = {name: entry for part in _PARTS for name, entry in part.items()}
