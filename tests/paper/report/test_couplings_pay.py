"""The tables of where couplings pay, from files of several benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from qubolearn.benchmarks.chip_view import chip_view
from qubolearn.benchmarks.rows import row
from qubolearn.errors import QubolearnError
from qubolearn.paper.report.couplings_pay import chip_table, pay_table, short_table
from qubolearn.qubo import SparseQubo


def test_lines_of_all_files_are_in_the_tables(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    sparse = SparseQubo(torch.zeros(1, 3), torch.tensor([[0, 1], [2, 2]]), torch.tensor([[1.0, 0.0]]))
    files = {
        "couplings": row(
            "cuts",
            "optimal, %",
            "edges",
            "2 seeds",
            [{"quant": 99.9, "diag": 1.0, "rival": 50.0}, {"quant": 100.0, "diag": 3.0, "rival": 60.0}],
            rival_name="greedy",
            chip=chip_view(sparse),
        ),
        "scene": row("scene", "%", "bits", "1 split", [{"quant": 70.0}], published=[_p("A", 60.5), _p("B", 62.0)]),
    }
    for name, line in files.items():
        (tmp_path / "benchmarks" / f"{name}.json").write_text(json.dumps({"rows": [line]}))
    cuts, scene = [line.split("|")[1:-1] for line in pay_table(tmp_path).splitlines()[2:4]]
    assert [cell.strip() for cell in cuts[1:5]] == ["99.95 ± 0.07", "2.0 ± 1.4", "–", "55.0 ± 7.1 (greedy)"]
    assert scene[5].strip() == "A 60.5 [1], B 62 [1]"  # one source, said once
    assert pay_table(tmp_path).count("a book") == 1
    assert "| cuts: optimal, % | 99.95 ± 0.07 | 2.0 ± 1.4 | – | 55.0 ± 7.1 (greedy) |" in short_table(tmp_path)
    assert "| cuts | 3 | 1 | pegasus | 3 | 1.0 | 1.0 |" in chip_table(tmp_path)


def _p(name: str, value: float) -> dict[str, object]:
    return {"name": name, "value": value, "source": "a book"}


def test_a_qubo_that_does_not_fit_is_said_to(tmp_path: Path) -> None:
    view = chip_view(torch.ones(20, 20), "chimera", 2)
    assert view is not None
    assert (view["bits"], view["couplers"], view["fits"], view["qubits"]) == (20, 190, False, None)
    with pytest.raises(QubolearnError, match="want one QUBO"):
        chip_view(torch.ones(2, 3, 3))
    with pytest.raises(QubolearnError, match="benchmark couplings"):
        pay_table(tmp_path)
