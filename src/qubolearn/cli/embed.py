"""What a problem or a run costs on a chip: qubits, chains, and how many instances one anneal holds.

QUBOs on a chip's own pattern need one physical qubit per bit. Dense ones are minor-embedded by minorminer
(pip install 'qubolearn[dwave]').
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from qubolearn.cli.options import add_fields, chosen, count, is_problem, named_problem, open_run, problem_class
from qubolearn.cli.output import Output
from qubolearn.errors import QubolearnError
from qubolearn.problems import problem_names

if TYPE_CHECKING:
    from qubolearn.chips.topologies import Topology
    from qubolearn.problems import Problem

EPILOG = """examples:
  qubolearn embed randgraph --k 5 --topology pegasus        15 bits on 15 qubits, many per anneal
  qubolearn embed pointset --topology dense --chip pegasus  9 dense bits
  qubolearn embed 25 --topology dense                       any number of bits
  qubolearn embed runs/k4 --chip zephyr --chip-size 12"""

CHIPS = ("chimera", "pegasus", "zephyr")  # topologies.FAMILIES, without importing torch


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    text = f"a problem ({', '.join(problem_names())}), a run folder, or a number of bits"
    parser.add_argument("what", metavar="PROBLEM|DIR|BITS", help=text)
    parser.add_argument(
        "--topology",
        default=None,
        metavar="NAME",
        help="dense, chimera, pegasus, zephyr, own [that of the run or problem, else dense]",
    )
    parser.add_argument("--chip", choices=CHIPS, default=None, help="one family of chips [all three]")
    kind = problem_class(name) if (name := named_problem(parser, argv)) else None
    # a problem may have a size of its own, as Sudoku has
    words = ["--chip-size"] if "size" in getattr(kind, "__dataclass_fields__", {}) else ["--chip-size", "--size"]
    parser.add_argument(
        *words, type=count, default=None, metavar="M", help="size of the chip, 16 for P16 [the largest built]"
    )
    if kind:
        add_fields(parser, kind, f"options of {name}")


def run(args: argparse.Namespace, output: Output) -> None:
    from qubolearn.chips.embedding import EmbedReport, embed_report

    pattern = _pattern(args)
    chips = [args.chip] if args.chip else list(CHIPS)
    reports: list[EmbedReport] = []
    with output.progress(f"embedding {pattern.n} bits", len(chips)) as bar:
        for chip in chips:
            reports.append(embed_report(pattern, chip, args.chip_size))
            bar.advance(bar.task_ids[0])
    headers = ["chip", "logical", "physical", "mean chain", "longest", "instances per anneal", "embedding"]
    rows = [
        (
            f"{r.chip} {r.chip[0].upper()}{r.size}",
            r.logical_qubits,
            f"{r.physical_qubits:.1f}",
            f"{r.chain_mean:.2f}",
            f"{r.chain_max:.1f}",
            r.instances_per_anneal,
            r.method,
        )
        for r in reports
    ]
    output.table(f"{pattern.n} bits, {len(pattern.couplers)} couplers ({pattern.name})", headers, rows)
    output.result(reports=[asdict(report) for report in reports])


def _pattern(args: argparse.Namespace) -> Topology:
    from qubolearn.chips.topologies import topology

    if args.what.isdecimal():
        return topology(args.topology or "dense", int(args.what))
    if is_problem(args.what):
        kind = problem_class(args.what)
        problem = kind(**chosen(args, kind))
        return _asked(args.topology or ("own" if hasattr(problem, "topology") else "dense"), problem)
    if not Path(args.what).exists() and not args.what.startswith("pretrained:"):
        raise QubolearnError(f"{args.what!r} is no problem, run folder or number of bits")
    here = open_run(args.what)
    return _asked(args.topology or here.recipe.topology, here.problem)


def _asked(name: str, problem: Problem) -> Topology:
    """A pattern of the bits of a problem by its name; ``own`` is the one that the problem has."""
    from qubolearn.chips.topologies import topology

    own = getattr(problem, "topology", None) if name == "own" else None
    pattern: Topology = topology(name, problem.bits) if own is None else own()
    return pattern
