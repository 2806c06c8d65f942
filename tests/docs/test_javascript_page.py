"""runtime_js/README.md names everything public, and all of its examples run."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters import ROOT, environment
from web_stacks import NODE, TOOLS, build_web, run_node
from wgcc.bundle.web import MEMBERS
from wgcc.files import data_dir

PAGE = (ROOT / "runtime_js" / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
FILE = re.compile(r"(?:// |(?:<!doctype html>\n)?<!-- )([\w.]+)(?: -->)?\n")
# So that `load()` finds WebGPU in Node as it does in a browser; the flag is that of
# runtime_js/stacks/node.mjs, without which SwiftShader needs seconds for a matrix product.
NAVIGATOR = """import { create } from 'webgpu';
const flags = ['disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension'];
const value = { gpu: create(flags) };
Object.defineProperty(globalThis, 'navigator', { value, configurable: true });
"""
# The folder of the command wgcc of this Python.
PROGRAMS = Path(sys.executable).parent
TYPESCRIPT = ("--strict", "--noEmit", "--target", "es2022", "--moduleResolution", "bundler")


def blocks(language: str) -> list[str]:
    """The blocks that are not files of the app."""
    return [text for kind, text in BLOCKS if kind == language and not FILE.match(text)]


def files() -> dict[str, str]:
    return {named[1]: text for _, text in BLOCKS if (named := FILE.match(text))}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with three bundles, React and every file that the page shows."""
    folder = tmp_path_factory.mktemp("app")
    (folder / "package.json").write_text('{ "name": "app", "private": true, "type": "module" }')
    shutil.copy(ROOT / "examples" / "sin" / "model.wg", folder)
    shell(blocks("sh")[0], folder)
    build_web(ROOT / "examples" / "digits" / "model.wg", folder / "digits")
    small = {"B": 2, "T": 16, "Test": 2, "D": 16, "H": 2, "L": 1, "F": 16}
    build_web(ROOT / "examples" / "chargpt" / "model.wg", folder / "chargpt", **small)
    shell("npm install ./digits ./chargpt", folder)
    for name in ("webgpu", "react", "react-dom"):
        (folder / "node_modules" / name).symlink_to(NODE / "node_modules" / name)
    for name, text in {**files(), "navigator.js": NAVIGATOR}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def shell(command: str, folder: Path, adapter: str = "swiftshader") -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run(
        ["sh", "-euc", command],
        cwd=folder,
        env={
            **os.environ,
            **environment(adapter),
            "PATH": os.pathsep.join(map(str, (PROGRAMS, TOOLS, os.environ["PATH"]))),
            "npm_config_offline": "true",
            "npm_config_loglevel": "error",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Assertion failed" not in done.stderr, done.stderr
    return done.stdout


def test_every_block_is_run() -> None:
    """As a file of the app, as a part of one module, or by the shell."""
    run = [*files().values(), *blocks("js"), *blocks("sh")]
    assert sorted(run) == sorted(text for _, text in BLOCKS)
    used = {"node.js", "deno.js", "vite.config.js", "worker.js", "Trainer.jsx", "index.html"}
    assert files().keys() == used | {"Predictor.jsx", "digits.js", "main.jsx", "smooth.ts"}


def test_blocks_run_in_order(app: Path) -> None:
    (app / "all.js").write_text("\n".join([*blocks("js"), "process.exit(0);"]), encoding="utf-8")
    shown = shell("node --import ./navigator.js all.js", app)
    assert "lost: destroyed" in shown
    assert "shape: `train.x` has 99 rows, not 256, and train cannot run on" in shown
    assert "kernels: 1 of" in shown and re.search(r"weights: (\d+) of \1\b", shown)


@pytest.mark.parametrize(
    ("command", "adapter"), [("node node.js", "swiftshader"), (blocks("sh")[1], "lavapipe")]
)
def test_node_and_deno(app: Path, command: str, adapter: str) -> None:
    assert "100, 1" in shell(command, app, adapter)


def test_types_compile(app: Path) -> None:
    shell(f"tsc {' '.join(TYPESCRIPT)} --module esnext --types '' smooth.ts", app)


def test_app_runs_in_a_browser(app: Path, tmp_path: Path) -> None:
    """Built by vite, under the policy that the page gives: React, a worker, pictures."""
    shell("vite build --logLevel warn", app)
    (tmp_path / "digit.png").write_bytes(png(28))
    policy = re.search(r'content-security-policy" content="([^"]+)"', PAGE)
    assert policy
    seen = run_node("guide.mjs", str(app / "dist"), str(tmp_path / "digit.png"), policy[1])
    assert seen["problems"] == []
    assert re.fullmatch(r"done: step 200, loss \d\S*", seen["trained"])
    assert re.fullmatch(r"done: (loading|step 2\d0, .*)", seen["stopped"])
    assert seen["continued"].startswith("done: step 400, "), "from what was stored"
    assert re.fullmatch(r"\d \(\d+ %\)", seen["digit"])
    assert re.fullmatch(r"y = -?\d\.\d\d", seen["predicted"])


def test_components_are_mounted_twice_while_developing(app: Path) -> None:
    """React's development build: what `<StrictMode>` mounts first is disposed, not used."""
    shell("NODE_ENV=development vite build --mode development --outDir strict --logLevel warn", app)
    seen = run_node("guide.mjs", str(app / "strict"))
    assert re.fullmatch(r"y = -?\d\.\d\d", seen["predicted"])
    assert seen["problems"] == []


def png(size: int) -> bytes:
    """A black bar on white."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    row = b"\0" + bytes(0 if size // 3 < i < size // 2 else 255 for i in range(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(row * size))
    return b"\x89PNG\r\n\x1a\n" + parts + chunk(b"IEND", b"")


def test_every_exported_name_is_described(app: Path) -> None:
    types = (app / "bundle" / "index.d.ts").read_text(encoding="utf-8")
    exported = re.findall(
        r"^export (?:declare )?(?:type|interface|const|function|class) (\w+)", types, re.MULTILINE
    )
    assert {"load", "meta", "tensor", "WgccError", "Loaded", "SinMLP", "Params"} <= set(exported)
    code = " ".join(text for _, text in BLOCKS)
    for name in exported:
        assert re.search(rf"\b{name}\b", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)), name
        assert re.search(rf"\b{name}\b", code), f"{name} has no example"
    module = (app / "bundle" / "index.js").read_text(encoding="utf-8")
    there = re.findall(r"^export(?: const |\{)(\w+)", module, re.MULTILINE)
    assert sorted(there) == ["WgccError", "load", "meta", "plan", "tensor"]
    assert set(there) <= set(exported)


@pytest.mark.parametrize("interface", ["LoadOptions", "FitOptions", "Report", "Loaded"])
def test_every_member_is_described_and_used(interface: str) -> None:
    """A row with its type, and an example."""
    names = set(members(interface))
    assert len(names) >= 4
    if interface == "Loaded":
        assert names == MEMBERS - {"constructor", "then"}
    code = " ".join(text for kind, text in BLOCKS if kind in ("js", "jsx"))
    for name in names:
        assert re.search(rf"^\| `{name}` \| \S.* \| \S.* \|$", PAGE, re.MULTILINE), name
        pattern = rf"\.{name}\b" if interface == "Loaded" else rf"\b{name}\b"
        assert re.search(pattern, code), f"{name} has no example"


def members(interface: str) -> Iterator[str]:
    text = (data_dir("runtime_js") / "bundle" / "index.d.ts").read_text(encoding="utf-8")
    body = re.search(rf"^export interface {interface}\b.*?^}}", text, re.DOTALL | re.MULTILINE)
    assert body, interface
    yield from re.findall(r"^  (?:readonly )?(\w+)\??[:(<]", body[0], re.MULTILINE)


def test_every_stage_and_error_code_is_described() -> None:
    types = (data_dir("runtime_js") / "bundle" / "index.d.ts").read_text(encoding="utf-8")
    stages = re.findall(r"'(\w+)'", re.search(r"stage: ([^;]+);", types)[1])  # type: ignore[index]
    assert all(f"`'{stage}'`" in PAGE for stage in stages)
    sources = [path for path in data_dir("runtime_js").rglob("*.js") if path.parent.name != "page"]
    source = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    codes = set(re.findall(r"(?:fail|new WgccError)\(\s*'([a-z-]+)'", source))
    assert len(codes) > 20
    rows = PAGE[PAGE.index("## Errors") : PAGE.index("## Files")]
    described = re.findall(r"`([a-z-]+)`", " ".join(re.findall(r"^\| (`.*?) \|", rows, re.M)))
    assert sorted(described) == sorted(codes)
