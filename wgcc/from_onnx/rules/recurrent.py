"""LSTM, GRU and RNN: standard layers, with gates in PyTorch's order."""

from __future__ import annotations

from wgcc.from_onnx.context import OnnxOp
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.rules.rule import Rule, zeros
from wgcc.from_onnx.values import Computed, ModelMember, Operand, Shape, Stored
from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast
from wgcc.syntax.templates import name, parse_own

# Where PyTorch's gates are in ONNX's: i f g o in i o f c; r z n in z r h.
GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
DEFAULTS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}

RESET_FIRST = """\
/// A GRU whose reset gate acts before the product, as the first paper has it.
layer ResetFirstCell[I, H] {
  param weight_ih: f32[I, 3 * H] ~ external
  param weight_hh: f32[H, 3 * H] ~ external
  param bias_ih: f32[3 * H] ~ external
  param bias_hh: f32[3 * H] ~ external

  fn forward[B](state: f32[B, H], x: f32[B, I]) -> (f32[B, H], f32[B, H]) {
    ar, az, an = chunk(x @ weight_ih + bias_ih, 3, axis = -1)
    br, bz, bn = chunk(bias_hh, 3, axis = -1)
    ur, uz, un = chunk(weight_hh, 3, axis = -1)
    reset = sigmoid(ar + br + state @ ur)
    update = sigmoid(az + bz + state @ uz)
    new_h = tanh(an + bn + (reset * state) @ un)
    h = (1.0 - update) * new_h + update * state
    return h, h
  }
}
"""

PEEPHOLES = """\
/// An LSTM whose gates also see the cell.
layer PeepholeCell[I, H] {
  param weight_ih: f32[I, 4 * H] ~ external
  param weight_hh: f32[H, 4 * H] ~ external
  param bias_ih: f32[4 * H] ~ external
  param bias_hh: f32[4 * H] ~ external
  param peep_i: f32[H] ~ external
  param peep_f: f32[H] ~ external
  param peep_o: f32[H] ~ external

  fn forward[B](
    state: (f32[B, H], f32[B, H]), x: f32[B, I]
  ) -> ((f32[B, H], f32[B, H]), f32[B, H]) {
    h, c = state
    z = x @ weight_ih + h @ weight_hh + bias_ih + bias_hh
    i, f, g, o = chunk(z, 4, axis = -1)
    before = c
    c = sigmoid(f + peep_f * before) * before + sigmoid(i + peep_i * before) * tanh(g)
    h = sigmoid(o + peep_o * c) * tanh(c)
    return (h, c), h
  }
}
"""


def recurrent(op: OnnxOp) -> list[Operand | None]:
    """Outputs are all results, the last state and, of an LSTM, the last cell."""
    directions = 2 if op.attribute("direction", "forward") == "bidirectional" else 1
    hidden = int(op.attribute("hidden_size") or op.constant(2, "weights").shape[2])
    _check(op, directions)
    x = _rows_first(op)
    if _special(op):
        _check_lengths(op, x.shape[1])
        y, states = _by_cells(op, x, hidden, directions)
    else:
        y, states = _by_layers(op, x, hidden, directions)
    return _outputs(op, y, states, directions, hidden)


def _check(op: OnnxOp, directions: int) -> None:
    given = [str(_text(item)).lower() for item in op.attribute("activations", [])]
    wanted = DEFAULTS[op.kind] * directions
    if given and given != wanted and not _is_relu(op, given):
        raise CannotImport(f"its activations are {', '.join(given)}")
    if op.attribute("clip"):
        raise CannotImport("it clips what enters its activations")
    if op.attribute("input_forget", 0):
        raise CannotImport("its input and forget gates are one")
    if op.attribute("direction", "forward") == "reverse" and op.has(4):
        raise CannotImport("it runs backwards over rows of different lengths")


def _is_relu(op: OnnxOp, given: list[str]) -> bool:
    return op.kind == "RNN" and set(given) == {"relu"}


def _text(item: object) -> str:
    return item.decode() if isinstance(item, bytes) else str(item)


def _special(op: OnnxOp) -> bool:
    if op.kind == "LSTM":
        return op.has(7)
    return op.kind == "GRU" and not op.attribute("linear_before_reset", 0)


def _rows_first(op: OnnxOp) -> Operand:
    x = op.plain(0) if op.attribute("layout", 0) else op.transpose(op.operand(0), (1, 0, 2))
    if op.attribute("direction", "forward") != "reverse":
        return x
    return op.emit("flip({0}, axis = 1)", x)


def _weights(op: OnnxOp, direction: int, hidden: int) -> dict[str, Array]:
    """The parameters of a cell: [inputs, gates]."""
    gates = GATES[op.kind]
    w, r = op.constant(1, "weights")[direction], op.constant(2, "weights")[direction]
    both = op.constant(3, "biases")[direction] if op.has(3) else np.zeros(2 * len(w), np.float32)
    half = len(gates) * hidden
    biases = both[:half], both[half:]
    return {
        "weight_ih": _gates(w, gates, hidden).transpose(),
        "weight_hh": _gates(r, gates, hidden).transpose(),
        "bias_ih": _gates(biases[0], gates, hidden),
        "bias_hh": _gates(biases[1], gates, hidden),
    }


def _gates(array: Array, order: tuple[int, ...], hidden: int) -> Array:
    return np.concatenate([array[gate * hidden : (gate + 1) * hidden] for gate in order])


def _start(op: OnnxOp, place: int, batch: int, hidden: int, directions: int) -> Operand | ast.Expr:
    """The first state, [directions, B, H]."""
    if not _has_start(op, place):
        return zeros("f32", (directions, batch, hidden))
    state = op.plain(place)
    return op.transpose(state, (1, 0, 2)) if op.attribute("layout", 0) else state


def _by_layers(
    op: OnnxOp, x: Operand, hidden: int, directions: int
) -> tuple[Computed, tuple[Computed, ...]]:
    batch, time, inputs = x.shape
    given = [str(_text(item)).lower() for item in op.attribute("activations", [])]
    arrays = {
        f"{side}.0.{key}": array
        for direction, side in enumerate(("cells", "back")[:directions])
        for key, array in _weights(op, direction, hidden).items()
    }
    layer = op.layer(
        op.kind, (inputs, hidden), op.layer_name(op.kind.lower()), arrays,
        bidirectional=directions > 1 or None, act=name("relu") if _is_relu(op, given) else None,
    )  # fmt: skip
    y = Computed("f32", (batch, time, directions * hidden), (0, 1, 2), op.name)
    state = (directions, batch, hidden)
    states = tuple(Computed("f32", state, (0, 1, 2), name) for name in _state_names(op))
    starts = [_start(op, place, batch, hidden, directions) for place in (5, 6)[: len(states)]]
    state_of = tuple(starts) if len(starts) > 1 else starts[0]
    targets = "{0}, ({1}, {2})" if len(states) > 1 else "{0}, {1}"
    text = "{1}.padded({0}, {2}, {3})" if op.has(4) else "{1}.run({0}, {2})"
    lengths = _lengths(op) if op.has(4) else None
    op.emit_many(text, x, layer, state_of, lengths, values=(y, *states), targets=targets)
    return y, states


def _lengths(op: OnnxOp) -> Operand | ModelMember:
    lengths = op.operand(4)
    return op.parameter_of(lengths.array, "lengths") if isinstance(lengths, Stored) else lengths


def _state_names(op: OnnxOp) -> tuple[str, ...]:
    return ("h", "c") if op.kind == "LSTM" else ("h",)


def _check_lengths(op: OnnxOp, time: int) -> None:
    """These cells have no form for rows that end earlier."""
    if not op.has(4):
        return
    lengths = op.operand(4)
    if isinstance(lengths, Computed):
        raise CannotImport(f"this kind of cell with lengths found at run time (`{lengths.name}`)")
    if (lengths.array != time).any():
        raise CannotImport("this kind of cell with rows of different lengths")


def _by_cells(
    op: OnnxOp, x: Operand, hidden: int, directions: int
) -> tuple[Computed, tuple[Computed, ...]]:
    """Kinds of cells that the standard layers do not have."""
    per_direction = [_by_cell(op, x, hidden, direction) for direction in range(directions)]
    y, states = per_direction[0]
    if directions == 1:
        return y, states
    both = op.emit("concat([{0}, {1}], axis = 2)", y, per_direction[1][0])
    pairs = zip(states, per_direction[1][1], strict=True)
    return both, tuple(op.emit("concat([{0}, {1}], axis = 0)", a, b) for a, b in pairs)


def _by_cell(
    op: OnnxOp, x: Operand, hidden: int, direction: int
) -> tuple[Computed, tuple[Computed, ...]]:
    batch, time, inputs = x.shape
    cell = _cell(op, inputs, hidden, direction)
    y = Computed("f32", (batch, time, hidden), (0, 1, 2), op.name)
    names = _state_names(op)
    last = tuple(Computed("f32", (batch, hidden), (0, 1), name) for name in names)
    starts = [_cell_start(op, place, (batch, hidden), direction) for place in (5, 6)[: len(names)]]
    state = tuple(starts) if len(starts) > 1 else starts[0]
    targets = "({1}, {2}), {0}" if len(names) > 1 else "{1}, {0}"
    op.emit_many("scan({1}, {2}, {0}, axis = 1, reverse = {3})", x, cell, state,
                 True if direction else None, values=(y, *last), targets=targets)  # fmt: skip
    whole = tuple(op.reshape(value, (1, batch, hidden)) for value in last)
    return y, tuple(value for value in whole if isinstance(value, Computed))


def _cell(op: OnnxOp, inputs: int, hidden: int, direction: int) -> ModelMember:
    arrays = _weights(op, direction, hidden)
    text = PEEPHOLES if op.kind == "LSTM" else RESET_FIRST
    if op.kind == "LSTM":
        peep = op.constant(7, "peepholes")[direction].reshape(3, hidden)
        arrays |= {"peep_i": peep[0], "peep_o": peep[1], "peep_f": peep[2]}
    (layer,) = parse_own(text).items
    assert isinstance(layer, ast.Layer)
    op.need_layer(layer)
    own = op.layer_name("cell") + ("_back" if direction else "")
    return op.layer(layer.name.text, (inputs, hidden), own, arrays)


def _has_start(op: OnnxOp, place: int) -> bool:
    """Whether the first state is another than zeros."""
    if not op.has(place):
        return False
    state = op.operand(place)
    return isinstance(state, Computed) or bool(state.array.any())


def _cell_start(op: OnnxOp, place: int, shape: Shape, direction: int) -> Operand | ast.Expr:
    if not _has_start(op, place):
        return zeros("f32", shape)
    states = _start(op, place, shape[0], shape[1], direction + 1)
    if isinstance(states, Stored):
        return Stored(states.array[direction])
    return op.emit("{0}[{1}]", states, direction)


def _outputs(
    op: OnnxOp, y: Computed, states: tuple[Computed, ...], directions: int, hidden: int
) -> list[Operand | None]:
    """Y is [T, directions, B, H], or with `layout` [B, T, directions, H]."""
    batch, time, _ = y.shape
    if op.attribute("direction", "forward") == "reverse":
        y = op.emit("flip({0}, axis = 1)", y)
    split = op.reshape(y, (batch, time, directions, hidden))
    if op.attribute("layout", 0):
        outputs: list[Operand | None] = [split]
        outputs += [op.transpose(state, (1, 0, 2)) for state in states]
        return outputs
    return [op.permute(split, (1, 2, 0, 3)), *states]


RULES: dict[str, Rule] = {"LSTM": recurrent, "GRU": recurrent, "RNN": recurrent}
