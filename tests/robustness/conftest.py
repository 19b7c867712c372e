"""Helper modules, and the figures of long tests."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qubolearn.files import write_json
from qubolearn.provenance import provenance

sys.path.insert(0, str(Path(__file__).parent))  # helper modules


@pytest.fixture(scope="session")
def figures(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Return figures of long tests; ``make soak`` stores them."""
    found: dict[str, Any] = {}
    began = time.perf_counter()
    yield found
    target = os.environ.get("QUBOLEARN_SOAK")
    stopped = request.session.shouldstop or request.session.testsfailed or sys.exc_info()[0] is not None
    if target and not stopped:
        write_json(
            Path(target), {"seconds": round(time.perf_counter() - began), "figures": found, **provenance()}
        )
