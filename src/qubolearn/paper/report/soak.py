"""The figures of ``make soak`` and ``make protections`` as tables of docs/guarantees.md."""

from __future__ import annotations

from pathlib import Path

from qubolearn.errors import QubolearnError
from qubolearn.files import read_json

__all__ = ["protections_table", "soak_table"]


def soak_table(results: Path) -> str:
    """What was injected and what came of it, one line per figure; fuzzed inputs by kind."""
    path = results / "soak.json"
    if not path.is_file():
        raise QubolearnError(f"no {path}; run: make soak")
    result = read_json(path)
    figures = dict(result["figures"])
    kinds = figures.pop("fuzzing")
    lines = ["| test | figure | count |", "|---|---|---:|"]
    for test, values in figures.items():
        lines += [f"| {test} | {name} | {value:,} |" for name, value in values.items()]
    inputs, refused = (sum(kind[key] for kind in kinds.values()) for key in ("inputs", "refused"))
    lines.append(f"| **fuzzing** | **inputs** | **{inputs:,}** |")
    lines.append(f"| fuzzing | refused by our own error in one line | {refused:,} |")
    lines.append(f"| fuzzing | read as valid | {inputs - refused:,} |")
    lines += [f"| fuzzed: {name} | inputs | {kind['inputs']:,} |" for name, kind in kinds.items()]
    machine = f"{result['machine']}, torch {result['versions']['torch']}, qubolearn {result['versions']['qubolearn']}"
    return "\n".join(lines) + f"\n\n*{machine}. Made by `make soak` in {result['seconds'] / 60:.0f} minutes.*\n"


def protections_table(results: Path) -> str:
    """What was taken out of the source, and whether its test failed."""
    path = results / "protections.json"
    if not path.is_file():
        raise QubolearnError(f"no {path}; run: make protections")
    result = read_json(path)
    lines = ["| promise | taken out | test | it then |", "|---|---|---|---|"]
    for each in result["protections"]:
        outcome = "fails" if each["fails"] else "**passes**"
        lines.append(f"| {each['promise']} | {each['removed']} | `{each['test']}` | {outcome} |")
    return "\n".join(lines) + f"\n\n*{result['machine']}. Made by `make protections` in {result['seconds']} s.*\n"
