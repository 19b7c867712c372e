"""The table of benchmarks names functions that exist."""

from __future__ import annotations

from importlib import import_module

import pytest

from qubolearn.cli.benchmark import BENCHMARKS, FIGURES
from qubolearn.cli.output import Output


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_a_function(name: str) -> None:
    module, function = BENCHMARKS[name][0].split(".")
    assert callable(getattr(import_module(f"qubolearn.benchmarks.{module}"), function))


def test_figures_are_of_known_benchmarks() -> None:
    assert FIGURES.keys() <= BENCHMARKS.keys()


@pytest.mark.parametrize("json", [False, True])
def test_no_number_of_a_table_with_many_columns_is_cut_off(capsys: pytest.CaptureFixture[str], json: bool) -> None:
    names = [f"column_{k}" for k in range(20)]
    Output(json).table("benchmark", names, [[f"1.234e-{k:02}" for k in range(20)]])
    shown = capsys.readouterr()
    assert all(word in (shown.err if json else shown.out) for word in (*names, "1.234e-19"))
