"""The documentation as a web site: complete, without dead links, and usable by everybody."""

from __future__ import annotations

import base64
import json
import posixpath
import re
import zlib
from functools import cache
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from adapters import ROOT
from elaborated import problems
from web_stacks import run_node
from website.__main__ import main
from website.build import WORKBENCH, LinkError, Site, build_site
from website.contents import address, markdown_pages
from website.highlight import highlight
from website.page import page_html
from website.pictures import ATTENTION, CURVES, GRIDS, WINDOWS
from website.shapes import WITHOUT_SHAPES, calls
from wgcc.elaborate.builtins import BUILTINS
from wgcc.language_service.reference import reference
from wgcc.workbench.wire import Workbench

STYLE = (ROOT / "tests" / "support" / "website" / "assets" / "style.css").read_text(
    encoding="utf-8"
)
MODELS = sorted((ROOT / "examples").rglob("model.wg"))
# What people with weak eyes can read, by WCAG 2.2 (AA).
LOWEST_CONTRAST = 4.5


class Page(HTMLParser):
    """Tags of a page with their attributes, and the texts of its headings and links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def all(self, *names: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.tags if tag in names]

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    build_site(folder, ["sin"])
    return folder


@cache
def pages(site: Path) -> dict[str, Page]:
    """All of them but the live examples, which are pages of their own kind."""
    files = (path for path in site.rglob("*.html") if "live" not in path.parts)
    return {path.relative_to(site).as_posix(): Page(path.read_text("utf-8")) for path in files}


def test_every_markdown_page_is_there_and_can_be_reached(site: Path) -> None:
    known = {address(path) for path in markdown_pages(ROOT)}
    assert known <= set(pages(site))
    menu = {posixpath.normpath(link["href"]) for link in pages(site)["index.html"].all("a")}
    assert {"reference.html", "gallery.html", "grammar/CHEATSHEET.html"} <= menu


def test_all_internal_links_lead_somewhere(site: Path) -> None:
    for url, page in pages(site).items():
        for attributes in page.all("a", "link", "img", "script"):
            link = attributes.get("href") or attributes.get("src", "")
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            place = (
                posixpath.normpath(posixpath.join(posixpath.dirname(url), path)) if path else url
            )
            assert (site / place).is_file(), f"{url}: {link}"
            assert not anchor or anchor in pages(site)[place].ids, f"{url}: {link}"


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for url, page in pages(site).items():
        loaded = [
            tag.get("src") or tag.get("href", "") for tag in page.all("script", "img", "link")
        ]
        assert not [link for link in loaded if re.match(r"(https?:)?//", link)], url


def test_pages_are_accessible(site: Path) -> None:
    for url, page in pages(site).items():
        assert page.all("html")[0]["lang"] == "en" and len(page.all("title", "main")) == 2, url
        assert len(page.all("h1")) == 1, url
        assert len(page.ids) == len(set(page.ids)), url
        assert all(image.get("alt") for image in page.all("img")), url
        assert all(field.get("aria-label") for field in page.all("input")), url
        assert all(drawing.get("aria-label") for drawing in page.all("svg")), url
        named = [tag["aria-label"] for tag in page.all("nav")]
        assert len(named) == len(set(named)), url


def test_headings_do_not_skip_a_level(site: Path) -> None:
    for url, page in pages(site).items():
        names = [tag for tag, attributes in page.tags if re.fullmatch(r"h\d", tag)]
        # The menu has its own, before the page's first.
        levels = [int(name[1]) for name in names[names.index("h1") :]]
        jumps = [b for a, b in pairwise(levels) if b > a + 1]
        assert not jumps, url


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_colours_of_text_can_be_read(theme: str) -> None:
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    text = blocks[0 if theme == "light" else 1]
    colours = dict(re.findall(r"--(\w+): (#\w{6})", text))
    for ground in ("page", "code", "accent"):
        for name in set(colours) - {"page", "code", "accent", "line"}:
            if ground == "accent" and name not in ("text", "link"):
                continue
            assert contrast(colours[name], colours[ground]) >= LOWEST_CONTRAST, (name, ground)


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _opened(address: str) -> dict[str, Any]:
    packed = address.removeprefix("#m=")
    data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    opened: dict[str, Any] = json.loads(zlib.decompress(data, -15))
    return opened


@pytest.mark.parametrize("name", ["grammar/index", "examples/index", "examples/lora/model.wg"])
def test_every_program_of_a_page_opens_in_the_workbench(
    site: Path, name: str, tmp_path: Path
) -> None:
    page, bench = Page((site / f"{name}.html").read_text("utf-8")), Workbench(str(tmp_path))
    programs = [tag for tag in page.all("pre") if "wg" in tag["class"].split()]
    assert programs
    for tag in programs:
        problems = bench.ask("check", _opened(tag["data-program"]))["problems"]
        assert not [problem for problem in problems if problem["severity"] == "error"]


def test_programs_open_where_the_site_has_a_workbench(site: Path) -> None:
    page = Page((site / "grammar/index.html").read_text(encoding="utf-8"))
    # This site was built without a workbench, so that no button leads nowhere.
    assert page.all("body")[0]["data-workbench"] == ""
    html = page_html("a/b.html", "b", "", [], "", WORKBENCH)
    assert Page(html).all("body")[0]["data-workbench"] == "../workbench/"


def test_every_function_and_layer_has_an_anchor_with_its_facts(site: Path) -> None:
    text = (site / "reference.html").read_text("utf-8")
    described = dict(re.findall(r'aria-labelledby="(\w+)">(.*?)</section>', text, re.DOTALL))
    assert set(described) == set(reference())
    assert all("<dt>Holds</dt>" in described[name] for name in BUILTINS)
    without = {name for name, html in described.items() if "<dt>Shapes</dt>" not in html}
    assert without == WITHOUT_SHAPES, "tests/support/website/calls.wg has no call of these"
    drawn = {name for name, html in described.items() if "<svg" in html}
    assert drawn == {*CURVES, *GRIDS, *WINDOWS, *ATTENTION}
    assert "<dt>PyTorch</dt>" in described["softmax"]
    assert calls()["conv_transpose2d"].results == [("y", "f32[N, 2*H, 2*W, O]")]


def test_tables_of_the_language_link_to_the_reference(site: Path) -> None:
    links = {link["href"] for link in pages(site)["grammar/index.html"].all("a")}
    assert {f"../reference.html#{name}" for name in BUILTINS} <= links


def test_code_is_coloured_by_our_tokens() -> None:
    html = highlight("state = f(x) // no\nstate h: f32[2] = relu(1.0)\n", "wg")
    assert html.startswith('state = f(x) <span class="c">// no</span>')
    assert '<span class="k">state</span> h: <span class="t">f32</span>' in html
    assert '<span class="b">relu</span>(<span class="n">1.0</span>)' in html
    code = "a < b && '</pre>' # x"
    assert re.sub(r"<[^>]*>", "", highlight(code, "python")).count("&lt;") == 2


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.parent.name)
def test_colours_change_no_character(path: Path) -> None:
    text = path.read_text("utf-8")
    assert unescape(re.sub(r"<[^>]*>", "", highlight(text, "wg"))) == text


def test_gallery_shows_every_example(site: Path) -> None:
    links = {link["href"] for link in pages(site)["gallery.html"].all("a")}
    folders = [path.parent.name for path in (ROOT / "examples").glob("*/README.md")]
    assert {f"examples/{name}/index.html" for name in folders} <= links
    assert "live/sin.html" in links and "live/digits.html" not in links
    assert "<canvas" in (site / "live" / "sin.html").read_text("utf-8")


def test_blocks_of_the_cheat_sheet_check() -> None:
    text = (ROOT / "grammar" / "CHEATSHEET.md").read_text("utf-8")
    blocks = re.findall(r"```wg\n(.*?)```", text, re.DOTALL)
    assert blocks and [problems(block) for block in blocks] == [[]] * len(blocks)


def test_in_a_browser(site: Path) -> None:
    """Search, keys, a phone, and the cheat sheet on paper."""
    seen = run_node("site.mjs", str(site))
    assert seen["problems"] == []
    assert seen["first"] == "softmax · Functions and layers"
    assert seen["opened"].endswith("/reference.html#softmax")
    assert seen["nothing"] == "Nothing matches all of these words."
    assert seen["wide"] == []
    assert seen["menuOnPhone"] is False and seen["menuBeside"] is True
    assert seen["sheets"] == 1


def test_a_dead_link_is_an_error() -> None:
    with pytest.raises(LinkError, match=r"leads nowhere, in grammar: nothing\.md"):
        Site([]).resolve("grammar", "grammar/index.html", "nothing.md")


def test_a_folder_with_other_files_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["-o", str(tmp_path), "--live"]) == 1
    assert "has other files in it" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_search_index_is_complete(site: Path) -> None:
    script = (site / "search-index.js").read_text("utf-8")
    index = json.loads(script.removeprefix("window.searchIndex = ").rstrip(";\n"))
    places = {place for place, *_ in index}
    assert {f"reference.html#{name}" for name in reference()} <= places
    assert set(pages(site)) <= {place.partition("#")[0] for place in places}
