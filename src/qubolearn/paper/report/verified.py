"""What ``qubolearn reproduce --verify`` found, as a table: ``results/verify.json`` is its result with ``--json``."""

from __future__ import annotations

import math
from pathlib import Path

from qubolearn.errors import QubolearnError
from qubolearn.files import read_json
from qubolearn.paper.grid.verify import AGAIN
from qubolearn.paper.grid.views import markdown_table

__all__ = ["verified_table"]


def verified_table(results: Path) -> str:
    """How many records came out how, and the largest difference of each kind."""
    path = results / "verify.json"
    if not path.is_file():
        raise QubolearnError(f"no {path}; run: qubolearn reproduce --verify 20 --json > {path}")
    made = read_json(path)
    rows = []
    for again, said in AGAIN.items():
        found = [each for each in made["records"] if each["again"] == again]
        # no difference is one that cannot be said: a metric that is gone, a job that failed
        by_size = {math.inf if each["difference"] is None else each["difference"]: each for each in found}
        far = max(by_size, default=0.0)
        size = f", {100 * far:.2g} %" if far < math.inf else ""
        where = f"{by_size[far]['job']}: {by_size[far]['where']}{size}" if far else "–"
        rows.append((f"{again}: {said}", str(len(found)), where))
    left = "; ".join(f"{count} {reason}" for reason, count in made["left_out"].items()) or "none"
    chosen = f"{len(made['records'])} of {made['of']} records, chosen by `--seed {made['seed']}`; left out: {left}"
    code = f"commit `{made.get('commit', '–')[:12]}`, {made['date'][:10]}"
    each = "[record by record](../results/verify.json)"
    note = f"*{chosen}. Tolerance {100 * made['tolerance']:g} %. {made['machine']}; {code}; {each}.*"
    return f"{markdown_table(['', 'records#', 'the largest difference'], rows)}\n{note}\n"
