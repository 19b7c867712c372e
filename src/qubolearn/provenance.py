"""What a result needs beside it to be trusted: versions and machine."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from qubolearn.version import VERSION

__all__ = ["provenance"]

PACKAGES = ("torch", "numpy", "scipy", "numba", "dimod", "dwave-samplers", "dwave-graphs")


def provenance() -> dict[str, Any]:
    """Versions of what computes, and the machine in words; no paths, names or addresses."""
    versions = {"python": platform.python_version(), "qubolearn": VERSION}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"versions": versions, "machine": machine()}


def machine() -> str:
    """The machine in one line, e.g. 'Linux x86_64, 2 cores'."""
    import torch

    words = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{words}, {torch.cuda.get_device_name()}" if torch.cuda.is_available() else words
