"""Wrong options, chips and tokens."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import dimod
import pytest
from chip_qubos import SECRET, qubos

from qubolearn.errors import QubolearnError
from qubolearn.solvers.dwave import access as qpu
from qubolearn.solvers.dwave.access import QpuAccess
from qubolearn.solvers.dwave.solver import DWaveSolver


def test_without_a_token_the_error_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DWAVE_API_TOKEN")
    with pytest.raises(QubolearnError, match="DWAVE_API_TOKEN"):
        DWaveSolver(endpoint="http://127.0.0.1:9/")(qubos("chimera", 8, 1))


@pytest.mark.parametrize(
    "text", [f"token={SECRET}", f"{{'token': '{SECRET}'}}", f"X-Auth-Token: {SECRET},", SECRET]
)
def test_tokens_are_cut_from_any_text(text: str) -> None:
    assert SECRET not in qpu._without_tokens(text)
    assert "short" not in qpu._without_tokens(text.replace(SECRET, "short"), "short")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dwave.system", None)
    monkeypatch.setitem(sys.modules, "dwave.system.testing", None)
    for make in (DWaveSolver.mock, lambda: DWaveSolver()(qubos("chimera", 8, 1))):
        with pytest.raises(QubolearnError, match=r"qubolearn\[dwave\]"):
            make()


IMPOSSIBLE: dict[str, Callable[[], object]] = {
    "reads=0": lambda: DWaveSolver(reads=0),
    "chain_strength=0.0": lambda: DWaveSolver(chain_strength=0.0),
    "deadline_seconds=inf": lambda: DWaveSolver(deadline_seconds=float("inf")),
    "budget_seconds=nan": lambda: DWaveSolver(budget_seconds=float("nan")),
    "pegasos": lambda: DWaveSolver.mock(topology="pegasos"),
    "size 1": lambda: DWaveSolver.mock(size=1),
    "seed=-1": lambda: DWaveSolver.mock(seed=-1),
    "1000000": lambda: DWaveSolver.mock(size=3, broken_qubits=[10**6]),
    "(0, 1000000)": lambda: DWaveSolver.mock(size=3, broken_couplers=[(0, 10**6)]),
    "20000": lambda: DWaveSolver.mock("pegasus", 3, reads=20000)(qubos("chimera", 8, 1)),
    "5000.0": lambda: DWaveSolver.mock("pegasus", 3, anneal_time=5000.0)(qubos("chimera", 8, 1)),
    "n=40": lambda: DWaveSolver.mock("pegasus", 2)(qubos("dense", 40, 1)),
    "ExactSolver": lambda: QpuAccess(dimod.ExactSolver()),
}


@pytest.mark.parametrize("value", IMPOSSIBLE)
def test_impossible_options_and_chips_are_named(value: str) -> None:
    with pytest.raises(QubolearnError, match=re.escape(value)):
        IMPOSSIBLE[value]()


@pytest.mark.parametrize("size", [1e-310, 1e-200])
def test_entries_that_vanish_are_rejected_before_anything_is_sent(size: float) -> None:
    """Chips were once programmed with NaN or weak chains."""
    A = qubos("chimera", 8, 2).double()
    A[1] *= size
    with pytest.raises(QubolearnError, match="vanish as h and J"):
        DWaveSolver.mock("chimera", 2)(A)
    A[1] = 0
    assert DWaveSolver.mock("chimera", 2, seed=0)(A).energies[1].tolist() == [0, 0]
