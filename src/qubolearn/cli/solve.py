"""Solve instances from a file with a trained run: writes QUBOs, bits and decoded answers.

The file written is an .npz with A [count, n, n], states [count, n], energies [count] and answers, in the order of
the instances.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from qubolearn.cli.options import add_problem_of_run, add_solver, open_run
from qubolearn.cli.output import Output
from qubolearn.errors import QubolearnError
from qubolearn.files import write_atomic, write_output
from qubolearn.solvers import auto_solver, make_solver, solve

EPILOG = """examples:
  qubolearn instances randgraph --k 4 --count 10 --out four.npz
  qubolearn solve runs/k4 four.npz --solver annealing:seed=0 --out solved.npz"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("run", metavar="DIR", help="run folder of a training")
    parser.add_argument("instances", metavar="INSTANCES.npz", help="file with p [count, m]")
    add_solver(parser)
    add_problem_of_run(parser)
    parser.add_argument("--out", metavar="FILE.npz", help="where to write [INSTANCES.solved.npz]")
    parser.add_argument("--project", action="store_true", help="project the bits to valid answers before decoding")


def run(args: argparse.Namespace, output: Output) -> None:
    import torch

    from qubolearn.problems.files import read_inputs, write_arrays

    here = open_run(args.run, args)
    source = Path(args.instances)
    target = Path(args.out) if args.out else source.with_suffix(".solved.npz")
    if target.resolve() == source.resolve():
        raise QubolearnError(f"--out {target} is the instances themselves; choose another file")
    p = read_inputs(source, here.problem)
    solver = make_solver(args.solver)
    if args.solver == "auto":
        solver = here.problem.default_solver() or auto_solver(here.problem.bits, groups=here.problem.groups)
    began = time.perf_counter()
    with torch.no_grad(), output.progress(f"{len(p)} instances, {args.solver}", 1):
        A = here.network()(p)
        solution = solve(A, solver, 1, clamp=here.problem.clamp(p), groups=here.problem.groups)
    states = solution.states[:, 0]
    answers = here.problem.decode(here.problem.project(states, p) if args.project else states)
    found = {"A": A, "states": states.to(torch.uint8), "energies": solution.energies[:, 0], "answers": answers}
    write_arrays(target, write_output if args.out else write_atomic, **found)
    seconds = time.perf_counter() - began
    shown = 5
    rows = [
        (i, "".join(str(int(bit)) for bit in states[i]), f"{solution.energies[i, 0]:.4f}", answers[i].tolist())
        for i in range(min(shown, len(p)))
    ]
    output.table(f"{here.problem}, first {len(rows)} of {len(p)}", ["instance", "bits", "energy", "answer"], rows)
    output.say(f"QUBOs, bits and answers in {target}")
    source_of_truth = str(solution.info.get("source", "unknown"))
    output.result(count=len(p), solver=args.solver, source=source_of_truth, seconds=seconds, out=str(target))
