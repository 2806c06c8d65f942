"""Apps built by esbuild, rollup, webpack and vite work, or say what to do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from adapters import ROOT
from web_stacks import JOBS, build_web, run_node, tool

# What index.js names by `new URL(…, import.meta.url)`.
ASSETS = ("weights.safetensors", "twin.wasm")
WITH_WORKER = ("esbuild", "rollup", "webpack", "vite")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All apps, in one browser."""
    folder = tmp_path_factory.mktemp("bundlers")
    shutil.copytree(JOBS / "bundled", folder / "app")
    (folder / "app" / "package.json").write_text('{"private": true, "type": "module"}')
    build_web(ROOT / "tests" / "golden" / "regression.wg", folder / "bundle")
    build_web(ROOT / "tests" / "golden" / "memory.wg", folder / "second")
    build_all(folder)
    pages = [
        ["as it is", "/app/main.js"],
        ["esbuild", "/esbuild/main.js"],
        ["esbuild, nothing copied", "/esbuild-alone/main.js"],
        ["esbuild, elsewhere", "/esbuild-alone/main.js", {"baseUrl": "../bundle"}],
        ["esbuild iife", "/esbuild-iife/main.js"],
        ["esbuild iife, told where", "/esbuild-iife/main.js", {"baseUrl": "/bundle/"}],
        ["esbuild iife, told nonsense", "/esbuild-iife/main.js", {"baseUrl": "http://["}],
        ["rollup", "/rollup/main.js"],
        ["rollup iife", "/rollup-iife/main.js", {"baseUrl": "/bundle"}],
        ["webpack", "/webpack/main.js"],
        *([f"{name}, worker", f"/{name}/main.js", {"worker": True}] for name in WITH_WORKER),
        ["esbuild iife, worker", "/esbuild-iife/main.js", {"baseUrl": "/bundle", "worker": True}],
        ["no worker copied", "/esbuild-files/main.js", {"worker": True}],
        ["vite", "/vite/main.js"],
        ["vite, apart", "/vite-apart/shared.js"],
        ["vite, shared", "/vite-shared/shared.js"],
    ]
    return dict(run_node("bundlers.mjs", str(folder), data=pages))


def build_all(folder: Path) -> None:
    build(folder, "esbuild", "app/main.js", "--bundle", "--format=esm", "--outdir=esbuild")
    for name in ("esbuild-alone", "esbuild-files"):
        shutil.copytree(folder / "esbuild", folder / name)
    iife = ("--bundle", "--format=iife", "--outdir=esbuild-iife")
    assert "import.meta" in build(folder, "esbuild", "app/main.js", *iife)
    build(folder, "rollup", "app/main.js", "--format", "es", "--dir", "rollup")
    iife = ("--format", "iife", "--file", "rollup-iife/main.js", "--inlineDynamicImports")
    build(folder, "rollup", "app/main.js", *iife)
    for name in ASSETS:
        for target in ("esbuild", "rollup", "esbuild-files"):
            shutil.copy(folder / "bundle" / name, folder / target)
    for target in ("esbuild", "rollup"):
        shutil.copy(folder / "bundle" / "wgcc.js", folder / target)
        shutil.copytree(folder / "bundle" / "wgcc", folder / target / "wgcc")
    output = ("--output-path", "webpack", "--mode", "production", "--devtool", "false")
    build(folder, "webpack", "--entry", "./app/main.js", *output)
    build_vite(folder, "main", "vite")
    build_vite(folder, "shared", "vite-apart")
    place = json.dumps(str(folder / "bundle" / "wgcc.js"))
    alias = f"[{{ find: /^\\.\\/wgcc\\.js$/, replacement: {place} }}]"
    build_vite(folder, "shared", "vite-shared", f"resolve: {{ alias: {alias} }},")


def build_vite(folder: Path, script: str, target: str, settings: str = "") -> None:
    output = {"input": f"{script}.js", "output": {"entryFileNames": f"{script}.js"}}
    options = {"outDir": f"../{target}", "assetsInlineLimit": 0, "rollupOptions": output}
    text = f"export default {{ base: './', {settings} build: {json.dumps(options)} }};"
    (folder / "app" / "vite.config.js").write_text(text)
    build(folder / "app", "vite", "build", "--logLevel", "warn", "--emptyOutDir")


def build(folder: Path, name: str, *arguments: str) -> str:
    done = tool(name, *arguments, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


WORKING = (
    "esbuild", "esbuild, elsewhere", "esbuild iife, told where", "rollup", "rollup iife",
    "webpack", "vite", "vite dev", *(f"{name}, worker" for name in WITH_WORKER),
    "esbuild iife, worker",
)  # fmt: skip


@pytest.mark.parametrize("name", WORKING)
def test_apps_that_work(seen: dict[str, Any], name: str) -> None:
    losses = seen[name]
    assert isinstance(losses, list), losses
    assert losses == seen["as it is"]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_apps_that_lack_something_say_what_to_do(seen: dict[str, Any]) -> None:
    alone = seen["esbuild, nothing copied"]
    assert (alone["code"], "/esbuild-alone/" in alone["field"]) == ("weights", True)
    assert (
        "copy it beside the scripts" in alone["message"] and "load({baseUrl})" in alone["message"]
    )
    worker = seen["no worker copied"]
    assert worker["code"] == "bundle"
    assert "/esbuild-files/wgcc/serve.js, or a script that it imports" in worker["message"]
    assert "copy wgcc.js and the folder wgcc" in worker["message"]
    script = seen["esbuild iife"]
    assert (script["code"], script["field"]) == ("bundle", "baseUrl")
    assert "these scripts are not modules: load({baseUrl}) is" in script["message"]
    nonsense = seen["esbuild iife, told nonsense"]
    assert (nonsense["code"], nonsense["field"]) == ("name", "baseUrl")
    refused = seen["vite dev, not allowed"]
    assert (refused["code"], "server.fs.allow" in refused["message"]) == ("weights", True)


def test_bundles_share_runtime_and_device(seen: dict[str, Any]) -> None:
    """By an import map or an alias, and `load({device})`."""
    assert (seen["vite, apart"], seen["vite, shared"]) == (False, True)
    assert seen["shared"] == {
        "isOneClass": True,
        "fetched": ["/bundle/wgcc.js"],
        "isOneDevice": True,
        "afterDispose": "number",
        "lost": ["device-lost", "device-lost"],
        "recovered": ["number", "number"],
        "isOneDeviceAgain": True,
    }
