"""Tensors of one byte per element: packed in memory and in files, written without races."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import TWIN, build
from hostile_bundles import bytes_at, changed
from line_bundle import make_plan
from tint_compiler import compile_all
from web_stacks import run_job
from wgcc.compiler import read_program
from wgcc.evaluate import Session
from wgcc.passes.pipeline import run_passes
from wgcc_runtime.arrays import convert
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import read_plan
from wgcc_runtime.selftest import run_selftest

Array = np.ndarray[Any, Any]

# Windows start anywhere: at words or inside them, in one row or in rows that share words.
MODEL = """
model Bytes {
  state sums: u8[3, 7] = 7
  state flags: bool[5] = false
  state shared: i8[4, 10] = -1
  state apart: i8[3, 8, 3] = 5
  state whole: u8[32, 8] = 0
  state line: u8[23] = 9
  state both: u8[9] = 1
  state moved: i8[9] = i8(arange(9))
  state old: u8[10] = 3
  state one: i8 = -3
  state yes: bool = false
  frozen param table: i8[7, 6] ~ zeros

  entry step(
    x: u8[3, 7], y: i8[4, 3], z: i8[3, 2, 3], c: u8[2, 8], k: u8[6], at: i32, i: u8[2]
  ) -> (
    sums: u8[3, 7], flags: bool[5], one: i8, most: u8[3], rows: i8[2, 6], before: u8[10],
    after: u8[10], yes: bool
  ) {
    sums := sums + x
    flags := not flags
    shared[:, at +: 3] := y
    apart[:, at +: 2] := z
    whole[at +: 2] := c
    line[at +: 6] := k
    both[at +: 2] := k[: 2]
    both[4 +: 3] := k[3 :]
    moved[at +: 3] := moved[at + 1 +: 3]
    before = old
    old[at +: 2] := c[0, : 2]
    one := one - i8(1)
    yes := not yes
    return sums, flags, one, max(x, axis = 1), gather(table, i), before + old, old, yes
  }

  entry look() -> (shared: i8[4, 10], apart: i8[3, 8, 3], whole: u8[32, 8], line: u8[23],
                   both: u8[9], moved: i8[9]) {
    return shared, apart, whole, line, both, moved
  }
}
"""


# Carries, state, inputs and weights of a loop are bytes.
LOOP = """
dim T = 9, N = 7
model Loop {
  state seen: u8[N] = 3
  state ring: i8[16] = 0
  state marks: bool[T, N] = false
  state at: i32 = 0
  frozen param w: i8[N, N] ~ zeros

  fn counted(h: i8[N], x: u8[N]) -> (i8[N], bool[N]) {
    h = h + i8(x)
    seen := seen + x
    ring[at % 10 +: 6] := h[: 6]
    at := at + 1
    return h, h > i8(0)
  }
  fn mixed(h: f32[N], x: u8[N]) -> (f32[N], u8[N]) {
    return f32(x) / 255.0 + tanh(h @ (f32(w) / 100.0)), x + u8(1)
  }

  entry step(h: i8[N], xs: u8[T, N], zs: u8[N, T]) -> (
    h: i8[N], ys: bool[T, N], y: f32[N], us: u8[T, N], ring: i8[16], seen: u8[N], marks: bool[T, N]
  ) {
    before = marks
    last, ys = scan(counted, h, xs)
    y, us = scan(mixed, zeros(f32[N]), transpose(zs))
    marks := ys
    return last, ys, y, us, ring, seen, before
  }
}
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "bytes.wg").write_text(MODEL, encoding="utf-8")
    return build(folder / "bytes.wg", folder / "bundle")


def drawn(draw: np.random.Generator, step: int) -> dict[str, Array]:
    def small(dtype: str, *shape: int) -> Array:
        limits = np.iinfo(dtype)
        return draw.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)

    x, y, z = small("uint8", 3, 7), small("int8", 4, 3), small("int8", 3, 2, 3)
    c, k = small("uint8", 2, 8), small("uint8", 6)
    at, i = np.asarray(step % 6, np.int32), np.array([step % 7, 3], np.uint8)
    return {"x": x, "y": y, "z": z, "c": c, "k": k, "at": at, "i": i}


def test_kernels_give_what_numpy_gives(bundle: Path, target: Any) -> None:
    program = run_passes(read_program(bundle / "bytes.wg")[1], until="opt")
    draw = np.random.default_rng(0)
    table = draw.integers(-128, 128, (7, 6)).astype(np.int8)
    session = Session(program, {"table": table}, {})
    with wgcc_runtime.load(bundle, device=target) as model:
        model.load_params({"table": table})
        for step in range(12):
            given = drawn(draw, step)
            for entry, inputs in (("step", given), ("look", {})):
                found, wanted = model.call(entry, **inputs), session.call(entry, inputs)
                for name, array in wanted.items():
                    assert found[name].dtype == array.dtype
                    np.testing.assert_array_equal(found[name], array, f"{step}: {name}")


def test_loops_over_bytes(tmp_path: Path, target: Any) -> None:
    path, draw = tmp_path / "loop.wg", np.random.default_rng(2)
    path.write_text(LOOP, encoding="utf-8")
    weights = {"w": draw.integers(-127, 128, (7, 7)).astype(np.int8)}
    session = Session(run_passes(read_program(path)[1], until="opt"), weights, {})
    with wgcc_runtime.load(build(path, tmp_path / "b"), device=target, weights=weights) as model:
        for _ in range(3):
            xs, zs = draw.integers(0, 256, (9, 7)), draw.integers(0, 256, (7, 9))
            inputs = {"h": draw.integers(-128, 128, 7), "xs": xs, "zs": zs}
            found, wanted = model.call("step", **inputs), session.call("step", inputs)
            for name, array in wanted.items():
                np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5, err_msg=name)


def test_tint_accepts_the_kernels(bundle: Path) -> None:
    assert not any(compile_all(sorted(bundle.glob("kernels/*"))).values())


def test_the_self_test_knows_their_bits(bundle: Path) -> None:
    """In Python and in JavaScript, on the twin; on an adapter within the tolerance."""
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    with wgcc_runtime.load(bundle, device=TWIN, verify=True) as model:
        bits = [result.entry for result in run_selftest(model) if result.output == "bits"]
    assert bits == ["step", "look"]
    digests = {plan["selftest"]["entries"][entry]["twin"] for entry in bits}
    assert hashlib.sha256(b"").hexdigest() not in digests
    for options in ({"device": TWIN}, {}):
        assert run_job("node", bundle, "verified", {"verify": True, **options}) == "sound"


def test_plans_count_bytes() -> None:
    """In the last 256 bytes of a buffer, or before another tensor; 257 are hostile."""
    for name, offset in (("opt/opt/ema/w", 768), ("opt/opt/momentum/w", 0)):
        for size in (253, 256):
            plan = changed(make_plan(), f"tensors.{name}", bytes_at(offset, size))
            assert read_plan(json.dumps(plan).encode()).tensors[name].bytes == 256


def test_a_file_of_other_integers_must_fit(bundle: Path) -> None:
    with wgcc_runtime.load(bundle, device=TWIN) as model:
        model.load_params({"table": np.full((7, 6), -128, np.int64)})
        assert (model.params()["table"] == -128).all()
        with pytest.raises(WgccError, match=r"holds 128 at .* the range of i8"):
            model.load_params({"table": np.full((7, 6), 128, np.int64)})


def test_they_take_a_byte_each(bundle: Path) -> None:
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    sizes = {buffer["name"]: buffer["bytes"] for buffer in plan["buffers"]}
    assert sizes["params"] == 48  # 42 bytes, in steps of 16
    assert sizes["step/x"] == 32 and sizes["step/sums"] == 32
    # Two windows in one state, and a window of old and new, need what they replace as words.
    assert plan["memory"]["temps"] <= 4 * (2 * 9 + 2 * 10 + 9)


def test_bytes_go_in_as_they_are() -> None:
    for dtype, kind in (("u8", np.uint8), ("i8", np.int8)):
        array = np.arange(10, dtype=kind)
        assert np.shares_memory(convert(array, dtype, "x"), array)
    assert convert(np.array([True, False]), "bool", "x").tolist() == [1, 0]


def test_a_checkpoint_keeps_their_types(bundle: Path, tmp_path: Path) -> None:
    path, draw = tmp_path / "saved.safetensors", np.random.default_rng(1)
    with wgcc_runtime.load(bundle, device=TWIN) as model:
        model.step(**drawn(draw, 1))
        model.save(path)
        saved = model.state()
    header = json.loads(path.read_bytes()[8:].split(b"}}", 1)[0] + b"}}")
    types = {name: header[name]["dtype"] for name in ("table", "whole", "flags", "one")}
    assert types == {"table": "I8", "whole": "U8", "flags": "BOOL", "one": "I8"}
    start, end = header["whole"]["data_offsets"]
    assert end - start == 32 * 8
    with wgcc_runtime.load(bundle, device=TWIN) as model:
        model.load(path)
        for name, array in model.state().items():
            np.testing.assert_array_equal(array, saved[name])
