"""Kernels and plans that were edited by hand: noticed, refused, accepted, kept or copied."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import wgcc_runtime
from web_stacks import run_job
from wgcc.cli.commands.verify.stacks import StackError
from wgcc.cli.group import cli
from wgcc_runtime import WgccError, WgccWarning

MODEL = """dim B = 4
model M {
  param w: f32[3] = 1.0
  entry predict(x: f32[B, 3]) -> (y: f32[B, 3]) = 2.0 * x + w
}
"""
BEFORE, AFTER = "(2.0f * ", "(3.0f * "


def wgcc(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, [str(item) for item in arguments])


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    (tmp_path / "m.wg").write_text(MODEL, encoding="utf-8")
    assert wgcc("build", tmp_path / "m.wg", "-o", tmp_path / "b").exit_code == 0
    return tmp_path / "b"


def kernel_of(bundle: Path) -> Path:
    (path,) = (p for p in (bundle / "kernels").glob("*.wgsl") if "edited" not in p.name)
    return path


def edit_kernel(bundle: Path) -> str:
    path = kernel_of(bundle)
    text = path.read_text(encoding="utf-8")
    assert BEFORE in text, text
    path.write_text(text.replace(BEFORE, AFTER), encoding="utf-8")
    return f"kernels/{path.name}"


def edit_plan(bundle: Path) -> None:
    """One that is sound, and wrong: the output is read from its first row on, four rows earlier."""
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    plan["model"]["name"] = "N"
    (bundle / "plan.json").write_text(json.dumps(plan), encoding="utf-8")


def predicted(bundle: Path, device: str) -> float:
    with wgcc_runtime.load(bundle, device=device) as model:
        return float(model.predict(x=np.ones((4, 3), np.float32))["y"][0, 0])


def test_edited_plans_are_refused_until_they_are_accepted(bundle: Path) -> None:
    edit_plan(bundle)
    with pytest.raises(
        WgccError, match=r"plan\.json was changed after the bundle was built"
    ) as error:
        wgcc_runtime.load(bundle, device="wasm")
    assert (error.value.code, error.value.field) == ("plan", "sha256")
    done = wgcc("accept", bundle)
    assert done.exit_code == 0 and "edited by hand: plan.json" in done.stderr
    with pytest.warns(WgccWarning, match="edited by hand in this bundle: plan.json"):
        assert predicted(bundle, "wasm") == 3.0


def test_blanks_and_order_of_a_plan_do_not_matter(bundle: Path) -> None:
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    text = json.dumps(dict(reversed(plan.items())), indent=3)
    (bundle / "plan.json").write_text(text, encoding="utf-8")
    assert predicted(bundle, "wasm") == 3.0


def test_plans_of_older_builds_have_no_digest(bundle: Path) -> None:
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    del plan["sha256"]
    (bundle / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    assert predicted(bundle, "wasm") == 3.0


def test_accept_refuses_what_runtimes_would(bundle: Path) -> None:
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    plan["tensors"]["predict/y"]["offset"] = 3
    (bundle / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    done = wgcc("accept", bundle)
    assert done.exit_code == 1 and "error[plan]" in done.stderr


def test_verify_runs_both_forms_and_says_which(bundle: Path) -> None:
    done = wgcc("verify", bundle)
    assert done.exit_code == 0
    assert "twin in wasmtime, WebAssembly" in done.stderr
    assert "WGSL through naga, " in done.stderr
    done = wgcc("verify", bundle, "--on", "wasm")
    assert "the WGSL kernels were not run: this says nothing about them" in done.stderr
    done = wgcc("verify", bundle, "--device", "lavapipe", "--json")
    assert "the WebAssembly twin was not run" in done.stderr
    (only,) = json.loads(done.stdout)
    assert (only["code"], only["by"], only["passed"]) == ("WGSL", "naga", True)


def test_verify_without_an_adapter(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wgcc_runtime.device.adapters", list)
    done = wgcc("verify", bundle)
    assert done.exit_code == 0 and "because no WebGPU adapter here can run them" in done.stderr
    edit_kernel(bundle)
    done = wgcc("verify", bundle)
    assert done.exit_code == 1 and "was changed after the bundle was built" in done.stderr


def test_an_edited_kernel_is_refused_accepted_and_found_wrong(bundle: Path) -> None:
    name = edit_kernel(bundle)
    done = wgcc("verify", bundle)
    assert done.exit_code == 1 and f"error[bundle]: {name} was changed" in done.stderr
    assert "run `wgcc accept`" in done.stderr
    done = wgcc("accept", bundle, "--json")
    assert json.loads(done.stdout)["edited"] == [name]
    with pytest.warns(WgccWarning, match="edited by hand"):
        assert (predicted(bundle, "lavapipe"), predicted(bundle, "wasm")) == (4.0, 3.0)
    done = wgcc("verify", bundle)
    assert done.exit_code == 3 and "WGSL through naga" in done.stderr and "wrong" in done.stderr
    assert f"edited by hand: {name}" in wgcc("show", bundle).stdout
    assert "nothing was edited" not in wgcc("accept", bundle).stderr
    done = wgcc("tune", bundle, "--device", "lavapipe")
    assert done.exit_code == 1 and "was edited by hand" in str(done.exception)


def test_node_runs_accepted_kernels(bundle: Path) -> None:
    edit_kernel(bundle)
    assert wgcc("accept", bundle).exit_code == 0
    seen = run_job(
        "node", bundle, "row_entries", {"inputs": {"x": [1.0] * 12}, "names": ["predict"]}
    )
    assert seen["predict"]["y"][0] == 4.0


def test_node_notices_changed_plans_and_kernels(bundle: Path) -> None:
    """As if somebody edited the plan in index.js; the other fields stay sound."""
    index = bundle / "index.js"
    text = index.read_text(encoding="utf-8")
    assert text.count('"name":"M"') == 1
    index.write_text(text.replace('"name":"M"', '"name":"N"'), encoding="utf-8")
    with pytest.raises(StackError, match="the plan was changed after the bundle was built"):
        run_job("node", bundle, "row_entries", {"inputs": {"x": [1.0] * 12}, "names": ["predict"]})


@pytest.mark.parametrize("damage", ['"model":null', '"tensors":null', '"entries":null'])
def test_damaged_plans_are_refused_by_load_not_by_import(bundle: Path, damage: str) -> None:
    index = bundle / "index.js"
    text = index.read_text(encoding="utf-8")
    key = damage.partition(":")[0]
    index.write_text(text.replace(f"{key}:", f'{damage},{key[:-1]}_old":', 1), encoding="utf-8")
    with pytest.raises(StackError, match="plan"):
        run_job("node", bundle, "row_entries", {"inputs": {"x": [1.0] * 12}, "names": ["predict"]})


def test_builds_keep_edits_or_a_copy(bundle: Path) -> None:
    name = edit_kernel(bundle)
    model = bundle.parent / "m.wg"
    done = wgcc("build", model, "-o", bundle, "--keep-kernels")
    assert done.exit_code == 0 and f"kept, edited by hand: {name}" in done.stderr
    with pytest.warns(WgccWarning, match="edited by hand"):
        assert predicted(bundle, "lavapipe") == 4.0
    # What was kept is kept again; another size has other kernels.
    assert (
        f"kept, edited by hand: {name}"
        in wgcc("build", model, "-o", bundle, "--keep-kernels").stderr
    )
    done = wgcc("build", model, "-o", bundle, "--keep-kernels", "--set", "B=300")
    assert done.exit_code == 1 and f"no longer what this model needs: {name}" in done.stderr
    edited = kernel_of(bundle).read_text(encoding="utf-8")
    done = wgcc("build", model, "-o", bundle)
    assert done.exit_code == 0 and "--keep-kernels" in done.stderr
    copy = kernel_of(bundle).with_suffix(".edited.wgsl")
    assert copy.read_text(encoding="utf-8") == edited
    assert predicted(bundle, "lavapipe") == 3.0
    assert "edited" not in json.loads((bundle / "plan.json").read_text(encoding="utf-8"))


def test_edits_that_were_undone_are_none(bundle: Path) -> None:
    text = kernel_of(bundle).read_text(encoding="utf-8")
    edit_kernel(bundle)
    assert wgcc("accept", bundle).exit_code == 0
    kernel_of(bundle).write_text(text, encoding="utf-8")
    assert "nothing was edited" in wgcc("accept", bundle).stderr
    assert wgcc("verify", bundle).exit_code == 0


def test_accepted_bundles_in_archives(bundle: Path, tmp_path: Path) -> None:
    edit_kernel(bundle)
    assert wgcc("accept", bundle).exit_code == 0
    archive = tmp_path / "b.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in bundle.rglob("*"):
            file.write(path, path.relative_to(bundle))
    with pytest.warns(WgccWarning, match="edited by hand"):
        assert predicted(archive, "lavapipe") == 4.0


def test_why_there_is_no_twin(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = bundle.parent / "m.wg"
    assert wgcc("build", model, "-o", bundle, "--no-twin").exit_code == 0
    with pytest.raises(WgccError, match="it was built with --no-twin: build it again without"):
        wgcc_runtime.load(bundle, device="wasm")
    monkeypatch.setattr("wgcc.backends.wasm.twin.MOST_PAGES", 0)
    assert wgcc("build", model, "-o", bundle).exit_code == 0
    with pytest.raises(WgccError, match=r"the model needs .* GB of memory, and WebAssembly has"):
        wgcc_runtime.load(bundle, device="wasm")


def test_the_form_for_subgroups_is_edited_like_any_kernel(tmp_path: Path) -> None:
    """lavapipe has subgroups, so it runs that form; the twin runs neither."""
    model = "model M {\n  entry total(x: f32[64, 64]) -> (y: f32[64]) = sum(x, axis = 1)\n}\n"
    (tmp_path / "m.wg").write_text(model, encoding="utf-8")
    bundle = tmp_path / "b"
    assert wgcc("build", tmp_path / "m.wg", "-o", bundle).exit_code == 0
    (form,) = (bundle / "subgroups").glob("*.wgsl")
    text = form.read_text(encoding="utf-8")
    head, store, value = text.rpartition("] = ")
    form.write_text(f"{head}{store}2.0 * ({value.replace(';', ');', 1)}", encoding="utf-8")
    name = f"subgroups/{form.name}"
    done = wgcc("verify", bundle)
    assert done.exit_code == 1 and f"{name} was changed" in done.stderr
    assert json.loads(wgcc("accept", bundle, "--json").stdout)["edited"] == [name]
    with pytest.warns(WgccWarning, match="edited by hand"):
        for device, is_edited in (("lavapipe", True), ("wasm", False)):
            with wgcc_runtime.load(bundle, device=device) as loaded:
                total = loaded.total(x=np.ones((64, 64), np.float32))["y"][0]
            assert bool(total != 64.0) is is_edited
    assert wgcc("build", tmp_path / "m.wg", "-o", bundle, "--keep-kernels").exit_code == 0
    assert "2.0 * (" in form.read_text(encoding="utf-8")
