"""`wgcc show --kernel` and `--kernels`: the static figures of kernels are correct."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cli_runs import run
from wgcc.cli.commands.show.kernel_facts import kernel_facts
from wgcc.compiler import compile_file
from wgcc.schedule.kernel import Kernel, WorkgroupVariable

MODEL = """
dim B = 96
model M {
  a: Linear[64, 128](bias = false)
  entry predict(x: f32[B, 64]) -> (y: f32[B, 128]) { return a(x) }
}
"""


TWO_LAYERS = """
dim B = 96
model M {{
  precision = {precision}
  a: Linear[64, 128]
  b: Linear[128, 64]
  entry predict(x: f32[B, 64]) -> (y: f32[B, 64]) {{ return b(tanh(a(x))) }}
}}
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.wg"
    path.write_text(MODEL)
    return str(path)


def test_facts_of_a_product(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "show", model, "--kernels", "--json")
    (item,) = json.loads(out)
    assert code == 0
    (dispatch,) = item["dispatches"]
    # Operands and result are bound once each.
    moved = 4 * (96 * 64 + 64 * 128 + 96 * 128)
    assert (dispatch["flops"], dispatch["bytes"]) == (2 * 96 * 64 * 128, moved)
    assert dispatch["intensity"] == pytest.approx(2 * 96 * 64 * 128 / moved)
    x, y, z = item["workgroup"]
    assert item["threads"] == x * y * z
    grid = dispatch["grid"]
    # All threads of all workgroups together hold the result, once.
    made = item["accumulators"] * item["threads"] * grid[0] * grid[1] * grid[2]
    assert made == 96 * 128
    assert 0 < item["workgroup_bytes"] <= 16384
    # Blocks of 2 x 1 results take 3 loads for 2 products and 2 sums.
    assert item["operations_per_load"] == pytest.approx(4 / 3)


def test_facts_stand_before_the_text(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = json.loads(run(capsys, "show", model, "--json")[1])["kernels"]
    _, out, _ = run(capsys, "show", model, "--kernel", names[0])
    assert out.startswith("// workgroup: ") and "@compute" in out
    assert "1,572,864 operations" in out and "per byte" in out
    _, out, _ = run(capsys, "show", model, "--kernel", names[0], "--json")
    assert json.loads(out)["kernel"] == names[0]
    _, out, _ = run(capsys, "show", model, "--kernels")
    rows, _, times = out.partition("\n\n")
    assert [line.split()[0] for line in rows.splitlines()] == ["kernel", *names]
    # Starting dispatches is part of the time of an entry.
    assert re.search(r"^\w+: at least 4070 \d+ us, .* start \d+ dispatches", times)
    assert run(capsys, "show", model, "--kernels", "--memory")[0] == 2


def test_what_is_counted() -> None:
    text = """
const TM = 4u;
var<workgroup> shared_part: array<vec4f, 2 * TM>;
var<workgroup> flag: u32;

fn other() { var x = 0.0; x += 1.0; }

@compute @workgroup_size(8)
fn main() {
  var kept: array<f32, TM>;
  var four = vec4f(0.0);
  var best = -1.0;
  var fixed = 1.0;
  for (var k = 0u; k < 8u; k++) {
    var inner = 0.0;
    for (var j = 0u; j < 8u; j++) { inner = fma(1.0, 2.0, inner); }
    kept[k] += inner;
    four = four + vec4f(fixed);
    best = max(best, inner);
  }
}
"""
    plan = {"kernels": [{"name": "k", "workgroup": [8, 1, 1]}], "entries": {}}
    facts = kernel_facts(plan, "k", text)
    # Each variable takes multiples of 16 bytes.
    assert facts["workgroup_bytes"] == 4 * 4 * 8 + 16
    assert facts["accumulators"] == 4 + 4 + 1 + 1
    assert facts["dispatches"] == []


@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_the_plan_says_how_much_workgroup_memory_its_kernels_take(
    precision: str, tmp_path: Path
) -> None:
    """What a kernel knows of itself, what its text declares and what the plan asks for agree."""
    path = tmp_path / "model.wg"
    path.write_text(TWO_LAYERS.format(precision=precision))
    compiled = compile_file(path)
    declared = [
        kernel_facts(compiled.plan(), file.name, file.text)["workgroup_bytes"]
        for file in compiled.planned.kernels
    ]
    known = [file.kernels[0].workgroup_bytes for file in compiled.planned.kernels]
    assert declared == known and max(known) > 0
    shared = "".join(file.text for file in compiled.planned.kernels)
    assert bool(re.search(r"array<(vec4h|f16), TK", shared)) == (precision == "f16")
    asked = compiled.plan()["requires"]["limits"]["maxComputeWorkgroupStorageSize"]
    assert asked == max(known)


def test_workgroup_memory_is_counted_in_units_of_16_bytes() -> None:
    tile = WorkgroupVariable("tile", "vec4h", ("TILE", "TK"))
    kernel = Kernel("", (), (("TILE", 3), ("TK", 5)), (), (), (1, 1, 1), (tile,))
    assert kernel.workgroup_bytes == 128  # 15 times 8 bytes, rounded up
    flag = WorkgroupVariable("flag", "i32")
    assert replace(kernel, shared=(tile, flag)).workgroup_bytes == 144
