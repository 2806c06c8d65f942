"""What `precision = f16` saves on real GPUs, by the access model: bytes, workgroup memory, time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from adapters import ROOT
from kernel_families import is_product
from test_gpt_traffic import MODEL
from test_product_access import check
from wgcc.access.devices import DEVICES
from wgcc.access.model import Access, access_of
from wgcc.cli.commands.show.kernel_facts import kernel_facts
from wgcc.compiler import compile_file
from wgcc.schedule.kernel import Launch
from wgcc.schedule.kernels.context import tree_of

# The most that a training step in f16 may take, in units of one in f32: bytes of memory, workgroup
# memory of products, and time of the five GPUs. Updates of f32 moments take the same in both. On an
# M2, lanes that share reads of f32 tiles leave f16 less to gain.
MOST = {
    "tests/bench/models/b.wg": (0.92, 0.76, (0.99, 0.9, 0.97, 0.9, 1.01)),
    "examples/chargpt/model.wg": (0.6, 0.76, (0.73, 0.7, 0.76, 0.68, 0.63)),
}


@dataclass
class Step:
    """All dispatches of a training step."""

    moved: int = 0
    workgroup_bytes: int = 0
    times: list[float] = field(default_factory=lambda: [0.0] * len(DEVICES))
    products: list[Access] = field(default_factory=list)


def step(path: Path) -> Step:
    found, known = Step(), dict[tuple[Launch, tuple[int, ...]], Access]()
    for dispatch in compile_file(path, twin=False).schedule.entries["train"].dispatches:
        launch = dispatch.launches["gpu"]
        bound = tuple(region.bytes for region in dispatch.regions)
        key = launch, bound
        is_new = key not in known
        if is_new:
            known[key] = access_of(tree_of(launch.kernel), launch.grid, dispatch.flops, bound)
        access = known[key]
        found.moved += sum(bound)
        found.times = [
            t + access.seconds[d.name] for t, d in zip(found.times, DEVICES, strict=True)
        ]
        if is_new and is_product(launch):
            found.products.append(access)
            found.workgroup_bytes += launch.kernel.workgroup_bytes
    return found


def traffic(found: Step) -> float:
    """Bytes that products load through the caches. Of narrow tiles, sectors are half filled."""
    return sum(access.traffic for access in found.products)


def in_halves(text: str) -> str:
    return re.sub(r"(model \w+ \{\n)", r"\1  precision = f16\n", text, count=1)


@pytest.mark.parametrize("model", MOST)
def test_a_step(model: str, tmp_path: Path) -> None:
    path = tmp_path / "half.wg"
    path.write_text(in_halves((ROOT / model).read_text(encoding="utf-8")), encoding="utf-8")
    full, half = step(ROOT / model), step(path)
    moved, shared, times = MOST[model]
    assert half.moved <= moved * full.moved, half.moved / full.moved
    # What slices of threads add stays f32.
    assert half.workgroup_bytes <= shared * full.workgroup_bytes
    found = [h / f for h, f in zip(half.times, full.times, strict=True)]
    assert all(h <= most for h, most in zip(found, times, strict=True)), found
    assert traffic(half) <= traffic(full)
    for access in half.products:
        assert access.bank_conflicts <= 2 and access.live <= 160


def test_a_block_of_a_large_gpt(tmp_path: Path) -> None:
    """Of 12 layers x 768, 512 tokens, batch 4: weights of two bytes, activations of two bytes."""
    text = MODEL.replace("ATTENTION", "Attention[D, H, H]")
    unused = text[text.index("layer Joined") : text.index("layer Block")]
    text = text.replace(unused, "")

    def bound(name: str, change: Callable[[str], str]) -> int:
        path = tmp_path / name
        path.write_text(change(text), encoding="utf-8")
        two, three = (_bound_bytes(path, blocks) for blocks in (2, 3))
        return three - two

    full, half = bound("full.wg", str), bound("half.wg", in_halves)
    assert half <= 0.68 * full, half / full


def _bound_bytes(path: Path, blocks: int) -> int:
    """Of all that the dispatches of a step bind."""
    compiled = compile_file(path, sizes={"L": blocks}, twin=False)
    dispatches = compiled.schedule.entries["train"].dispatches
    return sum(region.bytes for dispatch in dispatches for region in dispatch.regions)


def test_tiles_of_large_products_take_half(tmp_path: Path) -> None:
    """Both operands of every product: forward, gradient of the input, gradient of the weight."""
    text = """
model Square {
  l1: Linear[512, 512](bias = false)
  l2: Linear[512, 512](bias = false)
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[512, 512], t: f32[512, 512]) -> (loss: f32) {
    loss = mse(x |> l1 |> relu |> l2, t)
    minimize loss with opt
    return loss
  }
}
"""
    bytes_of = []
    for name, change in (("full.wg", str), ("half.wg", in_halves)):
        (tmp_path / name).write_text(change(text), encoding="utf-8")
        compiled = compile_file(tmp_path / name, twin=False)
        dispatches = compiled.schedule.entries["train"].dispatches
        launches = [(d.launches["gpu"], d.flops) for d in dispatches if d.flops]
        products = [launch.kernel for launch, _ in launches]
        bytes_of.append([kernel.workgroup_bytes for kernel in products])
        if "half" in name:
            tiles = [v for k in products for v in k.shared if v.name.endswith("_tile")]
            assert len(tiles) == 2 * len(products) >= 10
            assert {tile.element for tile in tiles} <= {"f16", "vec4h"}
            # Only inputs are read as f32: x in two of the products, t by what follows another.
            read = [b for k in products for b in k.bindings if not b.written and not b.is_half]
            assert len(read) == 3
            found = [access_of(tree_of(d.kernel), d.grid, flops) for d, flops in launches]
            check(found)
    full, half = bytes_of
    assert len(full) == len(half) and [2 * n for n in half] == full


def test_products_load_halves_into_halves(tmp_path: Path) -> None:
    """Also inputs, which are f32; weights of a loop are those of one round."""
    text = """
      dim N = 64, L = 3
      fn one_round(h: f32[N, 64], each: f32[64, 64]) -> (f32[N, 64], f32) {
        h = tanh(h @ each)
        return h, mean(h)
      }
      model Stacked {
        precision = f16
        param w: f32[L, 64, 64] ~ normal(std = 0.1)
        optimizer opt: sgd { lr = 0.1 }
        entry train(x: f32[N, 64]) -> (loss: f32) {
          last, means = scan(one_round, x, w)
          loss = mean(last ** 2) + sum(means ** 2)
          minimize loss with opt
          return loss
        }
      }
    """
    path = tmp_path / "m.wg"
    path.write_text(text, encoding="utf-8")
    compiled = compile_file(path)
    plan = compiled.planned.plan
    copies = [i for i, b in enumerate(plan["buffers"]) if b["role"] == "copies"]
    readers = {
        d["kernel"]
        for d in plan["entries"]["train"]["dispatches"]
        if any(b["buffer"] in copies for b in d["bindings"])
    }
    assert len(readers) >= 2, json.dumps(plan["entries"])[:2000]
    (text,) = (kernel.text for kernel in compiled.planned.kernels if kernel.name == "f16_copies")
    facts = kernel_facts(plan, "f16_copies", text)
    assert facts["registers"] and [d["entry"] for d in facts["dispatches"]] == ["f16 copies"]
