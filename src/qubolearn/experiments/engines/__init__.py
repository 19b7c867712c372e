"""Where a grid of jobs runs: in processes of this machine, or on a Ray cluster. Results do not depend on it."""

from __future__ import annotations

from qubolearn.experiments.engines.local import JOBS_PER_GPU, LocalEngine, cores
from qubolearn.experiments.engines.ray import RayEngine

__all__ = ["JOBS_PER_GPU", "LocalEngine", "RayEngine", "cores"]
