"""Names of heads and networks in recipes, without importing torch.

Entry points of the group ``qubolearn.networks`` add more: functions of a problem
and a recipe that return a module.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, Literal

from qubolearn.errors import QubolearnError, unknown_name

Head = Literal["coupled", "uncoupled", "direct"]
NETWORKS = ("mlp", "matching", "pairwise", "shared")
#: Networks of the second distribution in this repository.
REPRODUCTION = ("grid", "keypoints")


def network_entry(name: str) -> Callable[[Any, Any], Any] | None:
    """Return the registered function, or None for a built-in network."""
    if name in NETWORKS:
        return None
    found = entry_points(group="qubolearn.networks")
    if name in found.names:
        made: Callable[[Any, Any], Any] = found[name].load()
        return made
    if name in REPRODUCTION:
        raise QubolearnError(f"network {name!r} is in quant-reproduction; pip install ./reproduction")
    raise unknown_name("network", name, [*NETWORKS, *found.names])
