"""Findings about the paper."""

import os
import re
from pathlib import Path

import pytest

from quant_reproduction.cli import main
from quant_reproduction.report import errata
from quant_reproduction.report.errata import findings, series
from quant_reproduction.report.summary import gather

TEX = Path(os.environ.get("QUBOLEARN_PAPER") or Path(__file__).parents[4] / "shared/paper/quant-paper.tex")


def test_the_bars_of_figure_4b_are_the_training_set() -> None:
    last = series()["Figure 4b, epoch 450"]
    assert sum(last["unprojected"]) == 5640
    assert round(100 * last["unprojected"][0] / 5640, 1) == 18.7  # Table 5 prints 18
    assert round(100 * last["projected"][0] / 5640, 1) == 36.6  # and 36


def test_findings_without_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = findings(gather(tmp_path, False, 3))
    found = {each.where: each.found for each in made}
    assert found["Tables 4c, 7, 12b: medians of rotations"].startswith("60 of 60 ")
    assert found["Tables 2 and 4b, the same method and networks"].startswith("3 of 4 ")
    assert all(each.command for each in made)
    assert sum("not measured" in each.found for each in made) >= 3
    assert main(["report", "--errata", "--results", str(tmp_path / "nowhere")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert all(" ".join(each.found.split()) in printed for each in made)


def test_the_printed_formulas_fail_brute_force() -> None:
    assert errata.ising_as_printed(200) < 100
    assert errata.gradient_of_gap(50) == (50, 0)
    lifted, above = errata.unique_as_printed(100)
    assert lifted == above > 50


@pytest.mark.skipif(not TEX.is_file(), reason="needs the paper's LaTeX in QUBOLEARN_PAPER")
def test_the_numbers_of_the_charts_are_those_of_the_latex() -> None:
    text = TEX.read_text(encoding="utf-8")
    tables = [
        [float(height) for height in re.findall(r"^\s*-?[\d.]+\s+(-?[\d.]+)\s*\\\\", body, re.MULTILINE)]
        for body in re.findall(r"table\[row sep=crcr\]\{%(.*?)\};", text, re.DOTALL)
    ]
    for figure, named in series().items():
        for name, heights in named.items():
            assert heights in tables, (figure, name)
