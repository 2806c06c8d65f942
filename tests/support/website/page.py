"""One HTML page around its content: menu, search, table of contents."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from website.contents import MENU, address, way_up
from website.markdown import Section

ASSETS = Path(__file__).parent / "assets"
_TEMPLATE = Template((ASSETS / "page.html").read_text(encoding="utf-8"))
# Pages with fewer headings are seen at once.
FEWEST_HEADINGS = 4


def page_html(
    url: str,
    title: str,
    body: str,
    sections: Sequence[Section],
    kind: str = "",
    workbench: str = "",
) -> str:
    contents = _contents(sections)
    return _TEMPLATE.substitute(
        root=way_up(url),
        workbench=workbench and f"{way_up(url)}{workbench}",
        title=escape(title if title == "wgcc" else f"{title} · wgcc"),
        menu=_menu(url),
        body=body,
        contents=contents,
        kind=" ".join(filter(None, [kind, "" if contents else "alone"])),
    )


def _menu(url: str) -> str:
    return "\n".join(
        f"<h2>{escape(heading)}</h2>\n<ul>{''.join(_item(url, *item) for item in items)}</ul>"
        for heading, items in MENU
    )


def _item(url: str, title: str, path: str) -> str:
    target = address(path)
    here = ' aria-current="page"' if target == url else ""
    return f'<li><a href="{way_up(url)}{target}"{here}>{escape(title)}</a></li>'


def _contents(sections: Sequence[Section]) -> str:
    headings = [section for section in sections if section.level in (2, 3) and section.anchor]
    if len(headings) < FEWEST_HEADINGS:
        return ""
    items = "".join(
        f'<li class="level{section.level}"><a href="#{section.anchor}">'
        f"{escape(section.heading)}</a></li>"
        for section in headings
    )
    return f'<nav class="contents" aria-label="On this page"><ul>{items}</ul></nav>'
