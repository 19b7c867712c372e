"""Solve a QUBO from a file, or instances with a trained run; writes bits, energies and, of a run, decoded answers.

A QUBO is COO text or a BQM file of dimod's, as qubolearn export writes them, of up to a million bits; it is never made
a dense matrix for a solver that takes sparse ones (annealing, tempering, auto). The file written is an .npz with states
[1, n] and energies [1]; of a run with A [count, n, n] (where that is not too large), states [count, n], energies
[count], answers and what the problem remarks on them, in the order of the instances. States hold all bits, clamped ones
too, and energies are those of the whole QUBO.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qubolearn.cli.constraints import add_constraints, clamp_from, groups_from
from qubolearn.cli.options import add_problem_of_run, add_solver, open_run
from qubolearn.cli.output import Output
from qubolearn.errors import QubolearnError
from qubolearn.files import write_atomic, write_output
from qubolearn.solvers import make_solver

if TYPE_CHECKING:
    from qubolearn.problems import Problem
    from qubolearn.qubo import Clamp, Qubo
    from qubolearn.solvers import Solution

EPILOG = """examples:
  qubolearn solve chip.coo --clamp 3=1,7=0
  qubolearn solve colouring.bqm --groups 4 --solver tempering:sweeps=2000,seed=0 --out colours.npz
  qubolearn instances randgraph --k 4 --count 10 --out four.npz
  qubolearn solve runs/k4 four.npz --solver annealing:seed=0 --out solved.npz"""

#: Bits that are shown of a state.
SHOWN = 64
#: Entries of all QUBOs of a run's instances up to which they are written: 256 MiB before they are packed.
MOST_ENTRIES = 2**26


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("source", metavar="QUBO|DIR", help="file of a QUBO, or run folder of a training")
    parser.add_argument("instances", nargs="?", metavar="INSTANCES.npz", help="of a run: file with p [count, m]")
    add_solver(parser)
    add_constraints(parser)
    add_problem_of_run(parser)
    parser.add_argument("--out", metavar="FILE.npz", help="where to write [QUBO.solved.npz or INSTANCES.solved.npz]")
    parser.add_argument("--project", action="store_true", help="project a run's bits to valid answers before decoding")


def run(args: argparse.Namespace, output: Output) -> None:
    source = Path(args.instances or args.source)
    if source.is_dir():
        raise QubolearnError(f"{source} is a folder; want a QUBO file, or a run and INSTANCES.npz")
    target = Path(args.out) if args.out else source.with_suffix(".solved.npz")
    if target.resolve() == source.resolve():
        raise QubolearnError(f"--out {target} is the file to be solved; choose another")
    began = time.perf_counter()
    (_solve_run if args.instances else _solve_file)(args, source, target, output, began)


def _solve_file(args: argparse.Namespace, source: Path, target: Path, output: Output, began: float) -> None:
    from qubolearn.qubo.files import read_qubo

    for option in ("project", "problem"):
        if getattr(args, option):
            raise QubolearnError(f"--{option} belongs to a run with INSTANCES.npz, and {source} is taken as a QUBO")
    A, offset = read_qubo(source)
    solution = _solved(A, args, output, f"n={A.n}", None, None)
    states, energies = solution.states[:, 0], solution.energies[:, 0] + offset
    _write(args, target, states=states, energies=energies)
    found = "".join(str(int(bit)) for bit in states[0, :SHOWN]) + ("…" if A.n > SHOWN else "")
    title = f"{source}: {A.n} bits, {A.edges.shape[1]} couplings"
    output.table(title, ["bits", "ones", "energy"], [(found, int(states.sum()), f"{energies.item():.6g}")])
    output.say(f"bits and energy in {target}")
    _result(args, output, solution, 1, target, began, energy=energies.item())


def _solve_run(args: argparse.Namespace, source: Path, target: Path, output: Output, began: float) -> None:
    import numpy as np
    import torch

    from qubolearn.problems.files import read_inputs
    from qubolearn.qubo import as_dense

    here = open_run(args.source, args)
    p = read_inputs(source, here.problem)
    with torch.no_grad():
        A = here.network()(p)
    solution = _solved(A, args, output, f"{len(p)} instances", here.problem, here.problem.clamp(p))
    states = solution.states[:, 0]
    answers = here.problem.answer_of(here.problem.project(states, p) if args.project else states, p)
    said = here.problem.remarks(answers, p)
    found: dict[str, Any] = {"remarks": np.array(said)} if said else {}
    if A.shape.numel() <= MOST_ENTRIES:
        found["A"] = as_dense(A)
    _write(args, target, states=states, energies=solution.energies[:, 0], answers=answers, **found)
    rows = [
        (
            i,
            "".join(str(int(bit)) for bit in states[i, :SHOWN]) + ("…" if states.shape[1] > SHOWN else ""),
            f"{solution.energies[i, 0]:.4f}",
            answers[i].tolist(),
            *said[i : i + 1],
        )
        for i in range(min(5, len(p)))
    ]
    heads = ["instance", "bits", "energy", "answer", *(["remark"] if said else [])]
    output.table(f"{here.problem}, first {len(rows)} of {len(p)}", heads, rows)
    output.say(f"{'QUBOs, bits' if 'A' in found else 'bits'} and answers in {target}")
    _result(args, output, solution, len(p), target, began)


def _solved(
    A: Qubo, args: argparse.Namespace, output: Output, what: str, problem: Problem | None, clamp: Clamp | None
) -> Solution:
    """The lowest states; --clamp and --groups go before what the problem says, --solver before its own solver."""
    from qubolearn.solvers import solve

    clamp = clamp if args.clamp is None else clamp_from(args.clamp)
    groups = groups_from(args.groups, A.shape[2])
    if problem and groups is None:
        groups = problem.groups
    own = problem.default_solver() if problem and args.solver == "auto" else None
    with output.progress(f"{what}, {args.solver}", 1):
        return solve(A, own or make_solver(args.solver), 1, clamp=clamp, groups=groups)


def _write(args: argparse.Namespace, target: Path, **found: Any) -> None:
    import torch

    from qubolearn.problems.files import write_arrays

    found["states"] = found["states"].to(torch.uint8)
    write_arrays(target, write_output if args.out else write_atomic, **found)


def _result(
    args: argparse.Namespace, output: Output, solution: Solution, count: int, target: Path, began: float, **more: float
) -> None:
    source = str(solution.info.get("source", "unknown"))
    seconds = time.perf_counter() - began
    output.result(count=count, solver=args.solver, source=source, seconds=seconds, out=str(target), **more)
