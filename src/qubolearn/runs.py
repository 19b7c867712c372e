"""Runs: a folder with config.json next to what ``fit`` stores, or one file.

Unknown fields are ignored, missing ones take defaults. Nothing in a file is executed,
and metadata is checked before memory is allocated.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import msgspec
import torch

from qubolearn import files
from qubolearn.data.arrays import Arrays, tensors_of
from qubolearn.data.contract import Instances, RightAnswers, Split
from qubolearn.data.files import load_npz
from qubolearn.errors import QubolearnError, convert, unknown_name
from qubolearn.networks.predicting import Predicts
from qubolearn.networks.saving import rebuilt, save
from qubolearn.problems import Problem, problem_type
from qubolearn.provenance import code, provenance
from qubolearn.recipes import Recipe, new_network, upgrade
from qubolearn.training.folder import INSTANCES, OWN, Folder

if TYPE_CHECKING:
    from torch import nn

    from qubolearn.evaluation import Evaluation

__all__ = ["MODELS", "Run", "SavedRun", "pretrained", "pretrained_names"]

MODELS = Path(__file__).parent / "training" / "models"
#: Limits of a network in a file: 1 GiB of weights.
MAX_WEIGHTS, MAX_LAYERS, MAX_BITS = 2**28, 1000, 4096
#: Limits of the scores in a file.
MAX_SCORES, MAX_LETTERS = 50, 100
#: Age in seconds after which a temporary file is left over.
LEFT_BEHIND = 3600.0
Given = Problem | type[Problem] | None


@dataclass(frozen=True)
class Run(Predicts, Folder):
    """A folder with the training run of a recipe (:meth:`create`, :meth:`open`).

    ``folder`` is its path, ``problem`` and ``recipe`` are its choices, :meth:`network` is
    the result. A damaged folder raises a QubolearnError.

    >>> from tempfile import TemporaryDirectory
    >>> from qubolearn.recipes import preset, train
    >>> problem, recipe = preset("best", "randgraph", k=2, epochs=1, instances=200)
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
        """Start a run in an empty folder, or resume the same one."""
        run = cls(Path(folder), problem, recipe)
        if os.path.exists(run._path("config.json")):  # False if unreadable
            there = cls.open(folder, type(problem) if is_dataclass(problem) else problem)
            if (there.problem, there.recipe) != (problem, recipe):
                raise QubolearnError(f"{folder} holds a run of another configuration; choose another --out")
            _sweep(run.folder)
            return run
        try:
            if run.folder.exists() and not all(files.is_temporary(path) for path in run.folder.iterdir()):
                raise QubolearnError(f"{folder} is not empty and holds no run; choose another --out")
            run.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise QubolearnError(f"cannot use {folder}: {error.strerror}; choose another --out") from error
        files.write_json(run._path("config.json"), run._header(), checksum=True)
        return run

    def begun(self) -> Run:
        """Return the run, created if its folder is empty."""
        if os.path.exists(self._path("config.json")):
            return self
        return type(self).create(self.folder, self.problem, self.recipe)

    @classmethod
    def open(cls, folder: Path | str, problem: Given = None, network: nn.Module | None = None) -> Run:
        """Open the run in a folder, or in a file that :meth:`save` wrote.

        Args:
            folder: the path.
            problem: the problem or its class, if no installed package registers its name; for
                a run of ``fit``, instances to score, such as :class:`qubolearn.Arrays`.
            network: built as for training; required for a run of ``fit`` with classes that you wrote.
        """
        if os.path.isfile(folder):
            return cls.load(folder, problem)
        path = Path(folder) / "config.json"
        if not os.path.isfile(path):
            raise QubolearnError(f"{folder} holds no run; train one with: qubolearn train ... --out")
        header = files.read_json(path)
        if isinstance(training := header.get("training"), dict) and training.get("network") == OWN:
            return OwnRun.of(Path(folder), header, problem, network)
        run = cls(Path(folder), *_parsed(header, path, problem))
        _check_size(run, path)
        return run

    @classmethod
    def load(cls, file: Path | str, problem: Given = None) -> Run:
        """Load a file of :meth:`save`, to evaluate and solve; not to train."""
        path = Path(file)
        metadata = files.read_metadata(path)
        if "run" not in metadata:
            own = "network" in metadata
            remedy = "pass its run folder, or use qubolearn.networks.load" if own else "train one"
            raise QubolearnError(f"{path} holds a network without a problem to score; {remedy}")
        header, score = _object(metadata["run"], path), _object(metadata.get("score", "{}"), path)
        run = SavedRun(path, *_parsed(header, path, problem), _plain(score), _provenance(header))
        _check_size(run, path)
        return run

    def save(self, file: Path | str, score: Evaluation | None = None) -> Path:
        """Write the trained network with recipe, problem and score as one safetensors file.

        ``score`` is a result of :func:`qubolearn.evaluate`, by default :meth:`scored`.
        """
        path = Path(file)
        if path.suffix != ".safetensors":
            raise QubolearnError(f"a model file {file}; expected a name that ends in .safetensors")
        found = self.scored() if score is None else _plain(score.as_dict())
        files.make_folder(path.parent)
        header = json.dumps({**self._header(), **self.trained_with()})
        files.write_tensors(path, self.network().state_dict(), run=header, score=json.dumps(found))
        return path

    def trained_with(self) -> dict[str, Any]:
        """Return versions, commit and machine of the run."""
        return _provenance(files.read_json(self._path("config.json")))

    def scored(self) -> dict[str, Any]:
        """Return the test score of result.json, else the last validation score."""
        if self._path("result.json").is_file():
            return _plain(files.read_json(self._path("result.json")))
        records, metric = self.metrics(), self.problem.metric
        return _plain({f"validation_{metric}": records[-1].get(metric)}) if records else {}

    def network(self) -> nn.Module:
        """Return the trained network, or that of the last checkpoint."""
        path, hidden = self.weights(), self.recipe.hidden
        least = hidden * (self.problem.input_size + (self.recipe.layers - 2) * hidden + self.problem.bits)
        if self.recipe.network == "mlp" and path.stat().st_size < 4 * least:  # before memory is allocated
            raise QubolearnError(f"{path} does not fit the network that its configuration asks for")
        network = new_network(self.problem, self.recipe)
        self.put_into(network)
        return network.eval()

    def _module(self) -> nn.Module:
        if (made := vars(self).get("_loaded")) is None:  # cached for predict
            made = vars(self)["_loaded"] = self.network()
        return made

    def _header(self) -> dict[str, Any]:
        options: dict[str, Any] = asdict(self.problem) if is_dataclass(self.problem) else {}
        header = {"format": files.FORMAT, "format_version": files.FORMAT_VERSION}
        problem = {"name": self.problem.name, **options}
        return {**header, "problem": problem, "training": asdict(self.recipe), **provenance(), "code": code()}


@dataclass(frozen=True)
class SavedRun(Run):
    """A run in one file of :meth:`Run.save`; ``folder`` is its path.

    It cannot be trained further and has no metrics. ``score`` is the one that was stored.
    """

    score: dict[str, Any] = field(default_factory=dict)
    trained: dict[str, Any] = field(default_factory=dict)

    finished = True

    def weights(self) -> Path:
        return self.folder

    def metrics(self) -> list[dict[str, Any]]:
        return []

    def scored(self) -> dict[str, Any]:
        return self.score

    def trained_with(self) -> dict[str, Any]:
        return self.trained


class StoredInstances(Arrays):
    """Instances to score; every split is all of them."""

    name = OWN

    def __init__(self, p: Any, x_true: Any, right: RightAnswers | None = None) -> None:
        super().__init__(p, x_true, validation=0, right=right)
        self._rows = dict.fromkeys(("train", "validation", "test"), self._rows["train"].sort().values)

    @classmethod
    def read(cls, path: Path, kind: Mapping[str, Any]) -> StoredInstances:
        names = kind.get("arrays")
        if not isinstance(names, list) or "x_true" not in names:
            raise QubolearnError(f"config.json does not list the arrays of {path}; restore it")
        arrays = load_npz(path, {str(name): ("biuf", None) for name in names})
        parts = {name.removeprefix("p_"): array for name, array in arrays.items() if name.startswith("p_")}
        p: Any = parts if kind.get("named") else tuple(parts.values()) if len(parts) > 1 else parts["0"]
        states, valid = (torch.tensor(arrays[key]) if key in arrays else None for key in ("states", "valid"))
        right = None if states is None or valid is None else RightAnswers(states, valid)
        return cls(p, arrays["x_true"], right)

    def available(self, split: Split) -> int:
        return self.size(split)

    def __eq__(self, other: object) -> bool:
        pair = [list(tensors_of(each.instances)) for each in (self, other) if isinstance(each, Arrays)]
        return len(pair) == 2 and len(pair[0]) == len(pair[1]) and all(map(torch.equal, *pair))

    __hash__ = Arrays.__hash__


@dataclass(frozen=True)
class NoInstances(Problem):
    """The data of a run of ``fit`` without validation instances."""

    folder: str
    count: int
    name: ClassVar[str] = OWN

    @property
    def bits(self) -> int:
        return self.count

    @property
    def input_size(self) -> int:
        raise QubolearnError(f"{self.folder} stores no instances; pass data, or --data FILE.npz")

    def sample(self, count: int, generator: torch.Generator, split: Split = "train") -> Instances:
        raise QubolearnError(f"{self.folder} stores no instances to score; pass data, or --data FILE.npz")


@dataclass(frozen=True)
class OwnChoices:
    """The choices of a run of ``fit``, in place of a recipe."""

    head: str = "own"
    network: str = OWN
    topology: str = "diagonal"  # only for positions in pictures
    loss: str = ""
    optimizer: str = ""
    epochs: int = 1
    seed: int = 0


@dataclass(frozen=True)
class OwnRun(Run):
    """A run of ``fit(..., folder=...)``; ``recipe`` describes its training."""

    structure: str = ""
    given: nn.Module | None = None

    @classmethod
    def of(cls, folder: Path, header: Mapping[str, Any], problem: Any, network: nn.Module | None) -> OwnRun:
        """Return the run that a header describes; the header is untrusted."""
        path = folder / "config.json"
        files.check_version(header.get("format_version"), path)
        data, stored = problem, folder / INSTANCES
        if not isinstance(problem, Problem):
            kind = found if isinstance(found := header.get("problem"), dict) else {}
            if stored.is_file():
                data = StoredInstances.read(stored, kind)
            else:
                data = NoInstances(str(folder), int(kind.get("bits") or 0))
        choices = _made(OwnChoices, header["training"], path)
        return cls(folder, data, choices, json.dumps(header.get("structure")), network)

    def network(self) -> nn.Module:
        made: nn.Module = rebuilt(self.structure, self._path("config.json"), self.weights(), self.given)
        self.put_into(made)
        return made.eval()

    def save(self, file: Path | str, score: Evaluation | None = None) -> Path:
        """Write the network as one file for :func:`qubolearn.networks.load`."""
        return save(self.network(), file)


def pretrained(name: str) -> Run:
    """Return a trained model that comes with qubolearn.

    Args:
        name: one of :func:`pretrained_names`; in commands, ``pretrained:NAME``.

    >>> run = pretrained("maxcut")
    >>> run.problem.name, run.scored()["accuracy"] > 0.9
    ('maxcut', True)
    """
    if name not in pretrained_names():
        raise unknown_name("pretrained model", name, pretrained_names())
    return Run.load(MODELS / f"{name}.safetensors")


def pretrained_names() -> list[str]:
    """Return the names that :func:`pretrained` takes."""
    return sorted(path.stem for path in MODELS.glob("*.safetensors"))


def _sweep(folder: Path) -> None:
    for path in filter(files.is_temporary, folder.iterdir()):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > LEFT_BEHIND:
                path.unlink()


def _parsed(header: Mapping[str, Any], path: Path, problem: Given) -> tuple[Problem, Recipe]:
    """Return problem and recipe of an untrusted header."""
    if header.get("format") != files.FORMAT:
        found = str(header.get("format"))[:40]
        raise QubolearnError(f"{path} has format {found!r}; expected {files.FORMAT!r}")
    files.check_version(header.get("format_version"), path)
    if not isinstance(header.get("problem"), dict) or not isinstance(header.get("training"), dict):
        raise QubolearnError(f"{path} lacks 'problem' or 'training'; restore it")
    made: Any = problem
    if not isinstance(problem, Problem):
        name = convert(header["problem"].get("name"), str, f"{path}: the name of its problem")
        kind = problem or problem_type(name)
        options = {kind.old_names.get(name, name): value for name, value in header["problem"].items()}
        made = _made(kind, options, path)
    return made, _made(Recipe, upgrade(header["training"], header["format_version"], made), path)


def _made(kind: Any, options: Mapping[str, Any], path: Path) -> Any:
    """Return a dataclass of checked options; unknown ones are ignored."""
    hints = get_type_hints(kind)
    known = {each.name: options[each.name] for each in fields(kind) if each.name in options}
    return kind(**{name: convert(value, hints[name], f"{path}: {name}") for name, value in known.items()})


def _check_size(run: Run, path: Path) -> None:
    """Raise if an untrusted file asks for a huge network."""
    bits, layers, hidden = run.problem.bits, run.recipe.layers, run.recipe.hidden
    weights = (run.problem.input_size + hidden) * hidden * layers + hidden * bits**2
    if bits > MAX_BITS or weights > MAX_WEIGHTS or layers > MAX_LAYERS:
        size = f"about {weights} weights in {layers} layers for {bits} bits"
        limits = f"limits {MAX_WEIGHTS}, {MAX_LAYERS} and {MAX_BITS}"
        raise QubolearnError(f"{path} asks for a network of {size} ({limits}); is it the right file?")


def _plain(score: Mapping[str, Any]) -> dict[str, Any]:
    """Return the finite numbers and short strings of a result."""

    def fits(value: Any) -> bool:
        if isinstance(value, str):
            return len(value) <= MAX_LETTERS
        return type(value) in (int, float) and abs(value) < 2**63  # NaN is not

    return dict([(name, value) for name, value in score.items() if fits(value)][:MAX_SCORES])


def _provenance(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return versions, code and machine as short strings."""
    parts = (header.get(key) for key in ("versions", "code"))
    versions, made_by = (part if isinstance(part, dict) else {} for part in parts)
    found = _plain(made_by)
    if made_by.get("dirty") is True:
        found["commit"] = f"{found.get('commit')}-dirty"
    machine = str(header.get("machine", "unknown"))[:MAX_LETTERS]
    return {"versions": _plain(versions), "code": found, "machine": machine}


def _object(text: str, path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise QubolearnError(f"{path}: its metadata are not a JSON object ({error})") from error
