"""How a tensor of a file becomes a parameter: a part of it is selected, its axes are reordered.

Knows shapes and arrays, not names. Axes of size 1 are added and removed as the parameter needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from wgcc.errors import WgError
from wgcc.lazy_numpy import Array, np

Shape = tuple[int, ...]
Range = tuple[int, int]

# PyTorch stores kernels as [outputs, inputs, height, width], wgcc as [height, width, inputs,
# outputs].
HWIO = (2, 3, 1, 0)
TRANSPOSED = (1, 0)
_NAMED = {"transposed": TRANSPOSED, "hwio": HWIO}
WORDS = (
    "transposed, hwio, `axes 2,0,1`, `rows 0:64`, `columns 0:64`, flipped, reshaped, `gates zrn`, "
    "`rope 8`"
)
# The gates of LSTM (input, forget, cell, output) and GRU (reset, update, new) in the order of wgcc
# and PyTorch; Keras and ONNX call the cell `c` and the new state `h`.
GATES = ("ifgo", "rzn")
_OTHER_LETTERS = str.maketrans("ch", "gn")


@dataclass(frozen=True, slots=True)
class Transform:
    """First `rows` and `columns` (of the first two axes, end excluded), then the order of `axes`.

    `flipped` reverses all axes of the source after its first two, as the kernel of a transposed
    convolution needs it. `reshaped` then gives the elements the shape of the parameter. `gates` is
    the order in which the last axis of the result then stores the gates of an LSTM or a GRU; `rope`
    the number of heads there, whose neighbours are pairs of the rotation: they become halves.
    """

    axes: Shape = ()
    rows: Range | None = None
    columns: Range | None = None
    flipped: bool = False
    reshaped: bool = False
    gates: str = ""
    rope: int = 0

    def shape(self, shape: Shape) -> Shape | None:
        """The resulting shape; None if the transform does not fit."""
        for axis, part in enumerate((self.rows, self.columns)):
            if part is not None:
                if axis >= len(shape) or not 0 <= part[0] < part[1] <= shape[axis]:
                    return None
                shape = (*shape[:axis], part[1] - part[0], *shape[axis + 1 :])
        if not self.axes:
            return shape
        if sorted(self.axes) != list(range(len(shape))):
            return None
        return tuple(shape[axis] for axis in self.axes)

    def fits(self, shape: Shape, wanted: Shape) -> bool:
        new_shape = self.shape(shape)
        if new_shape is None or (wanted or (1,))[-1] % max(len(self.gates), 2 * self.rope, 1):
            return False
        return (
            prod(new_shape) == prod(wanted) if self.reshaped else same_but_ones(new_shape, wanted)
        )

    def apply(self, array: Array) -> Array:
        if self.rows is not None:
            array = array[slice(*self.rows)]
        if self.columns is not None:
            array = array[:, slice(*self.columns)]
        if self.flipped:
            array = array[(slice(None),) * 2 + (slice(None, None, -1),) * (array.ndim - 2)]
        return array.transpose(self.axes) if self.axes else array

    def in_order(self, array: Array) -> Array:
        """The parameter, of which only the gates or pairs are not in wgcc's order yet."""
        if self.rope:
            pairs = array.reshape(*array.shape[:-1], self.rope, -1, 2)
            array = np.swapaxes(pairs, -1, -2).reshape(array.shape)
        if self.gates:
            parts = array.reshape(*array.shape[:-1], len(self.gates), -1)
            array = parts[..., list(gate_places(self.gates)), :].reshape(array.shape)
        return array

    def text(self) -> str:
        parts = [f"rows {self.rows[0]}:{self.rows[1]}"] if self.rows else []
        parts += [f"columns {self.columns[0]}:{self.columns[1]}"] if self.columns else []
        parts += ["flipped"] if self.flipped else []
        if self.axes:
            named = {axes: word for word, axes in _NAMED.items()}
            parts.append(named.get(self.axes) or "axes " + ",".join(map(str, self.axes)))
        parts += ["reshaped"] * self.reshaped
        parts += [f"gates {self.gates}"] if self.gates else []
        return ", ".join(parts + ([f"rope {self.rope}"] if self.rope else []))


AS_IS = Transform()


def without_ones(shape: Shape) -> Shape:
    return tuple(size for size in shape if size != 1)


def same_but_ones(a: Shape, b: Shape) -> bool:
    """Are two shapes equal, ignoring axes of size 1?"""
    return without_ones(a) == without_ones(b)


def gate_places(gates: str) -> tuple[int, ...]:
    """Places in `gates` of the gates in wgcc's order; () if `gates` is no order of gates."""
    letters = gates.translate(_OTHER_LETTERS)
    for wanted in GATES:
        if sorted(letters) == sorted(wanted):
            return tuple(letters.index(letter) for letter in wanted)
    return ()


def read_gates(gates: str, where: str) -> str:
    if not gate_places(gates):
        raise WgError(
            f"{where}: `{gates}` is no order of gates: give the letters of ifgo (LSTM: input, "
            "forget, cell, output) or rzn (GRU: reset, update, new) as the file stores them"
        )
    return gates


def read_transform(text: str, where: str) -> Transform:
    """The inverse of `text()`."""
    axes: Shape = ()
    gates, rope = "", 0
    parts: dict[str, Range] = {}
    words = re.split(r",\s*(?=[a-z])", text.strip()) if text.strip() else []
    for word in words:
        if word in _NAMED:
            axes = _NAMED[word]
        elif match := re.fullmatch(r"axes (\d(?:, ?\d)*)", word):
            axes = tuple(int(n) for n in match[1].split(","))
        elif match := re.fullmatch(r"(rows|columns) (\d{1,12}):(\d{1,12})", word):
            parts[match[1]] = (int(match[2]), int(match[3]))
        elif match := re.fullmatch(r"gates ([a-z]+)", word):
            gates = read_gates(match[1], where)
        elif match := re.fullmatch(r"rope ([1-9]\d{0,5})", word):
            rope = int(match[1])
        elif word not in ("flipped", "reshaped"):
            raise WgError(f"{where}: `{word}` is not a change of a tensor; there are {WORDS}")
    rows, columns = parts.get("rows"), parts.get("columns")
    return Transform(axes, rows, columns, "flipped" in words, "reshaped" in words, gates, rope)


@dataclass(frozen=True, slots=True)
class Origin:
    """`own`: wgcc saved it, so that it stores everything as models use it. `keras`: Keras did.

    `gates`: for tensors of LSTMs and GRUs, the order of their gates. `rope`: for queries and keys
    whose rotary positions turn neighbours, the number of heads. `inputs_first`: matrices that are
    known to be stored [inputs, outputs]. `notes`: what users must know.
    """

    own: bool = False
    keras: bool = False
    gates: Mapping[str, str] = field(default_factory=dict)
    rope: Mapping[str, int] = field(default_factory=dict)
    inputs_first: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileWeights:
    """Arrays by name, and their origin."""

    arrays: dict[str, Array]
    origin: Origin = field(default_factory=Origin)


def before_product(name: str, option: str) -> str:
    """Tells users that a GRU resets before the product; `option` is how its file says so."""
    return (
        f"{name} is a GRU with {option}, whose reset gate acts before the product: the layer GRU "
        "computes something else"
    )
