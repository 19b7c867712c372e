"""Check the site that ``make docs`` built for what Sphinx does not check: ``python tools/site_check.py build/site``.

Every example has a picture and a notebook, every public name is in the reference, no
page loads anything from elsewhere. Exits with 1 on faults.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import qubolearn

#: Tags that load a resource, and the attribute with its address.
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """Pictures and code in order, resources, links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.order: list[str] = []
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        if tag == "img" and "sphx-glr" in found.get("class", ""):
            self.order.append("picture")
        elif tag == "div" and "highlight-Python" in found.get("class", "").split():
            self.order.append("code")
        if tag in LOADS:
            self.loaded.append(found.get(LOADS[tag], ""))
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(found.get("href", ""))
        elif tag == "a":
            self.links.append(found.get("href", ""))
        self.anchors.add(found.get("id", ""))


def wrong(site: Path, examples: list[str], names: list[str]) -> Iterator[str]:
    """Yield the faults of a built site."""
    for path in sorted(site.rglob("*.html")):
        elsewhere = [url for url in Page(path.read_text()).loaded if re.match(r"(https?:)?//", url)]
        if elsewhere:
            yield f"{path}: loads {elsewhere[0]}"
    for path in sorted(site.rglob("*.css")):
        if re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", path.read_text()):
            yield f"{path}: loads something from elsewhere"
    for name in examples:
        path = next(site.rglob(f"gallery/{name}.html"), site / "gallery" / f"{name}.html")
        page = Page(path.read_text() if path.is_file() else "")
        if page.order[:1] != ["picture"] or "code" not in page.order:
            yield f"{path}: expected a picture before the first code, got {page.order[:2]}"
        notebooks = [link for link in page.links if link.endswith(f"{name}.ipynb")]
        if not notebooks or not (path.parent / notebooks[0]).is_file():
            yield f"{path}: has no notebook to download"
    known = set().union(*(Page(path.read_text()).anchors for path in (site / "reference").glob("*.html")))
    yield from (f"reference: lacks {name}" for name in names if f"qubolearn.{name}" not in known)


def main() -> int:
    paths = Path(__file__).parents[1].glob("**/gallery/plot_*.py")
    examples = sorted(path.stem for path in paths if "docs" not in path.parts)
    found = list(wrong(Path(sys.argv[1]), examples, qubolearn.__all__))
    print("\n".join(found) or f"{len(examples)} examples, {len(qubolearn.__all__)} names: complete")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
