"""The whole page: one HTML file with everything in it, that loads nothing and runs from disk."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files

from qubolearn.paper.report.charts import shares
from qubolearn.paper.report.collect import Item
from qubolearn.paper.report.comparison import header, scrolled
from qubolearn.paper.report.markup import Html, el
from qubolearn.paper.report.sections import claim_list, claims_of, section
from qubolearn.paper.report.speed import Speed, total
from qubolearn.paper.report.summary import Report, Summary
from qubolearn.paper.report.wording import duration, many, times, trained_on

__all__ = ["page"]

#: Nothing may be loaded; what runs and what styles stands in the file itself.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(report: Report) -> str:
    """The report as a document."""
    summary = report.summary
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=POLICY),
        el("link", rel="icon", href="data:,"),
        el("title", "QuAnt reproduced: every table and figure beside ours"),
        el("style", _asset("style.css")),
    )
    body = el(
        "body",
        el("a", "Skip to the results", href="#main", class_="skip"),
        _header(report),
        el("div", _contents(report), _main(report, summary), class_="layout"),
        el("footer", el("p", f"Made by qubolearn report from result files. The paper: {report.paper.source}.")),
        el("div", id="tip", role="status", hidden=True),
        el("script", _json(summary), type="application/json", id="summary"),
        el("script", _asset("script.js")),
    )
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def _asset(name: str) -> Html:
    return Html(files("qubolearn.paper.report").joinpath(name).read_text(encoding="utf-8"))


def _json(summary: Summary) -> Html:
    """JSON that cannot end its own script element."""
    return Html(json.dumps(asdict(summary), allow_nan=False).replace("<", "\\u003c"))


def _header(report: Report) -> Html:
    kind = "A quick run, which shows that everything works: its numbers are not results." if report.quick else ""
    return el(
        "header",
        el("p", "qubolearn", class_="where"),
        el("h1", "QuAnt, reproduced"),
        el(
            "p",
            "Every table and figure of ",
            el("cite", "QuAnt: Quantum Annealing with Learnt Couplings"),
            ", beside ours.",
        ),
        el("p", el("strong", kind), class_="missing") if kind else None,
    )


def _contents(report: Report) -> Html:
    links = [("in-short", "Summary"), ("items", "All items"), ("times", "Training times")]
    links += [(f"item-{item.name}", item.name) for item in report.items]
    if _left_over(report):
        links.append(("left-over", "Not in this run"))
    entries = [el("li", el("a", text, href=f"#{target}")) for target, text in links]
    return el("nav", el("details", el("summary", "Contents"), el("ol", entries), open=True), aria_label="Contents")


def _main(report: Report, summary: Summary) -> Html:
    return el(
        "main",
        _summary(report, summary),
        _overview(report),
        _times(report, summary),
        (section(report, item) for item in report.items),
        _left_over(report),
        id="main",
    )


def _summary(report: Report, summary: Summary) -> Html:
    cells, claims = summary.cells, summary.claims
    counted, measured = sum(cells.values()), sum(cells.values()) - cells["not measured"]
    checked = claims["holds"] + claims["does not hold"]
    borne_out = sum(each.in_paper == "holds" for each in report.claims)
    cards = [
        _card(
            "Cells better than the paper’s",
            f"{cells['better']} of {counted}",
            f"{cells['equal']} equal, {cells['worse']} worse, {cells['not measured']} not measured"
            + (f": {100 * cells['better'] / measured:.1f} % of those measured are better" if measured else ""),
        ),
        _card(
            "Claims of the paper that hold",
            f"{claims['holds']} of {sum(claims.values())}",
            f"{claims['does not hold']} of the {checked} that were checked do not hold, "
            f"{claims['not measured']} not measured; {summary.split} of these answers are not those of every seed; "
            f"the paper’s own tables bear out {borne_out}",
        ),
        _card(
            "Training is faster",
            f"{times(summary.faster)} times" if summary.faster else "not measured",
            f"{duration(3600 * summary.paper_hours)} in the paper, {duration(summary.seconds)} here, "
            f"for {many(summary.trainings, 'training')}, each on {trained_on(report.records)}"
            if summary.faster
            else "by a full run only",
        ),
        _qubits(summary),
    ]
    return el(
        "section",
        el("h2", "Summary", id="title-in-short"),
        el("div", cards, class_="cards"),
        shares(cells),
        el(
            "p",
            "A cell is a number in a column “Ours” of the paper’s tables; mean and median count apart, numbers that it "
            "prints twice count once. Beside it stands the mean of qubolearn over the seeds under its best recipe, on "
            "unseen shapes, images and graphs, compared at the digits that the paper prints. A claim holds where the "
            "comparisons that it makes come out as it says under the best recipe, or under the paper’s where only "
            "that was measured; equal is not better.",
            class_="note",
        ),
        el(
            "p",
            f"{summary.done} of {many(summary.jobs, 'job')} done, with {many(summary.seeds, 'seed')}: "
            f"{duration(sum(item.seconds for item in report.items))} of computing in all"
            + (f", on {'; '.join(summary.machines)}." if summary.machines else ".")
            + (f" As one command: {duration(summary.grid.seconds)} on {summary.grid.machine}." if summary.grid else ""),
            class_="note",
        ),
        id="in-short",
        aria_labelledby="title-in-short",
    )


def _qubits(summary: Summary) -> Html:
    """How many qubits the learned QUBOs need, and those of others; Diag has no couplings, so that it is no rival."""
    title = "Physical qubits, ours and the next best"
    lines, rivals = [], []
    for problem, methods in summary.qubits.items():
        words = [f"{method} {pair['ours']:.0f} (paper {pair['paper']:.0f})" for method, pair in methods.items()]
        lines.append(f"{problem}: {', '.join(words)}")
        others = [pair["ours"] for method, pair in methods.items() if method not in ("Ours", "Diag")]
        if "Ours" in methods and others:
            rivals.append((min(others) / methods["Ours"]["ours"], methods["Ours"]["ours"], min(others)))
    if not rivals:
        return _card(title, "not measured", "; ".join(lines))
    _, ours, next_best = max(rivals)
    return _card(title, f"{ours:.0f} and {next_best:.0f}", "; ".join(lines))


def _card(title: str, number: str, text: str) -> Html:
    return el("div", el("h3", title), el("p", number, class_="big"), el("p", text), class_="card")


def _overview(report: Report) -> Html:
    rows = [_overview_row(report, item) for item in report.items]
    head = header("Item", "In the paper", "Jobs done#", "Cells better#", "Claims that hold#", "Training#")
    return el(
        "section",
        el("h2", "All items", id="title-items"),
        scrolled("Items of the report, with links to their sections", head, el("tbody", rows)),
        id="items",
        aria_labelledby="title-items",
    )


def _overview_row(report: Report, item: Item) -> Html:
    names = {view.name for view in item.entry.views}
    counted = [each for each in report.compared if each.counted and each.table.view in names]
    better = sum(each.verdict == "better" for each in counted)
    claims = claims_of(report, item)
    holding = sum(checked.answer == "holds" for checked in claims)
    return el(
        "tr",
        el("th", el("a", item.name, href=f"#item-{item.name}"), scope="row"),
        el("td", item.entry.paper or "beyond it"),
        el("td", f"{len(item.records)} of {len(item.outcomes)}", class_="number"),
        el("td", f"{better} of {len(counted)}" if counted else "–", class_="number"),
        el("td", f"{holding} of {len(claims)}" if claims else "–", class_="number"),
        el("td", duration(item.training_seconds) if item.training_seconds else "–", class_="number"),
    )


def _times(report: Report, summary: Summary) -> Html:
    head = header("Problem", "In the paper", "Trainings#", "Paper#", "qubolearn#", "Faster#")
    rows = [_times_row(speed, speed.where) for speed in report.speeds]
    foot = el("tfoot", _times_row(total(report.speeds), ""))
    machines = f"qubolearn ran on {'; '.join(summary.machines)}." if summary.machines else "Nothing ran yet."
    caption = "Time of the trainings that fill the same cells: one run for each cell of Ours, Diag and Pure"
    return el(
        "section",
        el("h2", "Training times", id="title-times"),
        scrolled(caption, head, el("tbody", rows), foot),
        el("p", f"{machines} The paper does not name its machine.", class_="note"),
        id="times",
        aria_labelledby="title-times",
    )


def _times_row(speed: Speed, where: str) -> Html:
    ratio = speed.ratio
    return el(
        "tr",
        el("th", speed.problem, scope="row"),
        el("td", where),
        el("td", str(speed.trainings), class_="number"),
        el("td", duration(3600 * speed.paper_hours) if speed.trainings else "–", class_="number"),
        el("td", duration(speed.seconds) if speed.trainings else "–", class_="number strong"),
        el("td", f"{times(ratio)} times" if ratio else "–", class_="number"),
    )


def _left_over(report: Report) -> Html | None:
    """What the paper has and no item of ours: nothing is passed over in silence."""
    names = {view.name for item in report.items for view in item.entry.views}
    tables = [table for table in report.paper.tables if table.view not in names]
    claims = [checked for checked in report.claims if checked.pairs_table(report.paper).view not in names]
    if not tables and not claims:
        return None
    return el(
        "section",
        el("h2", "Not in this run", id="title-left-over"),
        el("ul", (el("li", f"{table.name}: {table.title}") for table in tables)) if tables else None,
        claim_list(claims) if claims else None,
        id="left-over",
        aria_labelledby="title-left-over",
    )
