"""Markdown as HTML, with an anchor for each heading, the same that links on GitHub name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from website.highlight import highlight
from website.programs import shown_program

Resolve = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Section:
    """The text under one heading, for the search; `anchor` is empty above the first."""

    anchor: str
    level: int
    heading: str
    words: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rendered:
    title: str
    html: str
    sections: list[Section]


def render(text: str, resolve: Resolve, described: Resolve | None = None) -> Rendered:
    """`resolve` maps links; `described` is where a function of a table's first column is."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.add_render_rule("fence", _fence)
    tokens = parser.parse(text)
    sections = _number_headings(tokens)
    for token in tokens:
        for child in token.children or ():
            _resolve(child, resolve)
    _mark_cells(tokens, described)
    html = parser.renderer.render(tokens, parser.options, {})
    title = next((section.heading for section in sections if section.heading), "")
    return Rendered(title, _scrolling_tables(html), sections)


def slug(heading: str, used: dict[str, int]) -> str:
    """`Built-in functions` → `built-in-functions`; the second of equal ones ends in `-1`."""
    name = re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")
    number = used.get(name, 0)
    used[name] = number + 1
    return f"{name}-{number}" if number else name


def _number_headings(tokens: Sequence[Token]) -> list[Section]:
    used: dict[str, int] = {}
    sections = [Section("", 0, "")]
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is not None and before.type == "heading_open":
            heading = _plain(token)
            before.attrSet("id", slug(heading, used))
            anchor = str(before.attrGet("id"))
            sections.append(Section(anchor, int(before.tag[1]), heading))
        elif token.type in ("inline", "fence", "code_block"):
            sections[-1].words.append(_plain(token))
    return [section for section in sections if section.heading or section.words]


def _plain(token: Token) -> str:
    if token.type != "inline":
        return token.content
    texts = ("text", "code_inline", "softbreak")
    return "".join(c.content or " " for c in token.children or () if c.type in texts)


def _resolve(token: Token, resolve: Resolve) -> None:
    for name in ("href", "src"):
        target = token.attrGet(name)
        if target is not None:
            token.attrSet(name, resolve(str(target)))


def _mark_cells(tokens: Sequence[Token], described: Resolve | None) -> None:
    """Header cells say that they belong to a column; an empty one is no header."""
    opened: Token | None = None
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is not None and before.type == "th_open":
            opened = before
            if token.content:
                before.attrSet("scope", "col")
            else:
                before.tag = "td"
        elif token.type == "th_close" and opened is not None:
            token.tag = opened.tag
        elif described and token.type == "inline" and before and before.type == "td_open":
            _link_function(token, described)


def _link_function(cell: Token, described: Resolve) -> None:
    """A cell that is only a signature links to its description."""
    children = cell.children or []
    if len(children) == 1 and children[0].type == "code_inline":
        target = described(children[0].content)
        if target:
            link = Token("link_open", "a", 1, attrs={"href": target})
            cell.children = [link, children[0], Token("link_close", "a", -1)]


def _fence(_renderer: object, tokens: Sequence[Token], index: int, *_: object) -> str:
    token = tokens[index]
    language = token.info.strip().split(" ")[0]
    program = shown_program(token.content, tokens[:index]) if language == "wg" else ""
    return code_block(token.content, language, program)


def code_block(code: str, language: str, program: str = "") -> str:
    """A block that keyboards can scroll, because some screens are narrower than its lines.

    `program` is the address of the code in a workbench.
    """
    name = escape(language or "text")
    inner = highlight(code, language)
    run = f' data-program="{program}"' if program else ""
    return f'<pre tabindex="0" class="code {name}"{run}><code>{inner}</code></pre>\n'


def _scrolling_tables(html: str) -> str:
    opened = '<div class="scroll" tabindex="0" role="region" aria-label="table">\n<table>'
    return html.replace("<table>", opened).replace("</table>", "</table>\n</div>")
