"""Both packages can be published and installed from an index, without this checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import wgcc_runtime
from adapters import ROOT

MODEL = ROOT / "examples" / "sin" / "model.wg"
# Predicts with the WebAssembly twin of an installed npm package.
SCRIPT = """
import { load } from 'NAME';
const model = await load({ device: 'wasm' });
const { y } = await model.predict({ x: new Float32Array(100).fill(0.5) });
console.log(JSON.stringify([y.length, Number.isFinite(y[0])]));
model.dispose();
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for project in (ROOT / "runtime_py", ROOT):
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(project))
    return folder


@pytest.fixture(scope="module")
def installed(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment, with wgcc as somebody gets it who has no checkout."""
    folder = tmp_path_factory.mktemp("new")
    run(sys.executable, "-m", "venv", str(folder / "venv"))
    programs = folder / "venv" / "bin"
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
    run(str(programs / "pip"), "install", *quiet, "--find-links", str(wheels), "wgcc")
    return programs


def install_packed(package: Path, app: Path) -> None:
    """Packs a folder as npm publishes it, and installs that file into an app of its own."""
    app.mkdir()
    (app / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
    run("npm", "pack", "--pack-destination", str(app), folder=package)
    (packed,) = app.glob("*.tgz")
    run("npm", "install", "--offline", "--no-audit", "--no-fund", packed.name, folder=app)


def run(*command: str, folder: Path | None = None) -> str:
    """Without this checkout on the path of modules."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def metadata(wheels: Path, project: str) -> tuple[str, list[Requirement]]:
    """The text, and what the wheel requires."""
    (wheel,) = wheels.glob(f"{project}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        text = archive.read(name).decode()
    requires = Parser().parsestr(text).get_all("Requires-Dist") or []
    return text, [Requirement(line) for line in requires]


def test_an_index_accepts_both_packages(wheels: Path) -> None:
    files = sorted(map(str, wheels.iterdir()))
    assert len(files) == 4
    run(sys.executable, "-m", "twine", "check", "--strict", *files)


@pytest.mark.parametrize("project", ["wgcc", "wgcc_runtime"])
def test_metadata_names_no_path_or_address(wheels: Path, project: str) -> None:
    text, requires = metadata(wheels, project)
    assert [item for item in requires if item.url] == []
    assert "file:" not in text.partition("\n\n")[0] and str(ROOT) not in text


def test_the_compiler_requires_the_runtime_of_its_version() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"wgcc-runtime=={wgcc_runtime.__version__}"' in text


def test_in_a_browser_the_compiler_needs_neither_wgpu_nor_wasmtime(wheels: Path) -> None:
    def needed(project: str, platform: str) -> set[str]:
        here = {"sys_platform": platform, "extra": ""}
        _, requires = metadata(wheels, project)
        return {r.name for r in requires if r.marker is None or r.marker.evaluate(here)}

    assert {"wgpu", "wasmtime"} <= needed("wgcc_runtime", "linux")
    assert not {"wgpu", "wasmtime"} & needed("wgcc_runtime", "emscripten")
    assert {"lark", "jinja2", "wgcc-runtime"} <= needed("wgcc", "emscripten")


def test_wasmtime_has_no_upper_bound(wheels: Path) -> None:
    _, requires = metadata(wheels, "wgcc_runtime")
    (wasmtime,) = (item for item in requires if item.name == "wasmtime")
    assert re.fullmatch(r">=\d+", str(wasmtime.specifier))


def test_an_installed_wgcc_builds_trains_and_packs(installed: Path, tmp_path: Path) -> None:
    """What is not in the wheels (grammar, JavaScript, templates) would be missed here."""
    code = "import wgcc; print(wgcc.__file__)"
    where = run(str(installed / "python"), "-c", code, folder=tmp_path)
    assert str(ROOT / "wgcc") not in where
    (tmp_path / "model.wg").write_bytes(MODEL.read_bytes())
    wgcc = str(installed / "wgcc")
    run(wgcc, "build", "model.wg", "-o", "bundle", folder=tmp_path)
    run(wgcc, "verify", "bundle", "--device", "wasm", folder=tmp_path)
    run(wgcc, "new", "mine", "-t", "digits", folder=tmp_path)
    run(wgcc, "build", "mine/model.wg", "-o", "mine/bundle", folder=tmp_path)
    command = ("mine/bundle", "mine/train.safetensors", "--steps", "3", "--device", "wasm")
    run(wgcc, "train", *command, folder=tmp_path)
    install_packed(tmp_path / "bundle", tmp_path / "app")
    package = json.loads((tmp_path / "bundle" / "package.json").read_text())
    (tmp_path / "app" / "main.js").write_text(SCRIPT.replace("NAME", package["name"]))
    assert json.loads(run("node", "main.js", folder=tmp_path / "app")) == [100, True]


def test_the_npm_package_of_the_runtime_opens_a_bundle(installed: Path, tmp_path: Path) -> None:
    """As its page says, from the file that npm would publish."""
    (tmp_path / "model.wg").write_bytes(MODEL.read_bytes())
    run(str(installed / "wgcc"), "build", "model.wg", "-o", "bundle", folder=tmp_path)
    run(str(installed / "python"), "-m", "wgcc.bundle.npm_runtime", "npm", folder=tmp_path)
    package = json.loads((tmp_path / "npm" / "package.json").read_text())
    assert package["version"] == wgcc_runtime.__version__
    assert (tmp_path / "npm" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    app = tmp_path / "app"
    install_packed(tmp_path / "npm", app)
    assert sorted(path.name for path in (app / "node_modules" / package["name"]).iterdir()) == [
        "LICENSE", "README.md", "package.json", "wgcc", "wgcc.d.ts", "wgcc.js",
    ]  # fmt: skip
    (tmp_path / "bundle").rename(app / "bundle")
    (block,) = re.findall(r"```js\n(.*?)```", (tmp_path / "npm" / "README.md").read_text(), re.S)
    (app / "main.js").write_text(block)
    assert run("node", "main.js", folder=app) == "100 true\n"


def test_a_release_has_one_version_and_a_dated_heading() -> None:
    """A tag is all that a release takes: nothing is replaced by hand afterwards."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (newest, *_) = re.findall(r"^## (.*)$", text, re.M)
    assert re.fullmatch(re.escape(wgcc_runtime.__version__) + r" \(\d{4}-\d\d-\d\d\)", newest)
