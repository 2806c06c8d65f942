"""Entries that a loaded model cannot have as methods: the compiler says so, `call` runs them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import wgcc_runtime
from adapters import ROOT
from building import build
from wgcc.elaborate.program.models import METHODS
from wgcc_runtime import Model

MODEL = """
model Names {
  entry reset(class: f32[2]) -> (from: f32[2]) = class + 1.0
  entry toString(self: f32[2], entry: f32[2]) -> (arguments: f32[2]) = self - entry
  entry lambda(x: f32[2]) -> (y: f32[2]) = x * 2.0
}
"""


def test_every_method_is_known(tmp_path: Path) -> None:
    source = tmp_path / "model.wg"
    source.write_text("model M { entry f(x: f32[1]) -> (y: f32[1]) = x }")
    with wgcc_runtime.load(build(source, tmp_path / "b"), device="llvmpipe") as model:
        own = {name for name in [*dir(Model), *vars(model)] if not name.startswith("_")}
    assert own - METHODS == set()
    text = (ROOT / "runtime_js" / "bundle" / "index.d.ts").read_text(encoding="utf-8")
    body = re.search(r"^export interface Loaded \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert body
    found = set(re.findall(r"^  (?:readonly )?(\w+)[(:<?]", body.group(1), re.MULTILINE))
    assert {"plan", "params", "save", "checkFinite"} < found
    assert found - METHODS == set()


def test_call_runs_every_entry(tmp_path: Path) -> None:
    source = tmp_path / "model.wg"
    source.write_text(MODEL)
    bundle = build(source, tmp_path / "bundle")
    x, y = np.float32([1, 2]), np.float32([3, 5])
    with wgcc_runtime.load(bundle, device="llvmpipe") as model:
        assert model.call("reset", **{"class": x})["from"].tolist() == [2, 3]
        assert model.call("toString", self=y, entry=x)["arguments"].tolist() == [2, 3]
        assert model.call("lambda", x=x)["y"].tolist() == [2, 4]
        model.reset()
