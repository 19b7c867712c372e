"""A local server that speaks D-Wave's Solver API to the real ``dwave-cloud-client``, and misbehaves when told to.

    list     GET    solvers/remote/[NAME]      the chips: all but their status, or only that, as ``filter`` says
    submit   POST   problems/                  a list of problems; their ids come back
    poll     GET    problems/?id=..&timeout=t  their status, held back for t seconds or until one has ended
    answer   GET    problems/ID/               status and answer of one problem
    cancel   DELETE problems/                  a list of ids

Problems of a QPU come inline, as deflated JSON in the format ``qp``; multipart uploads are for hybrid solvers only.
Every accepted problem is annealed and billed unless it is cancelled before it starts.
"""

from __future__ import annotations

import base64
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import dimod
import dwave.graphs
import numpy as np
from dwave.cloud.testing.mocks import qpu_problem_timing_data
from dwave.samplers import SimulatedAnnealingSampler
from qpu_http import Fault, Http


@dataclass
class Problem:
    """A problem that was accepted."""

    body: dict[str, Any]
    status: str = "PENDING"  # IN_PROGRESS, COMPLETED, CANCELLED
    answer: dict[str, Any] | None = None


def chip(name: str, rows: int = 2, **properties: Any) -> dict[str, Any]:
    """What D-Wave tells of a Chimera chip with rows · rows cells."""
    graph = dwave.graphs.chimera_graph(rows)
    told = {
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
        "default_annealing_time": 20.0,
        "parameters": dict.fromkeys(("num_reads", "answer_mode", "auto_scale", "annealing_time", "label"), ""),
        "problem_timing_data": qpu_problem_timing_data("advantage"),
        "quota_conversion_rate": 1,
    }
    identity = {"name": name, "version": {"graph_id": f"{name}-graph"}}
    return {"identity": identity, "description": "", "properties": told | properties, "status": "ONLINE", "avg_load": 0}


class QpuServer:
    """``with QpuServer(token) as server:`` serves at ``server.url`` until the block ends."""

    injected = 0  # faults of all servers, for the report
    spoiled = 0  # requests that met one

    def __init__(self, token: str, chips: list[dict[str, Any]] | None = None) -> None:
        self.token = token
        self.chips = chips or [chip("QPU_1")]
        self.hold = False  # leave problems in the queue
        self.longest_wait = 15.0  # seconds; no reply is held back for longer, whatever is asked for
        self.microseconds = lambda reads: 15_000 + 130 * reads  # the bill of a problem
        self.requests: list[str] = []  # by name, as above
        self.problems: dict[str, Problem] = {}
        self.cancelled: list[str] = []  # the ids that DELETE named
        self._faults: dict[str, Iterator[Fault]] = {}
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._http = Http(self)

    def __enter__(self) -> QpuServer:
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.005,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._http.hang_up()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/sapi/v2/"

    def fail(self, request: str, fault: Fault, times: int | None = 1) -> None:
        """Let the next requests of this name go wrong, after those that are to go wrong already; None is all."""
        faults = itertools.repeat(fault) if times is None else itertools.repeat(fault, times)
        with self._changed:
            QpuServer.injected += 1
            self._faults[request] = itertools.chain(self._faults.get(request, ()), faults)

    def recover(self) -> None:
        """Let nothing go wrong any more."""
        with self._changed:
            self._faults.clear()

    def count(self, request: str) -> int:
        with self._changed:
            return self.requests.count(request)

    @property
    def billed_seconds(self) -> float:
        """What the user pays: all that was accepted and not cancelled in time."""
        with self._changed:
            paid = [problem for problem in self.problems.values() if problem.status != "CANCELLED"]
        return sum(1e-6 * self.microseconds(problem.body["params"]["num_reads"]) for problem in paid)

    def wait_for(self, condition: Callable[[], bool], seconds: float = 5.0) -> bool:
        """Whether the condition came true in time."""
        with self._changed:
            return self._changed.wait_for(condition, seconds)

    # What the requests do.

    def take_fault(self, request: str) -> Fault:
        """Note the request, and say what is to go wrong with it."""
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            fault = next(self._faults.get(request, iter(())), None)
            QpuServer.spoiled += fault is not None
        return fault or Fault()

    def pause(self, seconds: float) -> None:
        self._closing.wait(min(seconds, self.longest_wait))

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
        wanted = changing | {"identity"} if query["filter"].startswith("none") else set(self.chips[0]) - changing
        shown = {each["identity"]["name"]: {key: each[key] for key in wanted} for each in self.chips}
        return shown[name] if name else list(shown.values())

    def _submit(self, path: str, query: Mapping[str, str], body: list[dict[str, Any]]) -> Any:
        return [self._accept(each) for each in body]

    def _accept(self, body: dict[str, Any]) -> dict[str, Any]:
        if self._chip(body)["status"] != "ONLINE":
            return {"error_code": 400, "error_msg": f"Solver is offline: {body['solver']['name']}"}
        name = f"problem-{next(self._ids)}"
        self.problems[name] = Problem(body)
        return self._told(name)

    def _poll(self, path: str, query: Mapping[str, str], body: None) -> Any:
        names = query["id"].split(",")
        if not self.hold:
            for name in names:
                self._anneal(self.problems[name])
        wait = min(float(query.get("timeout", 0)), self.longest_wait)
        ended = {"COMPLETED", "CANCELLED"}
        self._changed.wait_for(
            lambda: self._closing.is_set() or any(self.problems[name].status in ended for name in names), wait
        )
        return [self._told(name) for name in names]

    def _answer(self, path: str, query: Mapping[str, str], body: None) -> Any:
        name = path.rstrip("/").rpartition("/")[2]
        answer = self.problems[name].answer
        return self._told(name) | ({"answer": answer} if answer else {})

    def _cancel(self, path: str, query: Mapping[str, str], body: list[str]) -> Any:
        for name in body:
            self.cancelled.append(name)
            if self.problems[name].status == "PENDING":
                self.problems[name].status = "CANCELLED"
        return [self._told(name) for name in body]

    def _told(self, name: str) -> dict[str, Any]:
        problem = self.problems[name]
        told = {"id": name, "type": problem.body["type"], "solver": problem.body["solver"], "status": problem.status}
        return told | {"submitted_on": "2030-01-01T00:00:00Z", "label": problem.body.get("label")}

    def _chip(self, body: dict[str, Any]) -> dict[str, Any]:
        return next(each for each in self.chips if each["identity"] == body["solver"])

    def _anneal(self, problem: Problem) -> None:
        """Decode ``qp``, anneal, encode ``qp``."""
        if problem.status != "PENDING":
            return
        told = self._chip(problem.body)["properties"]
        lin, quad = (decoded(problem.body["data"][key], "<f8") for key in ("lin", "quad"))
        h = {qubit: bias for qubit, bias in zip(told["qubits"], lin, strict=True) if not np.isnan(bias)}
        active = [(q, r) for q, r in told["couplers"] if q in h and r in h]
        bqm = dimod.BinaryQuadraticModel(h, dict(zip(active, quad, strict=True)), "SPIN")
        reads = problem.body["params"]["num_reads"]
        found = SimulatedAnnealingSampler().sample(bqm, num_reads=reads, num_sweeps=100, seed=len(self.problems))
        order = [found.variables.index(qubit) for qubit in sorted(h)]
        problem.status = "COMPLETED"
        problem.answer = {
            "format": "qp",
            "num_variables": told["num_qubits"],
            "active_variables": encoded(sorted(h), "<i4"),
            "energies": encoded(found.record.energy, "<f8"),
            "num_occurrences": encoded([1] * reads, "<i4"),
            "solutions": encoded(np.packbits(found.record.sample[:, order] > 0, axis=1), "u1"),
            "timing": {"qpu_access_time": self.microseconds(reads)},
        }


def encoded(values: Any, dtype: str) -> str:
    """Numbers as ``qp`` has them: base64 of their little-endian bytes."""
    return base64.b64encode(np.asarray(values, dtype=dtype).tobytes()).decode()


def decoded(text: str, dtype: str) -> Any:
    return np.frombuffer(base64.b64decode(text), dtype=dtype)
