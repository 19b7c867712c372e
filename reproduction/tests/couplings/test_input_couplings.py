"""Couplings that depend on the input."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import binomtest

from quant_reproduction.couplings import structured


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QUBOLEARN_DATA", str(tmp_path))


def test_scene_is_compared_picture_by_picture() -> None:
    pytest.importorskip("sklearn")
    found = structured.labeled_pictures(0, quick=True)
    assert found["quant"]["accuracy"] > 0.5
    chain = found["chain of SVMs"]
    difference = found["quant"]["accuracy"] - chain["accuracy"]
    assert chain["only_quant"] - chain["only_rival"] == pytest.approx(difference * chain["instances"])
    ours, theirs = round(chain["only_quant"]), round(chain["only_rival"])
    assert chain["chance"] == pytest.approx(binomtest(ours, ours + theirs).pvalue)


def test_snakes_are_numbered_by_every_way_to_learn() -> None:
    pytest.importorskip("sklearn")
    for method in ("quant", "pure", "forest", "diag"):
        found = structured.numbered_cells(0, method, quick=True)
        assert 0.5 < found[method]["accuracy"] <= 1
        assert found[method]["instances"] == 20
