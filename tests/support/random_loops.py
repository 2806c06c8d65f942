"""Random loops for tests, and loops written out round by round: the same without `repeat`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wgcc.ir.graph import Builder, Graph, Node, TensorType, Value
from wgcc.ir.loops import LoopNode, all_names, loop_of
from wgcc.ops import infer_types

ROWS, COLUMNS, ROUNDS = 2, 3, 4
MATRIX, SQUARE = TensorType((ROWS, COLUMNS)), TensorType((COLUMNS, COLUMNS))
UNARY = ("tanh", "sigmoid", "sin", "square", "gelu", "neg", "relu", "cos")
BINARY = ("add", "sub", "mul", "maximum")


def random_loop(seed: int) -> Graph:
    """A loop of random nodes over two carries, slices and captured values; often one inside it."""
    random = np.random.default_rng(seed)
    names = ("a0", "b0", "w", "v", "bias")
    types = (MATRIX, MATRIX, SQUARE, MATRIX, TensorType((COLUMNS,)))
    sources = [Value(name, type_) for name, type_ in zip(names, types, strict=True)]
    xs = Value("xs", TensorType((ROUNDS, ROWS, COLUMNS)))
    builder = Builder(infer_types, [*names, "xs"])
    a, b, *captured = sources
    outputs = add_loop(random, builder, [a, b], [xs], captured, depth=int(random.integers(2)))
    return Graph(
        "random",
        inputs=(*sources, xs),
        nodes=tuple(builder.nodes),
        outputs={f"y{i}": value for i, value in enumerate(outputs)},
    )


def add_loop(
    random: np.random.Generator,
    b: Builder,
    inits: list[Value],
    xs: list[Value],
    captured: list[Value],
    depth: int,
) -> tuple[Value, ...]:
    inner = b.inner()
    index = Value(inner.fresh("t"), TensorType((), "u32"))
    carries = [Value(inner.fresh("carry"), value.type) for value in inits]
    slices = [Value(inner.fresh("x"), TensorType(x.shape[1:])) for x in xs]
    own = [Value(inner.fresh(value.name), value.type) for value in captured]
    matrices = [v for v in (*carries, *slices, *own) if v.type == MATRIX]
    time = inner.apply("cast", index, dtype="f32")
    matrices.append(inner.apply("broadcast", time, shape=MATRIX.shape))
    for _ in range(int(random.integers(4, 9))):
        matrices.append(random_matrix(random, inner, matrices, own))
    if depth:
        parts = [inner.apply("reshape", matrices[-1], shape=(1, *MATRIX.shape))] * ROUNDS
        stack = inner.apply("concat", *parts, axis=0)
        made = add_loop(random, inner, matrices[-2:], [stack], own, depth - 1)
        matrices += [value for value in made if value.type == MATRIX]
    pick = [matrices[int(i)] for i in random.integers(len(matrices) // 2, len(matrices), 4)]
    bounded = [inner.apply("tanh", value) for value in pick[:2]]
    row = inner.apply("sum", pick[3], axes=(0,))
    body = Graph(
        "body",
        inputs=(index, *slices, *own),
        state=tuple(carries),
        nodes=tuple(inner.nodes),
        outputs={"y": pick[2], "row": row},
        writes={carry.name: value for carry, value in zip(carries, bounded, strict=True)},
    )
    reverse = bool(random.integers(2))
    return b.apply_many("repeat", *inits, *xs, *captured, body=body, rounds=ROUNDS, reverse=reverse)


def random_matrix(
    random: np.random.Generator, b: Builder, matrices: list[Value], own: list[Value]
) -> Value:
    def one() -> Value:
        return matrices[int(random.integers(len(matrices)))]

    kind = random.choice(["unary", "binary", "product", "bias", "mean", "softmax"])
    if kind == "unary":
        return b.apply(str(random.choice(UNARY)), one())
    if kind == "binary":
        return b.apply(str(random.choice(BINARY)), one(), one())
    if kind == "product":
        weight = next(value for value in own if value.type == SQUARE)
        return b.apply("matmul", one(), weight)
    if kind == "bias":
        bias = next(value for value in own if value.type.rank == 1)
        return b.apply("add", one(), b.apply("broadcast", bias, shape=MATRIX.shape))
    if kind == "softmax":
        return b.apply("softmax", one(), axis=1)
    row = b.apply("sum", one(), axes=(0,))
    return b.apply("broadcast", row, shape=MATRIX.shape)


def unrolled(graph: Graph) -> Graph:
    """`graph` with the nodes of every round in place of each loop."""
    builder = Builder(infer_types, all_names(graph))
    known: dict[str, Value] = {}
    for node in graph.nodes:
        _write(builder, node, known)
    outputs = {name: known.get(value.name, value) for name, value in graph.outputs.items()}
    return replace(graph, nodes=tuple(builder.nodes), outputs=outputs)


def _write(b: Builder, node: Node, known: dict[str, Value]) -> None:
    inputs = [known.get(value.name, value) for value in node.inputs]
    loop = loop_of(node)
    made = _rounds(b, loop, inputs) if loop else b.apply_many(node.op, *inputs, **node.attrs)
    known.update(zip((value.name for value in node.outputs), made, strict=True))


def _rounds(b: Builder, loop: LoopNode, inputs: list[Value]) -> list[Value]:
    count = len(loop.carries)
    carries, xs = inputs[:count], inputs[count : count + len(loop.sliced)]
    captured = inputs[count + len(xs) :]
    rows: dict[int, list[Value]] = {}
    for t in loop.positions:
        slices = [_row(b, x, t) for x in xs]
        values = (b.constant(t, "u32"), *slices, *captured, *carries)
        sources = (*loop.body.inputs, *loop.carries)
        known = dict(zip((value.name for value in sources), values, strict=True))
        for node in loop.body.nodes:
            _write(b, node, known)
        carries = [known.get(value.name, value) for value in loop.next_carries]
        rows[t] = [known.get(value.name, value) for value in loop.body.outputs.values()]
    stacks = zip(*(rows[t] for t in sorted(rows)), strict=True)
    return [*carries, *(_stack(b, parts) for parts in stacks)]


def _row(b: Builder, x: Value, t: int) -> Value:
    rest = x.shape[1:]
    part = b.apply(
        "slice", x, starts=(t, *(0 for _ in rest)), sizes=(1, *rest), steps=(1,) * x.type.rank
    )
    return b.apply("reshape", part, shape=rest)


def _stack(b: Builder, parts: tuple[Value, ...]) -> Value:
    wide = [b.apply("reshape", part, shape=(1, *part.shape)) for part in parts]
    return b.apply("concat", *wide, axis=0)
