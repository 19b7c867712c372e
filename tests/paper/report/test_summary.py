"""The summary against the result files, counted here from the raw JSON and the paper's data file alone."""

import json
import re
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from scipy import stats

from qubolearn.paper.grid.entries import ENTRIES
from qubolearn.paper.grid.jobs import Job, Outcome, Store, digest
from qubolearn.paper.grid.paper import paper
from qubolearn.paper.report import gather, page, write_report
from qubolearn.paper.report.compare import view_of
from qubolearn.paper.report.summary import Grid
from qubolearn.provenance import code, provenance

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


def recount(results: Path, protocol: str) -> Counter[str]:
    """Verdicts of the paper's numbers in its columns Ours, and of Table 5, whose columns are both its own."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for path in results.glob("*/*.json"):
        record = json.loads(path.read_text())
        job = record["job"]
        found.setdefault((job["item"], job["row"], job["column"]), []).append(record["metrics"])
    verdicts: Counter[str] = Counter()
    tables = json.loads(files("qubolearn.paper.grid").joinpath("paper.json").read_text(), parse_float=str)["tables"]
    for table in tables:
        for cell in table["cells"]:
            name, spreads = table["paper"], cell.get("spread", [None] * len(cell["values"]))
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
    centre, stretch = statistics.mean(values or [0.0]), (1 + alike * len(values)) ** 0.5
    values = [centre + stretch * (value - centre) for value in values]
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
            return "not told apart"
    mean = statistics.mean(values) - float(printed)
    if abs(mean) <= half:
        return "not told apart"
    return "better" if (mean > 0) == more_is_better else "worse"


@pytest.mark.parametrize("protocol", ["a", "b", "c"])
def test_summary_matches_the_result_files(results: Path, protocol: str) -> None:
    summary = gather(results, False, SEEDS).summary
    assert {name: count for name, count in summary.cells[protocol].items() if count} == recount(results, protocol)
    assert len(set(summary.cells[protocol].values())) > 2  # by chance some are better, some worse, some not there
    assert summary.done == len(list(results.glob("*/*.json")))
    assert summary.done < summary.jobs


def test_a_better_result_changes_the_summary(results: Path, tmp_path: Path) -> None:
    """Not the same numbers whatever the files hold: with the best possible results all cells are better."""
    for path in results.glob("*/*.json"):
        record = json.loads(path.read_text())
        for test in record["metrics"].values():
            if isinstance(test, dict):
                test.update({k: 1.0 for k in test if "accuracy" in k or "success" in k})
                test.update({k: 0.0 for k in test if "degrees" in k})
        copy = tmp_path / path.relative_to(results)
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(json.dumps(record))
    summary = gather(tmp_path, False, SEEDS).summary
    for protocol, least in (("a", 85), ("b", 75), ("c", 85)):
        assert summary.cells[protocol]["worse"] == 0
        assert summary.cells[protocol]["better"] > least
        assert summary.control[protocol]["Diag"][0] > 40


def test_the_rival_on_top_of_the_page_is_the_nearest_one(tmp_path: Path) -> None:
    """Not that which looks worst beside ours: 40 to 15, and not 64 to 16 or Diag's 9."""
    qubits = {
        "point sets": {"Ours": 16.0, "Diag": 9.0, "AQM": 64.0},
        "RandGraph k=5": {"Ours": 15.0, "Inserted": 40.0, "Baseline": 89.0},
        "alone": {"Ours": 15.0},
    }
    both = {where: {name: {"paper": 1.0, "ours": n} for name, n in of.items()} for where, of in qubits.items()}
    summary = gather(tmp_path, False, SEEDS).summary
    assert summary.rival is None
    assert replace(summary, qubits=both).rival == (15.0, 40.0)


def test_the_time_of_one_command_is_shown_where_it_did_all_of_it(tmp_path: Path) -> None:
    jobs = [job for entry in ENTRIES.values() for job in entry.jobs(1, False)]
    pieces = [{"jobs": len(jobs) - 2}, {"jobs": 2}]
    made = {"keys": digest(jobs), "seconds": 790.0, "machine": "a fast one", "pieces": pieces}
    (tmp_path / "grid.json").write_text(json.dumps(made))

    def done(job: Job) -> None:
        record = {"key": job.key, "job": asdict(job), "metrics": {}, "seconds": 1.0, **provenance()}
        Store(tmp_path).put(Outcome(job, record))

    for job in jobs[:-1]:
        done(job)
    assert gather(tmp_path, False, 1).summary.grid is None
    done(jobs[-1])
    assert gather(tmp_path, False, 1).summary.grid == Grid(790.0, "a fast one", 2)
    assert "As one command: 13 min 10 s on a fast one, in 2 pieces." in page(gather(tmp_path, False, 1))
    for other in ({"keys": digest(jobs[1:])}, {"pieces": pieces[:1]}):
        (tmp_path / "grid.json").write_text(json.dumps({**made, **other}))
        assert gather(tmp_path, False, 1).summary.grid is None


def test_page_holds_the_summary_and_names_what_is_missing(results: Path, page: Path) -> None:
    text = page.read_text()
    start = text.index('id="summary">') + len('id="summary">')
    summary = json.loads(text[start : text.index("</script>", start)])
    assert {name: count for name, count in summary["cells"]["a"].items() if count} == recount(results, "a")
    assert "They need the dataset willow" in text
    assert f"qubolearn reproduce rotation --seeds {SEEDS}" in text
    assert "http://" not in text
    assert "https://" not in text


def test_the_page_says_how_many_records_were_made_by_other_code(tmp_path: Path) -> None:
    for seed, made in enumerate(({}, {"source": "other"}, code())):
        job = ENTRIES["randgraph"].jobs(seed + 1, False)[seed]
        record = {"key": job.key, "job": asdict(job), "metrics": {}, "seconds": 1.0, **provenance(), **made}
        Store(tmp_path).put(Outcome(job, record))
    said = "Of 3 records 1 were made by this code, 1 by other code, and 1 do not say by which."
    assert said in page(gather(tmp_path, False, 3))


def test_an_empty_folder_has_a_page_too(tmp_path: Path) -> None:
    summary = write_report(tmp_path / "nothing", tmp_path / "new" / "report.html", quick=True, seeds=1)
    assert summary.done == 0
    for protocol, cells in summary.cells.items():
        assert set(cells) == {"better", "not told apart", "worse", "not measured"}, protocol
        assert cells["not measured"] == sum(cells.values()) == 98
    for claims in summary.claims.values():
        assert claims["not measured"] + claims["does not apply"] == sum(claims.values())
    assert [time.faster for time in summary.times.values()] == [None, None]
    assert "A quick run" in (tmp_path / "new" / "report.html").read_text()


def test_text_from_records_is_escaped(results: Path, tmp_path: Path) -> None:
    path = next((results / "randgraph").glob("*quant__best--seed0.json"))
    record = json.loads(path.read_text())
    record["machine"] = "</script><script>alert(1)</script>"
    (tmp_path / "randgraph").mkdir()
    (tmp_path / "randgraph" / path.name).write_text(json.dumps(record))
    (tmp_path / "randgraph" / path.name.replace("quant__best", "quant__paper").replace(".json", ".log")).write_text(
        "Error: <b>bold</b>\n\ntrace"
    )
    text = page(gather(tmp_path, False, SEEDS))
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "Failed: Error: &lt;b&gt;bold" in text


@pytest.mark.parametrize("table", [table.name for table in paper().tables])
def test_every_table_of_the_paper_has_its_view(table: str) -> None:
    """And ours stands where the data file says that it does, in the jobs of a full run."""
    source = paper().table(table)
    view = view_of(source.view)
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


def test_every_record_is_one_click_from_the_page(results: Path, page: Path) -> None:
    """Names of records are links that lead from the page to the files, wherever both lie."""
    links = re.findall(r'<a href="([^"#][^"]*)"', page.read_text())
    linked = {(page.parent / unquote(link)).resolve() for link in links}
    stored = {path.resolve() for path in results.glob("*/*.json")}
    assert linked == stored
