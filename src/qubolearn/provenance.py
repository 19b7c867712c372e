"""Provenance of results: versions, machine and code."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from qubolearn.version import VERSION

__all__ = ["code", "provenance", "source_digest"]

PACKAGES = ("torch", "numpy", "scipy", "dimod", "dwave-samplers", "dwave-graphs")
PACKAGE = Path(__file__).parent


def provenance() -> dict[str, Any]:
    """Return versions and the machine, without paths, names or addresses."""
    versions = {"python": platform.python_version(), "qubolearn": VERSION}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"versions": versions, "machine": machine()}


def machine() -> str:
    """Return the machine in one line, e.g. 'Linux x86_64, 2 cores'."""
    import torch

    words = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{words}, {torch.cuda.get_device_name()}" if torch.cuda.is_available() else words


@cache
def code() -> dict[str, Any]:
    """Return the :func:`source_digest`, and in a git checkout ``commit`` and ``dirty``.

    ``dirty`` is True if the package differs from the commit. Without git, QUBOLEARN_COMMIT sets it.
    """
    found: dict[str, Any] = {"source": source_digest()}
    # The package may be installed below another checkout.
    tracked = _git("ls-files", "--error-unmatch", Path(__file__).name)
    if tracked and (commit := _git("rev-parse", "HEAD")):
        found |= {"commit": commit, "dirty": bool(_git("status", "--porcelain", "--", "."))}
    elif given := os.environ.get("QUBOLEARN_COMMIT"):
        found |= {"commit": given[:40]}
    return found


@cache
def source_digest() -> str:
    """Return 12 digits of the SHA-256 of qubolearn's source, without ``cli``."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("cli/"):  # which only prints
            digest.update(f"{name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _git(*words: str) -> str | None:
    # In a git hook these name another repository.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        command = ["git", "-C", str(PACKAGE), *words]
        done = subprocess.run(command, env=outside, capture_output=True, timeout=20)
        return done.stdout.decode().strip() if done.returncode == 0 else None
    except (OSError, subprocess.SubprocessError):
        return None
