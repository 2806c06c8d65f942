"""A bundle as an npm package: its types, an app built with vite, a page with a strict CSP."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from adapters import ROOT
from web_stacks import JOBS, NODE, build_web, run_node

COMPILERS = {"5.4": "typescript54", "6": "typescript6", "newest": "typescript"}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package") / "bundle"
    return build_web(ROOT / "examples" / "digits" / "model.wg", folder)


# TypeScript 6 and newer have WebGPU's types; before, only some projects install them.
CASES = [("5.4", False), ("5.4", True), ("6", False), ("newest", False)]


@pytest.mark.parametrize(("version", "gpu_types"), CASES)
def test_types(bundle: Path, tmp_path: Path, version: str, gpu_types: bool) -> None:
    """Correct use compiles; a wrong name, shape or element type does not."""
    options: dict[str, Any] = {
        "strict": True, "noEmit": True, "target": "es2022", "module": "esnext",
        "moduleResolution": "bundler", "lib": ["es2022", "esnext.asynciterable", "dom"],
        "types": [],
        "paths": {"bundle": [str(bundle / "index.d.ts")]},
    }  # fmt: skip
    files = ["usage.ts", "memory.ts"]
    if gpu_types:
        files.append(str(NODE / "node_modules" / "@webgpu" / "types" / "dist" / "index.d.ts"))
    shutil.copy(JOBS / "usage.ts", tmp_path)
    # A model that only keeps state: no training, entries without inputs.
    memory = build_web(ROOT / "tests" / "golden" / "memory.wg", tmp_path / "memory")
    options["paths"] |= {"memory": [str(memory / "index.d.ts")]}
    (tmp_path / "memory.ts").write_text(
        "import { load } from 'memory';\n"
        "const model = await load();\n"
        "export const count: Int32Array = (await model.push({ row: new Float32Array(3) })).count;\n"
        "await model.clear();\n"
        "// @ts-expect-error it does not train\n"
        "model.fit({ row: new Float32Array(3) });\n"
    )
    config = {"compilerOptions": options, "files": files}
    (tmp_path / "tsconfig.json").write_text(json.dumps(config))
    compiler = NODE / "node_modules" / COMPILERS[version] / "bin" / "tsc"
    done = subprocess.run(
        ["node", str(compiler), "--project", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    shown = subprocess.run(["node", str(compiler), "--version"], capture_output=True, text=True)
    assert shown.stdout.startswith(f"Version {version.replace('newest', '7')}.")


def test_package_installs_into_a_vite_app(bundle: Path, tmp_path: Path) -> None:
    app = tmp_path / "app"
    shutil.copytree(JOBS / "app", app)
    quiet = ("--offline", "--no-audit", "--no-fund", "--loglevel=error")
    installed = subprocess.run(
        ["npm", "install", *quiet, str(bundle)], cwd=app, capture_output=True, text=True
    )
    assert installed.returncode == 0, installed.stderr
    package = json.loads((app / "package.json").read_text())
    assert list(package["dependencies"]) == ["@my-models/digits"]
    vite = NODE / "node_modules" / "vite" / "bin" / "vite.js"
    built = subprocess.run(
        ["node", str(vite), "build", "--logLevel", "warn"],
        cwd=app,
        capture_output=True,
        text=True,
        env={**os.environ, "CI": "true"},
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assets = {path.suffix for path in (app / "dist" / "assets").iterdir()}
    assert {".js", ".safetensors"} <= assets
    seen = run_node("app.mjs", str(app / "dist"))
    assert seen["problems"] == []
    assert seen["text"].startswith("trained: ")


def test_page_with_a_strict_content_security_policy(bundle: Path) -> None:
    seen = run_node("csp.mjs", str(bundle))
    assert seen["problems"] == []
    assert seen["text"].startswith("trained: ")
    assert seen["policy"] == "script-src 'self'"


def test_packages_hold_what_they_need(bundle: Path) -> None:
    package = json.loads((bundle / "package.json").read_text())
    assert "dependencies" not in package
    for name in package["files"]:
        assert (bundle / name).exists(), name
    packed = subprocess.run(
        ["npm", "pack", "--dry-run", "--json", "--loglevel=error"],
        cwd=bundle, capture_output=True, text=True,
    )  # fmt: skip
    listing = json.loads(packed.stdout)
    facts = listing[0] if isinstance(listing, list) else next(iter(listing.values()))
    names = {file["path"] for file in facts["files"]}
    on_disk = {p.relative_to(bundle).as_posix() for p in bundle.rglob("*") if p.is_file()}
    assert names == on_disk
