"""The TextMate grammar colours every program as the compiler reads it, token by token."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from adapters import ROOT
from web_stacks import NODE
from wgcc.syntax.grammar import grammar
from wgcc.syntax.tables import SOFT

GRAMMAR = ROOT / "grammar" / "editors" / "vscode" / "wg.tmLanguage.json"
# Programs with mistakes in their texts have no tokens to compare.
WRONG = ("filetests/diagnostics", "filetests/syntax", "data_cases")
FOLDERS = ("grammar/std", "examples", "tests")
SCOPES = {
    "COMMENT": "comment.line",
    "STRING": ("string.quoted", "constant.character.escape"),
    "FLOAT": "constant.numeric.float",
    "INT": "constant.numeric.integer",
    "DTYPE": "storage.type",
    "ANY_FLOAT": "storage.type",
}
WORDS = ("keyword", "constant.language", "storage.type")


def programs() -> list[Path]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.wg"))]
    return [path for path in paths if not any(part in path.as_posix() for part in WRONG)]


@cache
def scopes() -> dict[str, list[tuple[int, int, str]]]:
    """Of all programs, by one process."""
    script = Path(__file__).parent / "textmate.mjs"
    done = subprocess.run(
        ["node", str(script), str(GRAMMAR), *map(str, programs())],
        capture_output=True,
        text=True,
        env={**os.environ, "NODE_FOLDER": str(NODE)},
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, list[tuple[int, int, str]]] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("path", programs(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_token_has_its_scope(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    by_place = {}
    for start, end, scope in scopes()[str(path)]:
        by_place.update(dict.fromkeys(range(start, end), scope))
    for token in grammar().lex(text):
        wanted = SCOPES.get(token.type)
        if wanted is None and token.text.isalpha() and token.type != "NAME":
            wanted = None if token.text in SOFT else WORDS
        if wanted is not None:
            scope = by_place.get(token.start, "")
            place = f"{path}:{token.line}: {token.text!r} is {scope}"
            assert scope.removeprefix("punctuation.").startswith(wanted), place


def test_programs_are_many_and_the_engine_is_real() -> None:
    assert len(programs()) > 60
    spans = scopes()[str(ROOT / "examples" / "sin" / "model.wg")]
    assert {"keyword.declaration.wg", "storage.type.wg"} <= {scope for *_, scope in spans}
