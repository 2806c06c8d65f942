"""Every op's rules against each other, in numpy: shapes, gradients, expansions, index maps."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from op_samples import (
    Array,
    build,
    every_sample,
    input_arrays,
    input_types,
    reference_of,
    run_nodes,
)
from wgcc.ir.graph import FLOATS, Node, TensorType, Value
from wgcc.ops import OPS, Op, ShapeError, infer_types
from wgcc.ops.registry import Expand, Indirect, Marker, Sample, Update, View, numpy_dtype

# Central differences in float64: error of the step squared, and of rounding divided by the step.
STEP, TOLERANCE = 1e-5, 2e-6


def has_gradient(op: Op, sample: Sample) -> bool:
    # stop_grad is the only op whose gradient is wrong on purpose.
    return op.grad is not None and sample.differentiable and op.name != "stop_grad"


@pytest.mark.parametrize(("op", "sample"), every_sample())
def test_shape_rule_agrees_with_the_reference(op: Op, sample: Sample) -> None:
    types = infer_types(op.name, tuple(input_types(sample)), sample.attrs)
    wide = reference_of(op, sample, input_arrays(op, sample))
    narrow = reference_of(op, sample, input_arrays(op, sample, np.float32))
    assert len(types) == len(wide) == len(narrow)
    for type_, exact, rounded in zip(types, wide, narrow, strict=True):
        assert exact.shape == rounded.shape == type_.shape
        if type_.dtype in FLOATS:
            assert exact.dtype.kind == rounded.dtype.kind == "f"
            assert rounded.dtype != np.float64, "the reference widens"
            np.testing.assert_allclose(
                rounded, exact, rtol=2e-3 if type_.dtype == "f16" else 1e-4, atol=1e-4
            )
        else:
            assert exact.dtype == rounded.dtype == numpy_dtype(type_.dtype)


@pytest.mark.parametrize(("op", "sample"), every_sample(has_gradient))
def test_gradient_is_the_central_difference(op: Op, sample: Sample) -> None:
    arrays = input_arrays(op, sample)
    rng = np.random.default_rng(len(arrays))
    outputs = reference_of(op, sample, arrays)
    own = len(outputs) - op.saved
    gs = [
        rng.uniform(-1, 1, y.shape) if at < own and y.dtype.kind == "f" else None
        for at, y in enumerate(outputs)
    ]
    gradients = gradients_of(op, sample, arrays, gs)
    for at, (type_, gradient) in enumerate(zip(input_types(sample), gradients, strict=True)):
        if type_.dtype not in FLOATS:
            assert gradient is None, f"{type_} has no gradient"
            continue
        for direction in directions(type_.shape, rng):
            found = 0.0 if gradient is None else float((gradient * direction).sum())
            want = slope(op, sample, arrays, gs, at, direction)
            assert found == pytest.approx(
                want, rel=TOLERANCE, abs=TOLERANCE * max(1, direction.size**0.5)
            )


def directions(shape: tuple[int, ...], rng: np.random.Generator) -> list[Array]:
    """Two that touch every element, and some single elements."""
    size = int(np.prod(shape))
    found = [rng.uniform(-1, 1, shape) for _ in range(2)]
    for place in rng.choice(size, min(size, 4), replace=False):
        one = np.zeros(size)
        one[place] = 1
        found.append(one.reshape(shape))
    return found


def slope(
    op: Op,
    sample: Sample,
    arrays: Sequence[Array],
    gs: Sequence[Array | None],
    at: int,
    direction: Array,
) -> float:
    """How fast the outputs (weighted by `gs`) grow when input `at` moves along `direction`."""
    ends = []
    for sign in (1, -1):
        moved = [*arrays[:at], arrays[at] + sign * STEP * direction, *arrays[at + 1 :]]
        ends.append(reference_of(op, sample, moved))
    weighted = zip(*ends, gs, strict=True)
    return sum(float(((hi - lo) * g).sum()) for hi, lo, g in weighted if g is not None) / (2 * STEP)


def gradients_of(
    op: Op, sample: Sample, arrays: Sequence[Array], gs: Sequence[Array | None]
) -> list[Array | None]:
    builder, node = build(op, sample)
    assert op.grad is not None
    seeds = [
        None if g is None else Value(builder.fresh(f"g{at}"), node.outputs[at].type)
        for at, g in enumerate(gs)
    ]
    found = op.grad(builder, node, seeds)
    assert len(found) == len(node.inputs)
    given = [*zip(node.inputs, arrays, strict=True)]
    given += [(s, g) for s, g in zip(seeds, gs, strict=True) if s is not None and g is not None]
    wanted = [value for value in found if value is not None]
    results = iter(run_nodes(builder.nodes, given, wanted))
    for value, source in zip(found, node.inputs, strict=True):
        assert value is None or value.type == source.type
    return [None if value is None else next(results) for value in found]


@pytest.mark.parametrize(("op", "sample"), every_sample(lambda op, _: op.grad is not None))
def test_no_gradient_out_means_none_in(op: Op, sample: Sample) -> None:
    builder, node = build(op, sample)
    assert op.grad is not None
    assert list(op.grad(builder, node, [None] * len(node.outputs))) == [None] * len(node.inputs)
    assert builder.nodes == [node], "nodes that nothing needs"


def is_composite(op: Op, sample: Sample) -> bool:
    return isinstance(op.lower, Expand)


@pytest.mark.parametrize(("op", "sample"), every_sample(is_composite))
def test_expansion_is_the_reference(op: Op, sample: Sample) -> None:
    builder, node = build(op, sample)
    assert isinstance(op.lower, Expand)
    results = op.lower.rule(builder, node)
    assert [value.type for value in results] == [value.type for value in node.outputs]
    assert not any(isinstance(OPS[n.op].lower, Expand | Marker) for n in builder.nodes[1:])
    arrays = input_arrays(op, sample)
    given = [*zip(node.inputs, arrays, strict=True)]
    got = run_nodes(builder.nodes[1:], given, results)
    for found, want in zip(got, reference_of(op, sample, arrays), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6)


def is_view(op: Op, sample: Sample) -> bool:
    return isinstance(op.lower, View | Indirect)


@pytest.mark.parametrize(("op", "sample"), every_sample(is_view))
def test_index_map_finds_the_elements(op: Op, sample: Sample) -> None:
    _, node = build(op, sample)
    arrays = input_arrays(op, sample)
    (want,) = reference_of(op, sample, arrays)
    for position in itertools.product(*map(range, want.shape)):
        assert element(op, node, arrays, position) == want[position]


def element(op: Op, node: Node, arrays: Sequence[Array], position: tuple[int, ...]) -> Any:
    lower = op.lower
    if isinstance(lower, Indirect):
        found = int(arrays[1][lower.at(node, position)])
        clamped = min(max(found, 0), lower.limit(node))
        return arrays[0][lower.index(node, position, clamped)]
    assert isinstance(lower, View)
    for low, coordinate, high in lower.inside(node, position) if lower.inside else ():
        if not low <= coordinate < high:
            return 0
    place = lower.index(node, position)
    assert all(0 <= at < size for at, size in zip(place, node.inputs[0].shape, strict=True))
    return arrays[0][place]


def is_update(op: Op, sample: Sample) -> bool:
    return isinstance(op.lower, Update)


@pytest.mark.parametrize(("op", "sample"), every_sample(is_update))
def test_update_form_names_everything_it_uses(op: Op, sample: Sample) -> None:
    assert isinstance(op.lower, Update)
    form = op.lower.form(sample.attrs)
    assert len(sample.inputs) == sample.attrs["n"] * len(form.lists) + len(form.scalars)
    assert set(form.writes) <= set(form.lists)
    for name in form.writes:
        assert f"{name} = " in form.wgsl
    for name in (*form.lists, *form.scalars):
        assert name in form.wgsl


def test_every_op_has_samples_unless_a_later_pass_makes_or_takes_it() -> None:
    # The scheduler makes `flat`; samples cannot give loops a body, `test_repeat.py` does.
    elsewhere = {"flat", "repeat"}
    bare = {op.name for op in OPS.values() if not op.samples and not isinstance(op.lower, Marker)}
    assert bare <= elsewhere


# op, inputs, gradients for g = 1: where a rule could divide by zero or favour one of two equals
EDGES: list[tuple[str, list[Any], dict[str, Any], list[Any]]] = [
    ("abs", [[0.0, -2.0]], {}, [[0, -1]]),
    ("relu", [[0.0, 1.0, -1.0]], {}, [[0, 1, 0]]),
    ("maximum", [[1.0, 2.0], [1.0, 3.0]], {}, [[0.5, 0], [0.5, 1]]),
    ("minimum", [[1.0, 2.0], [1.0, 3.0]], {}, [[0.5, 1], [0.5, 0]]),
    ("max", [[2.0, 2.0, 1.0, 2.0]], {"axes": (0,)}, [[1 / 3, 1 / 3, 0, 1 / 3]]),
    ("min", [[2.0, 2.0, 3.0]], {"axes": (0,)}, [[0.5, 0.5, 0]]),
    ("prod", [[0.0, 2.0, 3.0]], {"axes": (0,)}, [[6, 0, 0]]),
    ("prod", [[0.0, 0.0, 3.0]], {"axes": (0,)}, [[0, 0, 0]]),
    ("pow", [[0.0, 0.0, 0.0, -2.0], [0.0, 1.0, 2.0, 3.0]], {}, [[0, 1, 0, 12], [0, 0, 0, 0]]),
    ("sigmoid", [[-200.0, 200.0]], {}, [[0, 0]]),
    ("softplus", [[-200.0, 200.0]], {}, [[0, 1]]),
    ("gelu", [[-50.0, 0.0, 50.0]], {}, [[0, 0.5, 1]]),
    ("softmax", [[0.0, 500.0]], {"axis": 0}, [[0, 0]]),
    ("where", [[True, False], [1.0, 2.0], [3.0, 4.0]], {}, [None, [1, 0], [0, 1]]),
    ("stop_grad", [[1.0]], {}, [None]),
]


@pytest.mark.parametrize(("name", "inputs", "attrs", "want"), EDGES)
def test_gradient_at_the_edge(
    name: str, inputs: list[Any], attrs: dict[str, Any], want: list[Any]
) -> None:
    arrays = [np.asarray(values) for values in inputs]
    types = [TensorType(a.shape, "bool" if a.dtype == bool else "f32") for a in arrays]
    sample = Sample(types, attrs)
    (y,) = reference_of(OPS[name], sample, arrays)
    found = gradients_of(OPS[name], sample, arrays, [np.ones(y.shape)])
    for gradient, expected in zip(found, want, strict=True):
        assert (gradient is None) == (expected is None)
        if gradient is not None:
            np.testing.assert_allclose(gradient, expected, atol=1e-12)


def test_ignored_labels_alone_give_no_loss_and_no_gradient() -> None:
    sample = Sample([(2, 3), TensorType((2,), "i32")], {"ignore": -1, "smoothing": 0.1})
    arrays = [np.ones((2, 3)), np.full(2, -1, np.int32)]
    op = OPS["cross_entropy"]
    assert reference_of(op, sample, arrays) == [0.0]
    gradient, _ = gradients_of(op, sample, arrays, [np.ones(())])
    np.testing.assert_array_equal(gradient, np.zeros((2, 3)))


def f32(*shape: int) -> TensorType:
    return TensorType(shape)


def i32(*shape: int) -> TensorType:
    return TensorType(shape, "i32")


# Wrong applications, and words that must be in the error.
REFUSED: list[tuple[str, list[TensorType], dict[str, Any], str]] = [
    ("exp", [i32(3)], {}, "exp takes floats, not i32[3]"),
    ("neg", [TensorType((3,), "u32")], {}, "not u32[3]"),
    ("add", [f32(3), f32(4)], {}, "the operands of add differ: f32[3] and f32[4]"),
    ("add", [f32(3), i32(3)], {}, "f32[3] and i32[3]"),
    ("logical_and", [f32(1), f32(1)], {}, "takes bools"),
    ("where", [TensorType((2,), "bool"), f32(3), f32(3)], {}, "chooses between"),
    ("cast", [f32(3)], {"dtype": "f64"}, "there is no dtype f64"),
    ("const", [], {"value": float("inf"), "dtype": "f32"}, "finite"),
    ("const", [], {"value": 300, "dtype": "u8"}, "does not fit u8"),
    ("iota", [], {"n": 0, "dtype": "i32"}, "at least 1"),
    ("reshape", [f32(2, 3)], {"shape": (4,)}, "f32[2, 3] has 6 elements, [4] has 4"),
    ("transpose", [f32(2, 3)], {"perm": (0, 0)}, "every axis"),
    ("broadcast", [f32(2, 3)], {"shape": (3, 3)}, "cannot be broadcast to [3, 3]"),
    ("broadcast", [f32(2, 3)], {"shape": (3,)}, "cannot be broadcast"),
    ("slice", [f32(5)], {"starts": (3,), "sizes": (3,), "steps": (1,)}, "leave axis 0 of size 5"),
    ("concat", [f32(2, 3), f32(3, 3)], {"axis": 1}, "differ elsewhere"),
    ("gather", [f32(3, 2), f32(4)], {}, "ids takes integers"),
    ("window", [f32(5), i32()], {"axis": 0, "size": 6}, "do not fit"),
    ("sum", [f32(3)], {"axes": (1,)}, "has no axis 1"),
    ("sum", [TensorType((3,), "u8")], {"axes": (0,)}, "sum takes"),
    ("matmul", [f32(2, 3), f32(4, 2)], {}, "inner sizes"),
    ("matmul", [f32(2, 3), f32(3)], {}, "two matrices"),
    ("softmax", [f32(3)], {"axis": 1}, "no axis 1"),
    ("layer_norm", [f32(2, 3), f32(2), f32(3)], {"eps": 1e-5}, "needs f32[3] twice"),
    ("cross_entropy", [f32(2, 3), i32(3)], {"ignore": None, "smoothing": 0.0}, "one row for each"),
    ("grad", [f32(3), f32(2)], {}, "must be a scalar"),
    ("sum_squares", [f32(3)], {"n": 2}, "takes 2 tensors"),
    ("ema_update", [f32(3)], {"n": 1, "decay": 0.9, "gated": False}, "(1 e, 1 p)"),
]


@pytest.mark.parametrize(("name", "types", "attrs", "words"), REFUSED)
def test_shape_rule_says_what_is_wrong(
    name: str, types: list[TensorType], attrs: dict[str, Any], words: str
) -> None:
    with pytest.raises(ShapeError, match=re.escape(words)):
        infer_types(name, tuple(types), attrs)
