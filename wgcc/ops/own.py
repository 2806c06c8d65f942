"""wgsl(*xs; function, dtype): a function of scalars that a user has written in WGSL.

It has no gradient itself; in the language, `grad` beside the function states one.
"""

from __future__ import annotations

from wgcc.ir.graph import Node, TensorType
from wgcc.kernel.own.read import OwnFunction, read_functions
from wgcc.lazy_numpy import Array
from wgcc.ops.interpret import interpret
from wgcc.ops.registry import Helper, Op, Pointwise, Sample, ShapeError, wgsl_type


def infer(*types: TensorType, function: OwnFunction, dtype: str) -> TensorType:
    kinds = tuple(wgsl_type(type_.dtype) for type_ in types)
    if kinds != function.params or wgsl_type(dtype) != function.result:
        takes = ", ".join(function.params)
        raise ShapeError(f"{function} takes ({takes}) and gives {function.result}")
    if any(type_.shape != types[0].shape for type_ in types):
        raise ShapeError(f"the operands of {function} differ in shape")
    return TensorType(types[0].shape, dtype)


def reference(*arrays: Array, function: OwnFunction, dtype: str) -> Array:
    functions = {one.name: one for one in function.functions}
    return interpret(functions[function.call], functions, arrays)


def wgsl(node: Node) -> str:
    operands = ", ".join(f"{{{place}}}" for place in range(len(node.inputs)))
    return f"{node.attrs['function'].call}({operands})"


def functions(node: Node) -> tuple[Helper, ...]:
    own: OwnFunction = node.attrs["function"]
    return (*own.library, *own.functions)


def effort(node: Node) -> int:
    own: OwnFunction = node.attrs["function"]
    return own.effort * node.output.type.size


_SAMPLE = """
// A polynomial whose terms alternate, and a branch.
fn wave(x: f32, phase: f32) -> f32 {
  var sum = 0.0;
  for (var n = 1; n <= 20; n++) {
    sum += select(-1.0, 1.0, n % 2 == 0) * part(x * f32(n) + phase) / f32(n * n);
  }
  if (sum > 0.5) {
    return 0.5 + 0.1 * (sum - 0.5);
  }
  return sum;
}

fn part(x: f32) -> f32 {
  return sin(x) * exp(-0.25 * abs(x));
}

fn mixed(x: i32, bits: u32, flip: bool) -> i32 {
  let turned = (bits << 3u) ^ (bits >> 29u);
  return select(x / 3 + i32(turned & 15u), ~x, flip);
}
"""


def _samples() -> list[Sample]:
    own = read_functions(_SAMPLE, "sample.wgsl", lambda name: f"own_{name}")
    wave = {"function": own["wave"], "dtype": "f32"}
    mixed = [TensorType((65,), dtype) for dtype in ("i32", "u32", "bool")]
    return [
        *(Sample([shape] * 2, wave, differentiable=False) for shape in ((), (65,), (3, 5), (257,))),
        Sample(mixed, {"function": own["mixed"], "dtype": "i32"}, differentiable=False),
    ]


OPS = (
    Op(
        "wgsl",
        infer,
        reference,
        Pointwise(wgsl, functions, cheap=False),
        samples=_samples(),
        effort=effort,
    ),
)
