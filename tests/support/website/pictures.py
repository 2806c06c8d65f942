"""Pictures of functions as SVG: curves and grids of what the reference evaluator computes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape

from wgcc.elaborate import elaborate
from wgcc.errors import Diagnostics, Source
from wgcc.evaluate import evaluate
from wgcc.language_service.analysis import analyse
from wgcc.language_service.inlay_hints import bound_types
from wgcc.lazy_numpy import Array, np

# Functions of one number, drawn from -LIMIT to LIMIT.
CURVES = [
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "abs",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "sigmoid",
    "relu",
    "silu",
    "leaky_relu",
    "elu",
    "selu",
    "hardswish",
    "mish",
    "softsign",
    "softplus",
    "square",
    "sign",
    "floor",
    "ceil",
    "trunc",
    "round",
    "erf",
    "log1p",
    "expm1",
    "gelu",
]
LIMIT, POINTS = 4.0, 161
HIGHEST = 4.0
# Calls of x, the numbers 0 to 11 as 3 rows of 4 columns, drawn before and after.
GRIDS = {
    "transpose": "transpose(x)",
    "flip": "flip(x, axis = 1)",
    "roll": "roll(x, 1, axis = 1)",
    "tile": "tile(x, (1, 2))",
    "pad": "pad(x, (1, 1), axis = 1)",
    "tril": "tril(x)",
    "triu": "triu(x)",
    "cumsum": "cumsum(x)",
    "sum": "sum(x, axis = 1, keep = true)",
    "mean": "mean(x, axis = 1, keep = true)",
    "max": "max(x, axis = 0, keep = true)",
    "argmax": "argmax(x, axis = 1, keep = true)",
    "softmax": "softmax(x)",
    "sort": "sort(x, descending = true)[0]",
    "top_k": "top_k(x, 2)[0]",
    "gather": "gather(x, [2, 0])",
    "take_along_axis": "take_along_axis(x, [[3], [0], [1]])",
    "one_hot": "one_hot([2, 0, 3], 4)",
    "reshape": "reshape(x, [2, 6])",
    "concat": "concat([x, x], axis = 0)",
    "normalize": "normalize(x)",
    "where": "where(x > 5.0, x, 0.0)",
    "clamp": "clamp(x, 3.0, 8.0)",
}
# Which cells of the input one result reads: kernel size, stride, padding, dilation.
WINDOWS = {
    "conv1d": (3, 1, 1, 1),
    "conv2d": (3, 1, 1, 1),
    "conv3d": (3, 1, 1, 1),
    "Conv1d": (3, 1, 0, 1),
    "Conv2d": (3, 1, 0, 1),
    "Conv3d": (3, 1, 0, 1),
    "max_pool1d": (2, 2, 0, 1),
    "max_pool2d": (2, 2, 0, 1),
    "max_pool3d": (2, 2, 0, 1),
    "avg_pool1d": (2, 2, 0, 1),
    "avg_pool2d": (2, 2, 0, 1),
    "avg_pool3d": (2, 2, 0, 1),
    "unfold": (2, 2, 0, 1),
}
ATTENTION = ("attention", "Attention", "MultiHeadAttention")


def picture(name: str) -> str:
    """An SVG, or "" where none helps."""
    if name in CURVES:
        return _curve(name, _curves()[name])
    if name in GRIDS:
        return _grid_pair(name)
    if name in WINDOWS:
        return _windows(name, *WINDOWS[name])
    return _attention() if name in ATTENTION else ""


@cache
def _curves() -> dict[str, Array]:
    outputs = ", ".join(f"y{i}: f32[{POINTS}]" for i in range(len(CURVES)))
    calls = ", ".join(f"{name}(x)" for name in CURVES)
    entry = f"model M {{ entry run(x: f32[{POINTS}]) -> ({outputs}) {{ return {calls} }} }}"
    results = _evaluate(entry, {"x": np.linspace(-LIMIT, LIMIT, POINTS)})
    return {name: results[f"y{i}"] for i, name in enumerate(CURVES)}


def _evaluate(text: str, inputs: dict[str, Array]) -> dict[str, Array]:
    diagnostics = Diagnostics()
    program = elaborate(Source("picture.wg", text), diagnostics)
    assert program is not None, [item.message for item in diagnostics]
    return dict(evaluate(program.entries["run"], inputs).outputs)


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    opening = f'<svg class="picture" role="img" aria-label="{escape(label)}" {size}>'
    return f"{opening}{''.join(parts)}</svg>"


def _curve(name: str, values: Array) -> str:
    side, scale = 180.0, 180.0 / (2 * LIMIT)
    xs = np.linspace(-LIMIT, LIMIT, POINTS)
    axes = f'<path class="axis" d="M0 {side / 2}H{side}M{side / 2} 0V{side}"/>'
    pieces: list[list[str]] = [[]]
    for before, x, y in zip([values[0], *values], xs, values, strict=False):
        # A jump, a pole and what is not defined interrupt the line.
        if not np.isfinite(y) or abs(y) > HIGHEST or abs(y - before) > 0.9:
            pieces.append([])
        if np.isfinite(y) and abs(y) <= HIGHEST:
            pieces[-1].append(f"{side / 2 + x * scale:.1f},{side / 2 - y * scale:.1f}")
    lines = [f'<polyline class="line" points="{" ".join(p)}"/>' for p in pieces if len(p) > 1]
    ends = [
        f'<text x="{x:g}" y="{side / 2 - 3:g}">{number:g}</text>'
        for x, number in ((2.0, -LIMIT), (side - 12, LIMIT))
    ]
    return _svg(side, side, f"curve of {name} from -4 to 4", [axes, *lines, *ends])


CELL = 30


def _grid_pair(name: str) -> str:
    """The input, an arrow, and the result of the call."""
    numbers = np.arange(12.0).reshape(3, 4)
    # Rows that are in order already would show nothing.
    x = numbers[:, [2, 0, 3, 1]] if name in ("sort", "top_k", "argmax") else numbers
    result = _result(GRIDS[name], x)
    gap = 56
    wide = CELL * (x.shape[1] + result.shape[1]) + gap
    high = CELL * max(x.shape[0], result.shape[0])
    start = CELL * x.shape[1]
    arrow = f'<path class="arrow" d="M{start + 12} {high / 2}h{gap - 28}m-6 -5l6 5l-6 5"/>'
    parts = [*_cells(x, 0, high), arrow, *_cells(result, start + gap, high)]
    return _svg(wide + 2, high + 2, f"{GRIDS[name]} of a 3 by 4 matrix", parts)


def _result(call: str, x: Array) -> Array:
    """`y` is bound in a test first, because an entry must say the type of its result."""
    analysis = analyse(Source("", f'test "y" {{ x = zeros(f32[3, 4]); y = {call} }}\n'))
    types = {node.text: type_ for node, type_ in bound_types(analysis)}
    text = f"model M {{ entry run(x: f32[3, 4]) -> (y: {types['y']}) = {call} }}"
    return _evaluate(text, {"x": x})["y"]


def _cells(values: Array, left: float, high: float) -> list[str]:
    top = (high - CELL * values.shape[0]) / 2
    parts = []
    for (row, col), value in np.ndenumerate(values):
        x, y = left + col * CELL + 1, top + row * CELL + 1
        kind = "cell zero" if value == 0 else "cell"
        parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{CELL}" height="{CELL}"/>')
        parts.append(
            f'<text class="in" x="{x + CELL / 2}" y="{y + CELL / 2 + 4}">{_short(value)}</text>'
        )
    return parts


def _short(value: float) -> str:
    return f"{value:.0f}" if value == round(float(value)) else f"{value:.2f}".lstrip("0")


def _windows(name: str, k: int, stride: int, pad: int, dilation: int) -> str:
    """Cells of the input that one result reads, and the result, along one or two axes."""
    size, is_line = 6, name.endswith("1d")
    out = (size + 2 * pad - dilation * (k - 1) - 1) // stride + 1
    rows, pads, out_rows = (1, 0, 1) if is_line else (size, pad, out)
    high = 20 * (rows + 2 * pads) + 2
    read = {i * dilation for i in range(k)}
    parts = []
    for row in range(rows + 2 * pads):
        for col in range(size + 2 * pad):
            is_pad = not (pads <= row < rows + pads and pad <= col < size + pad)
            is_read = col in read and (is_line or row in read)
            kind = "cell read" if is_read else "cell zero" if is_pad else "cell"
            parts.append(_square(kind, col, row, 0))
    start = 20 * (size + 2 * pad)
    parts.append(f'<path class="arrow" d="M{start + 12} {high / 2}h28m-6 -5l6 5l-6 5"/>')
    top = (high - 20 * out_rows) / 40
    for row in range(out_rows):
        for col in range(out):
            kind = "cell read" if row == 0 and col == 0 else "cell"
            parts.append(_square(kind, col, row + top, start + 56))
    label = (
        f"windows of {k} cells with stride {stride} and padding {pad}: {size} cells become {out}"
    )
    return _svg(start + 58 + 20 * out, high, label, parts)


def _square(kind: str, col: float, row: float, left: float) -> str:
    x, y = left + 20 * col + 1, 20 * row + 1
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="20" height="20"/>'


def _attention() -> str:
    """q times the keys gives scores, softmax of the rows weights the values."""
    boxes = (
        (0, "q", "T × K", 44, 70),
        (78, "kᵀ", "K × S", 80, 44),
        (222, "weights", "T × S", 80, 70),
        (336, "v", "S × K", 44, 80),
        (416, "y", "T × K", 44, 70),
    )
    parts = []
    for left, name, shape, wide, high in boxes:
        top = (90 - high) / 2
        parts.append(
            f'<rect class="cell" x="{left + 1}" y="{top}" width="{wide}" height="{high}"/>'
        )
        parts.append(f'<text class="in" x="{left + wide / 2}" y="49">{name}</text>')
        parts.append(f'<text class="in small" x="{left + wide / 2}" y="104">{shape}</text>')
    signs = ((62, "·"), (190, "softmax →"), (320, "·"), (398, "="))
    parts += [f'<text class="in" x="{x}" y="49">{escape(sign)}</text>' for x, sign in signs]
    return _svg(462, 110, "softmax of q times k transposed weights the rows of v", parts)
