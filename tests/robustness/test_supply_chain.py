"""Promise 9: what is installed is pinned with hashes, audited and licensed, and nothing reaches for the network."""

from __future__ import annotations

import importlib.util
import json
import re
import socket
import subprocess
import sys
import threading
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("supply_chain", ROOT / "tools" / "supply_chain.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def service(answer: bytes, code: int = 200) -> Iterator[tuple[str, list[bytes]]]:
    """A server on this machine that gives one answer, and what it was asked."""
    asked: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.do_GET()

        def do_GET(self) -> None:
            self.send_response(code)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_every_pin_has_a_version_and_hashes(tool: ModuleType) -> None:
    blocks = re.split(r"\n(?=\S)", (ROOT / "constraints.txt").read_text().strip())
    pins = [block for block in blocks if not block.startswith("#")]
    assert len(pins) > 50
    for pin in pins:
        assert re.fullmatch(r"[a-z0-9.-]+==[^\s]+( \\\n    --hash=sha256:[0-9a-f]{64})+", pin), pin
    assert set(tool.pinned(ROOT / "constraints-torch.txt")) == {"torch"}


def test_the_pins_cover_all_requirements_of_both_distributions(tool: ModuleType) -> None:
    texts, seen = list[str](), set[tuple[str, frozenset[str]]]()
    for path in (ROOT / "pyproject.toml", ROOT / "reproduction/pyproject.toml"):
        project = tomllib.loads(path.read_text())["project"]
        extras = project["optional-dependencies"]
        texts += [*project["dependencies"], *extras.get("dev", []), *extras.get("ray", [])]
    todo, pins = [(text, frozenset[str]()) for text in texts], {*tool.pinned(), "torch", "qubolearn"}
    while todo:
        text, extras = todo.pop()
        each = Requirement(text)
        name = tool.normal(each.name)
        applies = any(each.marker.evaluate({"extra": extra}) for extra in extras | {""}) if each.marker else True
        if not applies or tool.WITH_TORCH.match(name) or (name, frozenset(each.extras)) in seen:
            continue
        seen.add((name, frozenset(each.extras)))
        assert name in pins, f"{text} is not pinned; run: make constraints"
        with suppress(PackageNotFoundError):
            todo += [(inner, frozenset(each.extras)) for inner in requires(name) or []]
    assert len(seen) > 30


def test_the_audit_names_what_is_vulnerable(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    count = len({**tool.pinned(), "torch": ""})
    results: list[dict[str, object]] = [{} for _ in range(count)]
    with service(json.dumps({"results": results}).encode()) as (url, asked):
        assert tool.main(["audit", "--service", url]) == 0
    queries = json.loads(asked[0])["queries"]
    assert {"package": {"name": "torch", "ecosystem": "PyPI"}, "version": "2.13.0"} in queries
    results[3] = {"vulns": [{"id": "PYSEC-2026-1"}]}
    capsys.readouterr()
    with service(json.dumps({"results": results}).encode()) as (url, _):
        assert tool.main(["audit", "--service", url]) == 1
    assert f"{queries[3]['package']['name']} {queries[3]['version']}: PYSEC-2026-1" in capsys.readouterr().out


def test_importing_everything_opens_no_socket() -> None:
    code = """
import importlib, pkgutil, sys
seen = []
sys.addaudithook(lambda event, _: seen.append(event) if event.startswith("socket.") else None)
import qubolearn
for module in pkgutil.walk_packages(qubolearn.__path__, "qubolearn."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # triton, where there is no GPU
            assert not error.name.startswith("qubolearn"), error
assert not seen, seen
import socket
socket.socket().close()
assert seen, "the hook sees sockets"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tests_cannot_reach_the_network() -> None:
    with pytest.raises(RuntimeError, match=r"tried to reach pypi\.org"):
        urllib.request.urlopen("https://pypi.org/simple/")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, pytest.raises(RuntimeError):
        datagrams.sendto(b"x", ("192.0.2.1", 9))
    with socket.socket() as stream, pytest.raises(RuntimeError):
        stream.connect(("192.0.2.1", 9))
