"""The page in a real browser: it opens from disk without errors, its links work, it fits a phone, drawings answer."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from qubolearn.paper.report.wording import VERDICT_MARKS

Opened = Callable[[int], Any]


def test_opens_from_disk_without_errors_and_loads_nothing(opened: Opened) -> None:
    browser = opened(1280)
    bad = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Network.loadingFailed")
    assert [event for event in browser.events if event["method"] in bad] == []
    requests = [e["params"]["request"]["url"] for e in browser.events if e["method"] == "Network.requestWillBeSent"]
    assert [url.partition(":")[0] for url in requests if not url.startswith("data:")] == ["file"]


def test_links_have_targets_and_ids_are_unique(opened: Opened) -> None:
    browser = opened(1280)
    links = browser.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    ids = browser.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(links) > 20
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    browser.evaluate("document.querySelector('nav a[href=\"#item-rotation\"]').click()")
    assert browser.evaluate("location.hash") == "#item-rotation"


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 1920])
def test_fits_the_window_and_tables_scroll_in_their_own_box(opened: Opened, width: int) -> None:
    browser = opened(width)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    inside = "[...document.querySelectorAll('table')].every(t => t.parentElement.classList.contains('scroll'))"
    assert browser.evaluate(inside)


def test_hovering_shows_the_number(opened: Opened) -> None:
    browser = opened(390)
    place = """(async () => {
      const mark = document.querySelector('.dumbbells .ours-dot circle');
      mark.scrollIntoView({ block: 'center', behavior: 'instant' });
      for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);  // scrolling hides the tip
      const box = mark.getBoundingClientRect();
      return { x: box.x + box.width / 2, y: box.y + box.height / 2, tip: mark.dataset.tip };
    })()"""
    found = browser.evaluate(place)
    assert browser.evaluate("document.getElementById('tip').hidden")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=found["x"], y=found["y"])
    assert not browser.evaluate("document.getElementById('tip').hidden")
    assert browser.evaluate("document.getElementById('tip').textContent") == found["tip"]
    assert any(letter.isdigit() for letter in found["tip"])
    edge = browser.evaluate("document.getElementById('tip').getBoundingClientRect().right")
    assert edge <= 390


def test_says_everything_in_words(opened: Opened) -> None:
    """Drawings have descriptions, tables captions and headers with a scope, verdicts more than a colour."""
    browser = opened(1280)
    assert browser.evaluate("[...document.querySelectorAll('svg')].every(s => s.getAttribute('aria-label'))")
    assert browser.evaluate("[...document.querySelectorAll('table')].every(t => t.caption && t.tHead)")
    assert browser.evaluate("[...document.querySelectorAll('th')].every(h => h.scope)")
    words = set(browser.evaluate("[...document.querySelectorAll('.badge')].map(b => b.textContent)"))
    assert words <= {f"{mark} {verdict}" for verdict, mark in VERDICT_MARKS.items()}
    assert browser.evaluate("['header', 'nav', 'main', 'footer'].every(n => document.querySelectorAll(n).length === 1)")
    assert browser.evaluate("document.querySelector('.skip').getAttribute('href')") == "#main"


CONTRAST = """(() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const colour = numbers(getComputedStyle(each).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  let worst = [21, ''];
  for (const node of document.querySelectorAll('main *, header *, nav *, footer *')) {
    const text = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!text || node.closest('script, style') || !node.getClientRects().length) continue;
    const svg = node.closest('svg');
    const ink = numbers(svg ? getComputedStyle(node).fill : getComputedStyle(node).color);
    const [a, b] = [light(ink), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) worst = [ratio, node.outerHTML.slice(0, 120)];
  }
  return worst;
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(opened: Opened, scheme: str) -> None:
    browser = opened(1280)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    ratio, where = browser.evaluate(CONTRAST)
    browser.call("Emulation.setEmulatedMedia", features=[])
    assert ratio >= 4.5, where


def test_prints(opened: Opened) -> None:
    """On paper the details are open, the contents are not there, and nothing is cut off at the right."""
    browser = opened(1280)
    pdf = base64.b64decode(browser.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert pdf.startswith(b"%PDF")
    assert browser.evaluate("document.querySelectorAll('main details[open]').length") == 0
    browser.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.evaluate("document.querySelectorAll('main details:not([open])').length") == 0


def test_works_without_script(browser: Any, page: Any, tmp_path: Any) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        document = browser.call("DOM.getDocument")["root"]["nodeId"]
        title = browser.call("DOM.querySelector", nodeId=document, selector=".dumbbells .ours-dot circle title")
        assert title["nodeId"] != 0  # the browser's own tooltip
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_summary_in_the_page_is_that_of_the_cards(opened: Opened) -> None:
    browser = opened(1280)
    summary = json.loads(browser.evaluate("document.getElementById('summary').textContent"))
    first, second, *_ = browser.evaluate("[...document.querySelectorAll('.card .big')].map(b => b.textContent)")
    for shown, claims in zip((first, second), summary["claims"].values(), strict=True):
        assert shown == f"{claims['holds']} of {sum(claims.values())}"
    rows = browser.evaluate("[...document.querySelectorAll('#in-short tbody tr')].map(r => r.innerText.split('\\t'))")
    assert [list(map(int, row[1:5])) for row in rows] == [
        [cells[each] for each in ("better", "not told apart", "worse", "not measured")]
        for cells in summary["cells"].values()
    ]
    badges = browser.evaluate("[...document.querySelectorAll('.claim-head .badge')].map(b => b.textContent.slice(2))")
    for start, claims in enumerate(summary["claims"].values()):  # (a) and (c) in turns
        assert {answer: badges[start::2].count(answer) for answer in claims} == claims
