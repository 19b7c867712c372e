"""The summary against the result files, counted here from the raw JSON and the paper's data file alone."""

import json
import statistics
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from quant_reproduction.grid.entries import ENTRIES
from quant_reproduction.grid.jobs import Outcome, Store
from quant_reproduction.grid.paper import paper
from quant_reproduction.report import gather, page, write_report
from quant_reproduction.report.compare import find_view

SEEDS = 3
Where = Callable[[str, str], tuple[str, str, str, str]]


def at_size(item: str, column: str = "({}) quant", label: str = "exhaustive") -> Where:
    return lambda row, protocol: (item, row, column.format(protocol), label)


def under_noise(item: str, job_row: str) -> Where:
    def place(row: str, protocol: str) -> tuple[str, str, str, str]:
        label = "exhaustive" if row[:2] == "0 " else f"noise {row.split()[0]}%"
        return item, job_row, f"({protocol}) quant", label

    return place


def trained_with_noise(row: str, protocol: str) -> tuple[str, str, str, str]:
    """Our own inputs are trained with noise anyway."""
    return under_noise("rotation" if protocol == "c" else "rotation-trained", "L3 H32")(row, protocol)


#: table -> row of the paper and protocol -> item, row and column of our jobs, and the test in their records
OURS: dict[str, Where] = {
    "Table 1a": lambda row, protocol: at_size("randgraph", f"quant, {'paper' if protocol == 'a' else 'best'}")(row, ""),
    "Table 1b": at_size("willow"),
    "Table 2": at_size("pointset"),
    "Table 3": at_size("rotation"),
    "Table 4b": at_size("pointset"),
    "Table 4c": at_size("rotation"),
    "Table 6": lambda row, protocol: ("pointset", "L5 H78", f"({protocol}) quant", f"interval {row.split()[0]}"),
    "Table 7": under_noise("rotation", "L3 H32"),
    "Table 8": under_noise("pointset", "L5 H78"),
    "Table 9": lambda row, protocol: ("success", row, "(a) ours" if protocol == "a" else "ours", "quantum"),
    "Table 11": at_size("rotation"),
    "Table 12b": trained_with_noise,
    "Table 13": at_size("pointset"),
    "Table 14": under_noise("pointset", "L3 H32"),
}
SHARES = {"accuracy", "success_probability"}  # of 1, where the paper has %


def stored(results: Path) -> list[dict[str, Any]]:
    """All records of a folder."""
    return [json.loads(line) for path in sorted(results.glob("*.jsonl")) for line in path.read_text().splitlines()]


def recount(results: Path, protocol: str) -> Counter[str]:
    """Verdicts of the paper's numbers in its columns Ours, and of Table 5, whose columns are both its own."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for record in stored(results):
        job = record["job"]
        found.setdefault((job["item"], job["row"], job["column"]), []).append(record["metrics"])
    verdicts: Counter[str] = Counter()
    tables = json.loads(files("quant_reproduction.grid").joinpath("paper.json").read_text(), parse_float=str)["tables"]
    for table in tables:
        for cell in table["cells"]:
            name, spreads = table["name"], cell.get("spread", [None] * len(cell["values"]))
            if name == "Table 5":
                column = {"SA": "SA", "QA": "QA (simulated)"}[cell["column"]]
                place = {"a": ("training-raw", "k=5", "(a) exact, 450 epochs"), "c": ("training-solver", "k=5", column)}
                records = found.get(place.get(protocol, ("", "", "")), [])
                metric = "accuracy" + ("_projected" if cell["row"].startswith("after") else "")
                values = [100 * r["own"][metric] for r in records]
                verdicts[verdict(values, str(cell["values"][0]), None, True)] += 1
            elif name in OURS and cell["column"] == "Ours":
                *at, label = OURS[name](cell["row"], protocol)
                for metric, printed, spread in zip(table["metrics"], cell["values"], spreads, strict=True):
                    scale = 100 if metric in SHARES else 1
                    values = [scale * r[label][metric] for r in found.get(tuple(at), [])]
                    alike = 0.1 if at[0] in ("pointset", "rotation", "rotation-trained") else 0.0
                    verdicts[verdict(values, str(printed), spread, metric in SHARES, alike)] += 1
    return verdicts


def verdict(values: list[float], printed: str, spread: str | None, more_is_better: bool, alike: float = 0.0) -> str:
    """By scipy's t-test: the paper's three runs as three numbers of that mean and deviation, where it has one.

    Ours that are random splits of shapes, with so many test shapes for each training shape, are stretched about their
    mean until 1/n of their variance is 1/n + alike of it.
    """
    center, stretch = statistics.mean(values or [0.0]), (1 + alike * len(values)) ** 0.5
    values = [center + stretch * (value - center) for value in values]
    if not values:
        return "not measured"
    half = 0.5 * 10.0 ** -len(printed.partition(".")[2])
    for bound in (float(printed) - half, float(printed) + half):  # as wide as its last digit
        if spread is None:
            low, high = stats.ttest_1samp(values, bound).confidence_interval(0.95)
            apart = not low <= bound <= high
        else:
            runs = [bound + float(spread) * each for each in (-1, 0, 1)]
            low, high = stats.ttest_ind(values, runs, equal_var=False).confidence_interval(0.95)
            apart = not low <= 0 <= high
        if not apart:
            return "indistinguishable"
    mean = statistics.mean(values) - float(printed)
    if abs(mean) <= half:
        return "indistinguishable"
    return "better" if (mean > 0) == more_is_better else "worse"


@pytest.mark.parametrize("protocol", ["a", "b", "c"])
def test_summary_matches_the_result_files(results: Path, protocol: str) -> None:
    summary = gather(results, False, SEEDS).summary
    assert {name: count for name, count in summary.cells[protocol].items() if count} == recount(results, protocol)
    assert len(set(summary.cells[protocol].values())) > 2  # by chance some are better, some worse, some not there
    assert summary.done == len(stored(results))
    assert summary.done < summary.jobs


def test_a_better_result_changes_the_summary(results: Path, tmp_path: Path) -> None:
    """Not the same numbers whatever the files hold: with the best possible results all cells are better."""
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
        assert set(cells) == {"better", "indistinguishable", "worse", "not measured"}, protocol
        assert cells["not measured"] == sum(cells.values()) == 98
    for claims in summary.claims.values():
        assert claims["not measured"] + claims["does not apply"] == sum(claims.values())
    assert [time["faster"] for time in summary.times.values()] == [None, None]
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
    """And ours stands where the data file says that it does, in the jobs of a full run."""
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
