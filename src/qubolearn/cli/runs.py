"""The commands info, runs, plot and explore, which show runs."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qubolearn.cli.options import add_run, add_seed, count, open_run
from qubolearn.cli.output import Output
from qubolearn.errors import QubolearnError, counted, printable
from qubolearn.files import make_folder, read_json, write_output
from qubolearn.problems import Problem, problem_type
from qubolearn.recipes import renamed

if TYPE_CHECKING:
    from qubolearn.runs import Run


def add_info(parser: argparse.ArgumentParser, _: str | None) -> None:
    add_run(parser, "?", "run folder, model file or pretrained:NAME [list the pretrained models]")
    text = "write the trained model to this file, whose name ends in .safetensors"
    parser.add_argument("--save", metavar="FILE", help=text)


def run_info(args: argparse.Namespace, output: Output) -> None:
    """Show the problem, recipe, score and versions of a run folder or model file; --save writes a model file.

    A model file is one safetensors file that evaluate, solve, export and compare accept instead of a run folder. Its
    weights are read and checked; nothing in it is executed. Without RUN, list the models that come with qubolearn,
    which commands accept as pretrained:NAME.

    examples:
      qubolearn info                                    the models that come with qubolearn
      qubolearn info pretrained:matching
      qubolearn info runs/k4 --save k4.safetensors
      qubolearn evaluate k4.safetensors
    """
    if args.run is None:
        if args.save:
            raise QubolearnError(f"--save {args.save} requires a run; pass a run folder, or a model as pretrained:NAME")
        _list_pretrained(output)
        return
    here = open_run(args.run, args)
    network = here.network()  # checks the file against its weights
    score, trained = here.scored(), here.trained_with()
    options: dict[str, object] = asdict(here.problem) if is_dataclass(here.problem) else {}
    weights = sum(tensor.numel() for tensor in network.state_dict().values())
    rows: list[tuple[str, object]] = [("problem", here.problem), ("bits", here.problem.bits), ("weights", weights)]
    rows += [*asdict(here.recipe).items(), *((f"score: {name}", value) for name, value in score.items())]
    rows += [(f"trained with {name}", value) for name, value in {**trained["versions"], **trained["code"]}.items()]
    output.table(args.run, ["", ""], [(printable(name), printable(str(value))) for name, value in rows])
    if args.save:
        here.save(Path(args.save))
        output.say(f"saved: {args.save}")
    described = {"problem": {"name": here.problem.name, **options}, "recipe": asdict(here.recipe), "score": score}
    output.result(run=args.run, finished=here.finished, weights=weights, **described, **trained, saved=args.save)


def _list_pretrained(output: Output) -> None:
    from qubolearn.runs import pretrained, pretrained_names

    found = []
    for name in pretrained_names():
        here = pretrained(name)
        problem, score, size = here.problem, here.scored(), here.weights().stat().st_size
        scored = {"metric": problem.metric, "score": score[problem.metric], "instances": score["instances"]}
        found.append(
            {"name": f"pretrained:{name}", "problem": problem.name, "bits": problem.bits, **scored, "bytes": size}
        )
    rows = [[f"{value:.4g}" if isinstance(value, float) else value for value in model.values()] for model in found]
    output.table("models that come with qubolearn", list(found[0]), rows)
    output.result(models=found)


def add_runs(parser: argparse.ArgumentParser, _: str | None) -> None:
    parser.add_argument("folder", nargs="?", default="runs", metavar="FOLDER", help="where to look [runs]")


def run_runs(args: argparse.Namespace, output: Output) -> None:
    """List the run folders below a folder: problem, head, epochs, score on unseen instances, and date.

    A folder that cannot be read is listed with its error. Nothing in the folders is executed.

    examples:
      qubolearn runs
      qubolearn runs results --json
    """
    if not os.path.isdir(args.folder):
        raise QubolearnError(f"not a folder: {args.folder}; train a run with: qubolearn train ... --out FOLDER")
    rows = [summary(folder) for folder in find_runs(Path(args.folder))]
    table = [
        [os.path.relpath(row["run"], args.folder), *([row["error"], *4 * [""]] if "error" in row else _cells(row))]
        for row in rows
    ]
    title = f"{counted(len(rows), 'run')} below {args.folder}"
    output.table(title, ["run", "problem", "head", "epochs", "score", "date"], table)
    output.result(runs=rows)


def find_runs(folder: Path) -> Iterator[Path]:
    """Yield the folders with a config.json at or below a folder, sorted; links are not followed."""
    for here, below, files in os.walk(folder):
        below[:] = [] if "config.json" in files else sorted(below)
        if "config.json" in files:
            yield Path(here)


def summary(folder: Path) -> dict[str, Any]:
    """Return the settings of a run and its score if it has one, or the error of a folder that is not a run."""
    try:
        header = read_json(folder / "config.json")
        problem, training = header.get("problem"), header.get("training")
        if not isinstance(problem, dict) or not isinstance(training, dict):
            raise QubolearnError("config.json lacks 'problem' or 'training'")
        result = read_json(folder / "result.json") if (folder / "result.json").is_file() else {}
    except QubolearnError as error:
        return {"run": printable(str(folder)), "error": str(error)}
    name, metric = printable(str(problem.get("name")))[:60], Problem.metric
    with suppress(QubolearnError):  # a class in a user's file
        metric = problem_type(name).metric
    when = max(path.stat().st_mtime for path in folder.iterdir() if path.is_file())
    found: dict[str, Any] = {"run": printable(str(folder)), "problem": name}
    found |= {"head": printable(str(renamed(training).get("head")))[:20]}
    found |= {key: _number(training, key) for key in ("epochs", "seed")}
    found |= {"finished": (folder / "model.safetensors").is_file(), "metric": metric, "score": _number(result, metric)}
    date = time.strftime("%Y-%m-%d %H:%M", time.localtime(when))
    return {**found, "instances": _number(result, "instances"), "date": date}


def _number(values: Mapping[str, Any], name: str) -> float | int | None:
    value = values.get(name)
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300  # NaN does not
    return value if fits else None


def _cells(row: Mapping[str, Any]) -> list[object]:
    score = f"{row['metric']} {row['score']:.4g}" if row["score"] is not None else "-"
    return [row["problem"], row["head"], row["epochs"], score if row["finished"] else "not finished", row["date"]]


def add_plot(parser: argparse.ArgumentParser, _: str | None) -> None:
    add_run(parser, "+")
    parser.add_argument("--out", metavar="FOLDER", help="where to write [the first RUN]")
    parser.add_argument("--format", choices=["png", "svg"], default="png", help="file format [png]")


def run_plot(args: argparse.Namespace, output: Output) -> None:
    """Draw Hamming histograms and couplings over training, and the curves of all runs.

    Problems that can draw an instance with its answer, such as max-cut, are shown with unseen ones; Sudoku runs also
    with the learned couplings, which show the rules.

    examples:
      qubolearn plot runs/k4
      qubolearn plot runs/coupled runs/uncoupled runs/direct --out pictures --format svg
    """
    written = draw([open_run(folder, args) for folder in args.runs], Path(args.out or args.runs[0]), args.format)
    output.say(*written)
    output.result(files=[str(path) for path in written])


def draw(runs: Sequence[Run], folder: Path, suffix: str = "png") -> list[Path]:
    """Draw all pictures of runs into a folder and return their paths."""
    from qubolearn import plots

    scored = [here for here in runs if here.problem.available("validation") != 0]  # the others have no scores
    pictures: dict[str, Any] = {"curves": plots.curves(scored)} if scored else {}
    for here in runs:
        pictures |= {f"{here.folder.name}-{name}": picture for name, picture in plots.pictures(here).items()}
    return [plots.save(picture, folder / f"{name}.{suffix}") for name, picture in pictures.items()]


def add_explore(parser: argparse.ArgumentParser, _: str | None) -> None:
    add_run(parser)
    parser.add_argument("--out", default="explore.html", metavar="FILE.html", help="the page [explore.html]")
    text = "unseen instances to show, if they fit [24]"
    parser.add_argument("--instances", type=count, default=24, metavar="N", help=text)
    add_seed(parser)


def run_explore(args: argparse.Namespace, output: Output) -> None:
    """Write an interactive page about a run: browse instances, clamp bits, switch couplers off, anneal.

    The page contains the run's QUBOs for unseen instances as plain numbers and solves them in the browser, so the
    answer follows every change at once. It is one file below 2 MB that needs no network. It shows p and the learned A,
    the bits on the chip's graph, the lowest states with their answers (exact up to 18 free bits, annealed beyond), and
    a histogram of reads with sliders for sweeps and temperature. For a Sudoku run it shows a grid: type hints, and the
    learned QUBO fills in the rest.

    The left and right arrow keys move through the instances. Click a bit to clamp it to 1, then to 0, then to free it;
    click a coupler, or its entry of A, to switch it off and on. By keyboard, Tab to A, then use arrow keys and Enter.

    examples:
      qubolearn train randgraph --k 4 --epochs 10 --out runs/k4
      qubolearn explore runs/k4 --out k4.html                     then open k4.html in a browser
      qubolearn explore pretrained:sudoku --out sudoku.html       type your own puzzle
      qubolearn explore runs/k4 --instances 100 --seed 7          other instances, to explore.html
    """
    here = open_run(args.run, args)
    from qubolearn.explore import page

    with output.progress(f"{here.problem.name}, instances", 1):
        text, data = page(here, args.instances, args.seed)
    make_folder(Path(args.out).parent)
    write_output(Path(args.out), text.encode())
    instances, couplers = len(data["instances"]), len(data["rows"])
    hits = sum(each["hit"] for each in data["instances"])
    size = f"{data['n']} bits, {counted(couplers, 'coupler')}"
    if data["dropped"]:
        size += f" (the {data['dropped']} weakest did not fit)"
    output.say(f"{args.out}: {counted(instances, 'instance')} of {here.problem}, {hits} solved correctly; {size}")
    output.result(out=args.out, instances=instances, right=hits, bits=data["n"], couplers=couplers)
