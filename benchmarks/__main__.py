"""Run one benchmark and write benchmarks/results/NAME.json."""

from __future__ import annotations

import argparse
import ast
import json
from importlib import import_module
from pathlib import Path

import torch

from benchmarks import RESULTS, write

#: name -> module and function, whose docstring describes it
BENCHMARKS = {
    "exact": "exact.exact",
    "exact-gpu": "exact.exact_on_gpu",
    "anneal": "annealing.small",
    "anneal-large": "annealing.large",
    "anneal-gpu": "annealing.on_gpu",
    "gset-gpu": "annealing.gset_on_gpu",
    "constraints": "constraints.constraints",
    "instances": "instances.instances",
    "time-to-target": "instances.time_to_target",
    "quantum": "annealing.quantum",
    "train-gpu": "training.on_gpu",
    "fit": "training.against_a_loop",
    "costs": "costs.quadratic",
    "costs-linear": "costs.linear",
    "defaults": "defaults.defaults",
    "defaults-variants": "defaults.variants",
    "labels": "labels.labels",
    "penalties": "penalties.penalties",
    "samples": "samples.from_samples",
    "rna": "samples.rna",
    "serving": "serving.latency",
    "batch": "serving.batch",
    "batch-gpu": "serving.batch_on_gpu",
    "losses": "losses.many_bits",
}
FIGURE = Path("docs/instances.svg")


def listed() -> str:
    """Return all names with their first docstring lines, without imports."""
    lines = ["NAME is one of:"]
    for name, place in BENCHMARKS.items():
        module, function = place.split(".")
        parsed = ast.parse((Path(__file__).parent / f"{module}.py").read_text())
        (found,) = (each for each in parsed.body if getattr(each, "name", "") == function)
        lines.append(f"  {name:<15}{(ast.get_docstring(found) or '').splitlines()[0]}")
    return "\n".join(lines)


def main() -> None:
    plain = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks", None, __doc__, listed(), formatter_class=plain)
    parser.add_argument("name", choices=BENCHMARKS, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="measure the smallest size and write nothing")
    parser.add_argument("--figure", action="store_true", help=f"measure nothing, draw {FIGURE} (instances)")
    args = parser.parse_args()
    if args.figure:
        from benchmarks.instances import figure

        figure(json.loads((RESULTS / "instances.json").read_text())["records"]).savefig(FIGURE)
        return
    if args.name.endswith("-gpu") and not torch.cuda.is_available():
        parser.error(f"{args.name} needs an NVIDIA GPU")
    module, function = BENCHMARKS[args.name].split(".")
    records = []
    for record in getattr(import_module(f"benchmarks.{module}"), function)(args.quick):
        records.append(record)
        print(*(f"{key}={value}" for key, value in record.items()), sep="  ", flush=True)
    if not args.quick:
        write(args.name, records)


if __name__ == "__main__":
    main()
