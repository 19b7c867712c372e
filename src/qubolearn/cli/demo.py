"""The command demo."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qubolearn.cli.options import count, pick_device, seed
from qubolearn.cli.output import Output, percent
from qubolearn.cli.runs import draw
from qubolearn.cli.training import score, train_with_progress
from qubolearn.errors import missing_extra
from qubolearn.files import write_json
from qubolearn.provenance import provenance
from qubolearn.recipes import preset

if TYPE_CHECKING:
    from torch import Tensor

    from qubolearn.runs import Run

Result = dict[str, Any]
Trained = tuple[list["Run"], list[Result]]
PUZZLES, HINTS = 10, 30
#: Epochs of max-cut, Sudoku and RandGraph.
EPOCHS = (10, 2, 30)


def add_demo(parser: argparse.ArgumentParser, _: str | None) -> None:
    parser.add_argument("--out", default="runs/demo", metavar="DIR", help="folder of runs and pictures [runs/demo]")
    lengths = ", ".join(map(str, EPOCHS))
    parser.add_argument("--epochs", type=count, metavar="N", help=f"maximum epochs of every training run [{lengths}]")
    parser.add_argument("--seed", type=seed, default=0, metavar="S", help="seed of all training runs [0]")


def run_demo(args: argparse.Namespace, output: Output) -> None:
    """Show what couplings add on max-cut, Sudoku and graph matching; no data is needed.

    Max-cut of 8 nodes: a cut and its complement are both right, which bits without couplings cannot express. Sudoku:
    the rules are learned from generated grids as one QUBO of 729 bits, which then solves puzzles. RandGraph with k=4 on
    8 Chimera qubits: a QUBO (coupled), one without couplings (uncoupled), and the bits themselves (direct), with the
    preset best.
    """
    began, folder = time.perf_counter(), Path(args.out)
    lengths = [min(args.epochs or own, own) for own in EPOCHS]
    trained = _heads("maxcut", folder / "maxcut", lengths[0], args.seed, output)
    _show("Max-cut of 8 nodes, 2000 unseen graphs", trained[1], output, optimal="accuracy", cut="ratio")
    soft, sudoku = _sudoku(lengths[1], args.seed, output)
    matched = _heads("randgraph", folder, lengths[2], args.seed, output, k=4)
    title = "RandGraph k=4, 8 Chimera qubits, 2000 unseen graphs"
    _show(title, matched[1], output, accuracy="accuracy", projected="accuracy_projected")
    written = _draw(trained[0], matched[0], soft, folder) if find_spec("matplotlib") else []
    output.say(*written)
    if not written:
        output.say(f"no pictures: {missing_extra('drawing', 'plots')}")
    output.result(
        maxcut={r["head"]: r["accuracy"] for r in trained[1]},
        sudoku=sudoku,
        accuracy={r["head"]: r["accuracy"] for r in matched[1]},
        accuracy_projected={r["head"]: r["accuracy_projected"] for r in matched[1]},
        seconds=round(time.perf_counter() - began, 3),
        pictures=[str(path) for path in written],
        **provenance(),
    )


def _heads(name: str, folder: Path, epochs: int, seed: int, output: Output, **options: Any) -> Trained:
    """Train and score a QUBO, one without couplings, and the bits themselves."""
    from qubolearn.runs import Run

    device, runs, results = pick_device("cpu"), [], []
    for head in ("coupled", "uncoupled", "direct"):
        problem, recipe = preset("best", name, head=head, epochs=epochs, seed=seed, **options)
        here = Run.create(folder / head, problem, recipe)
        output.say(f"training {head} on {name} ...")
        seconds = train_with_progress(here, device, output)
        _, result = score(here, device, 2000, seconds)
        write_json(here.folder / "result.json", result, checksum=True)
        runs.append(here)
        results.append(result)
    return runs, results


def _show(title: str, results: list[Result], output: Output, **metrics: str) -> None:
    rows = [(r["head"], *(percent(r[m]) for m in metrics.values()), f"{r['seconds']:.1f} s") for r in results]
    output.table(title, ["head", *metrics, "training"], rows)


def _sudoku(epochs: int, seed: int, output: Output) -> tuple[Tensor, Result]:
    """Learn the rules, and solve puzzles with them and with the biases alone."""

    from qubolearn.problems.sudoku import Sudoku, learn_rules, rules_found, solve_puzzles
    from qubolearn.random import stream
    from qubolearn.solvers.tempering import ParallelTempering

    output.say("learning the rules of Sudoku from 6000 generated grids ...")
    network, hard, seconds = learn_rules(seed, epochs=epochs)
    soft, found = network.soft().detach(), rules_found(hard.A, 9)
    problem = Sudoku(hints=HINTS, unique=True)
    test = problem.sample(PUZZLES, stream(seed, "test"), "test")
    puzzles = test.p.long()
    answers = solve_puzzles(hard.A, puzzles, ParallelTempering(sweeps=20_000, target="bound", seed=seed))
    solved = int(problem.score(answers.grids, test)["accuracy"].sum())
    guess = soft.diagonal().reshape(81, 9).argmin(1) + 1  # without couplings each cell takes the digit of least bias
    biases = int(problem.score(guess.where(puzzles == 0, puzzles), test)["accuracy"].sum())
    low, high = hard.gaps[0]
    rows = [
        ("given", "one digit per cell (one-hot groups), 6000 solved grids"),
        ("couplings that are rules", f"{found['rules']} of {found['of']}"),
        ("other couplings", str(found["others"])),
        ("gap between other couplings and rules", f"{low:.2f} to {high:.2f}"),
        ("learned in", f"{seconds:.1f} s"),
        (f"puzzles of about {HINTS} hints solved with couplings", f"{solved} of {PUZZLES}"),
        ("solved with biases alone", f"{biases} of {PUZZLES}"),
    ]
    output.table("Sudoku, 729 bits", ["", ""], rows)
    found |= {"gap": [low, high], "seconds": round(seconds, 3)}
    return soft, {**found, "puzzles": PUZZLES, "solved": solved, "solved_by_biases": biases}


def _draw(cuts: Sequence[Run], graphs: Sequence[Run], soft: Tensor, folder: Path) -> list[Path]:
    from qubolearn import plots

    pictures = {
        "maxcut-answers.png": plots.answers(cuts[0]),
        "sudoku-rules.png": plots.grid_couplings(soft, 9, [0, 40, 65]),
    }
    return [*draw(graphs, folder), *(plots.save(picture, folder / name) for name, picture in pictures.items())]
