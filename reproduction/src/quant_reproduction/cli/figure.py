"""Draw what runs answer on unseen instances, and what samplers read: a picture, and its numbers as JSON beside it.

matches       pairs of Willow images with lines, right and wrong ones
alignment     clouds before and after: pointset, or the three stages of rotation
failures      the worst cases: clouds with their angle and error, or wrong matchings
errors        a histogram of errors per solver, on the same instances
energies      histograms of what samplers read on one QUBO
second-best   second-best energies of samplers in % of those of simulated QA: a table"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quant_reproduction.cli.common import Output, change_options, count, seed
from qubolearn.errors import QubolearnError
from qubolearn.files import make_folder, write_json
from qubolearn.provenance import provenance

if TYPE_CHECKING:
    from qubolearn.runs import Run

EPILOG = """examples:
  quant figure failures runs/shapes --instances 1000
  quant figure alignment runs/alpha runs/beta runs/gamma --set noise=0.1      wrong matches in green
  quant figure errors runs/k4 --solver exhaustive --solver annealing:reads=1,sweeps=10
  quant figure second-best runs/k5 --solver quantum:reads=1000 --solver dimod:reads=1000,sweeps=100
                                             dimod's SA is pure Python: half a minute per instance"""


@dataclass(frozen=True)
class Kind:
    """A figure: the function that draws it, and its defaults."""

    draw: str  # module and function below quant_reproduction.grid
    solvers: tuple[str, ...]
    instances: int
    options: Mapping[str, Any] = field(default_factory=dict)  # of files, not of records


SWEEPS = (1000, 10, 2)  # as in the paper's appendix
OURS = tuple(f"annealing:reads=1000,sweeps={sweeps}" for sweeps in SWEEPS)
NEAL = tuple(f"neal:reads=1000,sweeps={sweeps}" for sweeps in SWEEPS)
QUANTUM = "quantum:reads=1000"
KINDS = {
    "matches": Kind("figures:matches", ("exhaustive",), 200, {"each": 4}),
    "alignment": Kind("figures:alignment", ("exhaustive",), 4),
    "failures": Kind("figures:failures", ("exhaustive",), 500),
    "errors": Kind("figures:errors", ("exhaustive", "annealing", "quantum", "neal"), 500),
    "energies": Kind(
        "sampler_figures:energies", (*OURS, QUANTUM, *NEAL, "dimod:reads=1000,sweeps=100"), 1, {"marks": True}
    ),
    "second-best": Kind("sampler_figures:second_best", (QUANTUM, *OURS, *NEAL), 141),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=list(KINDS), metavar="FIGURE", help=", ".join(KINDS))
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folder; three for the stages of rotation")
    parser.add_argument("--out", metavar="FOLDER", help="where to write [the first RUN]")
    parser.add_argument("--format", choices=["png", "svg"], default="png", help="file format [png]")
    parser.add_argument("--seed", type=seed, default=0, metavar="S", help="seed of instances and random reads [0]")
    parser.add_argument("--instances", type=count, metavar="N", help="test instances [as many as the figure needs]")
    parser.add_argument("--solver", action="append", metavar="NAME", help="in place of the figure's own; repeat it")
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="change an option of the problem"
    )


def run(args: argparse.Namespace, output: Output) -> None:
    kind = KINDS[args.kind]
    solvers = tuple(dict.fromkeys(args.solver or kind.solvers))
    instances = kind.instances if args.instances is None else args.instances
    if len(kind.solvers) == 1 and len(solvers) > 1:
        raise QubolearnError(f"--solver given {len(solvers)} times; figure {args.kind} takes one")
    from quant_reproduction.grid.answers import Model, solver_label
    from qubolearn.runs import Run

    module, _, function = kind.draw.partition(":")
    draw = getattr(import_module(f"quant_reproduction.grid.{module}"), function)
    runs = [replace(here, problem=change_options(here.problem, args.set)) for here in map(Run.open, args.runs)]
    drawn = draw(Model.of(runs), solvers, instances, args.seed, **kind.options)
    header = {"figure": args.kind, "runs": [_describe(here) for here in runs], "seed": args.seed}
    result = {**header, "instances": instances, **drawn.numbers, **provenance()}
    figure = drawn.figure
    if figure and len(kind.solvers) == 1:
        figure = {**figure, "title": f"{figure['title']}, {solver_label(solvers[0])}"}
    files = _write(Path(args.out or args.runs[0]), f"figure-{args.kind}", args.format, figure, result)
    if figure is None:
        _print_second_best(output, drawn.numbers, instances)
    for path in files:
        output.say(str(path))
    output.result(files=[str(path) for path in files], **result)


def _describe(run: Run) -> dict[str, Any]:
    problem = {"name": run.problem.name, **asdict(run.problem)}  # type: ignore[call-overload]
    return {"problem": problem, "training": asdict(run.recipe)}


def _write(
    folder: Path, name: str, suffix: str, figure: Mapping[str, Any] | None, result: Mapping[str, Any]
) -> list[Path]:
    """Write the picture, if there is one, and its numbers."""
    from quant_reproduction.report.drawings import draw_figure
    from qubolearn import plots

    make_folder(folder)
    files = [plots.save(draw_figure(figure), folder / f"{name}.{suffix}")] if figure else []
    write_json(folder / f"{name}.json", result)
    return [*files, folder / f"{name}.json"]


def _print_second_best(output: Output, numbers: Mapping[str, Any], instances: int) -> None:
    rows = [
        (row["label"], _mean_and_std(row, ""), f"{row['instances']} of {instances}", _mean_and_std(row, "exact_"))
        for row in numbers["solvers"].values()
    ]
    title = "second-best energies of raw reads, in % (higher is better)"
    output.table(title, ["", f"of {numbers['relative_to']}'s", "with a second state", "of the true ones"], rows)


def _mean_and_std(row: Mapping[str, Any], prefix: str) -> str:
    if row.get(f"{prefix}mean") is None:
        return "-"
    return f"{row[f'{prefix}mean']:.1f} ± {row[f'{prefix}std']:.1f}"
