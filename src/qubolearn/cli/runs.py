"""The commands evaluate, compare, info, runs, plot and explore."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qubolearn.cli.options import Output, add_count, add_run, add_shared, metric_rows, open_run, pick_device
from qubolearn.errors import QubolearnError, counted, printable
from qubolearn.files import make_folder, read_json, read_records, write_output
from qubolearn.provenance import provenance
from qubolearn.solvers import make_solver

if TYPE_CHECKING:
    from torch import Tensor

    from qubolearn.evaluation import Evaluation
    from qubolearn.runs import Run


def _add_scoring(parser: argparse.ArgumentParser) -> None:
    add_count(parser, "--instances", 2000, "instances to score")
    add_shared(parser, "--seed", "--split", "--solver", "--device")


def add_evaluate(parser: argparse.ArgumentParser, _: str | None) -> None:
    add_run(parser)
    _add_scoring(parser)
    text = "report the metric after projection to valid answers"
    parser.add_argument("--project", action="store_true", help=text)


def run_evaluate(args: argparse.Namespace, output: Output) -> None:
    """Score a trained run on unseen instances, with any solver and seed.

    examples:
      qubolearn evaluate runs/k4 --instances 5000 --seed 7
      qubolearn evaluate runs/k4 --solver annealing:reads=20,sweeps=50,seed=1
      qubolearn evaluate runs/k4 --solver quantum:seed=1          simulated quantum annealing
      qubolearn evaluate runs/mine --problem my_file.py:MyProblem
    """
    here = open_run(args.run, args)
    problem = here.problem
    with output.progress(f"{problem.name}, {args.solver}", 1):
        (found,) = _evaluations(args, problem, [here])
    headline = f"{problem.metric}_projected" if args.project else problem.metric
    if headline not in found.metrics:
        raise QubolearnError(f"{problem.name} has no projection; omit --project")
    extra = [(name, f"{value:.4g}") for name, value in found.info.items() if isinstance(value, float)]
    title = f"{problem}, solver {args.solver} ({found.info.get('source', 'unknown')}), seed {args.seed}"
    output.table(title, [f"on {found.instances} {args.split} instances", ""], [*metric_rows(found), *extra])
    header = {"problem": problem.name, "head": here.recipe.head, "solver": args.solver}
    result = {**header, "seed": args.seed, "headline": found.metrics[headline], **found.as_dict()}
    output.result(seconds=found.info["solve_seconds"], **result, **provenance())


def _evaluations(args: argparse.Namespace, problem: Any, runs: list[Run]) -> Iterator[Evaluation]:
    from qubolearn.evaluation import evaluate

    # the problem may have its own default
    solver, device = None if args.solver == "auto" else make_solver(args.solver), pick_device(args.device)
    for run in runs:
        network = run.network().to(device)
        yield evaluate(network, problem, solver, args.instances, args.seed, args.split, device)


def add_compare(parser: argparse.ArgumentParser, _: str | None) -> None:
    add_run(parser, "+", "run folders of the same problem")
    _add_scoring(parser)


def run_compare(args: argparse.Namespace, output: Output) -> None:
    """Score runs of one problem on the same unseen instances.

    For two runs, the mean difference per instance and its 95 % interval are shown as well. Instances that are hard for
    both runs cancel, so it is more precise than the two scores.

    examples:
      qubolearn compare runs/coupled runs/uncoupled --instances 5000
    """
    runs = [open_run(folder, args) for folder in args.runs]
    problem, found = runs[0].problem, []
    for folder, here in zip(args.runs, runs, strict=True):
        if here.problem != problem:
            raise QubolearnError(f"{folder} is of {here.problem}, {args.runs[0]} of {problem}")
    with output.progress(f"{problem.name}, {args.solver}", len(runs)) as bar:
        for each in _evaluations(args, problem, runs):
            found.append(each)
            bar.advance(bar.task_ids[0])
    means = [{n: value for n, value in each.metrics.items() if not n.endswith("_median")} for each in found]
    difference = paired(found[0].scores, found[1].scores) if len(found) == 2 else {}
    change = {name: f"{each['mean']:+.4g} ± {each['interval']:.2g}" for name, each in difference.items()}
    rows = [[name, *(f"{mean[name]:.4g}" for mean in means), change.get(name, "")] for name in means[0]]
    instances = found[0].instances
    title = f"{problem} on {instances} {args.split} instances, solver {args.solver}, seed {args.seed}"
    output.table(title, ["", *args.runs, "second - first, ± 95 %" if difference else ""], rows)
    header = {"problem": problem.name, "metric": problem.metric, "instances": instances}
    header |= {"solver": args.solver, "split": args.split, "seed": args.seed}
    compared = [{"run": folder, **mean} for folder, mean in zip(args.runs, means, strict=True)]
    output.result(**header, runs=compared, difference=difference, **provenance())


def paired(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> dict[str, dict[str, float]]:
    """Return mean, half 95 % interval and counts of second - first per metric."""
    found = {}
    for name in first:
        change = second[name].double() - first[name].double()
        error = change.std().item() / math.sqrt(len(change)) if len(change) > 1 else 0.0
        counts = {"higher": int((change > 0).sum()), "lower": int((change < 0).sum())}
        found[name] = {"mean": change.mean().item(), "interval": 1.96 * error, **counts}
    return found


def add_info(parser: argparse.ArgumentParser, _: str | None) -> None:
    add_run(parser, "?", "run folder, model file or pretrained:NAME [list the pretrained models]")
    text = "write the trained model to this file, whose name ends in .safetensors"
    parser.add_argument("--save", metavar="FILE", help=text)


def run_info(args: argparse.Namespace, output: Output) -> None:
    """Show the problem, recipe, score and versions of a run folder or model file; --save writes a model file.

    A model file is one safetensors file that commands accept instead of a run folder; nothing in it is executed.
    Without RUN, list the models that come with qubolearn, which commands accept as pretrained:NAME.

    examples:
      qubolearn info runs/k4 --save k4.safetensors
      qubolearn evaluate k4.safetensors
    """
    if args.run is None and args.save:
        raise QubolearnError(f"--save {args.save} requires a run; pass a folder or pretrained:NAME")
    if args.run is None:
        _list_pretrained(output)
        return
    here = open_run(args.run, args)
    network = here.network()  # checks the file
    score, trained = here.scored(), here.trained_with()
    options: dict[str, object] = asdict(here.problem) if is_dataclass(here.problem) else {}
    weights = sum(tensor.numel() for tensor in network.state_dict().values())
    shown = {"problem": here.problem, "bits": here.problem.bits, "weights": weights, **asdict(here.recipe)}
    shown |= {f"score: {name}": value for name, value in score.items()}
    code = {**trained["versions"], **trained["code"]}
    shown |= {f"trained with {name}": value for name, value in code.items()}
    rows = [(printable(name), printable(str(value))) for name, value in shown.items()]
    output.table(args.run, ["", ""], rows)
    if args.save:
        here.save(Path(args.save))
        output.say(f"saved: {args.save}")
    problem = {"name": here.problem.name, **options}
    described = {"problem": problem, "recipe": asdict(here.recipe), "score": score, **trained}
    output.result(run=args.run, finished=here.finished, weights=weights, **described, saved=args.save)


def _list_pretrained(output: Output) -> None:
    from qubolearn.runs import pretrained, pretrained_names

    found = []
    for name in pretrained_names():
        here = pretrained(name)
        problem, score = here.problem, here.scored()
        model = {"name": f"pretrained:{name}", "problem": problem.name, "bits": problem.bits}
        model |= {"metric": problem.metric, "score": score[problem.metric]}
        size = {"instances": score["instances"], "bytes": here.weights().stat().st_size}
        found.append({**model, **size})
    rows = [[f"{x:.4g}" if isinstance(x, float) else x for x in model.values()] for model in found]
    output.table("models that come with qubolearn", list(found[0]), rows)
    output.result(models=found)


def add_runs(parser: argparse.ArgumentParser, _: str | None) -> None:
    parser.add_argument("folder", nargs="?", default="runs", metavar="FOLDER", help="where to look [runs]")


def run_runs(args: argparse.Namespace, output: Output) -> None:
    """List the run folders below a folder with their scores; one that is not a run is listed with its error."""
    if not Path(args.folder).is_dir():
        raise QubolearnError(f"not a folder: {args.folder}; train a run: qubolearn train ... --out FOLDER")
    found = [_summary(path.parent) for path in sorted(Path(args.folder).rglob("config.json"))]
    heads = ["run", "problem", "network", "epochs", "state", "accuracy"]
    rows = [[printable(str(run.get(key, "")))[:80] for key in heads] for run in found]
    output.table(f"{counted(len(found), 'run')} below {args.folder}", heads, rows)
    output.result(runs=found)


def _summary(folder: Path) -> dict[str, Any]:
    """Return the contents of a run's JSON files, or their error."""
    try:
        header = read_json(folder / "config.json")
        result, metrics = folder / "result.json", folder / "metrics.jsonl"  # a run of fit has only the latter
        scores = read_records(metrics, 2**26) if metrics.is_file() else []
        scores += [read_json(result)] if result.is_file() else []
    except QubolearnError as error:
        return {"run": str(folder), "problem": str(error)}
    parts = (header.get(key) for key in ("problem", "training"))
    problem, training = (part if isinstance(part, dict) else {} for part in parts)
    state = "finished" if (folder / "model.safetensors").is_file() else "not finished"
    found = {"run": str(folder), "problem": problem.get("name"), "network": training.get("network")}
    chosen = _numbers({key: training.get(key) for key in ("epochs", "seed")})
    return {**found, **chosen, "state": state, **_numbers(scores[-1] if scores else {})}


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of untrusted values."""
    numbers = {name: value for name, value in values.items() if isinstance(value, (int, float))}
    return {name: value for name, value in numbers.items() if abs(value) < 1e300}


def add_plot(parser: argparse.ArgumentParser, _: str | None) -> None:
    add_run(parser, "+")
    parser.add_argument("--out", metavar="FOLDER", help="output folder [the first RUN]")
    parser.add_argument("--format", choices=["png", "svg"], default="png", help="file format [png]")


def run_plot(args: argparse.Namespace, output: Output) -> None:
    """Draw histograms of wrong bits over training, and the curves of all runs.

    Problems that can draw an instance with its answer, such as max-cut, are shown with unseen ones.

    examples:
      qubolearn plot runs/coupled runs/uncoupled runs/direct --out pictures --format svg
    """
    from qubolearn import plots

    runs, folder = [open_run(name, args) for name in args.runs], Path(args.out or args.runs[0])
    scored = [here for here in runs if here.problem.available("validation") != 0]  # others have no scores
    pictures: dict[str, Any] = {"curves": plots.curves(scored)} if scored else {}
    for here in runs:
        pictures |= {f"{here.folder.name}-{name}": picture for name, picture in plots.pictures(here).items()}
    written = [plots.save(picture, folder / f"{name}.{args.format}") for name, picture in pictures.items()]
    output.say(*written)
    output.result(files=[str(path) for path in written])


def add_explore(parser: argparse.ArgumentParser, _: str | None) -> None:
    add_run(parser)
    parser.add_argument("--out", default="explore.html", metavar="FILE.html", help="the page [explore.html]")
    add_count(parser, "--instances", 24, "unseen instances to show, if they fit")
    text = "how to draw p: image, table, graph, or a function in a file of yours (docs/explore.md)"
    parser.add_argument("--show", metavar="NAME|FILE.py:FUNCTION", help=text)
    add_shared(parser, "--seed")


def run_explore(args: argparse.Namespace, output: Output) -> None:
    """Write an interactive page about a run: browse instances, clamp bits, switch couplers off, anneal.

    The page is one file below 2 MB that needs no network. For a Sudoku run it shows a grid: type hints, and the learned
    QUBO fills in the rest.

    examples:
      qubolearn explore runs/k4 --out k4.html                     then open k4.html in a browser
      qubolearn explore pretrained:sudoku --out sudoku.html       type your own puzzle
    """
    here = open_run(args.run, args)
    from qubolearn.explore import page
    from qubolearn.problems import is_reference, load_attribute

    with output.progress(f"{here.problem.name}, instances", 1):
        show = load_attribute(args.show) if args.show and is_reference(args.show) else args.show
        text, data = page(here, args.instances, args.seed, show)
    make_folder(Path(args.out).parent)
    write_output(Path(args.out), text.encode())
    instances, couplers = len(data["instances"]), len(data["rows"])
    hits, scored = data["scored"]
    size = f"{data['n']} bits, {counted(couplers, 'coupler')}"
    if data["dropped"]:
        size += f" (the {data['dropped']} weakest did not fit)"
    shown = f"{counted(instances, 'instance')} of {here.problem}, {hits} of {scored} solved correctly"
    output.say(f"{args.out}: {shown}; {size}")
    counts = {"instances": instances, "right": hits, "scored": scored, "bits": data["n"]}
    output.result(out=args.out, **counts, couplers=couplers)
