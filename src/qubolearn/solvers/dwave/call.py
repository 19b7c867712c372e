"""One paid call to a D-Wave chip: bounded in time, cancelled when interrupted, never repeated.

Only what is free is asked for again. A call whose outcome is unknown counts as paid in full, and one that D-Wave
refused as not paid.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from qubolearn.errors import QubolearnError
from qubolearn.solvers.dwave import access as qpu
from qubolearn.solvers.dwave.access import Background, Opened, estimated_seconds, said

if TYPE_CHECKING:
    from dimod import BinaryQuadraticModel

__all__ = ["run"]

#: How often an answer is asked for again, by its id, where the client gave up on it.
ASKED_AGAIN = 2


def run(
    opened: Opened, bqm: BinaryQuadraticModel, parameters: Mapping[str, Any], deadline: float, spent: list[float]
) -> Any:
    """The sample set of one call, waited for until the deadline.

    ``spent`` gets the QPU seconds that the call cost, or may have cost where its outcome is unknown.
    """
    estimate = estimated_seconds(opened, len(bqm), parameters)
    spent.append(qpu.MARGIN * estimate)  # before the call, so that no interrupt can come between it and the account
    until = time.monotonic() + deadline
    # Submitted in a thread of its own, so that Ctrl-C finds us waiting and never between a submission and its job.
    sending = Background(partial(_submit, opened, bqm, parameters))
    try:
        sending.start().wait(deadline)
    except BaseException:
        if sending.wait(qpu.GRACE) and sending.value is not None:
            _cancel(sending.value)
        raise
    if sending.error is not None:
        spent[-1] = 0.0
        raise QubolearnError(f"D-Wave's client refused the problem: {said(sending.error, opened)}")
    if sending.value is None or not _ended(sending.value, until):
        raise QubolearnError(
            f"no answer from D-Wave within deadline_seconds={deadline:g}; the call was told to cancel. "
            "Raise the deadline or try again later"
        )
    sampleset, failure = _answer(opened, sending.value, until)
    if failure is not None:
        if failure.refused:
            spent[-1] = 0.0
        raise QubolearnError(f"the call to D-Wave failed and was not repeated: {failure.said}")
    # The mock states the same time for every problem; its estimate is closer to a chip's.
    spent[-1] = _reported_seconds(sampleset.info, spent[-1]) if opened.source == "qpu" else estimate
    return sampleset


def _ended(job: Any, until: float) -> bool:
    """Whether the job ended in time. Where it did not, or where we are interrupted, it is cancelled."""
    try:
        if job.wait(max(until - time.monotonic(), 0.0)):
            return True
    except BaseException:  # Ctrl-C, or a signal that raises
        _cancel(job)
        raise
    return _cancel(job)


def _cancel(job: Any) -> bool:
    """Cancel, and wait until that was sent; whether the answer came all the same."""
    with suppress(Exception):  # a client that is being closed refuses
        job.cancel()
    return bool(job.wait(0 if isinstance(job, _LocalJob) else qpu.GRACE)) and _result(job)[1] is None


class _Failure(NamedTuple):
    """Why there is no answer. The error itself may hold the token, and stays out of the frames of ours."""

    said: str
    refused: bool  # D-Wave never took the problem


def _answer(opened: Opened, job: Any, until: float) -> tuple[Any, _Failure | None]:
    """The sample set of a job that has ended, or why there is none.

    The client gives up on a job when one request for it fails. Its answer may be paid for by then, and asking for it
    again is free; what cannot be had is cancelled, unless D-Wave says that it is over.
    """
    sampleset, error = _result(job)
    for _ in range(ASKED_AGAIN):
        if error is None or not _is_open(job) or time.monotonic() > until:
            break
        job = _asked_again(opened, job)
        if not _ended(job, until):
            break
        sampleset, error = _result(job)
    if error is None:
        return sampleset, None
    if _is_open(job) and job.remote_status != "COMPLETED":
        job = _asked_again(opened, job)
        if _cancel(job):
            return _result(job)[0], None
    return None, _Failure(said(error, opened), _refused(job, error))


def _result(job: Any) -> tuple[Any, Exception | None]:
    try:
        sampleset = job.sampleset
        sampleset.resolve()
    except Exception as error:
        return None, error
    return sampleset, None


def _is_open(job: Any) -> bool:
    """Whether D-Wave has the job, and has not said that there will be no answer."""
    return getattr(job, "id", None) is not None and job.remote_status not in ("FAILED", "CANCELLED")


def _asked_again(opened: Opened, job: Any) -> Any:
    again = opened.sampler.client.retrieve_answer(job.id)
    again.solver = job.solver  # the client would look it up
    return again


def _refused(job: Any, error: Exception) -> bool:
    """Whether D-Wave never took the problem: it gave it no id but an error, or was not even reached."""
    if getattr(job, "id", None) is not None:
        return False
    try:
        from dwave.cloud.exceptions import SolverError, SolverFailureError
        from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
    except ImportError:
        return False
    if isinstance(error, SolverError):
        code = getattr(error, "error_code", None)
        return isinstance(error, SolverFailureError) or (isinstance(code, int) and 400 <= code < 500)
    request_error = error.__cause__ or error  # the client may wrap it
    reason = getattr(next(iter(request_error.args), None), "reason", None)
    return isinstance(reason, (ConnectTimeoutError, NewConnectionError))


def _reported_seconds(info: Mapping[str, Any], otherwise: float) -> float:
    """The QPU access time that the answer states, if it is one."""
    timing = info.get("timing")
    stated = timing.get("qpu_access_time") if isinstance(timing, Mapping) else None
    if isinstance(stated, bool) or not isinstance(stated, (int, float)):
        return otherwise
    return 1e-6 * stated if 0 <= stated < math.inf else otherwise


class _LocalJob(Background):
    """A sampler that computes here, behind the interface of the cloud client's futures."""

    def cancel(self) -> None:
        """A thread cannot be stopped; it ends with the process."""

    @property
    def sampleset(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


def _submit(opened: Opened, bqm: BinaryQuadraticModel, parameters: Mapping[str, Any]) -> Any:
    if opened.source == "qpu":
        return opened.sampler.solver.sample_bqm(bqm, **parameters)
    return _LocalJob(lambda: opened.sampler.sample(bqm, **parameters)).start()
