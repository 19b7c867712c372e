"""Result files to report on, and a real browser to look at the page with."""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from qubolearn.paper.grid.entries import ENTRIES
from qubolearn.paper.grid.jobs import Job, Outcome, Store
from qubolearn.paper.report import write_report
from qubolearn.provenance import provenance

SEEDS = 2
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
FIGURE = {
    "title": "All kinds <of> panels",
    "note": "A note & more.",
    "panels": [
        {
            "kind": "bars",
            "title": "Bars",
            "x": "error",
            "y": "count",
            "edges": [0, 1, 2, 3],
            "series": [{"name": "exact", "counts": [3, 5, 1]}, {"name": "SA (simulated)", "counts": [2, 0, 7]}],
        },
        {
            "kind": "lines",
            "title": "Lines",
            "x": "epoch",
            "y": "%",
            "series": [{"name": "a", "points": [[0, 1], [2, 5]]}],
        },
        {"kind": "matrix", "title": "Matrix", "values": [[0.5, -1.25], [0, 2]]},
        {
            "kind": "clouds",
            "title": "Clouds",
            "series": [{"name": "before", "points": [[0, 0], [1, 2]]}, {"name": "after", "points": [[0, 1, 2]]}],
            "lines": [[[0, 0], [1, 2]]],
        },
        {
            "kind": "graph",
            "title": "Graph",
            "nodes": [[0, 0], [1, 0], [1, 1]],
            "edges": [[0, 1], [1, 2]],
            "marked": [[0, 0], [1, 0]],
        },
    ],
}


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of most full jobs with numbers by chance: whole entries, half entries, and one without any."""
    folder = tmp_path_factory.mktemp("results")
    store, chance = Store(folder), random.Random(0)
    for name, entry in ENTRIES.items():
        for job in entry.jobs(SEEDS, False):
            if name == "willow" or (name == "pointset" and chance.random() < 0.2):
                continue
            metrics, seconds = metrics_by_chance(job, chance), chance.uniform(1, 100)
            record = {"key": job.key, "job": asdict(job), "metrics": metrics, "seconds": seconds, **provenance()}
            store.put(Outcome(job, record))
    return folder


def metrics_by_chance(job: Job, chance: random.Random) -> dict[str, Any]:
    """Numbers under every label that the item's tables and figures read."""
    metrics: dict[str, Any] = {"training_seconds": chance.uniform(1, 90)}
    for view in ENTRIES[job.item].views:
        for place in view.places(job):
            for name in view.metrics:
                value = chance.random() * {"%": 1, "degrees": 12, "qubits": 40}[view.unit]
                metrics.setdefault(place.label, {})[name + place.suffix] = value
    for label in ENTRIES[job.item].figures:
        metrics[label] = {"figure": FIGURE}
    return metrics


@pytest.fixture(scope="session")
def page(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of these results."""
    out = tmp_path_factory.mktemp("page") / "report.html"
    write_report(results, out, quick=False, seeds=SEEDS)
    return out


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


@pytest.fixture
def opened(browser: Browser, page: Path) -> Callable[[int], Browser]:
    """The page in a window of a width."""

    def open_at(width: int) -> Browser:
        browser.open(page, width)
        return browser

    return open_at
