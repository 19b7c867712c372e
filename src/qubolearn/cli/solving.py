"""The commands instances, solve, export and embed: instances and QUBOs in files and on chips."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qubolearn.cli.options import (
    add_constraints,
    add_draw,
    add_problem,
    add_run,
    add_solver,
    chosen,
    clamp_from,
    count,
    groups_from,
    open_run,
    problem_class,
)
from qubolearn.cli.output import Output
from qubolearn.errors import QubolearnError, counted
from qubolearn.files import make_folder, write_atomic, write_output
from qubolearn.solvers import make_solver

if TYPE_CHECKING:
    from torch import Tensor

    from qubolearn.chips.topologies import Topology
    from qubolearn.problems import Problem
    from qubolearn.qubo import Qubo
    from qubolearn.solvers import Solution

Solved = tuple[dict[str, Any], Mapping[str, Any], tuple[str, list[str], list[Any]]]  # arrays, info, table

CHIPS = ("chimera", "pegasus", "zephyr")  # topologies.FAMILIES, without importing torch
#: Bits of a state that are shown.
SHOWN = 64
#: QUBOs of a run's instances are written if they have no more entries: 256 MiB before compression.
MAX_ENTRIES = 2**26


def add_instances(parser: argparse.ArgumentParser, first: str | None) -> None:
    add_problem(parser, first)
    parser.add_argument("--out", required=True, metavar="FILE.npz", help="output file")
    add_draw(parser, "--count", 100, "number of instances")


def run_instances(args: argparse.Namespace, output: Output) -> None:
    """Write instances of a problem to an .npz file: p [count, m], x_true [count, n] and the answer.

    examples:
      qubolearn instances randgraph --k 4 --count 100 --seed 1 --out four.npz
    """
    kind = problem_class(args.problem)
    problem = kind(**chosen(args, kind))
    from qubolearn.data import write_instances
    from qubolearn.random import stream

    instances = problem.sample(args.count, stream(args.seed, args.split), args.split)
    write_instances(Path(args.out), instances, write_output)
    output.say(f"{counted(args.count, 'instance')} of {problem} in {args.out}")
    output.result(problem=problem.name, count=args.count, seed=args.seed, out=args.out)


def add_solve(parser: argparse.ArgumentParser, _: str | None) -> None:
    add_run(parser, text="file of a QUBO, or run folder, model file or pretrained:NAME")
    parser.add_argument("instances", nargs="?", metavar="INSTANCES.npz", help="for a run: file with p [count, m]")
    add_solver(parser)
    add_constraints(parser)
    parser.add_argument("--out", metavar="FILE.npz", help="output file [QUBO.solved.npz or INSTANCES.solved.npz]")
    formats = ["rudy", "biqmac", "qbsolv", "coo"]
    parser.add_argument("--format", choices=formats, help="format of a text file of a QUBO [by its content]")
    parser.add_argument("--project", action="store_true", help="project a run's bits to valid answers before decoding")


def run_solve(args: argparse.Namespace, output: Output) -> None:
    """Solve a QUBO from a file, or instances with a trained run; write bits, energies and, for a run, answers.

    A QUBO is a graph for maximum cut (rudy, as the Gset), or a QUBO as text (qbsolv, BiqMac, COO) or as a dimod BQM
    file, of up to a million bits; a name such as G22 is one of $QUBOLEARN_DATA/instances. Solvers that take sparse
    QUBOs (annealing, population, tempering, auto) never make it dense. The output is an .npz with states [1, n] and
    energies [1]; of a graph, the cut is minus the energy. For a run it has states [count, n], energies [count],
    answers, remarks of the problem and, unless it is too large, A [count, n, n], in the order of the instances. States
    and energies include clamped bits.

    examples:
      qubolearn solve G22.txt --solver population:seconds=6,seed=0
      qubolearn solve chip.coo --clamp 3=1,7=0
      qubolearn solve coloring.bqm --groups 4 --solver tempering:sweeps=2000,seed=0 --out colors.npz
      qubolearn instances randgraph --k 4 --count 10 --out four.npz
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
    result = {"count": len(arrays["states"]), "solver": args.solver, "source": str(info.get("source", "unknown"))}
    result |= {} if args.instances else {"energy": arrays["energies"].item()}
    output.result(**result, seconds=time.perf_counter() - began, out=str(target))


def _solve_file(args: argparse.Namespace, source: Path, output: Output) -> Solved:
    from qubolearn.data import load_instance
    from qubolearn.qubo import read_qubo

    for option in ("project", "problem"):
        if getattr(args, option):
            raise QubolearnError(f"--{option} is for a run with INSTANCES.npz, but {source} is read as a QUBO")
    named = len(source.parts) == 1 and not source.suffix and not source.exists()
    instance = load_instance(source.name) if named else read_qubo(source, args.format)
    output.say(*(f"{source}: {note}" for note in instance.notes))
    A = instance.A
    solution = _solve(A, args, output, f"n={A.n}")
    states, energies = solution.states[:, 0], solution.energies[:, 0] + instance.offset
    title = f"{source} ({instance.format}): {A.n} bits, {counted(A.edges.shape[1], 'coupling')}"
    values = {"energy": energies.item()} | ({"cut": -energies.item()} if instance.is_cut else {})
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

    here = open_run(args.run, args)
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
    rows = [
        (i, _shown(states[i]), f"{energies[i]:.4f}", answers[i].tolist(), *remarks[i : i + 1])
        for i in range(min(5, len(p)))
    ]
    heads = ["instance", "bits", "energy", "answer", *(["remark"] if remarks else [])]
    return arrays, solution.info, (f"{problem}, first {len(rows)} of {len(p)}", heads, rows)


def _shown(state: Tensor) -> str:
    return "".join(str(int(bit)) for bit in state[:SHOWN]) + ("…" if len(state) > SHOWN else "")


def _solve(
    A: Qubo, args: argparse.Namespace, output: Output, what: str, problem: Problem | None = None, p: Any = None
) -> Solution:
    """Return the lowest states; --clamp, --groups and --solver override those of the problem."""
    from qubolearn.solvers import solve

    held = problem.clamp(p) if problem else None
    clamp = held if args.clamp is None else clamp_from(args.clamp)
    groups = problem.groups if problem else None
    if args.groups is not None:
        groups = groups_from(args.groups, A.shape[2])
    constraints = problem.constraints(p) if problem else ()
    own = problem.default_solver() if problem and args.solver == "auto" else None
    with output.progress(f"{what}, {args.solver}", 1):
        return solve(A, own or make_solver(args.solver), 1, clamp=clamp, groups=groups, constraints=constraints)


def add_export(parser: argparse.ArgumentParser, _: str | None) -> None:
    add_run(parser)
    parser.add_argument("instances", metavar="INSTANCES.npz", help="file with p [count, m]")
    text = "COO, qbsolv or BiqMac text, or the binary format of dimod [coo]"
    parser.add_argument("--format", choices=["coo", "qbsolv", "biqmac", "bqm"], default="coo", help=text)
    parser.add_argument("--out", metavar="FOLDER", help="new or empty folder for the files [INSTANCES.qubos]")


def run_export(args: argparse.Namespace, output: Output) -> None:
    """Write the QUBO of every instance in a file as text (COO, qbsolv, BiqMac) or as a dimod BQM, one file each.

    examples:
      qubolearn export runs/k4 four.npz --format coo --out qubos
      qubolearn export runs/k4 four.npz --format bqm --out qubos
      python -c "import dimod; print(dimod.BinaryQuadraticModel.from_file(open('qubos/0000.bqm', 'rb').read()))"
    """
    import torch

    from qubolearn.data import read_inputs
    from qubolearn.qubo import to_bqm, write_qubo

    here = open_run(args.run, args)
    source = Path(args.instances)
    p = read_inputs(source, here.problem)
    folder = Path(args.out) if args.out else source.with_suffix(".qubos")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise QubolearnError(f"{folder} exists and is not an empty folder; choose another --out")
    network = here.network()
    make_folder(folder)
    with torch.no_grad(), output.progress(counted(len(p), "QUBO"), len(p)) as bar:
        for index, A in enumerate(network(p)):
            if args.format != "bqm":
                data = write_qubo(A, args.format).encode()
            else:
                with to_bqm(A).to_file() as file:
                    data = file.read()
            write_atomic(folder / f"{index:04d}.{args.format}", data)
            bar.advance(bar.task_ids[0])
    output.say(f"{counted(len(p), 'QUBO')} in {folder}")
    output.result(count=len(p), format=args.format, out=str(folder))


def add_embed(parser: argparse.ArgumentParser, _: str | None) -> None:
    parser.add_argument("what", metavar="RUN|BITS", help="run folder, model file, pretrained:NAME or a number of bits")
    text = "dense, chimera, pegasus or zephyr [that of the run, else dense]"
    parser.add_argument("--topology", metavar="NAME", help=text)
    parser.add_argument("--chip", choices=CHIPS, help="one family of chips [all three]")
    text = "size of the chip, 16 for P16 [the largest built]"
    parser.add_argument("--chip-size", "--size", type=count, metavar="M", help=text)


def run_embed(args: argparse.Namespace, output: Output) -> None:
    """Count the qubits and chains of a run on a chip, and how many instances one anneal holds.

    QUBOs on a chip's own topology need one physical qubit per bit. Dense ones are minor-embedded by minorminer
    (pip install 'qubolearn[dwave]').

    examples:
      qubolearn embed 15 --topology pegasus                     15 bits on 15 qubits, many per anneal
      qubolearn embed 25 --topology dense                       any number of bits
      qubolearn embed runs/k4 --chip zephyr --chip-size 12
    """
    from qubolearn.chips.embedding import EmbedReport, embed_report

    pattern = _pattern(args)
    chips = [args.chip] if args.chip else list(CHIPS)
    reports: list[EmbedReport] = []
    with output.progress(f"embedding {pattern.n} bits", len(chips)) as bar:
        for chip in chips:
            reports.append(embed_report(pattern, chip, args.chip_size))
            bar.advance(bar.task_ids[0])
    headers = ["chip", "logical", "physical", "mean chain", "longest", "instances per anneal", "embedding"]
    rows = []
    for r in reports:
        chains = (f"{r.physical_qubits:.1f}", f"{r.chain_mean:.2f}", f"{r.chain_max:.1f}")
        name = f"{r.chip} {r.chip[0].upper()}{r.size}"
        rows.append((name, r.logical_qubits, *chains, r.instances_per_anneal, r.method))
    output.table(f"{pattern.n} bits, {len(pattern.couplers)} couplers ({pattern.name})", headers, rows)
    output.result(reports=[asdict(report) for report in reports])


def _pattern(args: argparse.Namespace) -> Topology:
    """Return the topology of a number of bits or of a run."""
    from qubolearn.chips.topologies import topology
    from qubolearn.recipes import pattern_of

    if args.what.isdecimal():
        return topology(args.topology or "dense", int(args.what))
    here = open_run(args.what)
    return topology(args.topology, here.problem.bits) if args.topology else pattern_of(here.problem, here.recipe)
