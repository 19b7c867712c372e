"""Answers that are wrong are refused, and paid for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from account import ESTIMATE, FOREVER, A, check_account, exact, refusal
from qpu_http import Fault
from qpu_server import QpuServer, decoded, encoded

from qubolearn.solvers.dwave.solver import DWaveSolver


def answer(**fields: Any) -> Callable[[Any], Any]:
    """A change of the answer's fields; a function changes what is there, None deletes."""

    def change(told: dict[str, Any]) -> dict[str, Any]:
        new = {k: v(told["answer"][k]) if callable(v) else v for k, v in fields.items()}
        return told | {"answer": {k: v for k, v in (told["answer"] | new).items() if v is not None}}

    return change


QUBITS = list(range(32))
MALFORMED = {
    "bits truncated": answer(solutions=lambda text: text[:40]),
    "bits missing": answer(solutions=None),
    "bits flipped": answer(solutions=lambda text: encoded(~decoded(text, "u1"), "u1")),
    "bits no base64": answer(solutions="ä"),
    "energies truncated": answer(energies=lambda text: text[: 32 * 5]),
    "energies missing": answer(energies=None),
    "energies wrong": answer(energies=encoded([-1.0] * 20, "<f8")),
    "energies NaN": answer(energies=encoded([float("nan")] * 20, "<f8")),
    "too few reads": answer(
        energies=encoded([0.0] * 5, "<f8"), num_occurrences=encoded([1] * 5, "<i4"), solutions=lambda text: text[:28]
    ),
    "no reads": answer(energies="", num_occurrences="", solutions=""),
    "counts huge": answer(num_occurrences=encoded([2**31 - 1] * 20, "<i4")),
    "counts negative": answer(num_occurrences=encoded([-1] * 20, "<i4")),
    "counts doubled": answer(num_occurrences=encoded([2] * 20, "<i4")),
    "qubit lacking": answer(active_variables=encoded(QUBITS[:-1], "<i4")),
    "qubit twice": answer(active_variables=encoded([*QUBITS[:-1], 0], "<i4")),
    "qubit elsewhere": answer(active_variables=encoded([*QUBITS[:-1], 10**6], "<i4")),
    "qubits permuted": answer(active_variables=encoded(QUBITS[::-1], "<i4")),
    "qubits too many": answer(active_variables=encoded([*QUBITS, *range(32, 40)], "<i4"), num_variables=40),
    "chip too small": answer(num_variables=8),
    "other format": answer(format="bq"),
    "other kind": lambda told: told | {"type": "qubo"},
    "null": lambda told: told | {"answer": None},
}


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_answer_is_refused(solver: DWaveSolver, server: QpuServer, change: Any) -> None:
    server.fail("answer", Fault(change=change), FOREVER)
    refusal(solver, "the answer|failed and was not repeated")
    check_account(solver, server)
    assert solver.access.spent_seconds > 0


def test_the_answer_to_another_problem_is_refused(solver: DWaveSolver, server: QpuServer) -> None:
    solver(A)
    old = server.problems["problem-1"].answer
    server.fail("answer", Fault(change=answer(**(old or {}))), FOREVER)
    refusal(solver, "garbled", -A)
    check_account(solver, server, 2)


BILLS = {
    "missing": None,
    "negative": {"qpu_access_time": -5},
    "text": {"qpu_access_time": "soon"},
    "list": [1, 2],
    "huge": {"qpu_access_time": 10**400},
}


@pytest.mark.parametrize("timing", BILLS.values(), ids=BILLS)
def test_an_answer_without_a_bill_counts_as_estimated(solver: DWaveSolver, server: QpuServer, timing: Any) -> None:
    server.fail("answer", Fault(change=answer(timing=timing)), FOREVER)
    if timing == BILLS["huge"]:
        refusal(solver, "failed and was not repeated")  # no JSON number
    else:
        torch.testing.assert_close(solver(A).energies, exact(A), rtol=0, atol=1e-6)
    check_account(solver, server)
    assert ESTIMATE < solver.access.spent_seconds < 2 * ESTIMATE
