"""The wire between ``dwave-cloud-client`` and :mod:`qpu_server`: HTTP, and how a reply goes wrong on it."""

from __future__ import annotations

import contextlib
import json
import socket
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from qpu_server import QpuServer

TYPES = {
    "list": "application/vnd.dwave.sapi.solver-definition-list+json",
    "one": "application/vnd.dwave.sapi.solver-definition+json",
    "submit": "application/vnd.dwave.sapi.problems+json",
    "poll": "application/vnd.dwave.sapi.problems+json",
    "cancel": "application/vnd.dwave.sapi.problems+json",
    "answer": "application/vnd.dwave.sapi.problem+json",
}


@dataclass(frozen=True)
class Fault:
    """How a request goes wrong. Faults combine: the delay comes first, then the change, then the sending."""

    delay: float = 0.0  # seconds before anything is done
    status: int = 0  # an HTTP status in place of the right reply; the request is not carried out
    carried_out: bool = False  # ... but here it is
    body: bytes = b"no"  # of that status
    headers: Mapping[str, str] = field(default_factory=dict)
    change: Callable[[Any], Any] | None = None  # what is made of the right reply, which is JSON
    drop: bool = False  # close the connection without a reply
    cut: bool = False  # close it after half of the reply
    drip: float = 0.0  # seconds between the bytes of the reply


class Http(ThreadingHTTPServer):
    """Serves a QPU on a port of the loopback device, and knows its open connections."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, qpu: QpuServer) -> None:
        self.qpu = qpu
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End the connections that clients keep for later."""
        for request in list(self._open):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away before its reply came is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: Http
    protocol_version = "HTTP/1.1"  # connections are kept, as D-Wave's are
    timeout = 20.0
    disable_nagle_algorithm = True  # or head and body of a reply come 40 ms apart

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
        qpu = self.server.qpu
        body = self._body()
        fault = qpu.take_fault(request)
        qpu.pause(fault.delay)
        url = urlsplit(self.path)
        if self.headers["X-Auth-Token"] != qpu.token:
            self._send(401, b"Unauthorized", "text/plain", Fault())
            return
        told: Any = None
        if not (fault.status or fault.drop) or fault.carried_out:
            try:
                told = qpu.reply(request, url.path, {key: value[0] for key, value in parse_qs(url.query).items()}, body)
            except KeyError:
                self._send(404, b"not found", "text/plain", Fault())
                return
        if fault.change:
            told = fault.change(told)
        if fault.drop:
            self.close_connection = True
            return
        kind = TYPES["one" if request == "list" and isinstance(told, dict) else request]
        payload = fault.body if fault.status else told if isinstance(told, bytes) else json.dumps(told).encode()
        self._send(fault.status or 200, payload, f"{kind}; version=3.0.0", fault)

    def _body(self) -> Any:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "deflate":
            data = zlib.decompress(data)
        return json.loads(data) if data else None

    def _send(self, status: int, payload: bytes, kind: str, fault: Fault) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": kind, "Content-Length": str(len(payload))} | dict(fault.headers)).items():
            self.send_header(name, value)
        self.end_headers()
        if fault.drip:
            end = time.monotonic() + self.server.qpu.longest_wait
            for byte in payload:
                if time.monotonic() > end or self.server.qpu._closing.is_set():
                    break
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                self.server.qpu.pause(fault.drip)
        self.close_connection |= fault.cut or bool(fault.drip)
        if not fault.drip:
            self.wfile.write(payload[: len(payload) // 2] if fault.cut else payload)
