"""The command embed."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from qubolearn.cli.options import add_fields, chosen, count, is_problem, open_run, problem_class
from qubolearn.cli.output import Output
from qubolearn.errors import QubolearnError
from qubolearn.problems import problem_names

if TYPE_CHECKING:
    from qubolearn.chips.topologies import Topology

CHIPS = ("chimera", "pegasus", "zephyr")  # topologies.FAMILIES, without importing torch


def add_embed(parser: argparse.ArgumentParser, first: str | None) -> None:
    text = f"a problem ({', '.join(problem_names())}), a run folder, or a number of bits"
    parser.add_argument("what", metavar="PROBLEM|RUN|BITS", help=text)
    text = "dense, chimera, pegasus, zephyr, own [that of the run or problem, else dense]"
    parser.add_argument("--topology", metavar="NAME", help=text)
    parser.add_argument("--chip", choices=CHIPS, help="one family of chips [all three]")
    kind = problem_class(first) if first and is_problem(first) else None
    # a problem may have its own option --size, as Sudoku has
    names = ["--chip-size"] if "size" in getattr(kind, "__dataclass_fields__", {}) else ["--chip-size", "--size"]
    parser.add_argument(*names, type=count, metavar="M", help="size of the chip, 16 for P16 [the largest built]")
    if kind:
        add_fields(parser, kind, f"options of {first}")


def run_embed(args: argparse.Namespace, output: Output) -> None:
    """Count the qubits and chains of a problem or run on a chip, and how many instances one anneal holds.

    QUBOs on a chip's own topology need one physical qubit per bit. Dense ones are minor-embedded by minorminer
    (pip install 'qubolearn[dwave]').

    examples:
      qubolearn embed randgraph --k 5 --topology pegasus        15 bits on 15 qubits, many per anneal
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
    """Return the topology of a number of bits, a problem or a run; ``own`` is the one that the problem defines."""
    from qubolearn.chips.topologies import topology

    if args.what.isdecimal():
        return topology(args.topology or "dense", int(args.what))
    if is_problem(args.what):
        kind = problem_class(args.what)
        problem = kind(**chosen(args, kind))
        name = args.topology or ("own" if hasattr(problem, "topology") else "dense")
    elif Path(args.what).exists() or args.what.startswith("pretrained:"):
        here = open_run(args.what)
        problem, name = here.problem, args.topology or here.recipe.topology
    else:
        raise QubolearnError(f"{args.what!r} is not a problem, a run folder or a number of bits")
    own = getattr(problem, "topology", None) if name == "own" else None
    pattern: Topology = topology(name, problem.bits) if own is None else own()
    return pattern
