"""A run folder: what was asked (config.json) beside what a training keeps, and the result (result.json).

Readers are tolerant: a field that a newer or older qubolearn does not know is passed over, one that is missing takes
its default. ``tests/training/formats`` holds a folder of every format that was ever written.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from qubolearn.errors import QubolearnError
from qubolearn.files import (
    FORMAT,
    FORMAT_VERSION,
    check_version,
    is_temporary,
    make_folder,
    read_json,
    write_json,
    write_tensors,
)
from qubolearn.notebook import table
from qubolearn.problems import Problem, problem_type
from qubolearn.provenance import code, provenance
from qubolearn.training.build import new_network
from qubolearn.training.folder import Folder
from qubolearn.training.recipes import Recipe
from qubolearn.typed import check_option

if TYPE_CHECKING:
    from torch import nn

    from qubolearn.evaluation import Evaluation

__all__ = ["Run"]

#: The largest network that a config.json may ask for: 1 GiB of weights, and three times that while it is trained.
MAX_WEIGHTS = 2**28
MAX_LAYERS = 1000
MAX_BITS = 4096
#: Seconds after which a temporary file is taken for what a killed process left behind.
LEFT_BEHIND = 3600.0


@dataclass(frozen=True)
class Run(Folder):
    """A folder that holds the training of a recipe: make one with :meth:`create`, open one with :meth:`open`.

    ``folder`` is its path, ``problem`` and ``recipe`` are what was asked for; :meth:`network` is what came out. A
    folder that is damaged or holds something else is a QubolearnError.

    >>> from tempfile import TemporaryDirectory
    >>> from qubolearn import preset, train
    >>> problem, recipe = preset("best", "randgraph", k=2, epochs=1, instances=200, hidden=8)
    >>> with TemporaryDirectory() as folder:
    ...     _ = train(problem, recipe, Run.create(folder + "/k2", problem, recipe))
    ...     run = Run.open(folder + "/k2")
    ...     run.problem, run.finished, run.network().n
    (RandGraph(k=2), True, 2)
    """

    problem: Problem
    recipe: Recipe

    @classmethod
    def create(cls, folder: Path | str, problem: Problem, recipe: Recipe) -> Run:  # type: ignore[override]
        """Start a run in a new or empty folder, or go on with one of the same problem and recipe.

        Raises:
            QubolearnError: where the folder holds anything else, or cannot be used.
        """
        run = cls(Path(folder), problem, recipe)
        if os.path.exists(run._path("config.json")):  # False, not an error, where the folder may not be read
            there = cls.open(folder, type(problem) if is_dataclass(problem) else problem)
            if (there.problem, there.recipe) != (problem, recipe):
                raise QubolearnError(f"{folder} holds a run of another configuration; choose another --out")
            _sweep(run.folder)
            return run
        try:
            if run.folder.exists() and not all(is_temporary(path) for path in run.folder.iterdir()):
                raise QubolearnError(f"{folder} is not empty and holds no run; choose another --out")
            run.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise QubolearnError(f"cannot use the folder {folder}: {error.strerror}; choose another --out") from error
        write_json(run._path("config.json"), run._header(), checksum=True)
        return run

    def begun(self) -> Run:
        """The run, begun by :meth:`create` where its folder holds none yet."""
        if os.path.exists(self._path("config.json")):
            return self
        return type(self).create(self.folder, self.problem, self.recipe)

    @classmethod
    def open(cls, folder: Path | str, problem: Problem | type[Problem] | None = None) -> Run:
        """Open the run in a folder; anything else there is refused.

        Args:
            folder: its path, or that of a file that :meth:`save` wrote.
            problem: the problem, or its class, where no installed package registers its name; files never run code.
        """
        if os.path.isfile(folder):
            return cls.load(folder, problem)
        path = Path(folder) / "config.json"
        if not os.path.isfile(path):
            raise QubolearnError(f"{folder} holds no run (no config.json); train one with: qubolearn train ... --out")
        run = cls(Path(folder), *cls._asked(read_json(path), path, problem))
        run._check_size(path)
        return run

    @classmethod
    def load(cls, file: Path | str, problem: Problem | type[Problem] | None = None) -> Run:
        """The run in a file that :meth:`save` wrote: one to evaluate and to solve with, not to train further.

        Args:
            file: its path.
            problem: as for :meth:`open`.

        Raises:
            QubolearnError: where the file is damaged, is no such file, or asks for more than its weights are.
        """
        from qubolearn.training.saved import load_run

        return load_run(Path(file), problem)

    def save(self, file: Path | str, score: Evaluation | None = None) -> Path:
        """Write the trained network as one safetensors file to share, with its recipe, its problem and its score.

        Args:
            file: where to; its name ends in .safetensors.
            score: what :func:`qubolearn.evaluate` found; by default the run's own result, see :meth:`scored`.

        Returns:
            The path of the file, for :meth:`load`, :meth:`open` and every command that takes a run.
        """
        from qubolearn.training.saved import plain_score

        path = Path(file)
        if path.suffix != ".safetensors":
            raise QubolearnError(f"a model file {file}; want a name that ends in .safetensors")
        found = self.scored() if score is None else plain_score(score.as_dict())
        header = {**self._header(), **self.trained_with()}
        make_folder(path.parent)
        write_tensors(path, self.network().state_dict(), run=json.dumps(header), score=json.dumps(found))
        return path

    def trained_with(self) -> dict[str, Any]:
        """Versions of qubolearn and of what it needs when the run was made, its commit, and the machine in words."""
        from qubolearn.training.saved import plain_provenance

        return plain_provenance(read_json(self._path("config.json")))

    def scored(self) -> dict[str, Any]:
        """The score on unseen instances in result.json; before there is one, the last on validation instances."""
        from qubolearn.training.saved import plain_score

        if self._path("result.json").is_file():
            return plain_score(read_json(self._path("result.json")))
        records, metric = self.metrics(), self.problem.metric
        return plain_score({f"validation_{metric}": records[-1].get(metric)}) if records else {}

    @staticmethod
    def _asked(
        header: Mapping[str, Any], path: Path, problem: Problem | type[Problem] | None
    ) -> tuple[Problem, Recipe]:
        """Problem and recipe of a header, which may be a stranger's."""
        if header.get("format") != FORMAT:
            raise QubolearnError(f"{path} has format {str(header.get('format'))[:40]!r}, want {FORMAT!r}")
        check_version(header.get("format_version"), path)
        if not isinstance(header.get("problem"), dict) or not isinstance(header.get("training"), dict):
            raise QubolearnError(f"{path} lacks 'problem' or 'training'")
        made = problem if isinstance(problem, Problem) else _problem_from(header["problem"], path, problem)
        training = _upgraded(header["training"], header["format_version"], made)
        _check_types(training, Recipe, path)
        return made, Recipe(**_known(training, Recipe))

    def _check_size(self, path: Path) -> None:
        """Refuse a network that a stranger's file makes as large as memory."""
        inputs, bits = self.problem.input_size, self.problem.bits
        layers, hidden = self.recipe.layers, self.recipe.hidden
        weights = (inputs + hidden) * hidden * layers + hidden * bits**2
        if bits > MAX_BITS or weights > MAX_WEIGHTS or layers > MAX_LAYERS:
            raise QubolearnError(
                f"{path} asks for a network of about {weights} weights in {layers} layers for {bits} bits "
                f"(limits {MAX_WEIGHTS}, {MAX_LAYERS} and {MAX_BITS}); is it the right file?"
            )

    def _header(self) -> dict[str, Any]:
        options: dict[str, Any] = asdict(self.problem) if is_dataclass(self.problem) else {}
        header = {"format": FORMAT, "format_version": FORMAT_VERSION}
        problem = {"name": self.problem.name, **options}
        return {**header, "problem": problem, "training": asdict(self.recipe), **provenance(), "code": code()}

    def network(self) -> nn.Module:
        """The trained network, or that of the last checkpoint if training has not ended."""
        self._check_fits(self.weights())
        network = new_network(self.problem, self.recipe)
        self.put_into(network)
        return network.eval()

    def _repr_html_(self) -> str:
        recipe, metric = self.recipe, self.problem.metric
        rows: list[tuple[str, object]] = [("problem", self.problem), ("method", recipe.method), ("loss", recipe.loss)]
        rows += [("network", recipe.network), ("topology", recipe.topology), ("epochs", recipe.epochs)]
        rows += [("seed", recipe.seed), ("finished", self.finished)]
        records = self.metrics()
        rows += [(f"validation {metric}", records[-1].get(metric, ""))] if records else []
        return table(f"run in {self.folder}", rows)

    def _check_fits(self, path: Path) -> None:
        """Refuse a config.json that asks for a network too large for the weights beside it, before it is made."""
        hidden, layers = self.recipe.hidden, self.recipe.layers
        least = hidden * (self.problem.input_size + (layers - 2) * hidden + self.problem.bits)
        if self.recipe.network == "mlp" and path.stat().st_size < 4 * least:
            raise QubolearnError(f"{path} does not fit the network that its configuration asks for")


def _sweep(folder: Path) -> None:
    """Delete what killed processes left half-written."""
    for path in filter(is_temporary, folder.iterdir()):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > LEFT_BEHIND:
                path.unlink()


def _problem_from(options: Mapping[str, Any], path: Path, kind: type[Problem] | None) -> Problem:
    name = options.get("name")
    if kind is None:
        if not isinstance(name, str):
            raise QubolearnError(f"{path} names no problem")
        kind = problem_type(name)
    _check_types(options, kind, path)
    return kind(**_known(options, kind))


def _known(options: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The options that are fields of a dataclass; a file of another version may have more."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in options.items() if name in names}


def _upgraded(training: Mapping[str, Any], version: object, problem: Problem) -> dict[str, Any]:
    """The training of an older format in today's words."""
    training = dict(training)
    soft = type(problem).soft_targets is not Problem.soft_targets
    if str(version) == "1" and training.get("loss") == "nll" and soft:
        training["loss"] = "soft-nll"
    return training


def _check_types(options: Mapping[str, Any], kind: type, path: Path) -> None:
    """Raise unless every option is of its field's type."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        if field.name in options:
            check_option(options[field.name], hints[field.name], f"{path}: {field.name}")
