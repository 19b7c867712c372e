"""One section of the page per item: tables, figures, claims, and what is needed to run it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qubolearn.paper.grid.jobs import Job
from qubolearn.paper.report.claims import Both, Checked, Pair
from qubolearn.paper.report.collect import Item
from qubolearn.paper.report.comparison import comparison, header, own_table, scrolled
from qubolearn.paper.report.drawings import draw_all
from qubolearn.paper.report.markup import Html, el
from qubolearn.paper.report.summary import Report
from qubolearn.paper.report.wording import badge, duration, listed, many, seeds_said

__all__ = ["claim_list", "claims_of", "section"]


def section(report: Report, item: Item) -> Html:
    """Everything about one item."""
    claims = claims_of(report, item)
    where = f"{item.entry.paper} of the paper" if item.entry.paper else "Beyond the paper"
    return el(
        "section",
        el("p", where, class_="where"),
        el("h2", item.entry.title, id=f"title-{item.name}"),
        _missing(item),
        _views(report, item),
        _figures(item),
        (el("h3", "What the paper claims"), claim_list(claims)) if claims else None,
        _again(report, item),
        id=f"item-{item.name}",
        aria_labelledby=f"title-{item.name}",
    )


def claims_of(report: Report, item: Item) -> list[Checked]:
    """The claims whose first table is shown in this item."""
    names = {view.name for view in item.entry.views}
    return [checked for checked in report.claims if checked.pairs_table(report.paper).view in names]


def _views(report: Report, item: Item) -> list[Html]:
    parts = []
    for view in item.entry.views:
        cells = report.found[view.name]
        tables = report.paper.of_view(view.name)
        parts.append(el("h3", view.title))
        seen: dict[object, str] = {}
        for table in tables:
            if table.cells in seen:
                parts.append(el("p", f"{table.name} prints the numbers of {seen[table.cells]} again.", class_="note"))
            elif table.cells:
                seen[table.cells] = table.name
                parts.append(comparison(table, [each for each in report.compared if each.table is table], view))
        if not cells:
            parts.append(el("p", "Nothing of this table has been measured yet.", class_="note"))
        elif seen:
            every = own_table(view, cells, f"All of ours: {view.title}, mean ± standard deviation over the seeds.")
            parts.append(el("details", el("summary", "All that we measured for this table"), every))
        else:
            parts.append(own_table(view, cells, f"{view.title}: mean ± standard deviation over the seeds."))
    return parts


def _figures(item: Item) -> list[Html]:
    """The figures of each row and column; of several seeds, which look alike, the first."""
    found: dict[tuple[str, str, str], tuple[Job, Mapping[str, Any]]] = {}
    for label in item.entry.figures:
        for outcome in item.outcomes:
            figure = (outcome.record or {}).get("metrics", {}).get(label, {}).get("figure")
            if figure is not None:
                found.setdefault((label, outcome.job.row, outcome.job.column), (outcome.job, figure))
    return [
        el(
            "div",
            el("h3", figure["title"]),
            draw_all(figure["panels"]),
            el("p", f"{figure.get('note', '')} {job.row}, {job.column}, seed {job.seed}.".strip(), class_="note"),
            class_="figure",
        )
        for job, figure in found.values()
    ]


def _missing(item: Item) -> Html | None:
    gone = item.missing
    if not gone:
        return None
    count = len(item.outcomes) - len(item.records)
    of_all = f"{many(count, 'job')} of {len(item.outcomes)}"
    needs = f" They need the dataset {item.entry.data} in QUBOLEARN_DATA." if item.entry.data else ""
    names = "; ".join(gone[:6]) + (f"; and {len(gone) - 6} more" if len(gone) > 6 else "")
    failed = [el("br"), "Failed: ", "; ".join(item.errors)] if item.errors else None
    return el("p", el("strong", "Incomplete. "), f"No result of {of_all}: {names}.{needs}", failed, class_="missing")


def _again(report: Report, item: Item) -> Html:
    """Command, seeds, versions, machine and time."""
    if not item.records:
        return el("dl", _pair("Command", el("code", _command(report, item))), class_="facts")
    versions = [f"{package} {listed(found)}" for package, found in item.versions.items()]
    trained = f"{duration(item.training_seconds)} of training, " if item.training_seconds else ""
    spent = f"{trained}{duration(item.seconds)} in all"
    return el(
        "dl",
        _pair("Command", el("code", _command(report, item))),
        _pair("Seeds", ", ".join(map(str, item.seeds))),
        _pair("Jobs", f"{len(item.records)} of {len(item.outcomes)} done"),
        _pair("Time", f"{spent}, summed over {many(len(item.records), 'job')}"),
        _pair("Machine", "; ".join(item.machines)),
        _pair("Versions", ", ".join(versions)),
        class_="facts",
    )


def _command(report: Report, item: Item) -> str:
    return f"qubolearn reproduce {item.name}{' --quick' if report.quick else ''} --seeds {report.seeds}"


def _pair(name: str, content: str) -> Html:
    return el("div", el("dt", name), el("dd", content))


def claim_list(claims: Sequence[Checked]) -> Html:
    """Each claim with the answer, the paper's words, and the numbers behind it."""
    return el("ul", map(_claim, claims), class_="claims")


def _claim(checked: Checked) -> Html:
    claim = checked.claim
    return el(
        "li",
        el("div", badge(checked.answer), " ", el("strong", claim.text), seeds_said(checked.seeds), class_="claim-head"),
        el("p", el("q", claim.quote), f" {claim.paper}. {claim.note}", class_="quote"),
        _numbers(checked),
    )


def _numbers(checked: Checked) -> Html:
    """One line for each source: the paper's numbers, ours, ours under the paper's recipe."""
    pairs = checked.pairs
    sources = (
        ("Paper", checked.in_paper, None, [pair.paper for pair in pairs]),
        ("qubolearn", checked.in_best, checked.agreement("best"), [pair.best for pair in pairs]),
        (
            "qubolearn, the paper’s recipe",
            checked.in_protocol,
            checked.agreement("paper"),
            [pair.protocol for pair in pairs],
        ),
    )
    lines = []
    for name, answer, seeds, numbers in sources:
        known = [(pair, both) for pair, both in zip(pairs, numbers, strict=True) if both is not None]
        if not known:
            lines.append(el("li", f"{name}: no number"))
        elif len(pairs) == 1:
            lines.append(el("li", f"{name}: {answer}{seeds_said(seeds)}, {_against(known[0][1])}"))
        else:
            lines.append(el("li", f"{name}: {answer}{seeds_said(seeds)}, {_tally(known, len(pairs))}"))
    details = el("details", el("summary", "The numbers"), _pair_table(checked)) if len(pairs) > 1 else None
    return el("div", el("ul", lines, class_="sources"), details)


def _tally(known: Sequence[tuple[Pair, Both]], asked: int) -> str:
    """'3 of 5 comparisons, 1 equal, 1 not measured'"""
    right = sum(bool(pair.ordered(both)) for pair, both in known)
    equal = sum(_same(both) and not pair.ordered(both) for pair, both in known)
    words = [f"{right} of {many(asked, 'comparison')}"]
    words += [f"{equal} equal"] if equal else []
    words += [f"{asked - len(known)} not measured"] if len(known) < asked else []
    return ", ".join(words)


def _pair_table(checked: Checked) -> Html:
    rows = [
        el(
            "tr",
            el("th", _compared(pair), scope="row"),
            (el("td", _verdict(pair, both), class_="number") for both in (pair.paper, pair.best, pair.protocol)),
        )
        for pair in checked.pairs
    ]
    caption = f"{checked.claim.text}: the number that should be better, against the other"
    return scrolled(
        caption, header("Compared", "Paper#", "qubolearn#", "qubolearn, the paper’s recipe#"), el("tbody", rows)
    )


def _compared(pair: Pair) -> str:
    metric = " (median)" if "median" in pair.metric else ""
    if pair.better[0] == pair.than[0]:
        names = [pair.better[1], pair.than[1]]
        if pair.comparison.than_table != pair.comparison.table:
            names = [f"{pair.better[1]} in {pair.comparison.table}", f"in {pair.comparison.than_table}"]
        return f"{pair.better[0]}: {names[0]} against {names[1]}{metric}"
    return f"{pair.better[1]}: {pair.better[0]} against {pair.than[0]}{metric}"


def _verdict(pair: Pair, both: Both | None) -> str:
    if both is None:
        return "–"
    answer = "✓ yes" if pair.ordered(both) else "= equal" if _same(both) else "✗ no"
    return f"{_against(both)} {answer}"


def _same(both: Both) -> bool:
    """Equal as far as it is shown."""
    return f"{both[0]:.4g}" == f"{both[1]:.4g}"


def _against(both: Both) -> str:
    return f"{both[0]:.4g} against {both[1]:.4g}"
