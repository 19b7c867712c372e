"""``quant baseline``, ``evaluate`` and ``figure``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quant_reproduction.baselines import BASELINES, evaluate_baseline
from quant_reproduction.cli import change_options
from quant_reproduction.grid.entries.annealers import ENERGIES
from qubolearn.cli.options import Output, add_count, add_fields, add_shared, chosen, count, metric_rows, seed
from qubolearn.errors import QubolearnError
from qubolearn.files import make_folder, write_json
from qubolearn.problems import problem_names, problem_type
from qubolearn.provenance import provenance
from qubolearn.solvers import make_solver

if TYPE_CHECKING:
    from qubolearn.runs import Run

EXAMPLES = {
    "baseline": """examples:
  quant baseline direct willow --k 4
  quant baseline qgm-inserted randgraph --k 4 --solver annealing:seed=0
  quant baseline icp pointset --noise 0.1
  quant baseline procrustes rotation --noise 0.2
  quant baseline local-search maxcut --nodes 16""",
    "evaluate": """example:
  quant evaluate runs/alpha runs/beta runs/gamma --set noise=0.2    another option than in training""",
    "figure": """examples:
  quant figure failures runs/shapes --instances 1000
  quant figure alignment runs/alpha runs/beta runs/gamma --set noise=0.1      wrong matches in green
  quant figure errors runs/k4 --solver exhaustive --solver annealing:reads=1,sweeps=10""",
}


def add_baseline(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument("method", metavar="METHOD", help=", ".join(BASELINES))
    parser.add_argument("problem", metavar="PROBLEM", help="a problem type; --OPTION VALUE sets its options")
    add_shared(parser, "--solver", "--seed", "--split")
    add_count(parser, "--instances", 1000, "instances to score")
    for name in [word for word in words if word in problem_names()][:1]:
        add_fields(parser, problem_type(name), f"options of {name}")


def run_baseline(args: argparse.Namespace, output: Output) -> None:
    """Score a method without learning on the same instances."""
    kind = problem_type(args.problem)
    problem = kind(**chosen(args, kind))
    began = time.perf_counter()
    solver = make_solver(args.solver)
    found = evaluate_baseline(args.method, problem, solver, args.instances, args.seed, args.split)
    seconds = time.perf_counter() - began
    title = f"{args.method} on {problem}, seed {args.seed}"
    output.table(title, [f"on {found.instances} {args.split} instances", ""], metric_rows(found))
    header = {"baseline": args.method, "problem": problem.name, "solver": args.solver, "seed": args.seed}
    output.result(**header, split=args.split, seconds=seconds, **found.as_dict(), **provenance())


def add_set(parser: argparse.ArgumentParser) -> None:
    text = "change an option of the problem"
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help=text)


def add_evaluate(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument("runs", nargs=3, metavar="DIR", help="folders of the stages alpha, beta and gamma")
    add_shared(parser, "--solver", "--seed", "--split")
    add_count(parser, "--instances", 2000, "instances to score")
    add_set(parser)
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu or cuda [cpu]")


def run_evaluate(args: argparse.Namespace, output: Output) -> None:
    """Score three runs of rotation, for alpha, beta and gamma, one after the other on whole rotations."""
    from quant_reproduction.grid.models import Model

    runs = _open_runs(args)
    model = Model.of(runs)
    whole = model.problem
    for network in model.networks:
        network.to(args.device)
    solver = None if args.solver == "auto" else make_solver(args.solver)
    found = model.evaluate(solver, args.instances, args.seed, args.device, args.split)
    title = f"{whole}, solver {args.solver} ({found.info['source']}), seed {args.seed}"
    output.table(title, [f"on {found.instances} {args.split} instances", ""], metric_rows(found))
    header = {"problem": whole.name, "head": runs[0].recipe.head, "solver": args.solver, "split": args.split}
    header |= {"seed": args.seed, "headline": found.metrics[whole.metric]}
    output.result(seconds=found.info["solve_seconds"], **header, **found.as_dict(), **provenance())


#: figure -> default solvers and instances
KINDS: Mapping[str, tuple[Sequence[str], int]] = {
    "matches": (["exhaustive"], 200),
    "alignment": (["exhaustive"], 4),
    "failures": (["exhaustive"], 500),
    "errors": (["exhaustive", "annealing", "quantum", "neal"], 500),
    "energies": (ENERGIES, 1),
}


def add_figure(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument("kind", choices=list(KINDS), metavar="FIGURE", help=", ".join(KINDS))
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folder; three for the stages of rotation")
    parser.add_argument("--out", metavar="FOLDER", help="where to write [the first RUN]")
    parser.add_argument("--format", choices=["png", "svg"], default="png", help="file format [png]")
    parser.add_argument("--seed", type=seed, default=0, metavar="S", help="seed of instances and reads [0]")
    parser.add_argument("--instances", type=count, metavar="N", help="test instances [as the figure needs]")
    parser.add_argument("--solver", action="append", metavar="NAME", help="not the figure's own; repeat it")
    add_set(parser)


def run_figure(args: argparse.Namespace, output: Output) -> None:
    """Draw the answers of runs on unseen instances, or the reads of samplers: a picture, and its numbers as JSON.

    matches       pairs of Willow images with lines, right and wrong ones
    alignment     clouds before and after: pointset, or the three stages of rotation
    failures      clouds that are aligned worst, with their angle and error
    errors        a histogram of errors per solver, on the same instances
    energies      histograms of the energies of samplers' reads on one QUBO"""
    usual, instances = KINDS[args.kind]
    solvers = list(dict.fromkeys(args.solver or usual))
    instances = instances if args.instances is None else args.instances
    if len(usual) == 1 and len(solvers) > 1:
        raise QubolearnError(f"--solver given {len(solvers)} times; figure {args.kind} takes one")
    from quant_reproduction.grid import figures
    from quant_reproduction.grid.models import Model, solver_label
    from quant_reproduction.report import draw_figure
    from qubolearn import plots

    runs = _open_runs(args)
    drawn = getattr(figures, args.kind)(Model.of(runs), solvers, instances, args.seed)
    if len(usual) == 1:
        drawn = {**drawn, "title": f"{drawn['title']}, {solver_label(solvers[0])}"}
    header = {"figure": args.kind, "runs": [_describe(run) for run in runs], "seed": args.seed}
    result = {**header, "instances": instances, **drawn, **provenance()}
    path = Path(args.out or args.runs[0]) / f"figure-{args.kind}.json"
    make_folder(path.parent)
    write_json(path, result)
    files = [str(plots.save(draw_figure(drawn), path.with_suffix(f".{args.format}"))), str(path)]
    output.say("\n".join(files))
    output.result(files=files, **result)


def _open_runs(args: argparse.Namespace) -> list[Run]:
    """Open runs with the options of ``--set``."""
    from qubolearn.runs import Run

    found = map(Run.open, args.runs)
    return [replace(run, problem=change_options(run.problem, args.set)) for run in found]


def _describe(run: Run) -> dict[str, Any]:
    problem = {"name": run.problem.name, **asdict(run.problem)}  # type: ignore[call-overload]
    return {"problem": problem, "training": asdict(run.recipe)}
