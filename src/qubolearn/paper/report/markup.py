"""HTML and SVG as values: text is escaped when it becomes part of an element, elements are not escaped again."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

__all__ = ["Content", "Html", "el", "join"]

VOID = {"meta", "link", "br", "hr"}


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Content = str | Iterable["Content"] | None


def el(name: str, /, *content: Content, **attributes: object) -> Html:
    """One element. ``class_`` and the like lose their underscore, other underscores become hyphens; None is left out.

    >>> el("td", "a < b", el("b", "c"), class_="wide", data_tip='say "x"', id=None)
    '<td class="wide" data-tip="say &quot;x&quot;">a &lt; b<b>c</b></td>'
    """
    words = [name]
    for key, value in attributes.items():
        if value is not None and value is not False:
            plain = key.rstrip("_").replace("_", "-")
            words.append(plain if value is True else f'{plain}="{escape(str(value))}"')
    start = f"<{' '.join(words)}>"
    return Html(start) if name in VOID else Html(f"{start}{join(content)}</{name}>")


def join(content: Content) -> Html:
    """All of it in one, escaped where it is plain text."""
    if content is None:
        return Html("")
    if isinstance(content, Html):
        return content
    if isinstance(content, str):
        return Html(escape(content))
    return Html("".join(map(join, content)))
