"""Execute the gallery's notebooks, each in its own kernel: ``python tools/notebooks.py [NUMBER ...] [--out FILE]``.

Notebooks are made as on the site. benchmarks/results/notebooks.json records seconds,
pictures and errors. Exits with 1 if one fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from sphinx_gallery.notebook import python_to_jupyter_cli

from qubolearn.provenance import provenance

ROOT = Path(__file__).parents[1]
LIMIT = 600  # seconds for one cell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", metavar="NUMBER", help="which examples, e.g. 04 [all]")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/notebooks.json")
    given = parser.parse_args()
    found = json.loads(given.out.read_text())["notebooks"] if given.numbers and given.out.is_file() else {}
    for path in sorted([*ROOT.glob("gallery/plot_*.py"), *ROOT.glob("reproduction/gallery/plot_*.py")]):
        if not given.numbers or path.stem.split("_")[1] in given.numbers:
            found[path.stem] = ran(path)
            print(path.stem, found[path.stem], flush=True)
    result = {"notebooks": dict(sorted(found.items())), **provenance()}
    given.out.write_text(json.dumps(result, indent=2) + "\n")
    return int(any("error" in each for each in found.values()))


def ran(example: Path) -> dict[str, Any]:
    """Execute an example's notebook in an empty folder; return the outcome."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, example.name)
        copy.write_text(example.read_text())
        python_to_jupyter_cli([str(copy)])
        notebook = nbformat.read(copy.with_suffix(".ipynb"), as_version=4)
        began, said = time.perf_counter(), {}
        try:
            NotebookClient(notebook, timeout=LIMIT, resources={"metadata": {"path": folder}}).execute()
        except CellExecutionError as error:
            said["error"] = f"{error.ename}: {error.evalue}"
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = sum("image/png" in output.get("data", {}) for output in outputs)
    if not pictures:
        said.setdefault("error", "shows no picture")
    return {"seconds": round(time.perf_counter() - began, 1), "pictures": pictures, **said}


if __name__ == "__main__":
    sys.exit(main())
