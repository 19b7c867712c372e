"""One torch thread, Ctrl-C as in a terminal, no network, long tests only where asked for, and a real browser."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

torch.set_num_threads(1)  # the matrices are small, and CI shares its cores
# A shell starts what runs in its background with Ctrl-C ignored, and tests that press it would wait in vain.
signal.signal(signal.SIGINT, signal.default_int_handler)

LOCAL = {None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0"}


def refuse_network(event: str, arguments: tuple[object, ...]) -> None:
    """Python tells audit hooks of every connection and every look-up of a name before it is made."""
    if event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host not in LOCAL and not str(host).startswith("127."):
        raise RuntimeError(f"a test tried to reach {host} over the network")


sys.addaudithook(refuse_network)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked soak, unless ``-m`` names them."""
    if "soak" in config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    items[:] = [item for item in items if item not in long]
    config.hook.pytest_deselected(items=long)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
]


class Browser:
    """Chromium's own protocol over a pipe: commands out, answers and events in, each one JSON object."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        to_child, self._out = os.pipe()
        self._in, from_child = os.pipe()
        # Chromium reads from file descriptor 3 and writes to 4; a shell puts them there.
        script = f'exec "$0" "$@" 3<&{to_child} 4>&{from_child}'
        command = ["bash", "-c", script, CHROMIUM, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            command, pass_fds=(to_child, from_child), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_child)
        os.close(from_child)
        self._number, self._rest, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command and wait for its answer; events that come before it are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method: str) -> None:
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next())

    def open(self, path: Path, width: int = 1280, height: int = 900) -> None:
        """Load a file in a window of this size; events of before are forgotten."""
        mobile = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, or what it promises."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def close(self) -> None:
        self._session = ""
        self.call("Browser.close")
        self._process.wait(30)
        os.close(self._out)
        os.close(self._in)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            received = os.read(self._in, 2**16)
            assert received, "the browser has gone"
            self._rest += received
        first, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(first)
        return answer


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here; install it, on Debian: apt-get install -y chromium")
    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()
