"""Models and ops that `wgcc export --to torch` writes, for the recorder and for tests."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from adapters import ROOT
from op_samples import Array, build
from wgcc.bundle.emit import InitialValues
from wgcc.compiler import read_program
from wgcc.errors import WgError
from wgcc.evaluate import Session
from wgcc.ir.graph import Graph, Node
from wgcc.ops import OPS, Op
from wgcc.ops.registry import Sample
from wgcc.passes.autograd import autograd
from wgcc.to_torch.module_text import module_text, stored_names

FOLDER = ROOT / "tests" / "torch_export"
IMPORTING = ROOT / "tests" / "importing"
RECORDED = FOLDER / "recorded.json"
MODELS = {
    "everything": FOLDER / "everything.wg",
    "images": IMPORTING / "keras" / "images.wg",
    **{name: IMPORTING / f"{name}.wg" for name in
       ("audio", "cnn_deep", "gpt2", "recurrent", "transformer")},
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A model with drawn weights and inputs."""

    path: Path

    @cached_property
    def program(self) -> Any:
        return read_program(self.path)[1]

    @cached_property
    def graph(self) -> Graph:
        graph: Graph = self.program.entries["predict"]
        return graph

    def text(self) -> str:
        return module_text(self.program, "predict", f"{self.path.stem}.safetensors")

    def weights(self) -> dict[str, Array]:
        """Without zeros: biases and running statistics are drawn, too."""
        generator = np.random.default_rng(1)
        found = dict(InitialValues(self.program))
        return {
            name: generator.uniform(0.2, 0.9, array.shape).astype(np.float32)
            if array.ndim < 2 and array.dtype == np.float32 else array
            for name, array in found.items()
        }  # fmt: skip

    def state_dict(self) -> dict[str, Array]:
        held = self.weights()
        return {stored: held[name] for name, stored in stored_names(self.graph).items()}

    def inputs(self) -> dict[str, Array]:
        generator = np.random.default_rng(2)
        return {
            value.name: generator.normal(size=value.shape).astype(np.float32)
            if value.dtype == "f32" else generator.integers(0, 3, value.shape).astype(np.int32)
            for value in self.graph.inputs
        }  # fmt: skip

    def outputs(self) -> dict[str, Array]:
        """By the numpy references."""
        entries = {name: autograd(graph) for name, graph in self.program.entries.items()}
        program, held = replace(self.program, entries=entries), self.weights()
        given = ({n: held[n] for n in names} for names in (program.params, program.state))
        return Session(program, *given, dtype="f32").call("predict", self.inputs())


def sample_text(op: Op, sample: Sample) -> tuple[Node, str]:
    """A module of this op alone; "" if it is refused."""
    node = build(op, sample)[1]
    graph = Graph("e", inputs=node.inputs, nodes=(node,), outputs={"y": node.outputs[0]})
    program: Any = SimpleNamespace(entries={"e": graph}, name="Net")
    try:
        return node, module_text(program, "e", "w")
    except WgError as error:
        assert "cannot be exported to PyTorch" in str(error)
        return node, ""


def fingerprint(op: Op) -> str:
    """Of all texts of an op; "" if it is refused."""
    texts = [text for sample in op.samples if (text := sample_text(op, sample)[1])]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] if texts else ""


def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def exported_ops() -> list[Op]:
    return [op for op in OPS.values() if op.samples]
