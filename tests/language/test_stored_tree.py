"""The trees of the standard library are kept between runs, and read as they were parsed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wgcc.elaborate.program import files
from wgcc.elaborate.program.files import parse_once
from wgcc.errors import Diagnostics, Source
from wgcc.files import data_dir
from wgcc.syntax.parser import parse
from wgcc.syntax.tree_text import decode, encode, tree_text

GRAMMAR = data_dir("grammar")
FILES = sorted([*GRAMMAR.glob("*.wg"), *GRAMMAR.glob("std/*.wg")])


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_tree_is_read_as_it_was_written(path: Path) -> None:
    source = Source(path.name, path.read_text(encoding="utf-8"))
    tree = parse(source, Diagnostics())
    again = decode(json.loads(json.dumps(encode(tree))), source)
    assert repr(again) == repr(tree)
    assert tree_text(again) == tree_text(tree)


def test_the_second_time_nothing_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("a.wg", "fn twice(x: f32) -> f32 = 2.0 * x\n")
    first, _ = parse_once(source)

    def never(*_: object) -> None:
        raise AssertionError("it is parsed again")

    monkeypatch.setattr(files, "parse", never)
    assert repr(parse_once(source)[0]) == repr(first)


def test_a_text_with_errors_is_parsed_each_time() -> None:
    source = Source("a.wg", "fn twice(x f32) -> f32 = 2.0 *\n")
    codes = [[item.code for item in parse_once(source)[1]] for _ in range(2)]
    assert codes[0] == codes[1] != []


def test_another_parser_makes_its_own_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("a.wg", "fn one() -> f32 = 1.0\n")
    parse_once(source)
    monkeypatch.setattr(files, "_parser", lambda: "another")
    monkeypatch.setattr(files, "parse", lambda *_: "its own tree")
    monkeypatch.setattr(files, "encode", str)
    assert parse_once(source)[0] == "its own tree"
