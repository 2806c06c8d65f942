"""Rules for JavaScript: sizes, the order of imports, words for readers; all of it is linted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from lint.architecture import MAX_FILE, MAX_FUNCTION, vague_name
from lint.javascript_functions import functions
from lint.tree import Problem, Tree, line_of

FOLDERS = (
    "runtime_js/",
    "runtime_py/",
    "examples/",
    "tests/support/website/",
    "tests/bench/",
    "tests/tint/",
    "tests/web/",
)
# Which folders of runtime_js a folder may import. What is loaded on demand is another matter.
MAY_IMPORT = {
    "core": (),
    "check": ("core",),
    "files": ("core",),
    "fit": ("core",),
    "draw": ("core", "files"),
    "inspect": ("core", "check", "draw", "files"),
    "calls": ("core",),
    "worker": ("core",),
    "serve": ("core", "worker"),
    "data": ("core", "files"),
    "wasm": ("core",),
    "tokens": ("core",),
    "receipts": ("core",),
    "adapters": ("core", "files"),
}
# What loads other parts; adapters are only beside tokens.
LOADERS = ("core/parts.js", "tokens/tokens.js")
# Pages and programs that use the runtime.
NOT_JOINED = ("bundle", "graph", "live", "page", "stacks", "workbench")
# Ways to write JavaScript for size, which a minifier does better.
WRITTEN_FOR_SIZE = {
    r"^(?:const|let) \{[^}]*\} = (?:Object|Number|Math|Array)\b": "gives a built-in another name",
    r"\bdtype\[0\]|/\.test\([\w.]*(?:dtype|role|init|kind)\b": "guesses at a word of the plan",
}


def scripts(tree: Tree) -> list[str]:
    """What we wrote; below a folder of examples or tests, a `bundle` is built."""
    files = [name for name in tree.files if name.startswith(FOLDERS) and name.endswith("js")]
    return [name for name in files if name.startswith("runtime_js/") or "/bundle/" not in name]


def sizes(tree: Tree) -> Iterator[Problem]:
    for module in scripts(tree):
        text = tree.text(module)
        if text.count("\n") > MAX_FILE:
            yield Problem(module, text.count("\n"), f"the file has {text.count(chr(10))} lines")
        for line, name, length in functions(text):
            if length > MAX_FUNCTION:
                yield Problem(module, line, f"{name} has {length} lines")


def modules_say_what_they_own(tree: Tree) -> Iterator[Problem]:
    for module in scripts(tree):
        if not tree.text(module).startswith("//") and "/app/" not in module:
            yield Problem(module, 1, "no comment says what the module owns")
        yield from vague_name(module)


def written_for_readers(tree: Tree) -> Iterator[Problem]:
    for module in scripts(tree):
        if module.startswith("tests/"):
            continue
        text = tree.text(module)
        for pattern, why in WRITTEN_FOR_SIZE.items():
            for match in re.finditer(pattern, text, re.MULTILINE):
                yield Problem(module, line_of(text, match.start()), f"{why}: {match[0]}")


def all_is_linted(tree: Tree) -> Iterator[Problem]:
    settings = json.loads(tree.text(".biome.json")) if ".biome.json" in tree.files else {}
    globs = [re.escape(glob) for glob in settings.get("files", {}).get("includes", [])]
    anywhere = [glob.replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*") for glob in globs]
    linted = re.compile("|".join(anywhere))
    for module in scripts(tree):
        if not linted.fullmatch(module):
            yield Problem(module, 1, "no glob of .biome.json covers it")


def imports_point_down(tree: Tree) -> Iterator[Problem]:
    for module in scripts(tree):
        inside = module.removeprefix("runtime_js/")
        folder = inside.partition("/")[0]
        if inside == module or folder in NOT_JOINED:
            continue
        if folder not in MAY_IMPORT:
            yield Problem(module, 1, f"{folder} has no place in the order of folders (MAY_IMPORT)")
            continue
        text = tree.text(module)
        for match in re.finditer(r"^(?:import|export) .*?from '\.\./(\w+)/", text, re.M | re.S):
            if match[1] not in MAY_IMPORT[folder]:
                yield Problem(module, line_of(text, match.end()), f"must not import {match[1]}")
        for match in re.finditer(r"\bimport\('([^']+)'\)", text):
            if inside not in LOADERS:
                yield Problem(module, line_of(text, match.start()), f"loads {match[1]} by itself")
