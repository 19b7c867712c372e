"""One paid call to a D-Wave chip: estimated before, bounded in time and money, cancelled when interrupted.

Nothing is ever submitted twice. A call whose outcome is unknown counts as paid in full.
"""

from __future__ import annotations

import logging
import math
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from qubolearn.embedding import Chip
from qubolearn.errors import QubolearnError, missing_extra

if TYPE_CHECKING:
    from dimod import BinaryQuadraticModel

__all__ = ["MARGIN", "Opened", "QpuAccess", "estimated_seconds", "run"]

#: What is set aside for a call, as a multiple of D-Wave's own estimate of its QPU access time.
MARGIN = 1.1
#: Seconds that a cancelled call is given: the client's threads send the cancellation, and die with the process.
GRACE = 5.0
#: Retries of requests that cost nothing; the client never repeats a submission that may have arrived.
HTTP_RETRIES = 3


class Opened(NamedTuple):
    """A sampler with its working graph and where its answers come from."""

    sampler: Any
    chip: Chip
    source: str  # "qpu", "mock" (D-Wave's stand-in) or "simulated" (any other sampler)


class QpuAccess:
    """The connection to a chip and the account of its time, shared by a solver and all its copies.

    It is no field of a configuration: it is opened on first use, never written, and its repr shows no settings.
    """

    def __init__(self, sampler: Any = None) -> None:
        self.spent_seconds = 0.0
        self._reserved = 0.0
        self._opened = None if sampler is None else _with_chip(sampler)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        chip = f"{self._opened.source} {self._opened.chip}, " if self._opened else ""
        return f"QpuAccess({chip}spent_seconds={self.spent_seconds:.6g})"

    def __deepcopy__(self, memo: dict[int, Any]) -> QpuAccess:
        return self  # a copied purse would hold the same money twice

    def __reduce__(self) -> Any:
        raise QubolearnError("a D-Wave solver cannot go to another process: its budget would be spent twice")

    def open(self, settings: Mapping[str, Any], deadline: float) -> Opened:
        """The sampler that was passed in, or D-Wave's, connected now."""
        with self._lock:
            if self._opened is None:
                self._opened = _with_chip(_connect(settings, deadline))
            return self._opened

    def close(self) -> None:
        """End the connection's threads; the next call opens a new one. A sampler that was passed in stays."""
        with self._lock:
            if self._opened is not None and self._opened.source == "qpu":
                self._opened.sampler.close()
                self._opened = None

    @contextmanager
    def reserve(self, seconds: float, budget: float) -> Iterator[list[float]]:
        """Set QPU time aside or refuse; the list that it gives takes what was really spent."""
        with self._lock:
            left = budget - self.spent_seconds - self._reserved
            if seconds > left:
                raise QubolearnError(
                    f"these anneals need about {seconds:.3g} s of QPU time, but {max(left, 0.0):.3g} s of "
                    f"budget_seconds={budget:g} are left; raise the budget, or use fewer reads or QUBOs"
                )
            self._reserved += seconds
        spent: list[float] = []
        try:
            yield spent
        finally:
            with self._lock:
                self._reserved -= seconds
                self.spent_seconds += sum(spent)


def _with_chip(sampler: Any) -> Opened:
    try:
        kind = sampler.properties["topology"]
        chip = Chip.of(kind["type"], kind["shape"], sampler.nodelist, sampler.edgelist)
    except (AttributeError, KeyError, TypeError):
        raise QubolearnError(
            f"{type(sampler).__name__} does not state its chip; want a structured sampler with properties['topology']"
        ) from None
    return Opened(sampler, chip, _source(sampler))


def _source(sampler: Any) -> str:
    if hasattr(sampler, "solver") and hasattr(sampler, "client"):
        return "qpu"
    return "mock" if any(cls.__name__ == "MockDWaveSampler" for cls in type(sampler).__mro__) else "simulated"


def run(
    opened: Opened, bqm: BinaryQuadraticModel, parameters: Mapping[str, Any], deadline: float, spent: list[float]
) -> Any:
    """The sample set of one call, waited for until the deadline.

    ``spent`` gets the QPU seconds that the call cost, or may have cost where its outcome is unknown.
    """
    estimate = estimated_seconds(opened, len(bqm), parameters)
    spent.append(MARGIN * estimate)  # before the call, so that no interrupt can come between it and the account
    try:
        job = _submit(opened, bqm, parameters)
    except Exception as error:  # raised by the client, before anything was sent
        spent[-1] = 0.0
        raise QubolearnError(f"D-Wave's client refused the problem: {_said(error, opened)}") from None
    try:
        in_time = job.wait(deadline)
    except BaseException:  # Ctrl-C, or a signal that raises
        _cancel(job)
        raise
    if not in_time and not _cancel(job):
        raise QubolearnError(
            f"no answer from D-Wave within deadline_seconds={deadline:g}; the call was told to cancel. "
            "Raise the deadline or try again later"
        )
    try:
        sampleset = job.sampleset
        sampleset.resolve()
    except Exception as error:
        raise QubolearnError(f"the call to D-Wave failed and was not repeated: {_said(error, opened)}") from None
    # The mock states the same time for every problem; its estimate is closer to a chip's.
    spent[-1] = _reported_seconds(sampleset.info, spent[-1]) if opened.source == "qpu" else estimate
    return sampleset


def _reported_seconds(info: Mapping[str, Any], otherwise: float) -> float:
    """The QPU access time that the answer states, if it is one."""
    time = (info.get("timing") or {}).get("qpu_access_time")
    return 1e-6 * time if isinstance(time, (int, float)) and 0 <= time < math.inf else otherwise


def estimated_seconds(opened: Opened, qubits: int, parameters: Mapping[str, Any]) -> float:
    """D-Wave's own estimate of the QPU access time; 0 for samplers that are no chip and state no timing."""
    try:
        from dwave.cloud.solver import StructuredSolver
    except ImportError:
        raise missing_extra("the D-Wave solver", "dwave") from None
    timed = getattr(opened.sampler, "solver", opened.sampler)  # the estimate only reads ``timed.properties``
    options = {key: parameters[key] for key in ("num_reads", "annealing_time") if key in parameters}
    try:
        return 1e-6 * float(StructuredSolver.estimate_qpu_access_time(timed, qubits, **options))
    except (KeyError, ValueError, TypeError) as error:
        if opened.source == "simulated":
            return 0.0
        raise QubolearnError(f"this chip's QPU time cannot be estimated, so no budget holds: {error}") from None


class _LocalJob:
    """A sampler that computes here, behind the interface of the cloud client's futures."""

    def __init__(self, sampler: Any, bqm: BinaryQuadraticModel, parameters: Mapping[str, Any]) -> None:
        self._done = threading.Event()
        self._sampleset: Any = None
        self._error: BaseException | None = None
        threading.Thread(target=self._run, args=(sampler, bqm, parameters), daemon=True).start()

    def _run(self, sampler: Any, bqm: BinaryQuadraticModel, parameters: Mapping[str, Any]) -> None:
        try:
            self._sampleset = sampler.sample(bqm, **parameters)
            self._sampleset.resolve()
        except BaseException as error:  # handed to the caller's thread
            self._error = error
        self._done.set()

    def wait(self, timeout: float) -> bool:
        return self._done.wait(timeout)

    def cancel(self) -> None:
        """A thread cannot be stopped; it ends with the process."""

    def exception(self) -> None:
        if self._error is not None:
            raise self._error

    @property
    def sampleset(self) -> Any:
        self.exception()
        return self._sampleset


def _submit(opened: Opened, bqm: BinaryQuadraticModel, parameters: Mapping[str, Any]) -> Any:
    if opened.source == "qpu":
        return opened.sampler.solver.sample_bqm(bqm, **parameters)
    return _LocalJob(opened.sampler, bqm, parameters)


def _cancel(job: Any) -> bool:
    """Cancel, and wait until that was sent; whether the answer came all the same."""
    job.cancel()
    if not job.wait(0 if isinstance(job, _LocalJob) else GRACE):
        return False
    try:
        job.exception()
    except Exception:
        return False
    return True


def _connect(settings: Mapping[str, Any], deadline: float) -> Any:
    try:
        from dwave.cloud.exceptions import SolverAuthenticationError, SolverNotFoundError
        from dwave.system import DWaveSampler
    except ImportError:
        raise missing_extra("the D-Wave solver", "dwave") from None
    _hide_tokens_in_logs()
    # The client waits for ever by default.
    finite = {"request_timeout": min(60.0, deadline), "polling_timeout": deadline, "http_retry_total": HTTP_RETRIES}
    try:
        return DWaveSampler(**settings, **finite)
    except SolverAuthenticationError:
        reason = "D-Wave refused the API token; check it with `dwave ping`"
    except SolverNotFoundError:
        reason = f"no QPU fits {dict(settings) or 'the default settings'}; see `dwave solvers --list`"
    except Exception as error:
        if "API token not defined" in str(error):
            reason = "no D-Wave API token; set DWAVE_API_TOKEN or run `dwave config create`"
        else:
            reason = f"D-Wave cannot be reached: {_said(error)}"
    raise QubolearnError(f"{reason}. Offline, DWaveSolver.mock() runs without either")


#: A token after its name, as in a repr of settings or of HTTP headers, and the form that D-Wave's tokens have.
_TOKEN = re.compile(r"""(token['"]?\s*[:=]\s*['"]?)[^'"\s,})]+|\b[A-Za-z0-9]{2,8}-[0-9a-f]{32,64}\b""", re.IGNORECASE)


def _said(error: Exception, opened: Opened | None = None) -> str:
    """An error's type and text in one line, without the token."""
    config = getattr(getattr(opened and opened.sampler, "client", None), "config", None)
    text = " ".join(_without_tokens(str(error), getattr(config, "token", None)).split())
    return f"{type(error).__name__}: {text[:300]}"


def _without_tokens(text: str, token: str | None = None) -> str:
    for secret in (os.environ.get("DWAVE_API_TOKEN"), token):
        text = text.replace(secret, "***") if secret else text
    return _TOKEN.sub(lambda match: f"{match[1] or ''}***", text)


class _HideTokens(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = _without_tokens(record.getMessage()), ()
        return True


_hide_tokens = _HideTokens()


def _hide_tokens_in_logs() -> None:
    """The cloud client logs its settings, token included, at level DEBUG."""
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("dwave.cloud"):
            logging.getLogger(name).addFilter(_hide_tokens)
