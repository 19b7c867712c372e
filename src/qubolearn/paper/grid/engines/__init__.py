"""Where a grid of jobs runs: in processes of this machine, or on a Ray cluster. Results depend on the device alone."""

from __future__ import annotations

from qubolearn.paper.grid.engines.local import JOBS_PER_GPU, LocalEngine, cores, room_on_gpu
from qubolearn.paper.grid.engines.ray import RayEngine

__all__ = ["JOBS_PER_GPU", "LocalEngine", "RayEngine", "cores", "room_on_gpu"]
