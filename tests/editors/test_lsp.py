"""`wgcc lsp`, as an editor sees it: over stdin and stdout, with real files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters import ROOT
from cli_runs import MODEL
from editor import Editor

CHARGPT = ROOT / "examples" / "chargpt" / "model.wg"
EVERYTHING = {"start": {"line": 0, "character": 0}, "end": {"line": 10_000, "character": 0}}
LAYOUT = {"tabSize": 2, "insertSpaces": True}


@pytest.fixture(scope="module")
def editor() -> Iterator[Editor]:
    started = Editor()
    yield started
    assert started.close() == 0


@pytest.fixture(scope="module")
def chargpt(editor: Editor) -> str:
    return editor.open(CHARGPT)


def place(text: str, line: str, word: str) -> dict[str, Any]:
    number, content = next((n, t) for n, t in enumerate(text.splitlines()) if line in t)
    return {"position": {"line": number, "character": content.index(word)}}


def published(editor: Editor, uri: str) -> list[dict[str, Any]]:
    while (params := editor.wait_for("textDocument/publishDiagnostics"))["uri"] != uri:
        pass
    found: list[dict[str, Any]] = params["diagnostics"]
    return found


def test_diagnostics_follow_the_text(editor: Editor, tmp_path: Path) -> None:
    uri = editor.open(tmp_path / "m.wg", MODEL)
    assert published(editor, uri) == []
    editor.change(uri, MODEL.replace("Linear[2", "Liner[2"))
    (problem,) = published(editor, uri)
    assert problem["code"] == "WG0202" or problem["code"].startswith("WG02")
    assert problem["range"]["start"] == {"line": 4, "character": 5}
    assert "did you mean `Linear`?" in problem["message"]
    editor.change(uri, MODEL)
    assert published(editor, uri) == []


def test_corrections_are_code_actions(editor: Editor, tmp_path: Path) -> None:
    uri = editor.open(tmp_path / "c.wg", MODEL.replace("Linear[2", "Liner[2"))
    actions = editor.ask("codeAction", uri, range=EVERYTHING, context={"diagnostics": []})
    assert [action["kind"] for action in actions] == ["quickfix", "source.fixAll"]
    (edit,) = actions[0]["edit"]["changes"][uri]
    assert edit["newText"] == "Linear"
    assert edit["range"]["start"] == {"line": 4, "character": 5}


def test_editors_that_pull_diagnostics_get_them_so(tmp_path: Path) -> None:
    puller = Editor({"textDocument": {"diagnostic": {"dynamicRegistration": False}}})
    uri = puller.open(tmp_path / "m.wg", MODEL.replace("tanh", "thanh"))
    report = puller.ask("diagnostic", uri)
    assert report["kind"] == "full" and len(report["items"]) == 2
    assert puller.notifications == []
    assert puller.close() == 0


def test_columns_are_those_of_the_protocol(editor: Editor, tmp_path: Path) -> None:
    """In UTF-16, a letter beyond the basic plane takes two units."""
    text = 'test "𝛼 𝛽" { assert nothing }\n'
    uri = editor.open(tmp_path / "u.wg", text)
    (problem,) = published(editor, uri)
    assert problem["range"]["start"] == {"line": 0, "character": text.index("nothing") + 2}
    at = {"line": 0, "character": text.index("nothing") + 4}
    assert editor.ask("hover", uri, position=at) is None


def test_problems_of_imported_files_are_shown_at_the_import(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "parts.wg").write_text("fn f(x: f32) -> f32 = rleu(x)\n")
    uri = editor.open(tmp_path / "i.wg", 'import f from "parts.wg"\ntest "t" { y = f(1.0) }\n')
    (problem, *_) = published(editor, uri)
    assert problem["range"]["start"] == {"line": 0, "character": 14}
    assert "parts.wg:1" in problem["message"]


def test_requests_about_a_real_model(editor: Editor, chargpt: str) -> None:
    text = CHARGPT.read_text()
    hover = editor.ask("hover", chargpt, **place(text, "y = attention(rotated", "attention"))
    assert "scaled_dot_product_attention" in hover["contents"]["value"]
    hints = editor.ask("inlayHint", chargpt, range=EVERYTHING)
    assert ": f32[3, B, H, T, K]" in [hint["label"] for hint in hints]
    items = editor.ask("completion", chargpt, **place(text, "x = block.step", "step"))
    assert {"step", "attn"} <= {item["label"] for item in items}
    signature = editor.ask("signatureHelp", chargpt, **place(text, "sample(step(id)", "temp"))
    assert signature["activeParameter"] == 1
    target = editor.ask("definition", chargpt, **place(text, "tok: Embedding", "Embedding"))
    assert target["uri"].endswith("grammar/std/nn.wg")
    context = {"includeDeclaration": True}
    uses = editor.ask("references", chargpt, **place(text, "dim V", "V"), context=context)
    assert len(uses) > 3
    assert len(editor.ask("documentHighlight", chargpt, **place(text, "dim V", "V"))) == len(uses)
    symbols = editor.ask("documentSymbol", chargpt)
    assert {"CachedAttention", "Block", "CharGPT"} <= {symbol["name"] for symbol in symbols}
    assert len(editor.ask("foldingRange", chargpt)) > 10
    assert len(editor.ask("semanticTokens/full", chargpt)["data"]) % 5 == 0
    assert editor.ask("formatting", chargpt, options=LAYOUT) == []


def test_renaming_changes_every_use(editor: Editor, chargpt: str) -> None:
    at = place(CHARGPT.read_text(), "dim V", "V")
    assert editor.ask("prepareRename", chargpt, **at)["start"] == at["position"]
    changes = editor.ask("rename", chargpt, **at, newName="Letters")["changes"][chargpt]
    assert {change["newText"] for change in changes} == {"Letters"}
    document = {"textDocument": {"uri": chargpt}}
    refused = editor.request("textDocument/rename", {**document, **at, "newName": "D"})
    assert refused["error"]["message"] == "`D` is defined already"


def test_renamed_parameters_have_rules_for_older_weights(editor: Editor, tmp_path: Path) -> None:
    uri = editor.open(tmp_path / "model.wg", CHARGPT.read_text())
    at = place(CHARGPT.read_text(), "qkv: ", "qkv")
    assert editor.ask("rename", uri, **at, newName="joined")["changes"][uri]
    message = editor.wait_for("window/showMessage")["message"]
    assert message.endswith("FILE`: blocks.*.attn.joined.w <- blocks.*.attn.qkv.w")


def test_formatting_replaces_the_text(editor: Editor, tmp_path: Path) -> None:
    uri = editor.open(tmp_path / "f.wg", "dim A=1")
    (edit,) = editor.ask("formatting", uri, options=LAYOUT)
    assert edit["newText"] == "dim A = 1\n"
    assert edit["range"]["end"] == {"line": 0, "character": 7}


def test_broken_requests_are_answered_and_the_server_lives(editor: Editor, chargpt: str) -> None:
    assert editor.request("textDocument/hover", {"nonsense": 1})["error"]["code"] == -32602
    assert editor.request("textDocument/nothing", {})["error"]["code"] == -32601
    missing = {"textDocument": {"uri": "file:///no/such.wg"}, "position": EVERYTHING["start"]}
    error = editor.request("textDocument/hover", missing)["error"]
    assert error["message"] == "cannot read /no/such.wg: No such file or directory"
    assert "data" not in error
    editor.send_raw(b"{nonsense")
    beyond = {"line": 100_000, "character": 100_000}
    assert editor.ask("hover", chargpt, position=beyond) is None
