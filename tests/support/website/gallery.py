"""The gallery: every example with its picture, its first sentences, its model and its live page."""

from __future__ import annotations

import re
from collections.abc import Collection
from html import escape
from pathlib import Path

from website.markdown import Rendered, Resolve, Section, render

TITLE = "Gallery"
# Pictures that exist, the best first.
PICTURES = ("page.png", "curve.svg")


def gallery_page(root: Path, live: Collection[str], resolve: Resolve) -> Rendered:
    folders = [path.parent for path in sorted((root / "examples").glob("*/README.md"))]
    names = [folder.name for folder in folders if (folder / "README.md").is_file()]
    cards = [_card(root / "examples" / name, name in live, resolve) for name in names]
    alt = "Three pages that train: a curve, handwritten digits, points of the plane"
    screens = f'<img src="{resolve("examples/pages.png")}" alt="{alt}">'
    html = f'<h1>{TITLE}</h1>\n{screens}\n<div class="cards">{"".join(cards)}</div>'
    return Rendered(TITLE, html, [Section("", 1, TITLE, ["examples", *names])])


def _card(folder: Path, is_live: bool, resolve: Resolve) -> str:
    text = (folder / "README.md").read_text(encoding="utf-8")
    title = re.sub(r"`", "", text.split("\n", 1)[0].lstrip("# "))
    links = [f'<a href="{resolve(f"examples/{folder.name}")}">Read</a>']
    if (folder / "model.wg").is_file():
        links.append(f'<a href="{resolve(f"examples/{folder.name}/model.wg")}">Model</a>')
    if is_live:
        links.append(f'<a href="live/{folder.name}.html">Open the page</a>')
    return (
        f'<article class="card"><h2>{escape(title)}</h2>\n{_picture(folder, title, resolve)}'
        f'{_summary(text, folder, resolve)}<p class="links">{" ".join(links)}</p></article>\n'
    )


def _picture(folder: Path, title: str, resolve: Resolve) -> str:
    for name in PICTURES:
        if (folder / name).is_file():
            source = resolve(f"examples/{folder.name}/{name}")
            return f'<img src="{source}" alt="Loss of {escape(title)} while it trains">\n'
    return ""


def _summary(text: str, folder: Path, resolve: Resolve) -> str:
    """The first paragraph of its page."""
    blocks = (block.strip() for block in text.split("\n\n")[1:])
    first = next((block for block in blocks if re.match(r"[A-Z`*\[]", block)), "")
    return render(first, lambda link: resolve(_from_root(folder.name, link))).html


def _from_root(example: str, link: str) -> str:
    """A link of the example's page as one from the root of the repository."""
    if ":" in link or link.startswith("#"):
        return f"examples/{example}" if link.startswith("#") else link
    parts = f"examples/{example}/{link}".split("/")
    place: list[str] = []
    for part in parts:
        place = place[:-1] if part == ".." else place if part in ("", ".") else [*place, part]
    return "/".join(place)
