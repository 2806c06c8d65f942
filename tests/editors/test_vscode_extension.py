"""The extension for VS Code: its manifest, its snippets, and what it starts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from adapters import ROOT
from cli_runs import MODEL
from elaborated import problems
from web_stacks import NODE
from wgcc import __version__
from wgcc.errors import Diagnostics, Source
from wgcc.syntax.layout import format_source

FOLDER = ROOT / "grammar" / "editors" / "vscode"
MANIFEST = json.loads((FOLDER / "package.json").read_text())
SNIPPETS = json.loads((FOLDER / "snippets.json").read_text())
# Where the text of a snippet stands in a program.
AROUND = {
    "optimizer": MODEL.replace("optimizer opt: sgd { lr = 0.1 }", "%s"),
    "layer": "dim D = 4\n%s\n",
}


def test_files_of_the_manifest_exist() -> None:
    contributed = MANIFEST["contributes"]
    files = [contributed["languages"][0]["configuration"], contributed["grammars"][0]["path"]]
    for name in ("extension.js", *files, contributed["snippets"][0]["path"]):
        assert (FOLDER / name).is_file(), name
    assert json.loads((FOLDER / files[0]).read_text())["comments"] == {"lineComment": "//"}
    assert MANIFEST["version"] == __version__


@pytest.mark.parametrize("name", SNIPPETS)
def test_snippets_are_laid_out_programs(name: str) -> None:
    body = "\n".join(SNIPPETS[name]["body"])
    code = re.sub(r"\$\{\d+:([^}]*)\}", r"\1", body)
    text = AROUND.get(name, "%s\n") % code
    assert [item for item in problems(text) if not item.startswith("WG09")] == []
    alone = f"{code}\n" if name != "optimizer" else f"model M {{\n{code}\n}}\n"
    laid_out = format_source(Source("m.wg", alone), Diagnostics())
    assert laid_out is not None
    assert re.sub(r"\n +", "\n", laid_out) == re.sub(r"\n +", "\n", alone)


def test_it_starts_the_server_and_opens_the_page(tmp_path: Path) -> None:
    model, program = tmp_path / "net.wg", tmp_path / "wgcc"
    model.write_text(MODEL)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "print()" "$@"\n')
    program.chmod(0o755)
    done = activate(model, program)
    assert sorted(done["commands"]) == sorted(
        command["command"] for command in MANIFEST["contributes"]["commands"]
    )
    assert done["client"]["run"] == {"command": str(program), "args": ["lsp"]}
    assert done["client"]["options"] == {"documentSelector": [{"language": "wg"}]}
    assert done["opened"] == str(tmp_path / "net-bundle" / "index.html")
    assert done["restarted"] and done["stopped"] and done["messages"] == []


def test_a_failed_build_is_shown(tmp_path: Path) -> None:
    program = tmp_path / "wgcc"
    program.write_text("#!/bin/sh\necho 'error[WG0201]: unknown name' >&2\nexit 1\n")
    program.chmod(0o755)
    done = activate(tmp_path / "net.wg", program)
    assert done["messages"] == ["error[WG0201]: unknown name"] and done["opened"] is None


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The extension as VS Code installs it, made by the real packer."""
    root = tmp_path_factory.mktemp("packed")
    folder = root / "grammar" / "editors" / "vscode"
    folder.mkdir(parents=True)
    shutil.copyfile(ROOT / "LICENSE", root / "LICENSE")
    for path in FOLDER.iterdir():
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    (folder / "node_modules").symlink_to(NODE / "node_modules")
    command = ["npm", "run", "package", "--", "-o", "wgcc.vsix"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(folder / "wgcc.vsix") as archive:
        archive.extractall(root / "installed")
    return root / "installed" / "extension"


def test_the_package_holds_what_the_extension_needs_and_no_more(packed: Path) -> None:
    names = sorted(path.relative_to(packed).as_posix() for path in packed.rglob("*.*"))
    contributed = ["language-configuration.json", "snippets.json", "wg.tmLanguage.json"]
    assert names == sorted(
        ["LICENSE.txt", "README.md", "dist/extension.js", "package.json", *contributed]
    )
    assert MANIFEST["main"] == "./dist/extension.js"


def test_the_packed_client_starts_the_server(packed: Path, tmp_path: Path) -> None:
    received, program = tmp_path / "received.txt", tmp_path / "wgcc"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys\ndata = b''\n"
        # The client starts it again when it has ended, and then may go away itself.
        "while b'initialize' not in data:\n    data += os.read(0, 65536) or sys.exit()\n"
        f"open({str(received)!r} + '.part', 'wb').write(repr(sys.argv[1:]).encode() + data)\n"
        f"os.replace({str(received)!r} + '.part', {str(received)!r})\n"
    )
    program.chmod(0o755)
    script = ROOT / "tests" / "editors" / "activate_packed.js"
    arguments = [str(packed / "dist" / "extension.js"), str(program), str(received)]
    done = subprocess.run(
        ["node", str(script), *arguments], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.startswith("['lsp']Content-Length: "), done.stderr
    assert '"method":"initialize"' in done.stdout


def activate(model: Path, program: Path) -> dict[str, Any]:
    script = ROOT / "tests" / "editors" / "activate_extension.js"
    done = subprocess.run(
        ["node", str(script), str(FOLDER / "extension.js"), str(model), str(program)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result
