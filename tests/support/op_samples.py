"""Makes inputs for the samples of ops, and runs nodes that a rule has built."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wgcc.evaluate import evaluate
from wgcc.ir.graph import FLOATS, Builder, Graph, Node, TensorType, Value
from wgcc.ops import OPS, Op, infer_types
from wgcc.ops.registry import FromIndex, Pointwise, Sample, numpy_dtype

Array = np.ndarray[Any, Any]


def every_sample(wanted: Callable[[Op, Sample], bool] = lambda op, sample: True) -> list[Any]:
    """(op, sample) pairs with readable ids, for parametrize."""
    import pytest

    return [
        pytest.param(op, sample, id=f"{op.name}-{at}")
        for op in OPS.values()
        for at, sample in enumerate(op.samples)
        if wanted(op, sample)
    ]


def pattern_of(lower: Pointwise | FromIndex, node: Node) -> str:
    """Its expression; what it has in common with another op is written out."""
    pattern = lower.wgsl if isinstance(lower.wgsl, str) else lower.wgsl(node)
    if isinstance(lower, FromIndex) or not lower.part:
        return pattern
    part = OPS[lower.part].lower
    assert isinstance(part, Pointwise)
    return pattern.replace(f"{{{lower.part}}}", pattern_of(part, node))


def input_types(sample: Sample) -> list[TensorType]:
    return [t if isinstance(t, TensorType) else TensorType(tuple(t)) for t in sample.inputs]


def input_arrays(op: Op, sample: Sample, float_dtype: Any = np.float64) -> list[Array]:
    """Values that f32 can hold, the same on every run; `integers` bounds are both included."""
    rng = np.random.default_rng(zlib.crc32(f"{op.name} {sample}".encode()))
    found = []
    for type_ in input_types(sample):
        if type_.dtype in FLOATS:
            drawn = rng.uniform(sample.low, sample.high, type_.shape)
            rounded = drawn.astype(numpy_dtype(type_.dtype))
            found.append(rounded.astype(float_dtype))
        else:
            low, high = sample.integers
            drawn = rng.integers(low, high, type_.shape, endpoint=True)
            found.append(np.asarray(drawn).astype(numpy_dtype(type_.dtype)))
    return found


def build(op: Op, sample: Sample) -> tuple[Builder, Node]:
    """One node applied to inputs `in0`, `in1`, …, and the builder that made it."""
    values = [Value(f"in{at}", type_) for at, type_ in enumerate(input_types(sample))]
    builder = Builder(infer_types, taken=[value.name for value in values])
    builder.apply_many(op.name, *values, **sample.attrs)
    return builder, builder.nodes[0]


def run_nodes(
    nodes: Sequence[Node], given: Sequence[tuple[Value, Array]], wanted: Sequence[Value]
) -> list[Array]:
    """The wanted values, computed in float64."""
    graph = Graph(
        "rule",
        inputs=tuple(value for value, _ in given),
        nodes=tuple(nodes),
        outputs={value.name: value for value in wanted},
    )
    outputs = evaluate(graph, {value.name: array for value, array in given}).outputs
    return [outputs[value.name] for value in wanted]


def reference_of(op: Op, sample: Sample, arrays: Sequence[Array]) -> list[Array]:
    with np.errstate(all="ignore"):
        found = op.reference(*arrays, **sample.attrs)
    return [np.asarray(item) for item in (found if isinstance(found, tuple) else (found,))]
