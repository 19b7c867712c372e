"""Access to a D-Wave chip: connection, QPU time, token, and paid calls.

A call is bounded in time, canceled when interrupted, and never repeated. One that fails counts as
paid, since D-Wave may have run it.
"""

from __future__ import annotations

import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qubolearn.chips.embedding import Chip
from qubolearn.errors import QubolearnError, missing_extra

if TYPE_CHECKING:
    from dimod import BinaryQuadraticModel

#: Time reserved for a call, as a multiple of D-Wave's estimate.
MARGIN = 1.1
#: Seconds in which the client may still send the cancellation of a call.
GRACE = 5.0
#: Seconds between polls of each of the client's five threads.
POLL_PAUSE = 0.25


class Opened(NamedTuple):
    """A sampler with its working graph and the source of its answers."""

    sampler: Any
    chip: Chip
    source: str  # "qpu", "mock" (D-Wave's stand-in) or "simulated" (any other sampler)


class QpuAccess:
    """The connection to a chip and the account of its time, shared by copies of a solver.

    It is opened on first use, is never saved, and its repr shows no settings.
    """

    def __init__(self, sampler: Any = None) -> None:
        self.spent_seconds = 0.0
        self._opened = None if sampler is None else _with_chip(sampler)
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __repr__(self) -> str:
        chip = f"{self._opened.source} {self._opened.chip}, " if self._opened else ""
        return f"QpuAccess({chip}spent_seconds={self.spent_seconds:.6g})"

    def __deepcopy__(self, memo: dict[int, Any]) -> QpuAccess:
        return self  # copies share one budget

    def __reduce__(self) -> Any:
        raise _other_process()

    def open(self, settings: Mapping[str, Any], deadline: float) -> Opened:
        """Return the sampler that was passed in, or connect to D-Wave's."""
        if os.getpid() != self._process:
            raise _other_process()
        with self._lock:
            if self._opened is None:
                sampler = _connect(settings, deadline)
                try:
                    self._opened = _with_chip(sampler)
                except QubolearnError:
                    sampler.close()
                    raise
            return self._opened

    def close(self) -> None:
        """End the connection; a sampler that was passed in stays."""
        with self._lock:
            if self._opened is None or self._opened.source != "qpu":
                return
            sampler, self._opened = self._opened.sampler, None
        _is_done(_start(sampler.close), GRACE)  # the client would wait for its last job

    def charge(self, seconds: float, budget: float = math.inf) -> None:
        """Add QPU time to the account, or raise if the budget does not cover it."""
        with self._lock:
            if seconds > (left := budget - self.spent_seconds):
                has = f"{max(left, 0.0):.3g} s of budget_seconds={budget:g} are left; raise it, or use fewer reads"
                raise QubolearnError(f"these anneals need about {seconds:.3g} s of QPU time, but {has}")
            self.spent_seconds += seconds


def _other_process() -> QubolearnError:
    return QubolearnError("a D-Wave solver cannot go to another process: its budget would be spent twice")


def _with_chip(sampler: Any) -> Opened:
    try:
        kind = sampler.properties["topology"]
        chip = Chip.of(kind["type"], kind["shape"], sampler.nodelist, sampler.edgelist)
    except (AttributeError, LookupError, TypeError):
        wanted = "expected a structured sampler with properties['topology']"
        raise QubolearnError(f"{type(sampler).__name__} does not state its chip; {wanted}") from None
    if hasattr(sampler, "solver") and hasattr(sampler, "client"):
        return Opened(sampler, chip, "qpu")
    mock = any(cls.__name__ == "MockDWaveSampler" for cls in type(sampler).__mro__)
    return Opened(sampler, chip, "mock" if mock else "simulated")


def estimated_seconds(opened: Opened, qubits: int, parameters: Mapping[str, Any]) -> float:
    """Return D-Wave's estimate of the QPU access time; 0 without a chip."""
    try:
        from dwave.cloud.solver import StructuredSolver
    except ImportError:
        raise missing_extra("the D-Wave solver", "dwave") from None
    timed = getattr(opened.sampler, "solver", opened.sampler)
    options = {key: parameters[key] for key in ("num_reads", "annealing_time") if key in parameters}
    try:
        with np.errstate(all="ignore"):
            seconds = 1e-6 * float(StructuredSolver.estimate_qpu_access_time(timed, qubits, **options))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if opened.source == "simulated":
            return 0.0
        raise QubolearnError(f"this chip's QPU time cannot be estimated for the budget: {error}") from None
    if not 0 < seconds < math.inf:
        raise QubolearnError(f"this chip's QPU time is estimated as {seconds:g} s; use another chip")
    return seconds


def _start(call: Callable[[], Any], done: Future[Any] | None = None) -> Future[Any]:
    """Run a call in a daemon thread; return the future of its result."""
    future: Future[Any] = done or Future()

    def work() -> None:
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def _is_done(future: Future[Any], seconds: float) -> bool:
    return bool(wait([future], seconds).done)


def _connect(settings: Mapping[str, Any], deadline: float) -> Any:
    try:
        from dwave.cloud.exceptions import SolverAuthenticationError, SolverNotFoundError
        from dwave.system import DWaveSampler
    except ImportError:
        raise missing_extra("the D-Wave solver", "dwave") from None
    for name in list(logging.root.manager.loggerDict):  # the client logs its token
        if name.startswith("dwave"):
            logging.getLogger(name).addFilter(_hide_tokens)
    finite = {
        "request_timeout": min(60.0, deadline + GRACE),  # late ones must return their ids
        "polling_timeout": deadline + GRACE,  # by default the client polls forever
        "poll_pause": POLL_PAUSE,
        "http_retry_total": 3,  # of free requests; submissions are never repeated
        "cache_enabled": False,  # a cached chip may be offline
    }
    # made before its threads start, which have to end if it cannot connect
    sampler = DWaveSampler.__new__(DWaveSampler)
    connecting = _start(lambda: sampler.__init__(**settings, **finite))
    if not _is_done(connecting, deadline):  # the client may sleep
        reason = f"D-Wave cannot be reached: it named no chip within deadline_seconds={deadline:g}"
    elif connecting.exception() is None:
        return sampler  # the error is unnamed: tracebacks may show its token
    elif isinstance(connecting.exception(), SolverAuthenticationError):
        reason = "D-Wave refused the API token; check it with `dwave ping`"
    elif isinstance(connecting.exception(), SolverNotFoundError):
        reason = f"no QPU fits {dict(settings) or 'the default settings'}; see `dwave solvers --list`"
    elif "API token not defined" in str(connecting.exception()):
        reason = "no D-Wave API token; set DWAVE_API_TOKEN or run `dwave config create`"
    else:
        reason = f"D-Wave cannot be reached: {_format_error(connecting.exception())}"
    if hasattr(sampler, "client"):
        _is_done(_start(sampler.client.close), GRACE)
    raise QubolearnError(f"{reason}. Offline, DWaveSolver.mock() runs without either")


#: A token after its name, and the form that D-Wave's tokens have.
_TOKEN = re.compile(r"""(?i)(token['"]?\s*[:=]\s*['"]?)[^'"\s,})]+|\b[a-z0-9]{2,8}-[0-9a-f]{32,64}\b""")


def _format_error(error: BaseException | None, opened: Opened | None = None) -> str:
    """Format an error without the token, with a remedy if one is known."""
    config = getattr(getattr(opened and opened.sampler, "client", None), "config", None)
    text = " ".join(_without_tokens(str(error), getattr(config, "token", None)).split())[:300]
    remedy = "; close() the solver to take another chip" if "offline" in text.lower() else ""
    return f"{type(error).__name__}: {text}{remedy}"


def _without_tokens(text: str, token: str | None = None) -> str:
    for secret in (os.environ.get("DWAVE_API_TOKEN"), token):
        text = text.replace(secret, "***") if secret else text
    return _TOKEN.sub(lambda match: f"{match[1] or ''}***", text)


def _hide_tokens(record: logging.LogRecord) -> bool:
    record.msg, record.args = _without_tokens(record.getMessage()), ()
    if record.exc_info:
        record.exc_text = _without_tokens(logging.Formatter().formatException(record.exc_info))
        record.exc_info = None
    return True


def run(opened: Opened, bqm: BinaryQuadraticModel, parameters: Mapping[str, Any], deadline: float) -> Any:
    """Wait for the sample set of one call until the deadline."""
    on_qpu, until, sent = opened.source == "qpu", time.monotonic() + deadline, Future[Any]()
    send = opened.sampler.solver.sample_bqm if on_qpu else opened.sampler.sample
    try:
        # In a thread, so that Ctrl-C never comes between a submission and its job.
        ended = _is_done(_start(partial(send, bqm, **parameters), sent), deadline)
        job = sent.result() if ended and on_qpu and not sent.exception() else sent
        ended = ended and (job is sent or _ended(job, until))
    except BaseException:  # an interrupt may come as soon as the thread runs
        if on_qpu and _is_done(sent, GRACE) and not sent.exception():
            _ended(sent.result())
        raise
    if not ended:
        late = f"no answer from D-Wave within deadline_seconds={deadline:g}; cancellation was requested"
        raise QubolearnError(f"{late}. Raise the deadline or try again later")
    sampleset, error = _answer(opened, job, until)
    if error is not None:  # which may hold the token
        text = _format_error(error, opened)
        del error, job, sent
        raise QubolearnError(f"the call to D-Wave failed and was not repeated: {text}")
    return sampleset


def _ended(job: Any, until: float = -math.inf) -> bool:
    """Return True if the job ended in time, or while it was being canceled."""
    if job.wait(max(until - time.monotonic(), 0.0)):
        return True
    with suppress(Exception):  # a client that is being closed raises
        job.cancel()
    return bool(job.wait(GRACE)) and _result(job)[1] is None


def _answer(opened: Opened, job: Any, until: float) -> tuple[Any, Exception | None]:
    """Return the sample set of a job that has ended, or the error.

    The client gives up when one request fails; requesting a paid answer again is free. If that
    fails too, the job is canceled unless it is over.
    """
    sampleset, error = _result(job)
    for last in (False, True):
        if error is None or getattr(job, "id", None) is None or job.remote_status in ("FAILED", "CANCELLED"):
            break
        again = opened.sampler.client.retrieve_answer(job.id)
        again.solver, job = job.solver, again  # the client would look it up
        if _ended(job, -math.inf if last else until):
            sampleset, error = _result(job)
    return sampleset, error


def _result(job: Any) -> tuple[Any, Exception | None]:
    try:
        sampleset = job.result() if isinstance(job, Future) else job.sampleset
        sampleset.resolve()
    except Exception as error:
        return None, error
    return sampleset, None


def reported_seconds(info: Mapping[str, Any], otherwise: float) -> float:
    """Return the QPU access time that the answer states, if it is valid."""
    timing = info.get("timing")
    stated = timing.get("qpu_access_time") if isinstance(timing, Mapping) else None
    valid = isinstance(stated, (int, float)) and not isinstance(stated, bool) and 0 <= stated < math.inf
    return 1e-6 * float(stated) if valid else otherwise  # type: ignore[arg-type]
