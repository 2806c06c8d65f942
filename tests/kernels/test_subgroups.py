"""Reductions by subgroup operations: the bits of the barrier form, with fewer barriers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from adapters import ROOT
from building import build
from cli_runs import run
from tint_compiler import compile_all
from web_stacks import build_web, run_job
from wgcc.access.model import access_of
from wgcc.backends.wgsl.print_tree import print_module
from wgcc.bundle.edited import with_edits
from wgcc.bundle.plan import plan_text
from wgcc.kernel.parse import parse_module
from wgcc.kernel.rewrite.subgroups import UNROLLED, with_subgroups
from wgcc_runtime import loader
from wgcc_runtime.bundle_files import Read, code_digest, read_kernel
from wgcc_runtime.device import DIRECTIVE, PROBE, SUBGROUPS_VARIABLE
from wgcc_runtime.plan import Kernel, read_plan

MODEL = ROOT / "tests" / "kernels" / "subgroups.wg"
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*/kernels/*.wgsl"))
STEPS = 6
# The smallest kernel with such a reduction.
REDUCTION = """
const LANES = 64u;
var<workgroup> found: array<f32, LANES>;

@compute @workgroup_size(LANES)
fn main(@builtin(local_invocation_index) lane: u32) {
  found[lane] = f32(lane);
  for (var half = LANES / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) { found[lane] = found[lane] + found[lane + half]; }
  }
  workgroupBarrier();
  let sum = found[0];
}
"""

Change = Callable[[str], str]
Bits = dict[str, bytes]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_web(MODEL, tmp_path_factory.mktemp("subgroups") / "bundle")


@pytest.fixture(scope="module")
def reducing(bundle: Path) -> list[Path]:
    """Kernels with reductions: those of the model, and golden ones."""
    paths = [*sorted(bundle.glob("kernels/*.wgsl")), *GOLDEN]
    return [path for path in paths if "half /= 2u" in path.read_text(encoding="utf-8")]


def given() -> dict[str, dict[str, Any]]:
    rng = np.random.default_rng(3)
    ids, labels = rng.integers(0, 96, (2, 2, 8)).astype(np.int32)
    scores = rng.normal(0, 2, (3, 96)).astype(np.float32)
    columns = {
        "x": rng.normal(size=(300, 40)).astype(np.float32),
        "y": rng.normal(size=(700, 2)).astype(np.float32),
    }
    return {
        "train": {"ids": ids, "labels": labels},
        "rows": {"ids": ids},
        "columns": columns,
        "choose": {"scores": scores},
    }


def bits(bundle: Path, adapter: str, steps: int, *entries: str) -> tuple[bool, Bits]:
    """Whether subgroups were used; all outputs, and what so many steps of training give."""
    found, inputs = {}, given()
    with wgcc_runtime.load(bundle, device=adapter) as model:
        for entry in entries:
            found |= model.call(entry, **inputs[entry])
        if steps:
            made = [model.train(**inputs["train"]) for _ in range(steps)]
            found["curve"] = np.array([[step["loss"], step["norm"]] for step in made])
            found |= model.params()
            assert found["curve"][-1, 0] < 0.9 * found["curve"][0, 0]
        return model.has_subgroups, {name: array.tobytes() for name, array in found.items()}


def form_of(text: str, unrolled: tuple[int, ...] = UNROLLED) -> str:
    """The kernel for devices with subgroups."""
    form = with_subgroups(parse_module(text), unrolled)
    assert form is not None
    return print_module(form) + "\n"


def run_forms(patch: pytest.MonkeyPatch, change: Change) -> None:
    """Let the runtime run other forms of kernels that reduce."""

    def changed(read: Read, kernel: Kernel) -> str | None:
        return change(read_kernel(read, kernel)) if kernel.subgroups else None

    patch.setattr(loader, "read_subgroups", changed)


def unrolled(text: str) -> str:
    """Loads are written out for the small subgroups of software adapters, as for 32 elsewhere."""
    return form_of(text, (8, 4))


def partial(text: str) -> str:
    """As if invocations of subgroups were missing."""
    return form_of(text).replace("subgroupAll(whole && block >= 4u)", "false")


def scattered(text: str) -> str:
    """Lanes in another order than invocations of subgroups."""
    changed = form_of(text)
    size = re.search(r"@workgroup_size\((\w+)\)", text)
    assert size
    changed = changed.replace("local_invocation_index) lane:", "local_invocation_index) index:")
    start = "wg_find_block(wg_id, wg_size);"
    return changed.replace(start, f"{start}\n  let lane = (5u * index + 3u) % {size[1]};")


def test_bits_are_those_of_the_barrier_form(
    bundle: Path, adapter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_subgroups, found = bits(bundle, adapter, STEPS, "rows", "columns", "choose")
    assert has_subgroups
    changes: tuple[Change, ...] = (unrolled, partial, scattered)
    for change in changes:
        with monkeypatch.context() as patch:
            run_forms(patch, change)
            changed = bits(bundle, adapter, 0, "rows", "columns")[1]
        assert changed == {name: found[name] for name in changed}, change.__name__
    monkeypatch.setenv(SUBGROUPS_VARIABLE, "0")
    assert bits(bundle, adapter, STEPS, "rows", "columns", "choose") == (False, found)


@pytest.mark.parametrize(
    "wrong", [("subgroupShuffleXor(f32(x), 2u)", "x"), ("wg_first + own", "wg_first")]
)
def test_a_wrong_shuffle_is_noticed(
    bundle: Path, adapter: str, wrong: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the test above would show nothing."""
    _, found = bits(bundle, adapter, 0, "columns")
    run_forms(monkeypatch, lambda text: form_of(text).replace(*wrong))
    assert bits(bundle, adapter, 0, "columns")[1] != found


def test_every_reduction_has_one_barrier(reducing: list[Path]) -> None:
    """Or two, where its workgroup memory is written again."""
    assert len(reducing) >= 20
    for path in reducing:
        text = path.read_text(encoding="utf-8")
        changed = form_of(text)
        assert "half /= 2u" not in changed, path
        before, after = (access_of(parse_module(one), (1, 1, 1)) for one in (text, changed))
        reductions = text.count("half /= 2u")
        assert after.barriers < before.barriers / 2, path
        if "THREADS" not in text:
            assert after.barriers == reductions, path
        assert after.sectors == before.sectors, path
        assert changed.count("var<workgroup>") == text.count("var<workgroup>"), path


def test_tint_accepts_every_kernel(reducing: list[Path], tmp_path: Path) -> None:
    for halves in (False, True):
        written = []
        for i, path in enumerate(reducing):
            text = path.read_text(encoding="utf-8")
            if ("enable f16;" in text) == halves:
                written.append(tmp_path / f"{i}.wgsl")
                written[-1].write_text(form_of(text), encoding="utf-8")
        found = compile_all(written, halves, subgroups=True)
        assert written and not any(found.values()), found


def test_naga_accepts_every_golden_kernel(reducing: list[Path]) -> None:
    from wgcc_runtime.device import choose_adapter

    adapter = choose_adapter("llvmpipe")
    gpu = adapter.request_device_sync(required_features=["subgroup", "shader-f16"])
    for path in reducing:
        if path in GOLDEN:
            text = form_of(path.read_text(encoding="utf-8")).replace(DIRECTIVE, "")
            module = gpu.create_shader_module(code=text)
            stage = {"module": module, "entry_point": "main"}
            gpu.create_compute_pipeline(layout="auto", compute=stage)


def test_a_bundle_has_both_forms(bundle: Path, reducing: list[Path]) -> None:
    plan = json.loads((bundle / "plan.json").read_text())
    names = {path.name for path in reducing if path.is_relative_to(bundle)}
    assert names == {path.name for path in bundle.glob("subgroups/*")}
    assert names == {kernel["file"] for kernel in plan["kernels"] if "subgroups" in kernel}
    for kernel in plan["kernels"]:
        if kernel["file"] in names:
            form = (bundle / "subgroups" / kernel["file"]).read_text()
            plain = (bundle / "kernels" / kernel["file"]).read_text()
            assert parse_module(form) == with_subgroups(parse_module(plain))
            assert kernel["subgroups"] == code_digest(form)


def test_an_edited_kernel_runs_as_it_was_edited(bundle: Path) -> None:
    raw = json.loads((bundle / "plan.json").read_text())
    first = next(kernel for kernel in raw["kernels"] if "subgroups" in kernel)
    path = f"kernels/{first['file']}"
    edited = with_edits(raw, {path: (bundle / path).read_text() + "const OWN = 1u;\n"})
    plan = read_plan(plan_text(edited).encode())
    (kernel,) = (kernel for kernel in plan.kernels if kernel.file == first["file"])
    assert kernel.subgroups is None and sum(k.subgroups is not None for k in plan.kernels) > 3


def test_pages_try_the_same_kernel() -> None:
    text = (ROOT / "runtime_js" / "inspect" / "subgroups.js").read_text()
    assert f"`{DIRECTIVE.strip()}{PROBE}`" in text


@pytest.mark.parametrize(
    "change",
    [
        ("LANES = 64u", "LANES = 48u"),
        ("array<f32, LANES>", "array<f32, 64>"),
        ("lane < half", "lane <= half"),
        ("fn main(", "fn start("),
    ],
)
def test_only_known_reductions_are_rewritten(change: tuple[str, str]) -> None:
    text = REDUCTION.replace(*change)
    assert text != REDUCTION and with_subgroups(parse_module(REDUCTION))
    assert with_subgroups(parse_module(text)) is None


def test_a_driver_that_refuses_them_gets_the_barrier_form(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "wgcc_runtime.device.PROBE", PROBE.replace("let near", "let near = no; let")
    )
    with wgcc_runtime.load(bundle, device="llvmpipe") as model:
        assert not model.has_subgroups
        model.columns(**given()["columns"])


def test_web_gives_the_same_bits(bundle: Path) -> None:
    inputs = {entry: {k: v.ravel().tolist() for k, v in x.items()} for entry, x in given().items()}
    runs = run_job("node", bundle, "subgroups", inputs)
    assert [run.pop("subgroups") for run in runs] == [True, False, False]
    with wgcc_runtime.load(bundle, device="swiftshader") as model:
        found = {**model.columns(**given()["columns"]), **model.choose(**given()["choose"])}
    wanted = {name: array.tolist() for name, array in found.items()}
    assert all(run == wanted for run in runs)


def test_verify_and_show_say_what_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "m.wg"
    source.write_text("model M { entry f(x: f32[5, 64]) -> (y: f32[5]) = sum(x, axis = -1) }")
    bundle = str(build(source, tmp_path / "bundle"))
    for value, form in (("", "subgroup"), ("off", "barrier")):
        monkeypatch.setenv(SUBGROUPS_VARIABLE, value)
        code, out, err = run(capsys, "verify", bundle, "--device", "llvmpipe")
        assert code == 0 and f"gpu kernels, {form} reductions: ok" in out + err
    assert "reductions" not in "".join(map(str, run(capsys, "verify", bundle, "--on", "wasm")))
    _, out, _ = run(capsys, "show", bundle, "--kernels")
    assert "barriers" in out and " 7 (1) " in out
    _, out, _ = run(capsys, "show", bundle, "--kernel", "y")
    assert "7 (1) barriers" in out
