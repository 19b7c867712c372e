"""A trained run as one file to share: a safetensors file whose metadata say what it is, and how well it does.

Nothing in such a file is executed. Its metadata are bounded and checked like the config.json of a run folder, before
anything of the size that they ask for is made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qubolearn.errors import QubolearnError
from qubolearn.files import read_metadata
from qubolearn.notebook import table
from qubolearn.problems import Problem
from qubolearn.training.runs import Run

__all__ = ["SavedRun", "load_run", "plain_provenance", "plain_score"]

#: What of a result goes into a file: plain numbers and short words.
MOST_SCORES, MOST_LETTERS = 50, 100


@dataclass(frozen=True)
class SavedRun(Run):
    """A run in one file, as :meth:`qubolearn.Run.save` writes it; ``folder`` is the path of the file.

    It is used like a run in a folder: :meth:`network`, ``problem``, ``recipe``. It cannot be trained further, and has
    no metrics over its training. ``score`` is what its maker measured.
    """

    score: dict[str, Any] = field(default_factory=dict)
    trained: dict[str, Any] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return True

    def weights(self) -> Path:
        return self.folder

    def metrics(self) -> list[dict[str, Any]]:
        return []

    def scored(self) -> dict[str, Any]:
        return self.score

    def trained_with(self) -> dict[str, Any]:
        return self.trained

    def _repr_html_(self) -> str:
        return super()._repr_html_() + table("as its maker measured", self.score.items())


def load_run(path: Path, problem: Problem | type[Problem] | None = None) -> SavedRun:
    """The run in a file; its weights are read and checked by :meth:`SavedRun.network`."""
    metadata = read_metadata(path)
    if "run" not in metadata:
        raise QubolearnError(f"{path} holds weights, but no recipe; want a file that Run.save or qubolearn info wrote")
    header, score = _object(metadata["run"], path), _object(metadata.get("score", "{}"), path)
    made, recipe = Run._asked(header, path, problem)
    run = SavedRun(path, made, recipe, plain_score(score), plain_provenance(header))
    run._check_size(path)
    return run


def plain_score(score: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a result that are finite numbers or short words."""
    kept = {
        name: value
        for name, value in score.items()
        if (isinstance(value, str) and len(value) <= MOST_LETTERS)
        or (type(value) is int and abs(value) < 2**63)
        or (type(value) is float and math.isfinite(value))
    }
    return dict(list(kept.items())[:MOST_SCORES])


def plain_provenance(header: Mapping[str, Any]) -> dict[str, Any]:
    """Versions, code and machine of a header, as short words."""
    versions, code = (header.get(part) for part in ("versions", "code"))  # older runs do not say their code
    found = plain_score(code) if isinstance(code, dict) else {}
    if isinstance(code, dict) and code.get("dirty") is True:
        found["commit"] = f"{found.get('commit')}-dirty"
    named = plain_score(versions) if isinstance(versions, dict) else {}
    return {"versions": named, "code": found, "machine": str(header.get("machine", "unknown"))[:MOST_LETTERS]}


def _object(text: str, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise QubolearnError(f"{path}: its metadata are not readable ({type(error).__name__})") from error
    if not isinstance(value, dict):
        raise QubolearnError(f"{path}: its metadata hold a JSON {type(value).__name__}, want an object")
    return value
