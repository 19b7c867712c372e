"""The summary against the result files."""

import json
from pathlib import Path

import pytest
from recount import recount, stored

from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Outcome, Store
from quant_reproduction.grid.paper import paper
from quant_reproduction.report import gather, page, write_report
from quant_reproduction.report.compare import find_view

SEEDS = 3
RECORDS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("protocol", ["a", "r", "b", "c"])
def test_a_hostile_recount_of_the_records_gives_the_same_verdicts(protocol: str) -> None:
    summary = gather(RECORDS, False, SEEDS).summary
    found = {name: count for name, count in summary.cells[protocol].items() if count}
    if summary.close[protocol]:
        found["within 10 %"] = summary.close[protocol]
    assert found == recount(RECORDS, protocol)
    assert summary.done == len(stored(RECORDS))
    assert all(f"quant reproduce --key {each['key']}" in each["command"] for each in stored(RECORDS))


def test_the_readme_gives_the_counts_of_the_records() -> None:
    text = " ".join((RECORDS.parents[1] / "README.md").read_text().split())
    for protocol in ("a", "r"):
        found = recount(RECORDS, protocol)
        measured = found.total() - found["within 10 %"] - found["not measured"]
        assert f"{found['reproduced']} of the {measured} numbers" in text
        assert f"({found['within 10 %']} within 10 %)" in text
        better, worse, unknown = (found[name] for name in ("better", "worse", "inconclusive"))
        assert f"{better} are better, {worse} worse and {unknown} inconclusive" in text
    assert f"better in {recount(RECORDS, 'c')['better']}" in text


def test_a_folder_that_is_not_complete_is_counted_as_it_is(results: Path) -> None:
    summary = gather(results, False, SEEDS).summary
    assert summary.done == len(stored(results)) < summary.jobs


def test_a_better_result_changes_the_summary(results: Path, tmp_path: Path) -> None:
    """With the best possible results all cells are better."""
    for record in stored(results):
        for test in record["metrics"].values():
            if isinstance(test, dict):
                test.update({k: 1.0 for k in test if "accuracy" in k or "success" in k})
                test.update({k: 0.0 for k in test if "degrees" in k})
        with (tmp_path / f"{record['job']['item']}.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
    summary = gather(tmp_path, False, SEEDS).summary
    for protocol, least in (("a", 85), ("b", 75), ("c", 85)):
        assert summary.cells[protocol]["worse"] == 0
        assert summary.cells[protocol]["better"] > least
        assert summary.control[protocol]["Diag"][0] > 40


def test_page_of_an_empty_folder(tmp_path: Path) -> None:
    summary = write_report(tmp_path / "nothing", tmp_path / "new" / "report.html", quick=True, seeds=1)
    assert summary.done == 0
    for protocol, cells in summary.cells.items():
        assert set(cells) == {"reproduced", "better", "worse", "inconclusive", "not measured"}, protocol
        assert cells["not measured"] == sum(cells.values()) == 98
    for claims in summary.claims.values():
        known = ("not measured", "does not apply", "baseline not reproduced")
        assert sum(claims[name] for name in known) == sum(claims.values())
    assert "Quick run" in (tmp_path / "new" / "report.html").read_text()


def test_text_from_records_is_escaped(results: Path, tmp_path: Path) -> None:
    made, failed = ENTRIES["randgraph"].jobs(1, False)[:2]
    record = {**(Store(results).get(made) or {}), "machine": "</script><script>alert(1)</script>"}
    Store(tmp_path).put(Outcome(made, record))
    Store(tmp_path).put(Outcome(failed, None, "Error: <b>bold</b>", "trace"))
    text = page(gather(tmp_path, False, SEEDS))
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "Failed: Error: &lt;b&gt;bold" in text


@pytest.mark.parametrize("table", [table.name for table in paper().tables])
def test_every_table_of_the_paper_has_its_view(table: str) -> None:
    source = paper().table(table)
    _, view = find_view(source.view)
    assert view.better == source.better
    assert set(source.metrics) <= set(view.metrics)
    places = {
        (each.name, place.row, place.column)
        for entry in ENTRIES.values()
        for each in entry.views
        for job in entry.jobs(1, False)
        for place in each.places(job)
    }
    for cell in source.cells:
        if cell.column in source.own:
            assert source.place(cell.row, cell.column, "a") in places, cell
        for protocol in ("b", "c"):
            assert (source.place(cell.row, cell.column, protocol) or next(iter(places))) in places, cell
