"""The Tint compiler that checks our kernels is tested, too: it refuses what browsers refuse."""

from __future__ import annotations

from pathlib import Path

from tint_compiler import compile_all

GOOD = """
@group(0) @binding(0) var<storage, read_write> data: array<f32, 64>;
var<workgroup> shared_sum: array<f32, 64>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) i: u32) {
  shared_sum[i] = data[i];
  workgroupBarrier();
  data[i] = shared_sum[63u - i];
}
"""
BARRIER_UNDER_A_THREADS_CONDITION = GOOD.replace(
    "workgroupBarrier();", "if (i < 32u) { workgroupBarrier(); }"
)
SYNTAX = GOOD.replace("data[i];", "data[i] ? 1 : 0;")
TOO_MUCH_WORKGROUP_MEMORY = GOOD.replace(
    "shared_sum: array<f32, 64>", "shared_sum: array<f32, 4352>"
)


def nine_buffers() -> str:
    names = [f"buffer_{i}" for i in range(9)]
    bindings = "\n".join(
        f"@group(0) @binding({i}) var<storage, read_write> {name}: array<f32>;"
        for i, name in enumerate(names)
    )
    stores = " ".join(f"{name}[0] = 1.0;" for name in names)
    return f"{bindings}\n@compute @workgroup_size(1) fn main() {{ {stores} }}"


def test_tint_accepts_good_kernels_and_says_why_it_refuses_others(tmp_path: Path) -> None:
    texts = {
        "good": GOOD,
        "barrier": BARRIER_UNDER_A_THREADS_CONDITION,
        "syntax": SYNTAX,
        "memory": TOO_MUCH_WORKGROUP_MEMORY,
        "buffers": nine_buffers(),
        "good_again": GOOD.replace("64", "32"),
    }
    paths = {name: tmp_path / f"{name}.wgsl" for name in texts}
    for name, path in paths.items():
        path.write_text(texts[name], encoding="utf-8")
    results = compile_all(paths.values())
    found = {name: "\n".join(results[str(path)]) for name, path in paths.items()}
    assert found["good"] == found["good_again"] == ""
    assert "uniform control flow" in found["barrier"]
    assert "invalid character" in found["syntax"]
    assert "workgroup" in found["memory"]
    assert "storage buffers" in found["buffers"]
