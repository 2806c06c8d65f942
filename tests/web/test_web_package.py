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
from web_stacks import JOBS, NODE, build_web, run_job, run_node
from wgcc.bundle.javascript import kernel_codes

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
        + ("await using other = await load();\n" if version == "newest" else "")
        + "// @ts-expect-error it does not train\n"
        "model.fit({ row: new Float32Array(3) });\n"
    )
    if version == "newest":
        options["lib"].append("esnext.disposable")
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


def test_a_packed_package_holds_everything_once_and_runs(bundle: Path, tmp_path: Path) -> None:
    package = json.loads((bundle / "package.json").read_text())
    assert "dependencies" not in package
    for name in package["files"]:
        assert (bundle / name).exists(), name
    app = tmp_path / "app"
    app.mkdir()
    (app / "package.json").write_text('{"private": true, "type": "module"}')
    npm("pack", "--pack-destination", str(app), folder=bundle)
    (packed,) = app.glob("*.tgz")
    npm("install", "--offline", "--no-audit", "--no-fund", packed.name, folder=app)
    installed = app / "node_modules" / package["name"]
    found = {path.relative_to(installed).as_posix() for path in files_in(installed)}
    on_disk = {path.relative_to(bundle).as_posix() for path in files_in(bundle)}
    kernels = {name for name in on_disk if name.endswith(".wgsl")}
    assert on_disk - found == {*kernels, "plan.json", "index.html", "offline.js"}
    texts = [path.read_bytes() for path in files_in(installed)]
    codes = kernel_codes({name: (bundle / name).read_bytes() for name in kernels})
    assert len(codes) > 5
    for name, code in codes.items():
        assert sum(text.count(code.encode()) for text in texts) == 1, name
    expected = run_job("node", bundle, "digits")
    assert run_job("node", installed, "digits") == expected
    assert run_job("node", installed, "digits", {"device": "wasm"})[0] == pytest.approx(expected[0])


def npm(*arguments: str, folder: Path) -> None:
    command = ["npm", *arguments, "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
