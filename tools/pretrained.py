"""Train the models of the package and score them on unseen instances: ``python tools/pretrained.py``.

Run it from a clean commit, which the files store.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from qubolearn import Run, evaluate
from qubolearn.recipes import preset, train

OUT = Path(__file__).parents[1] / "src/qubolearn/training/models"
#: name -> (problem, options of the preset ``best``)
MODELS: dict[str, tuple[str, dict[str, int]]] = {
    "matching": ("randgraph", {"k": 4}),
    "maxcut": ("maxcut", {"nodes": 10}),
    "knapsack": ("knapsack", {"items": 6}),
    "sudoku": ("sudoku", {"size": 4}),
}
INSTANCES = 1000  # for the score
LIMIT = 1_000_000  # bytes of all files together


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {', '.join(MODELS)} [all]")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FOLDER", help="where to")
    parser.add_argument("--quick", action="store_true", help="train for one epoch, score 50 instances")
    given = parser.parse_args()
    if unknown := set(given.names) - set(MODELS):
        parser.error(f"no model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    with tempfile.TemporaryDirectory() as scratch:
        made = {name: trained(name, Path(scratch), given.quick) for name in given.names or MODELS}
        for name, path in made.items():
            given.out.mkdir(parents=True, exist_ok=True)
            (given.out / path.name).write_bytes(path.read_bytes())
            print(f"{name}: {path.stat().st_size} bytes, {Run.load(path).scored()}")
    total = sum(path.stat().st_size for path in given.out.glob("*.safetensors"))
    print(f"{total} bytes together (limit {LIMIT})")
    return int(total > LIMIT)


def trained(name: str, folder: Path, quick: bool) -> Path:
    kind, options = MODELS[name]
    problem, recipe = preset("best", kind, **options, **({"epochs": 1} if quick else {}))
    run = Run.create(folder / name, problem, recipe)
    network = train(problem, recipe, run)
    score = evaluate(network, problem, instances=50 if quick else INSTANCES, seed=0)
    plain = replace(score, info={})  # reproducible, without seconds
    return run.save(folder / f"{name}.safetensors", plain)


if __name__ == "__main__":
    sys.exit(main())
