"""`load({tune: true})` in Node and Chromium: the fastest kernels are found, used and remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapters import ROOT
from web_stacks import run_job
from wgcc.compiler import compile_file
from wgcc_runtime.device import tuned_name


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned") / "bundle"
    compile_file(ROOT / "tests" / "golden" / "regression.wg", candidates=True).write(folder)
    return folder


@pytest.fixture(scope="module")
def runs(bundle: Path) -> dict[str, Any]:
    return {stack: run_job(stack, bundle, "tuned") for stack in ("node", "chrome")}


@pytest.mark.parametrize("stack", ["node", "chrome"])
def test_tuning_where_it_runs(runs: dict[str, Any], stack: str) -> None:
    seen = runs[stack]
    plain, first, second = seen["losses"]
    assert first == pytest.approx(plain, rel=1e-5) and second == pytest.approx(plain, rel=1e-5)
    name = tuned_name(seen["name"])
    assert seen["profiles"] == ["gpu", name, name], "both runtimes name adapters alike"
    # Node stores nothing, a browser does.
    assert seen["measured"] == [False, True, stack == "node"]
    if stack == "chrome":
        assert (seen["kept"], seen["after"]) == (1, name)


def test_a_profile_of_the_bundle_is_used_on_its_adapter(
    runs: dict[str, Any], tmp_path: Path
) -> None:
    """As `wgcc tune` would have written it for the adapter that Node runs on."""
    compiled = compile_file(ROOT / "tests" / "golden" / "regression.wg", candidates=True)
    name, profiles = tuned_name(runs["node"]["name"]), compiled.planned.plan["profiles"]
    profiles[name] = profiles["candidate_0"]
    compiled.write(tmp_path / "bundle")
    assert run_job("node", tmp_path / "bundle", "tuned")["profiles"] == [name] * 3
