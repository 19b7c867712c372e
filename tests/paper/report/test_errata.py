"""The findings on the paper are arithmetic on its own numbers; the charts' numbers are those of its LaTeX."""

import os
import re
from pathlib import Path

import pytest

from qubolearn.cli import main
from qubolearn.paper.report.bars import bars_table, series
from qubolearn.paper.report.errata import findings
from qubolearn.paper.report.formulas import gradient_of_gap, ising_as_printed, unique_as_printed
from qubolearn.paper.report.summary import gather

TEX = Path(os.environ.get("QUBOLEARN_PAPER") or Path(__file__).parents[4] / "shared/paper/quant-paper.tex")


def test_two_charts_are_drawn_twice_and_others_are_not() -> None:
    drawn = series()
    assert drawn["Figure 4a"]["QA"] == drawn["Figure 4a"]["SA"] != drawn["Figure 4a"]["ES"]
    assert drawn["Figure 8"]["QA"] == drawn["Figure 8"]["dimod"]
    assert drawn["Figure 8"]["QA"] != drawn["Figure 8"]["SA, 10 sweeps"] != drawn["Figure 8"]["SA, 2 sweeps"]


def test_the_bars_of_figure_4b_are_the_training_set() -> None:
    last = series()["Figure 4b, epoch 450"]
    assert sum(last["unprojected"]) == 5640
    assert round(100 * last["unprojected"][0] / 5640, 1) == 18.7  # Table 5 has 18
    assert round(100 * last["projected"][0] / 5640, 1) == 36.6  # and 36


def test_the_bars_beside_ours_say_what_the_latex_says(tmp_path: Path) -> None:
    lines = bars_table(lambda folder: gather(folder, False, 3))(tmp_path).splitlines()
    shown = {tuple(line.split(" | ")[:2]): line.split(" | ")[2:] for line in lines[2:]}
    assert shown["| Figure 4b, epoch 450, unprojected", "right, % of the training set"] == ["18.7", "– |"]
    assert shown["| Figure 8, SA, 1000 sweeps", "reads in its own lowest bar, %"] == ["99.9", "– |"]
    error = "mean error, degrees, a bar at each whole one"
    assert shown["| Figure 4a, QA", error] == shown["| Figure 4a, SA", error]


def test_the_papers_tables_are_held_against_each_other(tmp_path: Path) -> None:
    found = {each.where: each.found for each in findings(gather(tmp_path, False, 3))}
    assert found["Tables 4c, 7, 12b: medians of rotations"].startswith("60 of 60 are whole degrees")
    assert found["Tables 2 and 4b, the same method and networks"].startswith("3 of 4 differ")


def test_the_printed_formulas_fail_brute_force() -> None:
    assert ising_as_printed(200) < 100
    assert gradient_of_gap(50) == (50, 0)
    lifted, above = unique_as_printed(100)
    assert lifted == above > 50


def test_the_command_prints_each_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = findings(gather(tmp_path, False, 3))
    assert main(["report", "--errata", "--results", str(tmp_path / "nowhere")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert all(" ".join(each.found.split()) in said for each in made)


def test_findings_of_an_empty_folder_say_what_was_not_measured(tmp_path: Path) -> None:
    made = findings(gather(tmp_path, False, 3))
    assert len(made) > 8
    assert all(each.command for each in made)
    assert sum("not measured" in each.found for each in made) >= 3


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
