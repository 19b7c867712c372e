"""The summary against the result files, counted here from the raw JSON and the paper's data file alone."""

import json
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from qubolearn.paper.grid.entries import ENTRIES
from qubolearn.paper.grid.jobs import Job, Outcome, Store, digest
from qubolearn.paper.grid.paper import paper
from qubolearn.paper.report import gather, page, write_report
from qubolearn.paper.report.compare import view_of
from qubolearn.paper.report.summary import Grid
from qubolearn.provenance import code, provenance

SEEDS = 2
CLEAN, NOISY = "trained without wrong matches", "trained with up to 10 % wrong matches"
Where = Callable[[str], tuple[str, str, str, str]]


def at_size(item: str, column: str, label: str = "exhaustive") -> Where:
    return lambda row: (item, row, column, label)


def under_noise(item: str, job_row: str) -> Where:
    return lambda row: (item, job_row, "quant", "exhaustive" if row[:2] == "0 " else f"noise {row.split()[0]}%")


#: table -> row of the paper -> item, row and column of our jobs, and the test in their records
OURS: dict[str, Where] = {
    "Table 1a": at_size("randgraph", "quant, best"),
    "Table 1b": lambda row: ("willow", "k=4, best", "quant", "exhaustive"),
    "Table 2": at_size("pointset", "quant"),
    "Table 3": at_size("rotation", "quant"),
    "Table 4b": at_size("pointset", "quant"),
    "Table 4c": at_size("rotation", "quant"),
    "Table 6": lambda row: ("pointset", "L5 H78", "quant", f"interval {row.split()[0]}"),
    "Table 7": under_noise("rotation-trained", CLEAN),
    "Table 8": under_noise("pointset", "L5 H78"),
    "Table 9": at_size("success", "ours", "quantum"),
    "Table 11": at_size("rotation", "quant"),
    "Table 12b": under_noise("rotation-trained", NOISY),
    "Table 13": at_size("pointset", "quant"),
    "Table 14": under_noise("pointset", "L3 H32"),
}
SHARES = {"accuracy", "success_probability"}  # of 1, where the paper has %


def recount(results: Path) -> Counter[str]:
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
            name = table["paper"]
            if name == "Table 5":
                column = {"SA": "SA", "QA": "QA (simulated)"}[cell["column"]]
                records = found.get(("training-solver", "k=5", column), [])
                metric = "accuracy" + ("_projected" if cell["row"].startswith("after") else "")
                verdicts[verdict([100 * r["own"][metric] for r in records], str(cell["values"][0]), True)] += 1
            elif name in OURS and cell["column"] == "Ours":
                *place, label = OURS[name](cell["row"])
                for metric, printed in zip(table["metrics"], cell["values"], strict=True):
                    scale = 100 if metric in SHARES else 1
                    values = [scale * r[label][metric] for r in found.get(tuple(place), [])]
                    verdicts[verdict(values, str(printed), metric in SHARES)] += 1
    return verdicts


def verdict(values: list[float], printed: str, more_is_better: bool) -> str:
    if not values:
        return "not measured"
    digits = len(printed.partition(".")[2])
    ours = float(f"{statistics.mean(values):.{digits}f}")
    if ours == float(printed):
        return "equal"
    return "better" if (ours > float(printed)) == more_is_better else "worse"


def test_summary_matches_the_result_files(results: Path) -> None:
    summary = gather(results, False, SEEDS).summary
    assert {name: count for name, count in summary.cells.items() if count} == recount(results)
    assert len(set(summary.cells.values())) > 2  # by chance some are better, some worse, some not there
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
    assert summary.cells["worse"] == summary.cells["equal"] == 0
    assert summary.cells["better"] > 90


def test_the_time_of_one_command_is_shown_where_it_did_all_of_it(tmp_path: Path) -> None:
    jobs = [job for entry in ENTRIES.values() for job in entry.jobs(1, False)]
    made = {"keys": digest(jobs), "seconds": 790.0, "machine": "a fast one"}
    (tmp_path / "grid.json").write_text(json.dumps(made))

    def done(job: Job) -> None:
        record = {"key": job.key, "job": asdict(job), "metrics": {}, "seconds": 1.0, **provenance()}
        Store(tmp_path).put(Outcome(job, record))

    for job in jobs[:-1]:
        done(job)
    assert gather(tmp_path, False, 1).summary.grid is None
    done(jobs[-1])
    assert gather(tmp_path, False, 1).summary.grid == Grid(790.0, "a fast one")
    assert "As one command: 13 min 10 s on a fast one." in page(gather(tmp_path, False, 1))
    (tmp_path / "grid.json").write_text(json.dumps({**made, "keys": digest(jobs[1:])}))
    assert gather(tmp_path, False, 1).summary.grid is None


def test_page_holds_the_summary_and_names_what_is_missing(results: Path, page: Path) -> None:
    text = page.read_text()
    start = text.index('id="summary">') + len('id="summary">')
    summary = json.loads(text[start : text.index("</script>", start)])
    assert {name: count for name, count in summary["cells"].items() if count} == recount(results)
    assert "They need the dataset willow" in text
    assert "qubolearn reproduce rotation --seeds 2" in text
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
    assert set(summary.cells) == {"better", "equal", "worse", "not measured"}
    assert summary.cells["not measured"] == sum(summary.cells.values())
    assert summary.claims["not measured"] == sum(summary.claims.values())
    assert summary.faster is None
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
            assert source.place(cell.row, cell.column, "best") in places, cell
