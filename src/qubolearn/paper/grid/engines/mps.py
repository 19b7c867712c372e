"""Several processes on one GPU side by side, where NVIDIA's MPS is there; otherwise they take turns."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["shared_gpu"]

CONTROL, PIPES, LOGS = "nvidia-cuda-mps-control", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"


@contextmanager
def shared_gpu() -> Iterator[bool]:
    """Run a server of MPS for processes that are started within the block; the block gets whether there is one.

    A server that somebody else has started is used, and not ended.
    """
    if PIPES in os.environ or Path("/tmp/nvidia-mps/control").exists():
        yield True
        return
    command = shutil.which(CONTROL)
    with TemporaryDirectory(prefix="qubolearn-mps-") as folder:
        os.environ.update({PIPES: folder, LOGS: folder})
        started = command is not None and _run([command, "-d"])
        if not started:
            _forget()
        try:
            yield started
        finally:
            if started:
                _run([command or CONTROL], "quit\n")
                _forget()


def _forget() -> None:
    for name in (PIPES, LOGS):
        os.environ.pop(name, None)


def _run(command: list[str], said: str = "") -> bool:
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(command, input=said, text=True, capture_output=True, timeout=20).returncode == 0
    return False
