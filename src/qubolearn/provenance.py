"""Provenance of results: versions and machine, and for records the code that computed them."""

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
    """Return versions of packages and the machine in words; no paths, names or addresses."""
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
    """Return ``source``, the :func:`source_digest`, and in a git checkout also ``commit`` and ``dirty``.

    ``dirty`` is True if files of the package differ from the commit. Without git, QUBOLEARN_COMMIT sets the commit.
    """
    found: dict[str, Any] = {"source": source_digest()}
    # A package that is installed below another checkout is not part of it.
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is not None and (commit := _git("rev-parse", "HEAD")):
        found |= {"commit": commit, "dirty": bool(_git("status", "--porcelain", "--", "."))}
    elif given := os.environ.get("QUBOLEARN_COMMIT"):
        found |= {"commit": given[:40]}
    return found


@cache
def source_digest() -> str:
    """Return twelve hexadecimal digits of the SHA-256 of qubolearn's source without the command line."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("cli/"):  # which only prints: no number in a record depends on it
            digest.update(f"{name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _git(*words: str) -> str | None:
    """Return the output of git in the package's folder, or None if it fails or is not installed."""
    # Inside a git hook these variables name another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    how: Any = {"cwd": PACKAGE, "env": environment, "capture_output": True, "text": True, "timeout": 20, "check": True}
    try:
        return str(subprocess.run(["git", *words], **how).stdout).strip()
    except (OSError, subprocess.SubprocessError):
        return None
