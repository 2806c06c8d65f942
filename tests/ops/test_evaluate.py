"""The numpy oracle: precision of each dtype, state between calls, clear refusals."""

from __future__ import annotations

import numpy as np
import pytest

from read_ir import read_graphs
from wgcc.evaluate import Session, evaluate, from_words, to_words
from wgcc.ir.graph import Graph, TensorType, Value
from wgcc.ir.program import Init, ModelTensor, Program


def graph(text: str) -> Graph:
    (only,) = read_graphs(text).values()
    return only


SCALED = """
entry scaled {
  input %x: f32[3]
  %y = mul(%x, %x)
  %narrow = cast(%y; dtype=f16)
  %wide = cast(%narrow; dtype=f32)
  %whole = cast(%x; dtype=i32)
  output y = %y
  output wide = %wide
  output whole = %whole
}
"""


def test_floats_are_computed_in_float64_unless_told_otherwise() -> None:
    x = np.array([1.1, 2.7, -3.3])
    exact = evaluate(graph(SCALED), {"x": x}).outputs["y"]
    rounded = evaluate(graph(SCALED), {"x": x}, "f32").outputs["y"]
    assert exact.dtype == np.float64 and rounded.dtype == np.float32
    np.testing.assert_array_equal(exact, x * x)
    np.testing.assert_array_equal(rounded, np.float32(x) * np.float32(x))


def test_f16_values_are_rounded_and_integers_keep_their_dtype() -> None:
    found = evaluate(graph(SCALED), {"x": np.array([1.1, 2.7, -3.3])}).outputs
    np.testing.assert_array_equal(found["wide"], found["y"].astype(np.float16).astype(np.float64))
    np.testing.assert_array_equal(found["whole"], [1, 2, -3])
    assert found["whole"].dtype == np.int32


def test_an_array_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"f32\[3\] cannot hold an array of shape \[2\]"):
        evaluate(graph(SCALED), {"x": np.zeros(2)})


def test_constants_survive_their_words() -> None:
    tried = {"f32": [0.5, -1.0], "bool": [True, False], "i32": [-7, 9], "i8": [-7, 9]}
    for dtype, numbers in tried.items():
        value = Value("c", TensorType((2,), dtype))
        constant = to_words(np.array(numbers), value)
        assert len(constant.words) == (2 if dtype in ("bool", "i8") else 8)
        np.testing.assert_array_equal(from_words(constant), numbers)


COUNTING = """
entry count {
  input %x: f32[2]
  param %w: f32[2]
  state %n: u32
  %one = const(value=1, dtype=u32)
  %next = add(%n, %one)
  %moved = add(%w, %x)
  output n = %n
  write n = %next
  write w = %moved
}
"""


def counting() -> Program:
    pair, number = TensorType((2,)), TensorType((), "u32")
    return Program(
        "counting",
        params={"w": ModelTensor("w", pair, Init("normal"), trainable=True)},
        state={
            "n": ModelTensor("n", number, Init("value", values=(4,))),
            "shadow": ModelTensor("shadow", pair, Init("copy", of="w")),
        },
        entries={"count": graph(COUNTING)},
    )


def test_a_session_carries_parameters_and_state() -> None:
    session = Session(counting(), {"w": np.array([1.0, 2.0])})
    assert [int(session.call("count", {"x": np.ones(2)})["n"]) for _ in range(3)] == [4, 5, 6]
    np.testing.assert_array_equal(session.params["w"], [4.0, 5.0])
    np.testing.assert_array_equal(session.state["shadow"], [1.0, 2.0])


def test_random_parameters_must_be_given() -> None:
    with pytest.raises(ValueError, match="w has random initial values"):
        Session(counting(), {})
