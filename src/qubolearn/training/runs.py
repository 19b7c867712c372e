"""A run folder: config.json, metrics.jsonl, checkpoint.safetensors, model.safetensors, result.json.

Every file is written beside its place, flushed and renamed, so that a reader sees the old one or the new one.
Nothing in a folder is executed on loading: weights are safetensors, the rest is JSON, and both are checked against
what they should be before anything of their size is made.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from qubolearn.errors import QubolearnError
from qubolearn.files import (
    FORMAT,
    FORMAT_VERSION,
    check_version,
    is_temporary,
    read_json,
    read_tensors,
    read_text,
    write_atomic,
    write_json,
    write_tensors,
)
from qubolearn.problems import Problem, make_problem, problem_type
from qubolearn.provenance import provenance
from qubolearn.training.fast.adam import Adam
from qubolearn.training.recipes import TrainConfig

if TYPE_CHECKING:
    from qubolearn.networks.network import QuboNetwork

__all__ = ["Run"]

#: The largest network that a config.json may ask for: 1 GiB of weights, and three times that while it is trained.
MAX_WEIGHTS = 2**28
MAX_BITS = 4096
MAX_METRICS = 2**28  # bytes
#: Seconds after which a temporary file is taken for what a killed process left behind.
LEFT_BEHIND = 3600.0


@dataclass(frozen=True)
class Run:
    """A folder that holds one training."""

    folder: Path
    problem: Problem
    config: TrainConfig

    @classmethod
    def create(cls, folder: Path | str, problem: Problem, config: TrainConfig) -> Run:
        """Start a run in a new or empty folder, or go on with one of the same problem and configuration."""
        run = cls(Path(folder), problem, config)
        if os.path.exists(run._path("config.json")):  # False, not an error, where the folder may not be read
            there = cls.open(folder)
            if (there.problem, there.config) != (problem, config):
                raise QubolearnError(f"{folder} holds a run of another configuration; choose another --out")
            _sweep(run.folder)
            return run
        try:
            if run.folder.exists() and not all(is_temporary(path) for path in run.folder.iterdir()):
                raise QubolearnError(f"{folder} is not empty and holds no run; choose another --out")
            run.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise QubolearnError(f"cannot use the folder {folder}: {error.strerror}; choose another --out") from error
        write_json(run._path("config.json"), run._header())
        return run

    @classmethod
    def open(cls, folder: Path | str) -> Run:
        """The run in a folder; anything else is refused."""
        path = Path(folder) / "config.json"
        if not os.path.isfile(path):
            raise QubolearnError(f"{folder} holds no run (no config.json); train one with: qubolearn train ... --out")
        header = read_json(path)
        if header.get("format") != FORMAT:
            raise QubolearnError(f"{path} has format {str(header.get('format'))[:40]!r}, want {FORMAT!r}")
        check_version(header.get("format_version"), path)
        problem = header.get("problem")
        if not isinstance(problem, dict) or not isinstance(header.get("training"), dict):
            raise QubolearnError(f"{path} lacks 'problem' or 'training'")
        run = cls(Path(folder), _problem_from(problem, path), _config_from(header["training"], path))
        run._check_size(path)
        return run

    def _check_size(self, path: Path) -> None:
        """Refuse a network that a stranger's file makes as large as memory."""
        inputs, bits, hidden = self.problem.input_size, self.problem.bits, self.config.hidden
        weights = (inputs + hidden) * hidden * self.config.layers + hidden * bits**2
        if bits > MAX_BITS or weights > MAX_WEIGHTS:
            raise QubolearnError(
                f"{path} asks for a network of about {weights} weights for {bits} bits "
                f"(limits {MAX_WEIGHTS} and {MAX_BITS}); is it the right file?"
            )

    def _header(self) -> dict[str, Any]:
        problem = {"name": self.problem.name, **asdict(self.problem)}  # type: ignore[call-overload]
        header = {"format": FORMAT, "format_version": FORMAT_VERSION}
        return {**header, "problem": problem, "training": asdict(self.config), **provenance()}

    def _path(self, name: str) -> Path:
        return self.folder / name

    @property
    def finished(self) -> bool:
        return self._path("model.safetensors").is_file()

    def log(self, **record: Any) -> None:
        """Add a record to metrics.jsonl; what a resumed run does again takes the place of what it did before."""
        kept = [earlier for earlier in self.metrics() if earlier["step"] < record["step"]]
        lines = [json.dumps(each) + "\n" for each in [*kept, record]]
        write_atomic(self._path("metrics.jsonl"), "".join(lines).encode())

    def metrics(self) -> list[dict[str, Any]]:
        """The records of metrics.jsonl in order of their steps; lines that are no record are skipped."""
        path = self._path("metrics.jsonl")
        records: dict[int, dict[str, Any]] = {}
        for line in read_text(path, MAX_METRICS).splitlines() if path.is_file() else []:
            with suppress(ValueError, RecursionError):
                record = json.loads(line)
                if isinstance(record, dict) and type(record.get("step")) is int:
                    records[record["step"]] = record
        return [records[step] for step in sorted(records)]

    def checkpoint(self, network: nn.Module, optimizer: Adam, step: int) -> None:
        """Save all that a resumed run needs: the rest follows from the configuration and the step."""
        tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
        tensors |= {f"optimizer.{name}": tensor for name, tensor in optimizer.state().items()}
        write_tensors(self._path("checkpoint.safetensors"), tensors, step=step)

    def restore(self, network: nn.Module, optimizer: Adam) -> int:
        """Load the last checkpoint, if there is one, and return the step that comes next."""
        path = self._path("checkpoint.safetensors")
        if not path.is_file():
            return 0
        like = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
        like |= {f"optimizer.{name}": tensor for name, tensor in optimizer.state().items()}
        tensors, metadata = read_tensors(path, like)
        step = metadata.get("step", "")
        if not (step.isascii() and step.isdecimal()) or len(step) > 18 or int(step) > self.config.steps:
            raise QubolearnError(f"{path} says step {step[:20]!r}; want 0 ... {self.config.steps}")
        optimizer.load(_part(tensors, "optimizer."))
        network.load_state_dict(_part(tensors, "network."))
        return int(step)

    def finish(self, network: nn.Module, optimizer: Adam, step: int) -> None:
        """Save the trained model."""
        self.checkpoint(network, optimizer, step)
        write_tensors(self._path("model.safetensors"), network.state_dict())

    def network(self) -> QuboNetwork:
        """The trained network; before training has ended, that of the last checkpoint."""
        from qubolearn.training.loop import new_network

        network = new_network(self.problem, self.config)
        if self.finished:
            network.load_state_dict(read_tensors(self._path("model.safetensors"), network.state_dict())[0])
        elif self._path("checkpoint.safetensors").is_file():
            self.restore(network, Adam(network))
        else:
            raise QubolearnError(f"{self.folder} holds no model yet; resume it with: qubolearn train --resume")
        return network.eval()


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose name begins with the prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _sweep(folder: Path) -> None:
    """Delete what killed processes left half-written."""
    for path in filter(is_temporary, folder.iterdir()):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > LEFT_BEHIND:
                path.unlink()


def _problem_from(options: dict[str, Any], path: Path) -> Problem:
    options = dict(options)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise QubolearnError(f"{path} names no problem")
    _check_types(options, problem_type(name), path)
    return make_problem(name, **options)


def _config_from(options: dict[str, Any], path: Path) -> TrainConfig:
    names = {field.name for field in fields(TrainConfig)}
    if set(options) != names:
        odd = min(set(options) ^ names)
        raise QubolearnError(f"{path}: 'training' has another set of options than this qubolearn ({odd[:40]!r})")
    _check_types(options, TrainConfig, path)
    return TrainConfig(**options)


def _check_types(options: Mapping[str, Any], kind: type, path: Path) -> None:
    """Raise unless every option is of the type of its field's default; whole numbers are floats too."""
    for field in fields(kind):
        if field.name not in options or not isinstance(field.default, (int, float, str)):
            continue
        value, want = options[field.name], type(field.default)
        if type(value) is not want and not (want is float and type(value) is int):
            raise QubolearnError(f"{path}: {field.name}={str(value)[:40]!r} is no {want.__name__}")
        limit = 2**63 if type(value) is int else math.inf
        if not isinstance(value, str) and not abs(value) < limit:
            raise QubolearnError(f"{path}: {field.name}={str(value)[:40]} is not finite, or too large")
