"""A run folder: config.json, metrics.jsonl, checkpoint.safetensors, model.safetensors, result.json.

Every file is written beside its place, flushed and renamed, so that a reader sees the old one or the new one.
Nothing in a folder is executed on loading: weights are safetensors, the rest is JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from qubolearn.config import TrainConfig
from qubolearn.errors import QubolearnError
from qubolearn.problems import Problem, make_problem
from qubolearn.provenance import provenance

if TYPE_CHECKING:
    from qubolearn.networks import QuboNetwork

__all__ = ["Run", "write_atomic", "write_json"]

FORMAT = "qubolearn-run"
FORMAT_VERSION = 1


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
        if run._path("config.json").exists():
            there = cls.open(folder)
            if (there.problem, there.config) != (problem, config):
                raise QubolearnError(f"{folder} holds a run of another configuration; choose another --out")
            return run
        if run.folder.exists() and (not run.folder.is_dir() or any(run.folder.iterdir())):
            raise QubolearnError(f"{folder} is not empty and holds no run; choose another --out")
        run.folder.mkdir(parents=True, exist_ok=True)
        write_json(run._path("config.json"), run._header())
        return run

    @classmethod
    def open(cls, folder: Path | str) -> Run:
        """The run in a folder; anything else is refused."""
        path = Path(folder) / "config.json"
        if not path.is_file():
            raise QubolearnError(f"{folder} holds no run (no config.json); train one with: qubolearn train ... --out")
        header = read_json(path)
        if header.get("format") != FORMAT:
            raise QubolearnError(f"{path} has format {str(header.get('format'))[:40]!r}, want {FORMAT!r}")
        if header.get("format_version") != FORMAT_VERSION:
            raise QubolearnError(
                f"{path} has format version {str(header.get('format_version'))[:20]}, this qubolearn reads "
                f"{FORMAT_VERSION}; use the qubolearn that wrote it, or train again"
            )
        problem = header.get("problem")
        if not isinstance(problem, dict) or not isinstance(header.get("training"), dict):
            raise QubolearnError(f"{path} lacks 'problem' or 'training'")
        return cls(Path(folder), _problem_from(problem, path), _config_from(header["training"], path))

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
        """Append one line to metrics.jsonl."""
        line = json.dumps(record) + "\n"
        with self._path("metrics.jsonl").open("a") as file:
            file.write(line)
            file.flush()

    def metrics(self) -> list[dict[str, Any]]:
        """The records of metrics.jsonl, one per step: a resumed run may have written a step twice."""
        path = self._path("metrics.jsonl")
        records: dict[int, dict[str, Any]] = {}
        for line in path.read_text().splitlines() if path.is_file() else []:
            try:
                record = json.loads(line)
            except ValueError:  # a killed run may leave half a line behind
                continue
            records[record["step"]] = record
        return list(records.values())

    def checkpoint(self, network: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Save all that a resumed run needs: the rest follows from the configuration and the step."""
        tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in state.items()}
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        write_atomic(self._path("checkpoint.safetensors"), save(tensors, {"step": str(step)}))

    def restore(self, network: nn.Module, optimizer: torch.optim.Optimizer) -> int:
        """Load the last checkpoint, if there is one, and return the step that comes next."""
        path = self._path("checkpoint.safetensors")
        if not path.is_file():
            return 0
        tensors, metadata = read_tensors(path)
        weights = {name.removeprefix("network."): t for name, t in tensors.items() if name.startswith("network.")}
        _load_weights(network, weights, path)
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, index, key = name.split(".")
                state.setdefault(int(index), {})[key] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        return int(metadata["step"])

    def finish(self, network: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Save the trained model."""
        self.checkpoint(network, optimizer, step)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
        write_atomic(self._path("model.safetensors"), save(tensors, {"format": FORMAT}))

    def network(self) -> QuboNetwork:
        """The trained network; before training has ended, that of the last checkpoint."""
        from qubolearn.training import new_network

        network = new_network(self.problem, self.config)
        if self.finished:
            path = self._path("model.safetensors")
            _load_weights(network, read_tensors(path)[0], path)
        elif self._path("checkpoint.safetensors").is_file():
            self.restore(network, torch.optim.Adam(network.parameters()))
        else:
            raise QubolearnError(f"{self.folder} holds no model yet; resume it with: qubolearn train --resume")
        return network.eval()


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON atomically."""
    write_atomic(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that whatever happens, its place holds the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise QubolearnError(f"cannot write {path}: {error.strerror}; the file before it is untouched") from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of at most 16 MiB."""
    try:
        if path.stat().st_size > 2**24:
            raise QubolearnError(f"{path} has {path.stat().st_size} bytes (limit 16 MiB)")
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, QubolearnError):
            raise
        raise QubolearnError(f"{path} is not readable JSON ({type(error).__name__})") from error
    if not isinstance(value, dict):
        raise QubolearnError(f"{path} holds a JSON {type(value).__name__}, want an object")
    return value


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file, which cannot execute anything."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise QubolearnError(f"{path} is not a readable safetensors file ({error})") from error


def _load_weights(network: nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise QubolearnError(f"{path} does not fit the network of config.json beside it") from error


def _problem_from(options: dict[str, Any], path: Path) -> Problem:
    options = dict(options)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise QubolearnError(f"{path} names no problem")
    return make_problem(name, **options)


def _config_from(options: dict[str, Any], path: Path) -> TrainConfig:
    types = {f.name: type(f.default) for f in fields(TrainConfig)}
    if set(options) != set(types):
        odd = sorted(set(options) ^ set(types))[0]
        raise QubolearnError(f"{path}: 'training' has another set of options than this qubolearn ({odd!r})")
    for name, value in options.items():
        number = types[name] is float and type(value) is int
        if type(value) is not types[name] and not number:
            raise QubolearnError(f"{path}: {name}={str(value)[:40]!r} is no {types[name].__name__}")
    return TrainConfig(**options)
