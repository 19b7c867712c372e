"""The table of benchmarks names functions that exist."""

from __future__ import annotations

from importlib import import_module

import pytest

from qubolearn.cli.benchmark import BENCHMARKS, FIGURES, PARALLEL


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_a_function(name: str) -> None:
    module, function = BENCHMARKS[name][0].split(".")
    assert callable(getattr(import_module(f"qubolearn.benchmarks.{module}"), function))


def test_options_are_of_known_benchmarks() -> None:
    assert {*FIGURES, *PARALLEL} <= BENCHMARKS.keys()
