"""A Ray cluster of two nodes on the loopback device, one of which is killed in the middle of the grid."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import grids
import pytest
from grids import wait_until

from quant_reproduction.grid.jobs import Store
from quant_reproduction.grid.runner import run_jobs

HEAD, NODE = "127.0.0.2", "127.0.0.3"  # Ray takes 127.0.0.1 for a name of the machine's outer address
SEEDS = 6

pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="needs: pip install 'qubolearn[ray]'"),
    pytest.mark.skipif(sys.platform != "linux", reason="needs the whole of 127.0.0.0/8 on the loopback device"),
]


class Cluster:
    """Nodes of one core each, as processes that end with their groups."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="ray")  # short, since sockets lie in it
        with socket.socket() as free:
            free.bind((HEAD, 0))
            self.address = f"{HEAD}:{free.getsockname()[1]}"
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_health_check_initial_delay_ms": "1000",  # so that a dead node is found out in seconds
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_failure_threshold": "3",
        }
        self._nodes: list[subprocess.Popen[bytes]] = []

    def start(self, ip: str, *options: str) -> subprocess.Popen[bytes]:
        words = ["start", "--block", "--node-ip-address", ip, "--num-cpus", "1", "--object-store-memory", "80000000"]
        ray = [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]
        log = (Path(self.folder) / ip).open("wb")
        with log:
            node = subprocess.Popen(
                [*ray, *words, *options], env=self.environment, start_new_session=True, stdout=log, stderr=log
            )
        self._nodes.append(node)
        return node

    def has_started(self, ip: str) -> bool:
        return b"Ray runtime started" in (Path(self.folder) / ip).read_bytes()

    def close(self) -> None:
        for node in self._nodes:
            with suppress(ProcessLookupError):
                os.killpg(node.pid, signal.SIGKILL)
            node.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.close()


def listening(address: str) -> bool:
    host, _, port = address.partition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), 1.0):
        return True
    return False


def runs_a_job(group: int) -> bool:
    """Whether a process of this group calls itself what Ray calls workers that are at our task."""
    names = [Path(f"/proc/{process}/cmdline") for process in grids.processes(group)]
    with suppress(OSError):
        return any(b"on_node" in name.read_bytes() for name in names)
    return False


def stopped_at_a_job(group: int) -> bool:
    """Whether a process of this group runs a job; all of them are stopped then, so that it does not end it."""
    if runs_a_job(group):
        os.killpg(group, signal.SIGSTOP)
        if runs_a_job(group):
            return True
        os.killpg(group, signal.SIGCONT)
    return False


def test_a_node_that_is_killed_loses_nothing(tmp_path: Path, cluster: Cluster) -> None:
    port = cluster.address.rpartition(":")[2]
    cluster.start(HEAD, "--head", "--port", port, "--include-dashboard", "false", "--temp-dir", cluster.folder)
    run_jobs(grids.TINY.jobs(SEEDS, False), Store(tmp_path / "local"))  # while it starts
    wait_until(lambda: listening(cluster.address))
    doomed = cluster.start(NODE, "--address", cluster.address)
    wait_until(lambda: cluster.has_started(NODE))
    words = ["reproduce", "tiny", "--seeds", str(SEEDS), "--engine", "ray", "--address", cluster.address]
    command = [sys.executable, grids.__file__, *words, "--out", str(tmp_path / "ray"), "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=cluster.environment, stdout=pipe, stderr=pipe, text=True) as driver:
        wait_until(lambda: stopped_at_a_job(doomed.pid))
        os.killpg(doomed.pid, signal.SIGKILL)
        printed, said = driver.communicate(timeout=60)
    assert driver.returncode == 0, said
    assert json.loads(printed)["done"] == SEEDS  # and Ray's own words are not among ours
    assert len(grids.metrics(tmp_path / "ray")) == SEEDS
    assert grids.metrics(tmp_path / "ray") == grids.metrics(tmp_path / "local")
