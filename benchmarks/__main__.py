"""Run one benchmark and write benchmarks/results/NAME.json, with versions, machine and commit.

``python -m benchmarks NAME``, or ``make benchmark NAME=...``.
"""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path

import torch

from benchmarks import RESULTS, write

#: name -> module and function below `benchmarks`, and what it measures
BENCHMARKS = {
    "exact": ("exact.exact", "exhaustive search and log Z against dimod.ExactSolver"),
    "exact-gpu": ("exact.exact_on_gpu", "exhaustive search on an NVIDIA GPU"),
    "exact-groups": ("exact.exact_with_groups", "exhaustive search and log Z with one-hot groups"),
    "anneal": ("annealing.small", "annealing of 8 to 32 bits against neal"),
    "anneal-large": ("annealing.large", "annealing of 64 to 5,640 bits, dense and sparse, against neal"),
    "anneal-gpu": ("annealing.on_gpu", "annealing of 100 QUBOs on an NVIDIA GPU and on all CPU cores"),
    "gset-gpu": ("annealing.gset_on_gpu", "67 Gset graphs on an NVIDIA GPU in five minutes"),
    "constraints": ("constraints.constraints", "inequalities and groups, against neal, CP-SAT and 2-opt"),
    "instances": ("instances.instances", "standard instances against all peers at equal CPU seconds, on all cores"),
    "instances-ours": ("instances.ours", "the larger ones of these with our population and auto alone"),
    "time-to-target": ("instances.time_to_target", "seconds to the best known energy with probability 0.99"),
    "quantum": ("annealing.quantum", "simulated quantum annealing against path-integral Monte Carlo"),
    "train": ("training.against_neal", "an epoch of RandGraph with exhaustive search, and with neal per instance"),
    "train-gpu": ("training.on_gpu", "a training step on the CPU, on an NVIDIA GPU, and as a CUDA graph"),
    "fit": ("training.against_a_loop", "fit against a loop written by hand"),
    "sudoku-rules": ("annealing.sudoku", "tempering of puzzles with 17 and 24 hints (dataset sudoku)"),
    "costs": ("costs.quadratic", "regret of losses that learn from costs, on quadratic tasks"),
    "costs-linear": ("costs.linear", "regret and time of SPO+ here and in PyEPO (pip install pyepo pyomo highspy)"),
    "defaults": ("defaults.defaults", "fit with its defaults on three problems, next to logistic chains"),
    "labels": ("labels.labels", "QuboClassifier, chains and powerset SVC on multi-label data sets; 15 CPU minutes"),
    "penalties": ("penalties.penalties", "tuned penalty weights and chain strengths next to the usual rules"),
    "samples": ("samples.from_samples", "Boltzmann machines from samples (pip install dwave-pytorch-plugin)"),
    "rna": ("samples.rna", "base pairs of an RNA family by a Potts model (dataset rna), and ten lines of PyTorch"),
    "serving": ("serving.latency", "latency of predict and of the FastAPI service for 8 to 700 bits"),
    "batch": ("serving.batch", "predict of ten million instances by Ray Data, and of 8 to 700 bits on one core"),
    "batch-gpu": ("serving.batch_on_gpu", "predict of 8 to 700 bits on an NVIDIA GPU"),
    "losses": ("losses.many_bits", "losses for many bits against n; minutes on all cores"),
}
FIGURES = {"instances": "docs/instances.svg", "losses": "docs/many-bits.png"}
EPILOG = "NAME is one of:\n" + "\n".join(f"  {name:<15}{text}" for name, (_, text) in BENCHMARKS.items())


def main() -> None:
    """Parse the command line, measure, print and store the records."""
    plain = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks", None, __doc__, EPILOG, formatter_class=plain)
    parser.add_argument("name", choices=BENCHMARKS, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="measure the smallest size only and write nothing")
    parser.add_argument("--figure", action="store_true", help=f"measure nothing, draw {', '.join(FIGURES.values())}")
    args = parser.parse_args()
    module, function = BENCHMARKS[args.name][0].split(".")
    if args.figure:
        if args.name not in FIGURES:
            parser.error(f"--figure draws {' and '.join(FIGURES)}, got {args.name}")
        records = json.loads((RESULTS / f"{args.name}.json").read_text())["records"]
        import_module(f"benchmarks.{module}").figure(records).savefig(Path(FIGURES[args.name]), dpi=150)
        return
    if args.name.endswith("-gpu") and not torch.cuda.is_available():
        parser.error(f"{args.name} needs an NVIDIA GPU")
    records = []
    for record in getattr(import_module(f"benchmarks.{module}"), function)(args.quick):
        records.append(record)
        print(*(f"{key}={value}" for key, value in record.items()), sep="  ", flush=True)
    if not args.quick:
        write(args.name, records)


if __name__ == "__main__":
    main()
