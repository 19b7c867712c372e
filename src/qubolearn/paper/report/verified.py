"""What ``qubolearn reproduce --verify`` found, as a table: ``results/verify.json`` is its result with ``--json``."""

from __future__ import annotations

from pathlib import Path

from qubolearn.errors import QubolearnError
from qubolearn.files import read_json
from qubolearn.paper.grid.verify import AGAIN
from qubolearn.paper.grid.views import markdown_table

__all__ = ["verified_table"]


def verified_table(results: Path, name: str = "verify") -> str:
    """How many records came out how, and the largest difference of each kind; ``name`` is that of the file."""
    path = results / f"{name}.json"
    if not path.is_file():
        raise QubolearnError(f"no {path}; run: qubolearn reproduce --verify 20 --json > {path}")
    made = read_json(path)
    rows = []
    for again, said in AGAIN.items():
        found = [each for each in made["records"] if each["again"] == again]
        far = max(found, key=lambda each: each["difference"] or 0.0, default=None)
        where = f"{far['job']}: {far['where']}, {100 * far['difference']:.2g} %" if far and far["difference"] else "–"
        rows.append((f"{again}: {said}", str(len(found)), where))
    left = "; ".join(f"{count} {reason}" for reason, count in made["left_out"].items()) or "none"
    chosen = f"{len(made['records'])} of {made['of']} records, chosen by `--seed {made['seed']}`; left out: {left}"
    code = f"commit `{made.get('commit', '–')[:12]}`, {made['date'][:10]}"
    note = f"*{chosen}. Tolerance {100 * made['tolerance']:g} %. {made['machine']}; {code}.*"
    return f"{markdown_table(['', 'records#', 'the largest difference'], rows)}\n{note}\n"
