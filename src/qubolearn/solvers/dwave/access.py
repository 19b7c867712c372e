"""Access to a D-Wave chip: the connection, the account of QPU time, and the token, which nobody gets to see."""

from __future__ import annotations

import logging
import math
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np

from qubolearn.chips.embedding import Chip
from qubolearn.errors import QubolearnError, missing_extra

__all__ = ["GRACE", "MARGIN", "Account", "Background", "Opened", "QpuAccess", "estimated_seconds", "said"]

#: What is set aside for a call, as a multiple of D-Wave's own estimate of its QPU access time.
MARGIN = 1.1
#: Seconds that a cancelled call is given: the client's threads send the cancellation, and die with the process.
GRACE = 5.0
#: Retries of requests that cost nothing; the client never repeats a submission that may have arrived.
HTTP_RETRIES = 3
#: Seconds that a thread of the client (it has five) rests after a poll, or a broken server is asked without end.
POLL_PAUSE = 0.25


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
        self._process = os.getpid()

    def __repr__(self) -> str:
        chip = f"{self._opened.source} {self._opened.chip}, " if self._opened else ""
        return f"QpuAccess({chip}spent_seconds={self.spent_seconds:.6g})"

    def __deepcopy__(self, memo: dict[int, Any]) -> QpuAccess:
        return self  # a copied purse would hold the same money twice

    def __reduce__(self) -> Any:
        raise _other_process()

    def open(self, settings: Mapping[str, Any], deadline: float) -> Opened:
        """The sampler that was passed in, or D-Wave's, connected now."""
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
        """End the connection's threads; the next call opens a new one. A sampler that was passed in stays."""
        with self._lock:
            if self._opened is None or self._opened.source != "qpu":
                return
            sampler, self._opened = self._opened.sampler, None
        Background(sampler.close).start().wait(GRACE)  # the client itself would wait for its last job

    @contextmanager
    def account(self, budget: float) -> Iterator[Account]:
        """Where some calls hold their time and note what they spent."""
        account = Account(self, budget)
        try:
            yield account
        finally:
            with self._lock:
                self.spent_seconds += sum(account.spent)
                self._reserved -= account.held


class Account:
    """The QPU time of some calls: what was spent, and what is set aside for those to come."""

    def __init__(self, access: QpuAccess, budget: float) -> None:
        self.spent: list[float] = []
        self.held = 0.0
        self._access, self._budget = access, budget

    def hold(self, seconds: float) -> None:
        """Set time aside for the calls to come, beside what was spent so far, or refuse."""
        wanted = sum(self.spent) + seconds
        access = self._access
        with access._lock:
            left = self._budget - access.spent_seconds - (access._reserved - self.held)
            if wanted > left:
                raise QubolearnError(
                    f"these anneals need about {seconds:.3g} s of QPU time, but {max(left - sum(self.spent), 0.0):.3g}"
                    f" s of budget_seconds={self._budget:g} are left; raise the budget, or use fewer reads or QUBOs"
                )
            access._reserved += wanted - self.held
            self.held = wanted


def _other_process() -> QubolearnError:
    return QubolearnError("a D-Wave solver cannot go to another process: its budget would be spent twice")


def _with_chip(sampler: Any) -> Opened:
    try:
        kind = sampler.properties["topology"]
        chip = Chip.of(kind["type"], kind["shape"], sampler.nodelist, sampler.edgelist)
    except (AttributeError, LookupError, TypeError):
        raise QubolearnError(
            f"{type(sampler).__name__} does not state its chip; want a structured sampler with properties['topology']"
        ) from None
    return Opened(sampler, chip, _source(sampler))


def _source(sampler: Any) -> str:
    if hasattr(sampler, "solver") and hasattr(sampler, "client"):
        return "qpu"
    return "mock" if any(cls.__name__ == "MockDWaveSampler" for cls in type(sampler).__mro__) else "simulated"


def estimated_seconds(opened: Opened, qubits: int, parameters: Mapping[str, Any]) -> float:
    """D-Wave's own estimate of the QPU access time; 0 for samplers that are no chip and state no timing."""
    try:
        from dwave.cloud.solver import StructuredSolver
    except ImportError:
        raise missing_extra("the D-Wave solver", "dwave") from None
    timed = getattr(opened.sampler, "solver", opened.sampler)  # the estimate only reads ``timed.properties``
    options = {key: parameters[key] for key in ("num_reads", "annealing_time") if key in parameters}
    try:
        with np.errstate(all="ignore"):
            seconds = 1e-6 * float(StructuredSolver.estimate_qpu_access_time(timed, qubits, **options))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if opened.source == "simulated":
            return 0.0
        raise QubolearnError(f"this chip's QPU time cannot be estimated, so no budget holds: {error}") from None
    if not 0 < seconds < math.inf:
        raise QubolearnError(f"this chip's QPU time is estimated as {seconds:g} s, so no budget holds; take another")
    return seconds


class Background:
    """A call in a thread of its own, which can be waited for up to a deadline."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.value: Any = None
        self.error: Exception | None = None
        self._call = call
        self._done = threading.Event()

    def start(self) -> Self:
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def _run(self) -> None:
        try:
            self.value = self._call()
        except Exception as error:  # handed to the caller's thread
            self.error = error
        finally:
            self._done.set()

    def wait(self, timeout: float) -> bool:
        return self._done.wait(timeout)


def _connect(settings: Mapping[str, Any], deadline: float) -> Any:
    try:
        from dwave.cloud.exceptions import SolverAuthenticationError, SolverNotFoundError
        from dwave.system import DWaveSampler
    except ImportError:
        raise missing_extra("the D-Wave solver", "dwave") from None
    _hide_tokens_in_logs()
    finite = {
        "request_timeout": min(60.0, deadline + GRACE),  # a late submission must still tell the id to cancel
        "polling_timeout": deadline + GRACE,  # the client polls for ever by default
        "poll_pause": POLL_PAUSE,
        "http_retry_total": HTTP_RETRIES,
        "cache_enabled": False,  # a chip that was online a quarter of an hour ago may not be now
    }
    given_up = threading.Event()
    connecting = Background(lambda: _sampler(DWaveSampler, {**settings, **finite}, given_up)).start()
    if not connecting.wait(deadline):  # the client sleeps for as long as a server tells it to
        given_up.set()
        reason = f"D-Wave cannot be reached: it named no chip within deadline_seconds={deadline:g}"
    elif connecting.error is None:
        return connecting.value
    elif isinstance(connecting.error, SolverAuthenticationError):
        reason = "D-Wave refused the API token; check it with `dwave ping`"
    elif isinstance(connecting.error, SolverNotFoundError):
        reason = f"no QPU fits {dict(settings) or 'the default settings'}; see `dwave solvers --list`"
    elif "API token not defined" in str(connecting.error):
        reason = "no D-Wave API token; set DWAVE_API_TOKEN or run `dwave config create`"
    else:
        reason = f"D-Wave cannot be reached: {said(connecting.error)}"
    raise QubolearnError(f"{reason}. Offline, DWaveSolver.mock() runs without either")


def _sampler(kind: Any, settings: Mapping[str, Any], given_up: threading.Event) -> Any:
    """D-Wave's sampler. Where that fails, or comes after the deadline, its client's threads are ended."""
    sampler = kind.__new__(kind)
    try:
        sampler.__init__(**settings)
        if given_up.is_set():
            raise TimeoutError
    except BaseException:
        if hasattr(sampler, "client"):
            sampler.client.close()
        raise
    return sampler


#: A token after its name, as in a repr of settings or of HTTP headers, and the form that D-Wave's tokens have.
_TOKEN = re.compile(r"""(token['"]?\s*[:=]\s*['"]?)[^'"\s,})]+|\b[A-Za-z0-9]{2,8}-[0-9a-f]{32,64}\b""", re.IGNORECASE)


def said(error: Exception, opened: Opened | None = None) -> str:
    """An error's type and text in one line, without the token, and what to do about it where that is known."""
    config = getattr(getattr(opened and opened.sampler, "client", None), "config", None)
    text = " ".join(_without_tokens(str(error), getattr(config, "token", None)).split())[:300]
    remedy = "; close() the solver, and the next call takes a chip that is online" if "offline" in text.lower() else ""
    return f"{type(error).__name__}: {text}{remedy}"


def _without_tokens(text: str, token: str | None = None) -> str:
    for secret in (os.environ.get("DWAVE_API_TOKEN"), token):
        text = text.replace(secret, "***") if secret else text
    return _TOKEN.sub(lambda match: f"{match[1] or ''}***", text)


class _HideTokens(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = _without_tokens(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = _without_tokens(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return True


_hide_tokens = _HideTokens()


def _hide_tokens_in_logs() -> None:
    """The cloud client logs its settings, token included, at level DEBUG."""
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("dwave"):
            logging.getLogger(name).addFilter(_hide_tokens)
