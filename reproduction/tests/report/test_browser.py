"""The page in a real browser."""

import json
from collections.abc import Callable
from typing import Any

from quant_reproduction.report.compare import VERDICTS

Opened = Callable[[int], Any]


def test_opens_from_disk_without_errors_and_loads_nothing(opened: Opened) -> None:
    browser = opened(1280)
    assert browser.errors == []
    assert [url.partition(":")[0] for url in browser.requests if not url.startswith("data:")] == ["file"]
    links = browser.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    ids = browser.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links} <= set(ids)


def test_summary_in_the_page_is_that_of_its_tables(opened: Opened) -> None:
    browser = opened(1280)
    summary = json.loads(browser.evaluate("document.getElementById('summary').textContent"))
    rows = browser.evaluate("[...document.querySelector('tbody').rows].map(r => r.innerText.split('\\t'))")
    expected = {name: [cells[verdict] for verdict in VERDICTS] for name, cells in summary["cells"].items()}
    assert {row[0][1]: list(map(int, row[2:7])) for row in rows} == expected  # row[0] is "(a) ..."
