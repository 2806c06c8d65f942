"""`wgcc verify` runs a self-test in Python, Node, Deno and Chromium: one line per stack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters import ROOT
from web_stacks import add_web_files, build_web, verify


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify") / "bundle"
    return build_web(ROOT / "tests" / "golden" / "tokens.wg", folder)


def test_every_stack_prints_one_line(bundle: Path) -> None:
    on = ("--on", "python,node,deno,chrome")
    done = verify(bundle, *on, "--device", "webgpu", "--json")
    assert done.returncode == 0, done.stderr
    *lines, rest = done.stderr.strip().splitlines()
    assert rest == "the WebAssembly twin was not run; --on wasm runs it"
    assert [line.split()[0] for line in lines] == ["python", "node", "deno", "chrome"], lines
    assert all(": ok  " in line for line in lines)
    results = json.loads(done.stdout)
    assert all(result["passed"] for result in results)
    counts = {len(result["outputs"]) for result in results}
    assert counts == {5}


def test_twin_in_every_stack(bundle: Path) -> None:
    stacks = ["wasm", "node", "deno", "chrome", "firefox"]
    done = verify(bundle, "--on", ",".join(stacks), "--device", "wasm", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert [result["stack"] for result in results] == stacks
    assert all(result["on"].startswith("WebAssembly") for result in results)
    in_javascript = [result["outputs"] for result in results[1:]]
    assert all(outputs == in_javascript[0] for outputs in in_javascript), "other bits"


def test_wrong_outputs_and_missing_files(bundle: Path, tmp_path: Path) -> None:
    files = {path.relative_to(bundle): path.read_bytes() for path in bundle.rglob("*.*")}
    damaged = tmp_path / "damaged"
    for name, data in files.items():
        (damaged / name).parent.mkdir(parents=True, exist_ok=True)
        (damaged / name).write_bytes(data)
    plan = json.loads((damaged / "plan.json").read_text())
    plan["selftest"]["entries"]["train"]["outputs"][0]["loss"]["first"] = [9.0]
    plan.pop("sha256", None)
    (damaged / "plan.json").write_text(json.dumps(plan))
    add_web_files(damaged)
    done = verify(damaged, "--on", "node")
    assert (done.returncode, "wrong  train.loss" in done.stderr) == (3, True), done.stderr
    (damaged / "index.js").unlink()
    done = verify(damaged, "--on", "deno,node")
    assert (done.returncode, done.stderr.count("has no index.js")) == (1, 2), done.stderr
