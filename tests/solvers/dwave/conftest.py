"""D-Wave's real client against a local server that misbehaves."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dwave.system", reason="needs qubolearn[dwave]")

sys.path.insert(0, str(Path(__file__).parent))  # qpu_server.py

from chip_qubos import SECRET
from qpu_server import QpuServer

from qubolearn.solvers.dwave import access as qpu
from qubolearn.solvers.dwave.solver import DWaveSolver


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take nothing but the token from the environment."""
    for name in [name for name in os.environ if name.startswith("DWAVE_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    (tmp_path / "dwave.conf").write_text("")
    monkeypatch.setenv("DWAVE_CONFIG_FILE", str(tmp_path / "dwave.conf"))
    monkeypatch.setenv("DWAVE_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DWAVE_API_TOKEN", SECRET)
    monkeypatch.setattr(qpu, "GRACE", 0.15)
    monkeypatch.setattr(qpu, "POLL_PAUSE", 0.01)


@pytest.fixture
def server() -> Iterator[QpuServer]:
    with QpuServer(SECRET) as server:
        yield server


@pytest.fixture
def connect(server: QpuServer) -> Iterator[Callable[..., DWaveSolver]]:
    """Return a function that connects solvers to the server."""
    made = []

    def make(**options: Any) -> DWaveSolver:
        made.append(DWaveSolver(**{"endpoint": server.url, "reads": 20, "deadline_seconds": 10.0, **options}))
        return made[-1]

    yield make
    for solver in made:
        solver.close()


@pytest.fixture
def solver(connect: Callable[..., DWaveSolver]) -> DWaveSolver:
    return connect()
