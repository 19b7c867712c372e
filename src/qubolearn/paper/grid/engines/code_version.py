"""Which code this is: results of two machines are only comparable where all of it is the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from qubolearn import provenance as here
from qubolearn.provenance import provenance

__all__ = ["code_version", "differences"]


@cache
def code_version() -> Mapping[str, str]:
    """Versions of all that computes, and a digest of qubolearn's own source, which changes between versions too."""
    digest, root = hashlib.sha256(), Path(here.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return {**provenance()["versions"], "qubolearn's source": digest.hexdigest()[:12]}


def differences(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """What differs, in words.

    >>> differences({"torch": "2.4.0", "numpy": "2.0"}, {"torch": "2.5.1", "numpy": "2.0"})
    'torch 2.4.0 there, 2.5.1 here'
    """
    names = [name for name in {**here, **there} if here.get(name) != there.get(name)]
    return "; ".join(f"{name} {there.get(name, 'missing')} there, {here.get(name, 'missing')} here" for name in names)
