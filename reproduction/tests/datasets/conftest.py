"""A web server for downloads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[[Path], str]]:
    """Return the address of a file."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield lambda path: f"http://127.0.0.1:{http.server_port}/{path.relative_to(tmp_path).as_posix()}"
        http.shutdown()
