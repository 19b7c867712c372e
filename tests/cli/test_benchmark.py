"""The table of benchmarks names functions that exist."""

from __future__ import annotations

from importlib import import_module

import pytest

from qubolearn.cli.benchmark import BENCHMARKS, FIGURES


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_a_function(name: str) -> None:
    module, function = BENCHMARKS[name][0].split(".")
    assert callable(getattr(import_module(f"qubolearn.benchmarks.{module}"), function))


def test_figures_are_of_known_benchmarks() -> None:
    assert FIGURES.keys() <= BENCHMARKS.keys()
