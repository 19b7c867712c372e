"""Write a run as one page to play with: leaf through instances, clamp bits, switch couplers off, anneal.

The page holds the run's QUBOs for unseen instances as plain numbers, and solves them in the browser: what you change
shows in the answer at once. It is one file below 2 MB that needs no network and nothing beside it. It shows p and the
learned A side by side, the bits on the chip's graph, the lowest states with their answers (exactly up to 18 free bits,
beyond that by annealing), and a histogram of reads, for which sweeps and temperature are sliders.

Of a Sudoku run it shows a grid: type hints, and the learned QUBO fills in the rest.

In the page, the left and right arrow keys leaf through instances. A click on a bit clamps it to 1, then to 0, then
frees it; a click on a coupler, or on its entry of A, switches it off and on. By keyboard, A has a cursor: Tab to it,
then arrow keys and Enter.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from qubolearn.cli.options import add_problem_of_run, count, open_run, seed
from qubolearn.cli.output import Output
from qubolearn.files import make_folder, write_output

EPILOG = """examples:
  qubolearn train randgraph --k 4 --epochs 10 --out runs/k4
  qubolearn explore runs/k4 --out k4.html                     then open k4.html in a browser
  qubolearn train sudoku --out runs/sudoku
  qubolearn explore runs/sudoku --out sudoku.html             type a puzzle of your own
  qubolearn explore runs/k4 --instances 100 --seed 7          other instances, to explore.html"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    parser.add_argument("run", metavar="RUN", help="run folder, model file or pretrained:NAME")
    add_problem_of_run(parser)
    parser.add_argument("--out", default="explore.html", metavar="FILE.html", help="the page [explore.html]")
    parser.add_argument(
        "--instances", type=count, default=24, metavar="N", help="unseen instances to leaf through, if they fit [24]"
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="S", help="which instances [0]")


def run(args: argparse.Namespace, output: Output) -> None:
    here = open_run(args.run, args)
    from qubolearn.explore import page

    with output.progress(f"{here.problem.name}, instances", 1):
        text, data = page(here, args.instances, args.seed)
    out, listed = Path(args.out), data["instances"]
    make_folder(out.parent)
    write_output(out, text.encode())
    hits = sum(each["hit"] for each in listed)
    couplers = f"{data['n']} bits, {len(data['rows'])} couplers"
    if data["dropped"]:
        couplers += f" (the {data['dropped']} weakest did not fit)"
    output.say(f"{args.out}: {len(listed)} instances of {here.problem}, {hits} solved rightly; {couplers}")
    output.result(out=args.out, instances=len(listed), right=hits, bits=data["n"], couplers=len(data["rows"]))
