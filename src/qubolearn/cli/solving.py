"""The commands instances, solve, export and embed."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qubolearn.cli import options
from qubolearn.cli.options import Output
from qubolearn.errors import QubolearnError, counted
from qubolearn.files import make_folder, write_atomic, write_output
from qubolearn.solvers import make_solver

if TYPE_CHECKING:
    from torch import Tensor

    from qubolearn.problems import Problem
    from qubolearn.qubo import Qubo
    from qubolearn.solvers import Solution

Solved = tuple[dict[str, Any], Mapping[str, Any], tuple[str, list[str], list[Any]]]  # arrays, info, table

CHIPS = ("chimera", "pegasus", "zephyr")  # without importing torch
SHOWN = 64  # bits of a state
MAX_ENTRIES = 2**26  # of the written QUBOs: 256 MiB unpacked


def add_instances(parser: argparse.ArgumentParser, first: str | None) -> None:
    options.add_problem(parser, first)
    parser.add_argument("--out", required=True, metavar="FILE.npz", help="output file")
    options.add_count(parser, "--count", 100, "number of instances")
    options.add_shared(parser, "--seed", "--split")


def run_instances(args: argparse.Namespace, output: Output) -> None:
    """Write instances of a problem to an .npz file: p [count, m], x_true [count, n] and the answer.

    examples:
      qubolearn instances randgraph --k 4 --count 100 --seed 1 --out four.npz
    """
    kind = options.problem_class(args.problem)
    problem = kind(**options.chosen(args, kind))
    from qubolearn.data import write_instances
    from qubolearn.random import stream

    instances = problem.sample(args.count, stream(args.seed, args.split), args.split)
    write_instances(Path(args.out), instances, write_output)
    output.say(f"{counted(args.count, 'instance')} of {problem} in {args.out}")
    output.result(problem=problem.name, count=args.count, seed=args.seed, out=args.out)


def add_solve(parser: argparse.ArgumentParser, _: str | None) -> None:
    options.add_run(parser, text="file of a QUBO, or run folder, model file or pretrained:NAME")
    text = "for a run: file with p [count, m]"
    parser.add_argument("instances", nargs="?", metavar="INSTANCES.npz", help=text)
    options.add_shared(parser, "--solver")
    text = "hold bits at values: 3=1,7=0, or an .npz with clamp [count, n] of 0, 1 and -1"
    parser.add_argument("--clamp", metavar="BITS", help=text)
    text = "one bit of each group is 1: the size of equal groups, or a text file with one group per line"
    parser.add_argument("--groups", metavar="SIZE|FILE", help=text)
    text = "output file [QUBO.solved.npz or INSTANCES.solved.npz]"
    parser.add_argument("--out", metavar="FILE.npz", help=text)
    formats = ["rudy", "biqmac", "qbsolv", "coo"]
    parser.add_argument("--format", choices=formats, help="format of a text file of a QUBO [by its content]")
    text = "project a run's bits to valid answers before decoding"
    parser.add_argument("--project", action="store_true", help=text)


def run_solve(args: argparse.Namespace, output: Output) -> None:
    """Solve a QUBO from a file, or instances with a trained run; write bits, energies and, for a run, answers.

    A QUBO is a graph for maximum cut (rudy, as the Gset), or a QUBO as text (qbsolv, BiqMac, COO) or as a dimod BQM
    file, of up to a million bits; a name such as G22 is one of $QUBOLEARN_DATA/instances. The output is an .npz with
    states [1, n] and energies [1]; of a graph, the cut is minus the energy. For a run it has states [count, n],
    energies [count], answers, remarks of the problem and, unless it is too large, A [count, n, n].

    examples:
      qubolearn solve G22.txt --solver population:seconds=6,seed=0
      qubolearn solve chip.coo --clamp 3=1,7=0
      qubolearn solve coloring.bqm --groups 4 --solver tempering:sweeps=2000,seed=0 --out colors.npz
      qubolearn solve runs/k4 four.npz --solver annealing:seed=0 --out solved.npz
    """
    source = Path(args.instances or args.run)
    if source.is_dir():
        raise QubolearnError(f"{source} is a folder; expected a QUBO file, or a run and INSTANCES.npz")
    target = Path(args.out) if args.out else source.with_suffix(".solved.npz")
    if target.resolve() == source.resolve():
        raise QubolearnError(f"--out {target} is the input file; choose another")
    began = time.perf_counter()
    arrays, info, table = (_solve_run if args.instances else _solve_file)(args, source, output)
    from qubolearn.data import write_arrays

    write_arrays(target, write_output if args.out else write_atomic, **arrays)
    output.table(*table)
    output.say(f"{', '.join(arrays)} in {target}")
    result = {} if args.instances else {"energy": arrays["energies"].item()}
    result |= {"count": len(arrays["states"]), "solver": args.solver}
    output.result(
        **result,
        source=str(info.get("source", "unknown")),
        seconds=time.perf_counter() - began,
        out=str(target),
    )


def _solve_file(args: argparse.Namespace, source: Path, output: Output) -> Solved:
    from qubolearn.data import load_instance
    from qubolearn.qubo import read_qubo

    for option in ("project", "problem"):
        if getattr(args, option):
            raise QubolearnError(f"--{option} is for a run and INSTANCES.npz, but {source} is a QUBO")
    named = len(source.parts) == 1 and not source.suffix and not source.exists()
    instance = load_instance(source.name) if named else read_qubo(source, args.format)
    output.say(*(f"{source}: {note}" for note in instance.notes))
    A = instance.A
    solution = _solve(A, args, output, f"n={A.n}")
    states, energies = solution.states[:, 0], solution.energies[:, 0] + instance.offset
    title = f"{source} ({instance.format}): {A.n} bits, {counted(A.edges.shape[1], 'coupling')}"
    values = {"energy": energies.item()} | ({"cut": 0 - energies.item()} if instance.is_cut else {})
    if instance.best is not None:
        values["best known"] = -instance.best if instance.is_cut else instance.best
    row = (_shown(states[0]), int(states.sum()), *(f"{value:.10g}" for value in values.values()))
    arrays = {"states": states.byte(), "energies": energies}
    return arrays, solution.info, (title, ["bits", "ones", *values], [row])


def _solve_run(args: argparse.Namespace, source: Path, output: Output) -> Solved:
    import numpy as np
    import torch

    from qubolearn.data import read_inputs
    from qubolearn.qubo import as_dense

    here = options.open_run(args.run, args)
    problem, p = here.problem, read_inputs(source, here.problem)
    with torch.no_grad():
        A = here.network()(p)
    solution = _solve(A, args, output, counted(len(p), "instance"), problem, p)
    states, energies = solution.states[:, 0], solution.energies[:, 0]
    answers = problem.answer_of(problem.project(states, p) if args.project else states, p)
    remarks = problem.remarks(answers, p)
    arrays: dict[str, Any] = {"states": states.byte(), "energies": energies, "answers": answers}
    arrays |= {"remarks": np.array(remarks)} if remarks else {}
    arrays |= {"A": as_dense(A)} if A.shape.numel() <= MAX_ENTRIES else {}
    columns = map(_shown, states), map("{:.4f}".format, energies.tolist()), answers.tolist()
    rows = list(zip(range(min(5, len(p))), *columns, *([remarks] if remarks else []), strict=False))
    heads = ["instance", "bits", "energy", "answer", *(["remark"] if remarks else [])]
    return arrays, solution.info, (f"{problem}, first {len(rows)} of {len(p)}", heads, rows)


def _shown(state: Tensor) -> str:
    return "".join(str(int(bit)) for bit in state[:SHOWN]) + ("…" if len(state) > SHOWN else "")


def _solve(
    A: Qubo,
    args: argparse.Namespace,
    output: Output,
    what: str,
    problem: Problem | None = None,
    p: Any = None,
) -> Solution:
    """Return the lowest states; options override those of the problem."""
    from qubolearn.solvers import solve

    held: dict[str, Any] = {}
    own = problem.default_solver() if problem and args.solver == "auto" else None
    if problem:
        held = {"clamp": problem.clamp(p), "groups": problem.groups, "constraints": problem.constraints(p)}
    if args.clamp is not None:
        held["clamp"] = options.clamp_from(args.clamp)
    if args.groups is not None:
        held["groups"] = options.groups_from(args.groups, A.shape[2])
    with output.progress(f"{what}, {args.solver}", 1):
        return solve(A, own or make_solver(args.solver), 1, **held)


def add_export(parser: argparse.ArgumentParser, _: str | None) -> None:
    options.add_run(parser)
    parser.add_argument("instances", metavar="INSTANCES.npz", help="file with p [count, m]")
    text = "COO, qbsolv or BiqMac text, or the binary format of dimod [coo]"
    parser.add_argument("--format", choices=["coo", "qbsolv", "biqmac", "bqm"], default="coo", help=text)
    parser.add_argument("--out", metavar="FOLDER", help="new or empty folder for the files [INSTANCES.qubos]")


def run_export(args: argparse.Namespace, output: Output) -> None:
    """Write the QUBO of every instance in a file as text (COO, qbsolv, BiqMac) or as a dimod BQM, one file each.

    examples:
      qubolearn export runs/k4 four.npz --format bqm --out qubos
      python -c "import dimod; print(dimod.BinaryQuadraticModel.from_file(open('qubos/0000.bqm', 'rb').read()))"
    """
    import torch

    from qubolearn.data import read_inputs
    from qubolearn.qubo import to_bqm, write_qubo

    here = options.open_run(args.run, args)
    source = Path(args.instances)
    p = read_inputs(source, here.problem)
    folder = Path(args.out) if args.out else source.with_suffix(".qubos")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise QubolearnError(f"{folder} exists and is not an empty folder; choose another --out")
    network = here.network()
    make_folder(folder)
    with torch.no_grad(), output.progress(counted(len(p), "QUBO"), len(p)) as bar:
        for index, A in enumerate(network(p)):
            if args.format == "bqm":
                with to_bqm(A).to_file() as file:
                    data = file.read()
            else:
                data = write_qubo(A, args.format).encode()
            write_atomic(folder / f"{index:04d}.{args.format}", data)
            bar.advance(bar.task_ids[0])
    output.say(f"{counted(len(p), 'QUBO')} in {folder}")
    output.result(count=len(p), format=args.format, out=str(folder))


def add_embed(parser: argparse.ArgumentParser, _: str | None) -> None:
    text = "run folder, model file, pretrained:NAME or a number of bits"
    parser.add_argument("what", metavar="RUN|BITS", help=text)
    text = "dense, chimera, pegasus or zephyr [that of the run, else dense]"
    parser.add_argument("--topology", metavar="NAME", help=text)
    parser.add_argument("--chip", choices=CHIPS, help="one family of chips [all three]")
    text = "size of the chip, 16 for P16 [the largest built]"
    parser.add_argument("--chip-size", "--size", type=options.count, metavar="M", help=text)


def run_embed(args: argparse.Namespace, output: Output) -> None:
    """Count the qubits and chains of a run on a chip, and how many instances one anneal holds.

    QUBOs on a chip's own topology need one physical qubit per bit. Dense ones are minor-embedded by minorminer
    (pip install 'qubolearn[dwave]').

    examples:
      qubolearn embed 15 --topology pegasus                     15 bits on 15 qubits, many per anneal
      qubolearn embed runs/k4 --chip zephyr --chip-size 12
    """
    from qubolearn.chips.embedding import embed_report
    from qubolearn.chips.topologies import topology
    from qubolearn.recipes import pattern_of

    if args.what.isdecimal():
        pattern = topology(args.topology or "dense", int(args.what))
    else:
        here = options.open_run(args.what)
        own = not args.topology
        pattern = pattern_of(here.problem, here.recipe) if own else topology(args.topology, here.problem.bits)
    chips = [args.chip] if args.chip else CHIPS
    with output.progress(f"embedding {pattern.n} bits", 1):
        reports = [embed_report(pattern, chip, args.chip_size) for chip in chips]
    headers = ["chip", "logical", "physical", "mean chain", "longest", "instances per anneal", "embedding"]
    rows = []
    for r in reports:
        chains = (f"{r.physical_qubits:.1f}", f"{r.chain_mean:.2f}", f"{r.chain_max:.1f}")
        name = f"{r.chip} {r.chip[0].upper()}{r.size}"
        rows.append((name, r.logical_qubits, *chains, r.instances_per_anneal, r.method))
    output.table(f"{pattern.n} bits, {len(pattern.couplers)} couplers ({pattern.name})", headers, rows)
    output.result(reports=[asdict(report) for report in reports])
