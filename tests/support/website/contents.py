"""Which pages the site has, in the order of its menu, and how repository paths become addresses."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

REFERENCE, GALLERY = "reference.html", "gallery.html"
CHEAT_SHEET = "grammar/CHEATSHEET.md"

# A title for the menu, and a Markdown page of the repository or a page that the site makes itself.
MENU: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Learn",
        (
            ("Overview", "README.md"),
            ("Lessons", "examples/README.md"),
            ("Gallery", GALLERY),
            ("Cheat sheet", CHEAT_SHEET),
        ),
    ),
    (
        "Reference",
        (
            ("Language", "grammar/README.md"),
            ("Functions and layers", REFERENCE),
            ("Defaults and PyTorch's", "grammar/DEFAULTS.md"),
            ("Programs of PyTorch, ported", "grammar/PORTS.md"),
            ("Diagnostics", "wgcc/DIAGNOSTICS.md"),
            ("Bundle format", "wgcc/BUNDLE.md"),
        ),
    ),
    (
        "Use",
        (
            ("Python API", "runtime_py/README.md"),
            ("JavaScript API", "runtime_js/README.md"),
            ("Data", "wgcc/DATA.md"),
            ("ONNX, PyTorch, Keras", "wgcc/ONNX.md"),
            ("Tools", "wgcc/TOOLS.md"),
            ("Several machines", "runtime_py/DISTRIBUTED.md"),
            ("Editors", "grammar/editors/README.md"),
        ),
    ),
    (
        "Inside",
        (
            ("How wgcc is built", "ARCHITECTURE.md"),
            ("Contributing", "CONTRIBUTING.md"),
            ("Reliability", "tests/RELIABILITY.md"),
            ("Growth", "tests/GROWTH.md"),
            ("Changes", "CHANGELOG.md"),
            ("Security", "SECURITY.md"),
        ),
    ),
)
FOLDERS = ("examples", "grammar", "runtime_js", "runtime_py", "tests", "wgcc")
# Data of a test, pages that are filled in for each bundle and starter, and what npm installs.
NO_PAGES = ("tests/data_cases/", "runtime_js/bundle/", "/about.md", "node_modules/")


def markdown_pages(root: Path) -> list[str]:
    """Every Markdown page of the repository, as paths from its root."""
    below = (path for folder in FOLDERS for path in (root / folder).rglob("*.md"))
    names = [path.relative_to(root).as_posix() for path in (*root.glob("*.md"), *below)]
    return sorted(name for name in names if not any(part in name for part in NO_PAGES))


def address(path: str) -> str:
    """`grammar/README.md` → `grammar/index.html`; a source `a/model.wg` → `a/model.wg.html`."""
    place = PurePosixPath(path)
    if place.suffix == ".html" and path in (REFERENCE, GALLERY):
        return path
    if place.name == "README.md":
        return place.with_name("index.html").as_posix()
    if place.suffix == ".md":
        return place.with_suffix(".html").as_posix()
    return f"{path}.html"


def way_up(url: str) -> str:
    """What leads from an address to the root of the site: `../` for each folder."""
    return "../" * url.count("/")
