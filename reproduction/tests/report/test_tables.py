"""Tables of the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quant_reproduction.datasets.files import data_folder
from quant_reproduction.report.tables import make_table
from qubolearn.errors import QubolearnError

ROOT = Path(__file__).parents[2]
MARKER = re.compile(r"<!-- table: ([\w-]+) -->\n(.*?)<!-- end -->", re.DOTALL)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_tables_are_up_to_date(page: Path) -> None:
    if page.stem == "errata":  # which computes one number from shapes2d
        try:
            data_folder("shapes2d")
        except QubolearnError as error:
            pytest.skip(str(error))
    for name, text in MARKER.findall(page.read_text(encoding="utf-8")):
        assert make_table(name, ROOT / "results") == text, name


def test_a_table_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(QubolearnError, match="randgraph"):
        make_table("randgraph", tmp_path)
    with pytest.raises(QubolearnError, match="did you mean randgraph"):
        make_table("randgrap", tmp_path)
