"""Builds the site: all Markdown pages, the sources they link to, the reference, gallery, search."""

from __future__ import annotations

import json
import posixpath
import re
import shutil
from collections.abc import Collection
from html import escape
from pathlib import Path

from examples.pages import PAGES, page_text
from website.contents import CHEAT_SHEET, GALLERY, REFERENCE, address, markdown_pages, way_up
from website.describe import reference_page
from website.gallery import gallery_page
from website.markdown import Rendered, Section, code_block, render
from website.page import ASSETS, page_html
from website.programs import program_of_file
from wgcc.language_service.reference import reference
from wgcc.workbench.folder import write_site

ROOT = Path(__file__).resolve().parents[3]
PICTURES = (".png", ".svg", ".jpg", ".gif")
# Longer texts of a section do not help a search, and the index is loaded as a whole.
LONGEST_TEXT = 4000
# The folder of the site that holds the workbench, if there is one.
WORKBENCH = "workbench/"
# The name that a code block has for the ending of a file.
LANGUAGES = {".wg": "wg", ".py": "python", ".js": "js", ".mjs": "js", ".json": "json"}


class LinkError(Exception):
    """A page links to what is not there."""


def build_site(out: Path, live: Collection[str], workbench: bool = False) -> int:
    """Write everything to `out`, an old site there included; returns the number of pages.

    With a workbench, every program on a page can be run there.
    """
    site = Site(live, workbench)
    for path in markdown_pages(ROOT):
        site.add_markdown(path)
    site.add(REFERENCE, reference_page(ROOT, site.resolve_in_reference))
    site.add(GALLERY, gallery_page(ROOT, live, lambda link: site.resolve("", GALLERY, link)))
    site.add_linked()
    site.write(out)
    if workbench:
        write_site(out / WORKBENCH)
    for name in live:
        _write(out / "live" / f"{name}.html", page_text(PAGES[name]))
    return len(site.pages)


class Site:
    """Pages by their addresses, and what they link to."""

    def __init__(self, live: Collection[str], workbench: bool = False) -> None:
        self.live = live
        self.workbench = WORKBENCH if workbench else ""
        self.pages: dict[str, str] = {}
        self.index: list[tuple[str, str, str, str]] = []
        self.pictures: set[str] = set()
        self.sources: dict[str, None] = {}

    def add_markdown(self, path: str) -> None:
        folder, url = posixpath.dirname(path), address(path)

        def described(signature: str) -> str:
            name = re.split(r"\W", signature, maxsplit=1)[0]
            is_entry = name in reference() and signature == reference()[name].signature
            return f"{way_up(url)}{REFERENCE}#{name}" if is_entry else ""

        text = (ROOT / path).read_text(encoding="utf-8")
        is_language = path == "grammar/README.md"
        rendered = render(
            text, lambda link: self.resolve(folder, url, link), described if is_language else None
        )
        self.add(url, rendered, "sheet" if path == CHEAT_SHEET else "")

    def add(self, url: str, rendered: Rendered, kind: str = "") -> None:
        title = rendered.title or url
        sections = rendered.sections
        self.pages[url] = page_html(url, title, rendered.html, sections, kind, self.workbench)
        for section in rendered.sections:
            text = " ".join(" ".join(section.words).replace("`", "").split())[:LONGEST_TEXT]
            place = f"{url}#{section.anchor}" if section.anchor and section.level > 1 else url
            self.index.append((place, title, section.heading, text))

    def resolve(self, folder: str, url: str, link: str) -> str:
        """Where a link of a page in `folder` leads from the page's address."""
        if re.match(r"[a-z]+:", link) or link.startswith("#"):
            return link
        path, _, anchor = link.partition("#")
        place = posixpath.normpath(posixpath.join(folder, path))
        target = self._address(place, f"{folder or '.'}: {link}")
        relative = posixpath.relpath(target, posixpath.dirname(url) or ".")
        return f"{relative}#{anchor}" if anchor else relative

    def resolve_in_reference(self, link: str) -> str:
        """Descriptions come from the language page, so `#tests` is a heading of that page."""
        page = "README.md" if link.startswith("#") else ""
        return self.resolve("grammar", REFERENCE, page + link)

    def _address(self, place: str, why: str) -> str:
        file = ROOT / place
        if not file.exists() or place.startswith(".."):
            raise LinkError(f"a link leads nowhere, in {why}")
        if file.is_dir() and (file / "README.md").is_file():
            return address(f"{place}/README.md".removeprefix("./"))
        if file.suffix in PICTURES:
            self.pictures.add(place)
            return place
        if file.suffix != ".md":
            self.sources.setdefault(place)
        return f"{place}/index.html" if file.is_dir() else address(place)

    def add_linked(self) -> None:
        """Sources and folders that pages link to; a folder's page links to its files in turn."""
        done = 0
        while done < len(self.sources):
            place = list(self.sources)[done]
            done += 1
            if (ROOT / place).is_dir():
                self._add_folder(place)
            else:
                self._add_source(place)

    def _add_folder(self, place: str) -> None:
        url = f"{place}/index.html"
        files = sorted(p for p in (ROOT / place).iterdir() if p.is_file() and _is_text(p))
        links = [
            f'<li><a href="{self.resolve(place, url, p.name)}">{p.name}</a></li>' for p in files
        ]
        html = f"<h1>{escape(place)}</h1>\n<ul>{''.join(links)}</ul>"
        self.add(url, Rendered(place, html, [Section("", 1, place)]))

    def _add_source(self, place: str) -> None:
        text = (ROOT / place).read_text(encoding="utf-8")
        language = LANGUAGES.get(Path(place).suffix, "")
        program = program_of_file(ROOT / place) if language == "wg" else ""
        code = code_block(text, language, program)
        rendered = Rendered(place, f"<h1>{escape(place)}</h1>\n{code}", [Section("", 1, place)])
        self.add(address(place), rendered, "source")

    def write(self, out: Path) -> None:
        if out.exists() and not (out / "search.js").is_file() and any(out.iterdir()):
            raise OSError(f"{out} has other files in it: name a new folder")
        shutil.rmtree(out, ignore_errors=True)
        for url, html in self.pages.items():
            _write(out / url, html)
        for name in ("style.css", "search.js", "programs.js"):
            shutil.copyfile(ASSETS / name, out / name)
        for place in self.pictures:
            (out / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / place, out / place)
        _write(out / "search-index.js", f"window.searchIndex = {json.dumps(self.index)};\n")


def _is_text(path: Path) -> bool:
    return b"\0" not in path.read_bytes()[:8192] and path.suffix not in (".safetensors", *PICTURES)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
