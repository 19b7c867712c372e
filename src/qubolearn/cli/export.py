"""Write the QUBO of every instance in a file as COO text or as a dimod BQM, one file each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qubolearn.cli.options import add_problem_of_run, open_run
from qubolearn.cli.output import Output
from qubolearn.errors import QubolearnError
from qubolearn.files import make_folder, write_atomic

if TYPE_CHECKING:
    from torch import Tensor

EPILOG = """examples:
  qubolearn export runs/k4 four.npz --format coo --out qubos
  qubolearn export runs/k4 four.npz --format bqm --out qubos
  python -c "import dimod; print(dimod.BinaryQuadraticModel.from_file(open('qubos/0000.bqm', 'rb').read()))" """


def coo_bytes(A: Tensor) -> bytes:
    from qubolearn.qubo import to_coo

    return to_coo(A).encode()


def bqm_bytes(A: Tensor) -> bytes:
    from qubolearn.qubo import to_bqm

    with to_bqm(A).to_file() as file:
        return bytes(file.read())


FORMATS = {"coo": coo_bytes, "bqm": bqm_bytes}


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("run", metavar="DIR", help="run folder of a training")
    parser.add_argument("instances", metavar="INSTANCES.npz", help="file with p [count, m]")
    parser.add_argument(
        "--format", choices=list(FORMATS), default="coo", help="COO text or dimod's binary format [coo]"
    )
    add_problem_of_run(parser)
    parser.add_argument("--out", metavar="FOLDER", help="new or empty folder for the files [INSTANCES.qubos]")


def run(args: argparse.Namespace, output: Output) -> None:
    import torch

    from qubolearn.problems.files import read_inputs

    here = open_run(args.run, args)
    source = Path(args.instances)
    p = read_inputs(source, here.problem)
    folder = Path(args.out) if args.out else source.with_suffix(".qubos")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise QubolearnError(f"{folder} exists and is not an empty folder; choose another --out")
    network = here.network()
    make_folder(folder)
    with torch.no_grad(), output.progress(f"{len(p)} QUBOs", len(p)) as bar:
        for index, A in enumerate(network(p)):
            write_atomic(folder / f"{index:04d}.{args.format}", FORMATS[args.format](A))
            bar.advance(bar.task_ids[0])
    output.say(f"{len(p)} QUBOs in {folder}")
    output.result(count=len(p), format=args.format, out=str(folder))
