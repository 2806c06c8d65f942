"""The page of all functions and layers: signature, shapes, example, picture, PyTorch's name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from website.highlight import highlight
from website.markdown import Rendered, Resolve, Section, render
from website.pictures import picture
from website.shapes import Call, calls
from wgcc.language_service.reference import Entry, reference

TITLE = "Functions and layers"


def reference_page(root: Path, resolve: Resolve) -> Rendered:
    parts = [f"<h1>{TITLE}</h1>", _introduction()]
    sections = [Section("", 1, TITLE, ["built-in functions and standard layers"])]
    for heading, entries in _groups(root):
        anchor = re.sub(r"\W+", "-", heading.lower())
        parts.append(f'<h2 id="group-{anchor}">{escape(heading)}</h2>')
        sections.append(Section(f"group-{anchor}", 2, heading))
        for entry in entries:
            parts.append(_described(entry, resolve))
            words = [entry.signature, entry.meaning, entry.pytorch]
            sections.append(Section(entry.name, 3, entry.name, words))
    return Rendered(TITLE, "\n".join(parts), sections)


def _introduction() -> str:
    return (
        "<p>Every name has a link: <code>reference.html#softmax</code>. The compiler inferred "
        "the shapes of the calls that are shown; its reference evaluator computed curves and "
        "grids.</p>"
    )


def _groups(root: Path) -> Iterator[tuple[str, list[Entry]]]:
    """The headings of the language page, each with its functions in the page's order."""
    text = (root / "grammar" / "README.md").read_text(encoding="utf-8")
    functions = text.partition("\n## Built-in functions\n")[2].partition("\n## Standard layers\n")[
        0
    ]
    seen: set[str] = set()
    for part in functions.split("\n### ")[1:]:
        heading, _, rows = part.partition("\n")
        names = re.findall(r"^\| `(\w+)\(", rows, re.MULTILINE)
        seen |= set(names)
        yield heading, [reference()[name] for name in names]
    yield "Standard layers and functions", [e for n, e in reference().items() if n not in seen]


def _described(entry: Entry, resolve: Resolve) -> str:
    meaning = render(entry.meaning.replace("\\|", "|"), resolve).html
    facts = [*_shapes(calls().get(entry.name)), *_example(entry), *_pytorch(entry, resolve)]
    drawing = picture(entry.name)
    return (
        f'<section class="entry" aria-labelledby="{entry.name}">\n'
        f'<h3 id="{entry.name}"><a href="#{entry.name}">{entry.name}</a></h3>\n'
        f'<pre tabindex="0" class="code wg"><code>{highlight(entry.signature, "wg")}</code></pre>\n'
        f"{meaning}{drawing}<dl>{''.join(facts)}</dl>\n</section>"
    )


def _shapes(call: Call | None) -> Iterator[str]:
    if call is None:
        return
    given = ", ".join(f"{name}: {type_}" for name, type_ in call.given)
    results = ", ".join(type_ for _, type_ in call.results)
    line = f"{highlight(call.code, 'wg')} → {highlight(results or 'bool', 'wg')}"
    where = f" <span>with</span> <code>{highlight(given, 'wg')}</code>" if given else ""
    yield f"<dt>Shapes</dt><dd><code>{line}</code>{where}</dd>"


def _example(entry: Entry) -> Iterator[str]:
    if entry.example:
        yield f"<dt>Holds</dt><dd><code>{highlight(entry.example, 'wg')}</code></dd>"


def _pytorch(entry: Entry, resolve: Resolve) -> Iterator[str]:
    if entry.pytorch:
        text = entry.pytorch.removeprefix("PyTorch: ")
        inner = render(text, resolve).html.strip().removeprefix("<p>").removesuffix("</p>")
        yield f"<dt>PyTorch</dt><dd>{inner}</dd>"
