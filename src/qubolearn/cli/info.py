"""Say what a run folder or a model file holds: problem, recipe, score and versions; --save makes a file to share.

A model file is one safetensors file that evaluate, solve, export and compare take in place of a run folder. Its weights
are read and checked; nothing in it is executed. Without RUN, the models that come with qubolearn are listed; commands
take them as pretrained:NAME.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path

from qubolearn.cli.options import add_problem_of_run, open_run
from qubolearn.cli.output import Output
from qubolearn.errors import QubolearnError, printable

EPILOG = """examples:
  qubolearn info                                    the models that come with qubolearn
  qubolearn info pretrained:matching
  qubolearn info runs/k4 --save k4.safetensors
  qubolearn info k4.safetensors
  qubolearn evaluate k4.safetensors"""


def add_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    text = "run folder, model file or pretrained:NAME [list the pretrained models]"
    parser.add_argument("run", nargs="?", metavar="RUN", help=text)
    add_problem_of_run(parser)
    parser.add_argument(
        "--save", metavar="FILE", help="write the trained model to this file, which ends in .safetensors"
    )


def run(args: argparse.Namespace, output: Output) -> None:
    if args.run is None:
        if args.save:
            raise QubolearnError(f"--save {args.save} of which run? Name a run folder, or a model as pretrained:NAME")
        _list(output)
        return
    here = open_run(args.run, args)
    network = here.network()  # so that what is said of a file has been checked against its weights
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


def _list(output: Output) -> None:
    """The models that come with the package."""
    from qubolearn.training.pretrained import pretrained, pretrained_names

    found = []
    for name in pretrained_names():
        here = pretrained(name)
        metric, score = here.problem.metric, here.scored()
        found.append(
            {
                "name": f"pretrained:{name}",
                "problem": here.problem.name,
                "bits": here.problem.bits,
                "metric": metric,
                "score": score[metric],
                "instances": score["instances"],
                "bytes": here.weights().stat().st_size,
            }
        )
    rows = [
        [m["name"], m["problem"], m["bits"], f"{m['metric']} {m['score']:.4g}", m["instances"], m["bytes"]]
        for m in found
    ]
    headers = ["model", "problem", "bits", "score", "of unseen", "bytes"]
    output.table("models that come with qubolearn", headers, rows)
    output.result(models=found)
