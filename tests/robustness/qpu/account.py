"""What the tests of the QPU share: QUBOs that fill one call, and what must be true of the account after every fault."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from qpu_server import QpuServer
from torch import Tensor

from qubolearn.chips.topologies import topology
from qubolearn.errors import QubolearnError
from qubolearn.qubo import all_states, energies
from qubolearn.solvers.dwave import access as qpu
from qubolearn.solvers.dwave.solver import DWaveSolver

TOKEN = "DEV-0123456789abcdef0123456789abcdef01234567"
FOREVER = None
POLL_PAUSE = qpu.POLL_PAUSE
DEADLINE = 0.2
LATE = f"no answer from D-Wave within deadline_seconds={DEADLINE}"
ESTIMATE = 0.0182  # QPU seconds of a call with 20 reads on 32 qubits, as D-Wave's model has them, rounded


def qubos(batch: int, n: int = 8, name: str = "chimera") -> Tensor:
    return torch.randn(batch, n, n, generator=torch.Generator().manual_seed(n)) * topology(name, n).mask


A = qubos(4)  # fills the four cells of the chip: one call


def exact(A: Tensor) -> Tensor:
    states = all_states(A.shape[2], dtype=torch.float64)
    return energies(A.double(), states.expand(len(A), *states.shape)).sort(1).values[:, :2]


def refusal(solver: DWaveSolver, match: str, A: Tensor = A) -> str:
    """The one line of the error that the call ends with, and that no server's words get the token into."""
    with pytest.raises(QubolearnError, match=match) as caught:
        solver(A)
    said = str(caught.value)
    assert TOKEN not in said
    assert "\n" not in said
    return said


def client_threads() -> int:
    """Threads of D-Wave's clients in this process."""
    return sum("(_do_" in thread.name for thread in threading.enumerate())


def check_account(solver: DWaveSolver, server: QpuServer, submissions: int = 1) -> None:
    """Nothing was sent twice, and the account holds at least the bill."""
    server.wait_for(lambda: "submit" in server.requests)  # on a busy machine a short deadline comes first
    assert server.count("submit") == submissions
    assert solver.access.spent_seconds >= server.billed_seconds - 1e-9


def in_time(call: Callable[[], Any]) -> None:
    """Run what takes a second, and would take 15 or an hour if the server had its way."""
    began = time.monotonic()
    call()
    assert time.monotonic() - began < 10


def replaced(**fields: Any) -> Callable[[Any], Any]:
    """A change of the one problem in a list of problems; None deletes."""
    return lambda told: [{k: v for k, v in (told[0] | fields).items() if v is not None}]
