"""The command demo."""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qubolearn.cli.options import Output, count, percent, pick_device, seed
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
EPOCHS = (10, 2, 30)  # of max-cut, Sudoku and RandGraph


def add_demo(parser: argparse.ArgumentParser, _: str | None) -> None:
    text = "folder of runs and pictures [runs/demo]"
    parser.add_argument("--out", default="runs/demo", metavar="DIR", help=text)
    text = f"maximum epochs of every training run {[*EPOCHS]}"
    parser.add_argument("--epochs", type=count, metavar="N", help=text)
    parser.add_argument("--seed", type=seed, default=0, metavar="S", help="seed of all training runs [0]")


def run_demo(args: argparse.Namespace, output: Output) -> None:
    """Show in two minutes what couplings add, in tables and one picture; no data is needed.

    Max-cut of 8 nodes: a cut and its complement are both right, which bits without couplings cannot express. Sudoku:
    the rules are learned from generated grids as one QUBO of 729 bits, which then solves puzzles. Graph matching is the
    control: each bit can be read from the input, so all three heads learn it.
    """
    began, folder = time.perf_counter(), Path(args.out)
    lengths = [min(args.epochs or own, own) for own in EPOCHS]
    cuts = _heads("maxcut", folder / "maxcut", lengths[0], args.seed, output)
    title = "Max-cut of 8 nodes, 2000 unseen graphs: optimal cuts, and edges cut relative to the largest cut"
    _show(title, cuts[1], output, optimal="accuracy", edges="ratio")
    soft, sudoku = _sudoku(lengths[1], args.seed, output)
    matches = _heads("randgraph", folder, lengths[2], args.seed, output, k=4)
    title = "Control: graph matching, 4 nodes, 2000 unseen graphs; every bit can be read from the input,"
    title += "\nso all heads should be correct. Projected: moved to the nearest permutation"
    _show(title, matches[1], output, correct="accuracy", projected="accuracy_projected")
    drawn = _draw(cuts, matches, soft, folder / "demo.png") if find_spec("matplotlib") else None
    output.say(f"picture: {drawn}" if drawn else f"no picture: {missing_extra('drawing', 'plots')}")
    scores: Result = {"maxcut": {r["head"]: r["accuracy"] for r in cuts[1]}, "sudoku": sudoku}
    for metric in ("accuracy", "accuracy_projected"):
        scores[metric] = {r["head"]: r[metric] for r in matches[1]}
    scores |= {"seconds": round(time.perf_counter() - began, 3), "picture": drawn and str(drawn)}
    output.result(**scores, **provenance())


def _heads(name: str, folder: Path, epochs: int, seed: int, output: Output, **options: Any) -> Trained:
    from qubolearn.runs import Run

    device, runs, results = pick_device("cpu"), list[Run](), list[Result]()
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
    guess = soft.diagonal().reshape(81, 9).argmin(1) + 1  # the digit of least bias
    biases = int(problem.score(guess.where(puzzles == 0, puzzles), test)["accuracy"].sum())
    low, high = hard.gaps[0]
    rows = [
        ("couplings that are rules", f"{found['rules']} of {found['of']}"),
        ("other couplings", str(found["others"])),
        ("gap between other couplings and rules", f"{low:.2f} to {high:.2f}"),
        ("learned in", f"{seconds:.1f} s"),
        (f"puzzles of about {HINTS} hints solved", f"{solved} of {PUZZLES}"),
        ("solved with biases alone", f"{biases} of {PUZZLES}"),
    ]
    output.table("Sudoku, 729 bits, one-hot cells, 6000 solved grids", ["", ""], rows)
    found |= {"gap": [low, high], "seconds": round(seconds, 3)}
    return soft, {**found, "puzzles": PUZZLES, "solved": solved, "solved_by_biases": biases}


def _draw(cuts: Trained, matches: Trained, soft: Tensor, path: Path) -> Path:
    from qubolearn import plots
    from qubolearn.evaluation import solve_instances
    from qubolearn.random import stream

    figure, axes = plots.figure(4, 1, width=3.3, height=3.6)
    problem = cuts[0][0].problem
    graphs = problem.sample(101, stream(0, "picture"), "test")
    states = (solve_instances(run.network(), graphs.p, problem=problem)[0] for run in cuts[0][:2])
    found = [*map(problem.decode, states)]
    typical = int(problem.score(found[1], graphs)["ratio"].argsort()[50])  # the median without couplings
    shown = slice(typical, typical + 1)
    for axis, answer, result, word in zip(axes, found, cuts[1], ("with", "without"), strict=False):
        problem.picture(axis, graphs.rows(shown), answer[shown])  # type: ignore[attr-defined]
        axis.set_title(f"Max-cut {word} couplings:\n{percent(result['accuracy'])} of the cuts are optimal")
        axis.set(xticks=[], yticks=[])
    plots.grid_couplings(soft, 9, [40], axes[2])
    axes[2].set_title("Sudoku: a cell (cross) learned to repel\nits digit in its row, column and box")
    _draw_match(matches[0][0], axes[3])
    for axis in axes:
        axis.title.set_fontsize(10)
    figure.suptitle("QUBOs learned from solved examples, applied to unseen ones")
    return plots.save(figure, path)


def _draw_match(run: Run, axis: Any) -> None:
    """Draw a graph, a permuted copy, and the match found; thick edges weigh more."""
    import torch

    from qubolearn.evaluation import solve_instances
    from qubolearn.problems.randgraph import pairwise_weights
    from qubolearn.random import stream

    D, P = torch.rand(4, 4, generator=stream(0, "picture")), torch.tensor([2, 0, 3, 1])
    copy = D[P.argsort()][:, P.argsort()]  # node i is node P[i] of the copy
    p = pairwise_weights(D[None], copy[None]).flatten(1)
    found = run.problem.decode(solve_instances(run.network(), p, problem=run.problem)[0])[0]
    partners = found.argsort().tolist()  # node of D of each node of the copy
    for weights, nodes, top in ((D + D.T, range(4), 2.2), (copy + copy.T, partners, 0.0)):
        corners = [(0, top + 1), (1.8, top + 1), (1.8, top), (0, top)]
        for i, j in zip(*torch.triu_indices(4, 4, 1).tolist(), strict=True):
            ends = zip(corners[i], corners[j], strict=True)
            axis.plot(*ends, "0.5", lw=2 * weights[i, j].item() ** 2, zorder=1)
        for (x, y), node in zip(corners, nodes, strict=True):
            axis.plot(x, y, "o", ms=20, mec="k", mfc=f"C{node}")
            axis.text(x, y, "abcd"[node], ha="center", va="center", color="w", weight="bold")
    axis.set(xlim=(-0.5, 2.3), ylim=(-0.4, 3.6), xticks=[], yticks=[], frame_on=False)
    axis.set_title(f"Graph matching: {int((found == P).sum())} of 4 nodes\nfound again in a permuted copy")
