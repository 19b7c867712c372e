"""A run as one file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from qubolearn import QubolearnError, Run
from qubolearn.evaluation import Evaluation
from qubolearn.recipes import preset, train

PROBLEM, RECIPE = preset(
    "best", "randgraph", k=3, topology="dense", hidden=8, epochs=1, instances=50, validation=10
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    run = Run.create(folder / "run", PROBLEM, RECIPE)
    train(PROBLEM, RECIPE, run)
    return run.save(folder / "model.safetensors", Evaluation(7, {"accuracy": 0.5}, hamming=(1, 2)))


def test_a_file_is_the_run_it_was_made_of(saved: Path, tmp_path: Path) -> None:
    run = Run.load(saved)
    assert (run.problem, run.recipe, run.finished, run.metrics()) == (PROBLEM, RECIPE, True, [])
    assert run.scored() == {"accuracy": 0.5, "instances": 7}
    p = PROBLEM.sample(4, torch.Generator()).p
    folder = Run.open(saved.parent / "run")
    assert torch.equal(run.network()(p), folder.network()(p))
    again = Run.open(saved).save(tmp_path / "new" / "again.safetensors")
    assert again.read_bytes() == saved.read_bytes()
    assert list(folder.scored()) == ["validation_accuracy"]
    assert run.trained_with() == folder.trained_with()
    assert run.trained_with()["versions"]["torch"] == torch.__version__
    with pytest.raises(QubolearnError, match=r"ends in \.safetensors"):
        run.save(tmp_path / "model.pt")


def changed(saved: Path, path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Return the file with other metadata in its header."""
    data = saved.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[start:])
    return path


def asks(**recipe: Any) -> Callable[[dict[str, Any]], None]:
    def change(header: dict[str, Any]) -> None:
        run = json.loads(header["__metadata__"]["run"])
        run["training"] |= recipe
        header["__metadata__"]["run"] = json.dumps(run)
        del header["__metadata__"]["sha256"]

    return change


def says(name: str, text: str | None) -> Callable[[dict[str, Any]], None]:
    def change(header: dict[str, Any]) -> None:
        header["__metadata__"] |= {name: text}
        if text is None:
            del header["__metadata__"][name]

    return change


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (asks(hidden=10**6), "asks for a network"),
        (asks(hidden=1000), "does not fit"),
        (asks(hidden="8"), "hidden"),
        (asks(seed=1), None),
        (says("run", "[" * 100_000), "JSON object"),
        (says("run", '{"format": "qubolearn-run", "format_version": 2}'), "lacks"),
        (says("format_version", "99"), "format version 99"),
        (says("score", '{"accuracy": 1.0}'), "checksum"),
    ],
)
def test_an_untrusted_file_is_rejected_in_one_line(
    saved: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], wanted: str | None
) -> None:
    path = changed(saved, tmp_path / "m.safetensors", change)
    if wanted is None:
        Run.load(path).network()
        return
    with pytest.raises(QubolearnError, match=wanted):
        Run.load(path).network()
