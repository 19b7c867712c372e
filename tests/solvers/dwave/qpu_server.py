"""A local server that speaks D-Wave's Solver API to the real ``dwave-cloud-client``, and fails on request.

    list     GET    solvers/remote/[NAME]      the chips: all but their status, or only that, as ``filter`` says
    submit   POST   problems/                  a list of problems; their ids come back
    poll     GET    problems/?id=..&timeout=t  their status, held back for t seconds or until one has ended
    answer   GET    problems/ID/               status and answer of one problem
    cancel   DELETE problems/                  a list of ids

Every accepted problem is annealed and billed unless it is canceled before it starts.
"""

from __future__ import annotations

import base64
import itertools
import json
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import dimod
import dwave.graphs
import numpy as np
from dwave.cloud.testing.mocks import qpu_problem_timing_data
from dwave.samplers import SimulatedAnnealingSampler

TYPES = {"list": "solver-definition-list", "one": "solver-definition", "answer": "problem"}
LONGEST_WAIT = 15.0  # seconds; no reply is held back for longer


@dataclass(frozen=True)
class Fault:
    """A fault of one request: delay, change, reply."""

    delay: float = 0.0  # seconds before anything is done
    status: int = 0  # an HTTP status; the request is not carried out
    carried_out: bool = False  # ... but here it is
    body: bytes = b"no"  # of that status
    headers: Mapping[str, str] = field(default_factory=dict)
    change: Callable[[Any], Any] | None = None  # right reply, JSON -> sent one
    drop: bool = False  # close the connection without a reply
    cut: bool = False  # close it after half of the reply


@dataclass
class Problem:
    """A problem that was accepted."""

    body: dict[str, Any]
    status: str = "PENDING"  # IN_PROGRESS, COMPLETED, CANCELLED
    answer: dict[str, Any] | None = None


def chip(name: str, rows: int = 2, **properties: Any) -> dict[str, Any]:
    """Return D-Wave's description of a Chimera chip."""
    graph = dwave.graphs.chimera_graph(rows)
    described = {
        "category": "qpu",
        "chip_id": name,
        "supported_problem_types": ["ising", "qubo"],
        "topology": {"type": "chimera", "shape": [rows, rows, 4]},
        "qubits": sorted(graph),
        "couplers": sorted(sorted(edge) for edge in graph.edges),
        "num_qubits": len(graph),
        "h_range": [-4.0, 4.0],
        "j_range": [-1.0, 1.0],
        "extended_j_range": [-2.0, 1.0],
        "num_reads_range": [1, 10000],
        "annealing_time_range": [0.5, 2000.0],
        "parameters": dict.fromkeys(
            ("num_reads", "answer_mode", "auto_scale", "annealing_time", "label"), ""
        ),
        "problem_timing_data": qpu_problem_timing_data("advantage"),
        "quota_conversion_rate": 1,
    } | properties
    identity = {"name": name, "version": {"graph_id": f"{name}-graph"}}
    return {
        "identity": identity,
        "description": "",
        "properties": described,
        "status": "ONLINE",
        "avg_load": 0,
    }


class QpuServer(ThreadingHTTPServer):
    """``with QpuServer(token) as server:`` serves at ``server.url``."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, token: str) -> None:
        self.token = token
        self.chips = [chip("QPU_1")]
        self.hold = False  # leave problems in the queue
        self.microseconds = lambda reads: 15_000 + 130 * reads  # the bill of a problem
        self.requests: list[str] = []  # by name, as above
        self.problems: dict[str, Problem] = {}
        self.canceled: list[str] = []  # the ids that DELETE named
        self.closing = threading.Event()
        self._faults: dict[str, Iterator[Fault]] = {}
        self._changed = threading.Condition()
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/sapi/v2/"

    def __enter__(self) -> QpuServer:
        threading.Thread(target=self.serve_forever, args=(0.005,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        with self._changed:
            self._changed.notify_all()
        self.shutdown()
        self.server_close()

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that went away before their reply came."""

    def fail(self, request: str, fault: Fault, times: int | None = 1) -> None:
        """Let the next requests of this name, or all, go wrong."""
        faults = itertools.repeat(fault) if times is None else itertools.repeat(fault, times)
        self._faults[request] = itertools.chain(self._faults.get(request, ()), faults)

    def recover(self) -> None:
        self._faults.clear()

    def count(self, request: str) -> int:
        return self.requests.count(request)

    @property
    def billed_seconds(self) -> float:
        """Seconds billed: accepted and not canceled in time."""
        paid = [problem for problem in list(self.problems.values()) if problem.status != "CANCELLED"]
        return sum(1e-6 * self.microseconds(problem.body["params"]["num_reads"]) for problem in paid)

    def wait_for(self, condition: Callable[[], bool], seconds: float = 5.0) -> bool:
        """Return True if the condition came true in time."""
        with self._changed:
            return self._changed.wait_for(condition, seconds)

    def take_fault(self, request: str) -> Fault:
        """Note the request, and return what is to go wrong with it."""
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            return next(self._faults.get(request, iter(())), Fault())

    def reply(self, request: str, path: str, query: Mapping[str, str], body: Any) -> Any:
        """Carry a request out."""
        with self._changed:
            try:
                return getattr(self, f"_{request}")(path, query, body)
            finally:
                self._changed.notify_all()

    def _list(self, path: str, query: Mapping[str, str], body: None) -> Any:
        name = path.partition("solvers/remote/")[2]
        changing = {"status", "avg_load"}
        wanted = (
            changing | {"identity"} if query["filter"].startswith("none") else set(self.chips[0]) - changing
        )
        shown = {each["identity"]["name"]: {key: each[key] for key in wanted} for each in self.chips}
        return shown[name] if name else list(shown.values())

    def _submit(self, path: str, query: Mapping[str, str], body: list[dict[str, Any]]) -> Any:
        return [self._accept(each) for each in body]

    def _accept(self, body: dict[str, Any]) -> dict[str, Any]:
        if self._chip(body)["status"] != "ONLINE":
            return {"error_code": 400, "error_msg": f"Solver is offline: {body['solver']['name']}"}
        name = f"problem-{len(self.problems) + 1}"
        self.problems[name] = Problem(body)
        return self._state(name)

    def _poll(self, path: str, query: Mapping[str, str], body: None) -> Any:
        names = query["id"].split(",")
        if not self.hold:
            for name in names:
                self._anneal(self.problems[name])
        ended = {"COMPLETED", "CANCELLED"}
        self._changed.wait_for(
            lambda: self.closing.is_set() or any(self.problems[name].status in ended for name in names),
            min(float(query.get("timeout", 0)), LONGEST_WAIT),
        )
        return [self._state(name) for name in names]

    def _answer(self, path: str, query: Mapping[str, str], body: None) -> Any:
        name = path.rstrip("/").rpartition("/")[2]
        answer = self.problems[name].answer
        return self._state(name) | ({"answer": answer} if answer else {})

    def _cancel(self, path: str, query: Mapping[str, str], body: list[str]) -> Any:
        for name in body:
            self.canceled.append(name)
            if self.problems[name].status == "PENDING":
                self.problems[name].status = "CANCELLED"
        return [self._state(name) for name in body]

    def _state(self, name: str) -> dict[str, Any]:
        problem = self.problems[name]
        state = {
            "id": name,
            "type": problem.body["type"],
            "solver": problem.body["solver"],
            "status": problem.status,
        }
        return state | {"submitted_on": "2030-01-01T00:00:00Z", "label": problem.body.get("label")}

    def _chip(self, body: dict[str, Any]) -> dict[str, Any]:
        return next(each for each in self.chips if each["identity"] == body["solver"])

    def _anneal(self, problem: Problem) -> None:
        """Decode ``qp``, anneal, encode ``qp``."""
        if problem.status != "PENDING":
            return
        described = self._chip(problem.body)["properties"]
        lin, quad = (decoded(problem.body["data"][key], "<f8") for key in ("lin", "quad"))
        h = {qubit: bias for qubit, bias in zip(described["qubits"], lin, strict=True) if not np.isnan(bias)}
        active = [(q, r) for q, r in described["couplers"] if q in h and r in h]
        bqm = dimod.BinaryQuadraticModel(h, dict(zip(active, quad, strict=True)), "SPIN")
        reads = problem.body["params"]["num_reads"]
        found = SimulatedAnnealingSampler().sample(
            bqm, num_reads=reads, num_sweeps=100, seed=len(self.problems)
        )
        order = [found.variables.index(qubit) for qubit in sorted(h)]
        problem.status = "COMPLETED"
        problem.answer = {
            "format": "qp",
            "num_variables": described["num_qubits"],
            "active_variables": encoded(sorted(h), "<i4"),
            "energies": encoded(found.record.energy, "<f8"),
            "num_occurrences": encoded([1] * reads, "<i4"),
            "solutions": encoded(np.packbits(found.record.sample[:, order] > 0, axis=1), "u1"),
            "timing": {"qpu_access_time": self.microseconds(reads)},
        }


def encoded(values: Any, dtype: str) -> str:
    """Return numbers as base64 of their little-endian bytes."""
    return base64.b64encode(np.asarray(values, dtype=dtype).tobytes()).decode()


def decoded(text: str, dtype: str) -> Any:
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


class _Handler(BaseHTTPRequestHandler):
    server: QpuServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self._handle("list" if "/solvers/" in path else "poll" if path.endswith("problems/") else "answer")

    def do_POST(self) -> None:
        self._handle("submit")

    def do_DELETE(self) -> None:
        self._handle("cancel")

    def _handle(self, request: str) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "deflate":
            data = zlib.decompress(data)
        fault, url = self.server.take_fault(request), urlsplit(self.path)
        self.server.closing.wait(min(fault.delay, LONGEST_WAIT))
        if self.headers["X-Auth-Token"] != self.server.token:
            return self._send(401, b"Unauthorized", "text/plain", Fault())
        reply: Any = None
        if not (fault.status or fault.drop) or fault.carried_out:
            query = {key: value[0] for key, value in parse_qs(url.query).items()}
            try:
                reply = self.server.reply(request, url.path, query, json.loads(data) if data else None)
            except KeyError:
                return self._send(404, b"not found", "text/plain", Fault())
        if fault.drop:
            return None
        reply = fault.change(reply) if fault.change else reply
        kind = TYPES.get("one" if request == "list" and isinstance(reply, dict) else request, "problems")
        payload = (
            fault.body if fault.status else reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        )
        return self._send(
            fault.status or 200, payload, f"application/vnd.dwave.sapi.{kind}+json; version=3.0.0", fault
        )

    def _send(self, status: int, payload: bytes, kind: str, fault: Fault) -> None:
        self.send_response(status)
        for name, value in (
            {"Content-Type": kind, "Content-Length": str(len(payload))} | dict(fault.headers)
        ).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload[: len(payload) // 2] if fault.cut else payload)
