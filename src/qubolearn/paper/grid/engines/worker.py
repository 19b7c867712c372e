"""What runs inside a worker process."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread
from typing import Literal

__all__ = ["Device", "prepare", "serve"]

Device = Literal["cpu", "cuda"]


def prepare(threads: int, device: Device) -> None:
    """What every job wants of its process, before CUDA is first asked for."""
    import torch

    torch.set_num_threads(threads)
    if device == "cpu":
        # Jobs take a GPU where they see one. Many processes with tiny networks share one badly, cores they do not.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def serve(pipe: Connection, log: Path, threads: int, device: Device) -> None:
    """Do (work, job) after (work, job) from a pipe, until it closes. All that is printed goes to the log."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it means
    Thread(target=_end_with_parent, daemon=True).start()
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(file, stream)
    faulthandler.enable()
    prepare(threads, device)
    while True:
        try:
            work, job = pipe.recv()
        except EOFError:
            return
        os.ftruncate(file, 0)
        pipe.send(work(job))


def _end_with_parent() -> None:
    """A parent that was killed cannot end its workers, and a job of minutes would go on for nobody."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
