"""D-Wave: no token, no network, impossible options and chips are said; the token is in no text."""

from __future__ import annotations

import dataclasses
import logging
import sys
from typing import Any

import dimod
import pytest
from mock_chip import SECRET, qubos

from qubolearn.errors import QubolearnError
from qubolearn.solvers.dwave import access as qpu
from qubolearn.solvers.dwave.access import QpuAccess
from qubolearn.solvers.dwave.solver import DWaveSolver


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> pytest.MonkeyPatch:
    for name in ("DWAVE_API_TOKEN", "DWAVE_API_ENDPOINT", "DWAVE_API_SOLVER", "DWAVE_PROFILE", "DWAVE_API_REGION"):
        monkeypatch.delenv(name, raising=False)
    empty = tmp_path / "dwave.conf"
    empty.write_text("")
    monkeypatch.setenv("DWAVE_CONFIG_FILE", str(empty))
    return monkeypatch


def test_without_a_token_the_error_says_where_to_put_it(no_settings: pytest.MonkeyPatch) -> None:
    with pytest.raises(QubolearnError, match=r"no D-Wave API token; set DWAVE_API_TOKEN .*mock"):
        DWaveSolver(endpoint="http://127.0.0.1:9/")(qubos("chimera", 8, 1))


def test_without_a_network_the_error_and_the_log_hold_no_token(
    no_settings: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    no_settings.setenv("DWAVE_API_TOKEN", SECRET)
    caplog.set_level(1, logger="dwave.cloud")
    caplog.set_level(logging.DEBUG)
    solver = DWaveSolver(endpoint="http://127.0.0.1:9/", deadline_seconds=5)
    with pytest.raises(QubolearnError, match=r"cannot be reached: .*mock") as caught:
        solver(qubos("chimera", 8, 1))
    assert "token" in caplog.text
    for text in (caplog.text, str(caught.value), repr(solver), repr(dataclasses.asdict(solver))):
        assert SECRET not in text


@pytest.mark.parametrize("text", [f"token={SECRET}", f"{{'token': '{SECRET}'}}", f"X-Auth-Token: {SECRET},", SECRET])
def test_tokens_are_cut_from_any_text(text: str) -> None:
    assert SECRET not in qpu._without_tokens(text)
    assert "short" not in qpu._without_tokens(text.replace(SECRET, "short"), "short")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dwave.system", None)
    monkeypatch.setitem(sys.modules, "dwave.system.testing", None)
    for make in (DWaveSolver.mock, lambda: DWaveSolver()(qubos("chimera", 8, 1))):
        with pytest.raises(QubolearnError, match=r"qubolearn\[dwave\]"):
            make()


# Bad input.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reads": 0}, "reads=0"),
        ({"scaling": "tyle"}, "did you mean tile"),
        ({"chain_strength": 0.0}, "chain_strength=0.0"),
        ({"deadline_seconds": float("inf")}, "deadline_seconds=inf"),
        ({"budget_seconds": float("nan")}, "budget_seconds=nan"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        DWaveSolver(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reads": 20000}, "reads=20000, but this chip takes 1 ... 10000"),
        ({"anneal_time": 5000.0}, "anneal_time=5000.0 µs, but this chip takes 0.5 ... 2000"),
    ],
)
def test_options_beyond_the_chip_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        DWaveSolver.mock("pegasus", 3, **options)(qubos("chimera", 8, 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topology": "pegasos"}, "did you mean pegasus"),
        ({"size": 1}, "size 1"),
        ({"seed": -1}, "seed=-1"),
        ({"size": 3, "broken_qubits": [10**6]}, "1000000, which is not on the chip"),
        ({"size": 3, "broken_couplers": [(0, 10**6)]}, r"\(0, 1000000\), which is not on the chip"),
    ],
)
def test_impossible_mocks_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(QubolearnError, match=message):
        DWaveSolver.mock(**options)


def test_a_chip_too_small_and_a_sampler_without_one_are_refused() -> None:
    with pytest.raises(QubolearnError, match=r"n=40 bits .* do not fit on the chip pegasus P2"):
        DWaveSolver.mock("pegasus", 2)(qubos("dense", 40, 1))
    with pytest.raises(QubolearnError, match="does not state its chip"):
        QpuAccess(dimod.ExactSolver())


@pytest.mark.parametrize("size", [1e-310, 1e-200])
def test_entries_that_vanish_are_refused_before_anything_is_sent(size: float) -> None:
    """Their reciprocals are infinite: chips were once told NaN, or chains without strength."""
    A = qubos("chimera", 8, 2).double()
    A[1] *= size
    with pytest.raises(QubolearnError, match="vanish as h and J"):
        DWaveSolver.mock("chimera", 2)(A)
    A[1] = 0
    assert DWaveSolver.mock("chimera", 2, seed=0)(A).energies[1].tolist() == [0, 0]
