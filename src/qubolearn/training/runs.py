"""A run folder: config.json, metrics.jsonl, checkpoint.safetensors, model.safetensors, result.json.

Every file is written beside its place, flushed and renamed, so that a reader sees the old one or the new one.
Nothing in a folder is executed on loading: weights are safetensors, the rest is JSON, and both are checked against
what they should be before anything of their size is made.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from qubolearn.errors import QubolearnError
from qubolearn.files import (
    FORMAT,
    FORMAT_VERSION,
    check_version,
    is_temporary,
    read_json,
    read_records,
    read_tensors,
    write_json,
    write_records,
    write_tensors,
)
from qubolearn.problems import Problem, make_problem, problem_type
from qubolearn.provenance import provenance
from qubolearn.training.recipes import TrainConfig
from qubolearn.typed import check_option

if TYPE_CHECKING:
    from torch import Tensor, nn

    from qubolearn.networks.network import QuboNetwork
    from qubolearn.training.fast.adam import Adam

__all__ = ["Run"]

#: The largest network that a config.json may ask for: 1 GiB of weights, and three times that while it is trained.
MAX_WEIGHTS = 2**28
MAX_BITS, MAX_LAYERS = 4096, 1000
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
        write_json(run._path("config.json"), run._header(), checksum=True)
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
        if bits > MAX_BITS or weights > MAX_WEIGHTS or self.config.layers > MAX_LAYERS:
            raise QubolearnError(
                f"{path} asks for a network of about {weights} weights in {self.config.layers} layers for {bits} bits "
                f"(limits {MAX_WEIGHTS}, {MAX_LAYERS} and {MAX_BITS}); is it the right file?"
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
        write_records(self._path("metrics.jsonl"), [*kept, record])

    def metrics(self) -> list[dict[str, Any]]:
        """The records of metrics.jsonl in order of their steps; lines that are no record are skipped."""
        path = self._path("metrics.jsonl")
        read = read_records(path, MAX_METRICS) if path.is_file() else []
        records = {record["step"]: record for record in read if type(record.get("step")) is int}
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
        from qubolearn.training.fast.adam import Adam
        from qubolearn.training.loop import new_network

        path = self._path("model.safetensors" if self.finished else "checkpoint.safetensors")
        if not path.is_file():
            raise QubolearnError(f"{self.folder} holds no model yet; to go on, run its qubolearn train again")
        self._check_fits(path)
        network = new_network(self.problem, self.config)
        if self.finished:
            network.load_state_dict(read_tensors(path, network.state_dict())[0])
        else:
            self.restore(network, Adam(network))
        return network.eval()

    def _check_fits(self, path: Path) -> None:
        """Refuse a config.json that asks for a network too large for the weights beside it, before it is made."""
        hidden, layers = self.config.hidden, self.config.layers
        least = hidden * (self.problem.input_size + (layers - 2) * hidden + self.problem.bits)
        if self.config.network == "mlp" and path.stat().st_size < 4 * least:
            raise QubolearnError(f"{path} does not fit the network of config.json beside it")


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
    """Raise unless every option is of its field's type."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        if field.name in options:
            check_option(options[field.name], hints[field.name], f"{path}: {field.name}")
