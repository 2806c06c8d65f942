"""A model that no browser would run is refused when it is checked, at its line."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from wgcc.compiler import compile_file
from wgcc.errors import WgError
from wgcc.schedule import limits
from wgcc_runtime.errors import WgccError


def refusal(tmp_path: Path, text: str) -> WgError:
    path = tmp_path / "model.wg"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(WgError) as raised:
        compile_file(path)
    return raised.value


def test_more_products_than_workgroups_along_an_axis(tmp_path: Path, device: Any) -> None:
    path = tmp_path / "m.wg"
    path.write_text(
        "dim Z = 70000\nmodel M {\n"
        "  entry run(a: f32[Z, 2, 2], b: f32[Z, 2, 2]) -> (y: f32[Z, 2, 2]) = a @ b\n}\n",
        encoding="utf-8",
    )
    bundle = build(path, tmp_path / "b")
    a, b = np.random.default_rng(0).uniform(-1, 1, (2, 70_000, 2, 2)).astype(np.float32)
    found = wgcc_runtime.load(bundle, device=device).run(a=a, b=b)["y"]
    np.testing.assert_allclose(found, a @ b, atol=1e-6)


def test_a_convolution_of_nine_million_pixels(tmp_path: Path) -> None:
    path = tmp_path / "m.wg"
    path.write_text(
        "model M {\n  param w: f32[3, 3, 1, 2] = 0.5\n"
        "  entry run(x: f32[1, 3000, 3000, 1]) -> (y: f32) = max(conv2d(x, w))\n}\n",
        encoding="utf-8",
    )
    compiled = compile_file(path)
    product, *_ = compiled.schedule.entries["run"].dispatches
    assert [launch.grid for launch in product.launches.values()] == [(35_110, 2, 1)]


WIDE = """model M {
  a: Linear[4096, 8192](bias = false)
  b: Linear[8192, 4096](bias = false)
  c: Linear[4096, %d](bias = false)
  entry run(x: f32[2, 4096]) -> (y: f32[2, %d]) = x |> a |> b |> c
}
"""


def test_parameters_beyond_one_buffer_are_cut(tmp_path: Path) -> None:
    """Each of them is as large as a binding of the default limits."""
    path = tmp_path / "model.wg"
    path.write_text(WIDE % (8192, 8192), encoding="utf-8")
    compiled = compile_file(path, limits="default")
    plan = compiled.planned.plan
    sizes = {b["name"]: b["bytes"] for b in plan["buffers"] if b["role"] == "params"}
    assert sizes == {"params": 128 << 20, "params.1": 128 << 20, "params.2": 128 << 20}
    assert plan["requires"]["limits"]["maxStorageBufferBindingSize"] == 128 << 20
    assert not compiled.diagnostics.items


def test_a_tensor_beyond_the_default_limits_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.wg"
    path.write_text(WIDE % (20_000, 20_000), encoding="utf-8")
    compiled = compile_file(path)
    (warning,) = compiled.diagnostics.items
    assert (warning.severity, warning.code) == ("warning", "WG1002")
    assert "`c.w` (312 MiB) is larger" in warning.message
    # Not at the kernel that reads it first, which may be one that it was fused into.
    line = path.read_text(encoding="utf-8").splitlines()[warning.span.line - 1]
    assert line.startswith("  c: Linear") and warning.label == "declared here"
    assert "= 327,680,000" in warning.notes[0]
    assert "WebAssembly" in warning.notes[0]
    limits = compiled.planned.plan["requires"]["limits"]
    assert limits["maxStorageBufferBindingSize"] == limits["maxBufferSize"] == 327_680_000
    with pytest.raises(WgError) as raised:
        compile_file(path, limits="default")
    (error,) = raised.value.diagnostics.errors
    assert error.code == "WG1001"
    assert "without `--limits default`" in error.helps[0].text


def test_an_adapter_without_the_limit_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """lavapipe has 128 MiB. Without a choice the twin runs: it needs no limits."""
    path = tmp_path / "model.wg"
    path.write_text(LOOKUP, encoding="utf-8")
    bundle = build(path, tmp_path / "b")
    with pytest.raises(WgccError) as raised:
        wgcc_runtime.load(bundle, device="lavapipe")
    assert raised.value.code == "limit"
    assert "maxStorageBufferBindingSize = 140000000" in raised.value.message
    assert 'device="wasm"' in raised.value.message
    with wgcc_runtime.load(bundle) as model:
        assert model.is_twin
        row = np.arange(34_999_990, 35_000_000, dtype=np.float32)
        np.testing.assert_array_equal(model.run(x=row)["y"], [*row[1:], 0.0])


LOOKUP = """model M {
  state kept: f32[35000000] = 0.0
  entry run(x: f32[10]) -> (y: f32[10]) {
    kept[34999989 +: 10] := x
    return kept[34999990 +: 10]
  }
}
"""


def test_a_tensor_beyond_every_device_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("nothing must be planned for a model that is refused")

    monkeypatch.setattr("wgcc.schedule.schedule.schedule", never)
    (found,) = refusal(tmp_path, WIDE % (300_000, 300_000)).diagnostics.errors
    assert "has 1,228,800,000 values, too many for one GPU buffer" in found.message


def test_more_tensors_than_bindings_are_split(tmp_path: Path) -> None:
    names = [f"x{i}" for i in range(20)]
    inputs = ", ".join(f"{name}: f32[8]" for name in names)
    path = tmp_path / "model.wg"
    path.write_text(f"model M {{ entry run({inputs}) -> (y: f32[8]) = {' * '.join(names)} }}")
    dispatches = compile_file(path).schedule.entries["run"].dispatches
    assert max(len(dispatch.regions) for dispatch in dispatches) <= 8


ATTENDING = """
dim B = 2, H = 3, T = 40, K = 64
model Attending {
  param q: f32[B, H, T, K] ~ normal(0.0, 1.0)
  optimizer opt: sgd { lr = 0.1 }
  entry go() -> (y: f32[B, H, T, K]) = attention(q, q, q)
  entry moved(at: i32) -> (y: f32[B, H, T, K]) = attention(q, q, q, causal = true, offset = at)
  entry learn() -> (loss: f32) {
    loss = sum(attention(q, q, q) ** 2)
    minimize loss with opt
    return loss
  }
}
"""


@pytest.mark.parametrize(
    ("entry", "wanted"),
    # Two tiles of 4,608 bytes; an offset takes 16, and a kernel of gradients 384 for sums of rows.
    [("go", 9_216), ("moved", 9_216 + 16), ("learn", 9_216 + 384)],
)
def test_workgroup_memory_is_counted_in_bytes(entry: str, wanted: int, tmp_path: Path) -> None:
    path = tmp_path / "m.wg"
    path.write_text(ATTENDING, encoding="utf-8")
    plan = compile_file(path, entries=[entry]).planned.plan
    assert plan["requires"]["limits"]["maxComputeWorkgroupStorageSize"] == wanted


def test_more_workgroup_memory_than_every_device_grants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_WORKGROUP_BYTES", 9_216)
    found = refusal(tmp_path, ATTENDING).diagnostics.errors[0]
    assert found.code == "WG1001" and found.span.line == 7
    assert "9,232 bytes of workgroup memory; every device grants 9,216" in found.message


# Rows of queries (one: a step of decoding), heads of keys and of values.
ATTENDED = """
  entry moved_{name}(q: f32[2, {rows}, {k}], k: f32[1, 300, {k}], v: f32[1, 300, {v}], at: i32)
    -> (y: f32[2, {rows}, {v}]) = attention(q, k, v, causal = true, offset = at)
  entry slopes_{name}(q: f32[2, {rows}, {k}], k: f32[1, 300, {k}], v: f32[1, 300, {v}])
    -> (dq: f32[2, {rows}, {k}], dk: f32[1, 300, {k}], dv: f32[1, 300, {v}]) =
    grad(sum(attention(q, k, v) ** 2), (q, k, v))
"""
HEADS = (1, 4, 17, 32, 129, 272)


@pytest.mark.parametrize("rows", [1, 9])
def test_attention_takes_no_more_workgroup_memory_than_every_device_grants(
    rows: int, tmp_path: Path
) -> None:
    heads = [*product(HEADS, HEADS), (4000, 64), (64, 4000), (4000, 4000)]
    entries = [ATTENDED.format(name=f"{k}_{v}", rows=rows, k=k, v=v) for k, v in heads]
    path = tmp_path / "m.wg"
    path.write_text(f"model M {{{''.join(entries)}}}", encoding="utf-8")
    for entry in compile_file(path, limits="default").schedule.entries.values():
        found = max(d.launches["gpu"].kernel.workgroup_bytes for d in entry.dispatches)
        assert found <= 16_384, entry.name


def test_more_rounds_than_a_call_can_run(tmp_path: Path) -> None:
    text = """fn add(s: f32, x: f32) -> (f32, f32) { return s + x, s }
model M {
  entry run(xs: f32[600000]) -> (s: f32, ys: f32[600000]) { return scan(add, 0.0, xs) }
}
"""
    raised = refusal(tmp_path, text)
    (found,) = raised.diagnostics.errors
    assert found.code == "WG1001"
    assert "would run 1,200,002 kernels; at most 1,000,000" in found.message


def test_more_loops_around_a_kernel_than_uniforms(tmp_path: Path) -> None:
    """Each slice of a slice is found by the counters of all loops around it."""
    shapes = ["f32" + (f"[{', '.join(['2'] * n)}]" if n else "") for n in range(14)]
    lines = ["fn f0(s: f32, x: f32) -> (f32, f32) { return s + x, s }"]
    for n in range(1, 13):
        body = f"s, _ = scan(f{n - 1}, s, x)\n  return s, s"
        lines.append(f"fn f{n}(s: f32, x: {shapes[n]}) -> (f32, f32) {{\n  {body}\n}}")
    run = "s, _ = scan(f12, 0.0, x)\n    return s"
    lines.append(f"model M {{\n  entry run(x: {shapes[13]}) -> (s: f32) {{\n    {run}\n  }}\n}}\n")
    raised = refusal(tmp_path, "\n".join(lines))
    assert any("this is in 13 loops" in error.message for error in raised.diagnostics.errors)


def test_a_plan_holds_what_it_may_of_a_long_comment(tmp_path: Path) -> None:
    path = tmp_path / "m.wg"
    text = (
        "model M {\n  /// "
        + "x" * 70_000
        + "\n  entry run(x: f32[2]) -> (y: f32[2]) = 2.0 * x\n}\n"
    )
    path.write_text(text, encoding="utf-8")
    plan = wgcc_runtime.load_plan(build(path, tmp_path / "b"))
    assert plan.entries["run"].doc == "x" * 65_536
