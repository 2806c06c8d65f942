"""What is never committed, and names that are made in one place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lint.tree import Problem, Tree, line_of

# Where `opt/…` and `rng/…` stand: one place in the compiler, one in each runtime.
STATE_NAMES = {
    "runtime_js/draw/start_words.js",
    "runtime_js/files/identity.js",
    "runtime_py/wgcc_runtime/values.py",
    "wgcc/ir/places.py",
    # The number of a call site is a constant, named beside the generator's state.
    "wgcc/passes/prepare/place_results.py",
}
FOLDERS = {
    "grammar",
    "wgcc",
    "runtime_js",
    "runtime_py",
    "examples",
    "tests",
    ".ci",
    ".github",
}
PAGES = {"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
FILES = {
    "pyproject.toml", "dev.py", "LICENSE",
    ".biome.json", ".editorconfig", ".gitattributes", ".gitignore", ".pre-commit-config.yaml",
}  # fmt: skip
# Written in pieces, so that this file does not find itself.
HOSTS = ["pypi" + ".org", "python" + "hosted.org", "npm" + "js.org", "deb." + "debian.org"]
PLACES = ["/" + place for place in ("work/", "root/", "home/\\w", "opt/venv", "Users/\\w")]
OF_ONE_MACHINE = re.compile(
    "|".join([*map(re.escape, HOSTS), *(r"(?<![\w.])" + p for p in PLACES)])
)


def added_state_has_one_place(tree: Tree) -> Iterator[Problem]:
    literal = re.compile(r"""["'](?:opt|rng)/""")
    scripts = [n for n in tree.files if n.startswith("runtime_js/") and n.endswith(".js")]
    for module in [*tree.python("wgcc", "runtime_py"), *scripts]:
        match = literal.search(tree.text(module))
        if match and module not in STATE_NAMES:
            line = line_of(tree.text(module), match.start())
            yield Problem(module, line, "names of added state are made and read elsewhere")
        if module in STATE_NAMES and not match:
            yield Problem(module, 1, "STATE_NAMES lists it, but it has no name of added state")


def nothing_of_one_machine(tree: Tree) -> Iterator[Problem]:
    for name in tree.files:
        data = (tree.root / name).read_bytes()
        if b"\0" in data[:8192]:
            continue
        text = data.decode("utf-8", errors="replace")
        for match in OF_ONE_MACHINE.finditer(text):
            yield Problem(name, line_of(text, match.start()), f"a fact of one machine: {match[0]}")


def only_known_names_at_the_top(tree: Tree) -> Iterator[Problem]:
    for name in tree.files:
        if name.split("/")[0] not in FOLDERS | PAGES | FILES:
            yield Problem(name, 1, "unknown name at the top of the checkout")
