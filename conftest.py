"""One torch thread, Ctrl-C as in a terminal, no network, long tests only on request, and a real browser."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

collect_ignore_glob = [] if find_spec("triton") else ["**/*_triton*.py"]

if not entry_points(group="qubolearn.networks").names:  # a checkout on the path that is not installed
    command = [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", "egg_info"]
    subprocess.run(command, cwd=Path(__file__).parent / "reproduction", check=True)

torch.set_num_threads(1)  # the matrices are small, and CI shares its cores

LOCAL = {None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0"}


def refuse_network(event: str, arguments: tuple[object, ...]) -> None:
    """Raise if a test connects to another machine or looks up its name."""
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


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests without their data, and let Ctrl-C raise.

    A shell ignores it in the background, and Ray Tune keeps its own handler.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for (name,) in (mark.args for mark in item.iter_markers("data")):
        if not Path(os.environ.get("QUBOLEARN_DATA") or "no data", name).is_dir():
            pytest.skip(f"needs {name}/ in the folder QUBOLEARN_DATA")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked soak, unless ``-m`` names them."""
    if "soak" in config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    items[:] = [item for item in items if item not in long]
    config.hook.pytest_deselected(items=long)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """A page of Chromium that collects its errors and requests; ``page`` is playwright's."""

    def __init__(self, page: Any) -> None:
        self.page, self.errors, self.requests = page, list[str](), list[str]()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text))
        page.on("requestfailed", lambda request: self.errors.append(request.url))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path, width: int = 1280, height: int = 900) -> None:
        """Load a file in a window of this size."""
        self.errors.clear()
        self.requests.clear()
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.goto(path.as_uri())

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        return self.page.evaluate(expression)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start one browser for all tests; playwright cannot download its own here, so it takes the system's."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here; install it, on Debian: apt-get install -y chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield Browser(started.new_page())
        started.close()


@pytest.fixture(autouse=True)
def example_of_a_loss(doctest_namespace: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """Provide the A and the batch of the example of Likelihood to the examples of all losses."""
    if "losses" in str(request.path):
        from qubolearn import Batch, ExhaustiveSearch, Instances

        x = torch.tensor([[1.0, 0.0]])
        doctest_namespace["A"] = torch.tensor([[[1.0, -3.0], [0.0, 1.0]]])
        doctest_namespace["batch"] = Batch(Instances(torch.zeros(1, 3), x, x), ExhaustiveSearch())
