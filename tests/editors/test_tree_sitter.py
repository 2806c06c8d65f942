"""The tree-sitter grammar accepts the programs that the compiler's own parser accepts."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from tree_sitter import Language, Parser, Query, QueryCursor

import tree_sitter_tool
from adapters import ROOT
from wgcc.errors import Diagnostics, Source
from wgcc.syntax.grammar import grammar
from wgcc.syntax.parser import parse

GRAMMAR = ROOT / "grammar" / "editors" / "tree-sitter"
PROGRAMS = sorted(
    path
    for folder in ("examples", "grammar", "tests")
    for path in (ROOT / folder).rglob("*.wg")
    if ".cache" not in path.parts
)
# Mistakes that are none of the grammar: names that are reserved words, brackets 64 levels deep.
BEYOND = ("reserved_words.wg", "too_deep.wg")


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Language:
    """Generated and compiled as an editor does it."""
    folder = tmp_path_factory.mktemp("wg") / "tree-sitter"
    shutil.copytree(GRAMMAR, folder)
    tool = tree_sitter_tool.program()
    assert tool, "tree-sitter is missing: `python3 dev.py test` installs it"
    run(folder, tool, "generate")
    sources = ("src/parser.c", "src/scanner.c")
    run(folder, "gcc", "-Wall", "-Werror", "-shared", "-fPIC", "-Isrc", "-o", "wg.so", *sources)
    library = ctypes.CDLL(str(folder / "wg.so"))
    library.tree_sitter_wg.restype = ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return Language(capsule(library.tree_sitter_wg(), b"tree_sitter.Language", None))


def run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def mistakes(text: str) -> list[str]:
    """What the compiler says of the syntax; names and shapes are not looked at."""
    diagnostics = Diagnostics()
    parse(Source("model.wg", text), diagnostics)
    return [error.message for error in diagnostics.errors]


def test_every_program_of_the_repository_is_read_as_the_compiler_reads_it(
    language: Language,
) -> None:
    parser, legal = Parser(language), 0
    for path in PROGRAMS:
        text = path.read_text(encoding="utf-8")
        is_legal = not mistakes(text)
        legal += is_legal
        if path.name not in BEYOND:
            assert parser.parse(text.encode()).root_node.has_error != is_legal, path
    assert 180 < legal < len(PROGRAMS) - 20


def test_programs_with_a_wrong_token_are_judged_as_the_compiler_judges_them(
    language: Language,
) -> None:
    parser, draw, wrong = Parser(language), random.Random(1), 0
    small = [path.read_text(encoding="utf-8") for path in PROGRAMS if path.stat().st_size < 3000]
    texts = [text for text in small if not mistakes(text)]
    for text in draw.choices(texts, k=300):
        tokens = [token for token in grammar().lex(text) if token.type != "COMMENT"]
        token = draw.choice(tokens)
        change = draw.choice(("", 2 * f" {token.text} ", f" {draw.choice(tokens).text} "))
        changed = text[: token.start] + change + text[token.end :]
        said = mistakes(changed)
        wrong += bool(said)
        # Editors may read a reserved word as a name; the compiler says that it is none.
        if not any("reserved" in line or "keyword" in line for line in said):
            assert parser.parse(changed.encode()).root_node.has_error == bool(said), changed
    assert 150 < wrong < 300


def test_colours_and_folds_are_those_of_the_tree(language: Language) -> None:
    text = (ROOT / "examples" / "sin" / "model.wg").read_bytes()
    tree = Parser(language).parse(text).root_node
    for path in sorted(GRAMMAR.glob("queries/*.scm")):
        cursor = QueryCursor(Query(language, path.read_text(encoding="utf-8")))
        captures = cursor.captures(tree)
        assert captures, path
        if path.stem == "highlights":
            words = {name: {node.text for node in nodes} for name, nodes in captures.items()}
    assert b"Linear" in words["type"] and b"train" in words["function"]
    assert b"minimize" in words["keyword"] and b"f32" in words["type.builtin"]
    assert b"lr" in words["property"] and b"mse" in words["function.call"]
