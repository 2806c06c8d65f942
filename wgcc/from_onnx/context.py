"""A node as its rule sees it, and how the rule writes statements."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from wgcc.from_onnx.checked_types import checked_type
from wgcc.from_onnx.literals import finite, literal, real
from wgcc.from_onnx.problems import CannotImport
from wgcc.from_onnx.values import (
    Computed,
    Leaf,
    ModelMember,
    OnnxType,
    Operand,
    Part,
    Scope,
    Shape,
    Statement,
    Stored,
    Writer,
    axes_pattern,
    channels_last_order,
    dtype_of,
    has_free_order,
    kept_order,
    plain_order,
)
from wgcc.ir.dtypes import DTYPE_TABLE
from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast
from wgcc.syntax.templates import NOWHERE, call, constructor, fill_form, tree_of

# What a hole of a template is filled with, beside numbers, strings and lists of such.
Given: TypeAlias = Any

# Lists of more numbers than this are parameters, not text.
LONGEST_LIST = 12
# A part of a list is no name for what is in it.
NUMBERED_BLOCK = re.compile(r"(.*\.)?\d+|(layer|block|stage)s?_\d+")


@dataclass(slots=True)
class OnnxOp:
    """A node with its operands. `types` are those of its outputs, by ONNX's own inference."""

    kind: str
    opset: int
    attributes: dict[str, Any]
    inputs: list[Operand | None]
    types: list[OnnxType]
    scope: Scope
    node: str
    name: str
    writer: Writer
    # Names of all outputs, "" for those that are not wanted.
    names: Sequence[str] = ()

    # Operands

    def has(self, place: int) -> bool:
        return place < len(self.inputs) and self.inputs[place] is not None

    def operand(self, place: int) -> Operand:
        operand = self.inputs[place] if place < len(self.inputs) else None
        if operand is None:
            raise CannotImport(f"its operand {place + 1} is missing")
        return operand

    def plain(self, place: int) -> Operand:
        """An operand whose axes are stored in ONNX's order."""
        return self.with_order(self.operand(place), None)

    def constant(self, place: int, what: str) -> Array:
        """Numbers that must be known now."""
        operand = self.operand(place)
        if isinstance(operand, Computed):
            raise CannotImport(f"its {what} are computed at run time (`{operand.name}`)")
        return operand.array

    def numbers(self, place: int, what: str) -> list[int]:
        return [int(number) for number in self.constant(place, what).reshape(-1)]

    def attribute(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    # Results

    @property
    def type(self) -> OnnxType:
        return self.types[0]

    def result(self, text: str, *parts: Given, order: Shape | None = None) -> Computed:
        """The node's first output."""
        value = self.output(0, order)
        self.emit_many(text, *parts, values=(value,))
        return value

    def output(self, place: int, order: Shape | None = None) -> Computed:
        """A new value of the type of an output."""
        output_type = self.types[place]
        order = order or plain_order(output_type.shape)
        return Computed(output_type.dtype, output_type.shape, order, self.name, output_type.element)

    def emit(
        self, text: str, *parts: Given, order: Shape | None = None, name: str = "", element: int = 0
    ) -> Computed:
        """A new value, of the type that the checker of the language finds."""
        tree = fill_form(text, *map(self.tree, parts))
        dtype, stored = checked_type(tree)
        order = order or plain_order(stored)
        shape = tuple(stored[order.index(axis)] for axis in range(len(stored)))
        value = Computed(dtype, shape, order, name or self.name, element)
        self.add(Statement((value,), tree, self.scope, self.node))
        return value

    def call(self, function: str, *parts: Given, **named: Given) -> ast.Expr:
        """A tree; named arguments that are None are left out."""
        given = {name: self.tree(item) for name, item in named.items()}
        return call(function, *map(self.tree, parts), **given)

    def index(self, x: Given, items: Sequence[Given], **kind: Any) -> Computed:
        """`x[items]`."""
        indices: list[Any] = [self.tree(item) for item in items]
        value: Any = self.tree(x)
        return self.emit("{0}", ast.Index(NOWHERE, value, tuple(indices)), **kind)

    def index_result(self, x: Given, items: Sequence[Given]) -> Computed:
        """The node's first output, as `x[items]`."""
        return self.index(x, items, element=self.type.element)

    def emit_many(
        self, text: str, *parts: Given, values: tuple[Computed, ...], targets: str = ""
    ) -> None:
        """`text` is a template whose holes get `parts`; `targets` one whose holes get `values`."""
        tree = fill_form(text, *map(self.tree, parts))
        unpacked = fill_form(f"[{targets}]", *map(leaf, values)) if targets else None
        items = unpacked.items if isinstance(unpacked, ast.ListExpr) else ()
        self.add(Statement(values, tree, self.scope, self.node, items))

    def add(self, statement: Statement) -> None:
        self.writer.traced.statements.append(statement)
        self.writer.made_by |= dict.fromkeys(statement.outputs, statement)

    def tree(self, item: Given) -> ast.Syntax | None:
        """The syntax tree of an operand, a number or a list of such; None stays None."""
        if isinstance(item, Computed | Stored | ModelMember):
            part = self.part(item)
            return leaf(part) if isinstance(part, Computed | ModelMember) else part
        if isinstance(item, list | tuple):
            inner = map(self.tree, item)
            return tree_of(tuple(inner) if isinstance(item, tuple) else list(inner))
        if isinstance(item, float | np.floating):
            return real(float(item))
        is_whole = isinstance(item, np.integer)
        return None if item is None else tree_of(int(item) if is_whole else item)

    def part(self, item: Operand | Part) -> Part:
        if isinstance(item, Stored):
            item = self.recompute(item)
        return self._constant_part(item) if isinstance(item, Stored) else item

    def recompute(self, constant: Stored) -> Operand:
        """Computes a folded constant at run time from its weights, so that training changes it."""
        if constant.again is None:
            return constant
        try:
            return constant.again()
        except CannotImport:
            return Stored(constant.array)

    def _constant_part(self, constant: Stored) -> Part:
        """Few numbers are written as such, others become parameters."""
        array = constant.array
        if array.ndim > 1 or array.size > LONGEST_LIST or np.isnan(array).any():
            return self.parameter(constant)
        if not np.isfinite(array).all():
            self._finite(array)
        if array.ndim == 0 and self.writer.is_number(constant):
            return literal(array)
        if not constant.source:
            numbers = [literal(item) for item in array.reshape(-1, 1)]
            return call(ast.Dtype(NOWHERE, constant.dtype), numbers)
        return self.parameter(constant)

    def parameter(self, constant: Stored, name: str = "") -> Part:
        """The parameter that holds a constant; the same one for every use of it."""
        known = self.writer.members.get(constant.source)
        if known is None:
            member = self.new_parameter(constant, name)
            if constant.source:
                self.writer.members[constant.source] = (member, constant.axes)
            return member
        member, axes = known
        plain = plain_order(constant.shape)
        if (axes or plain) == (constant.axes or plain):
            return member
        pattern = axes_pattern(axes or plain, constant.axes or plain)
        return self.emit("rearrange({0}, {1})", member, pattern, name=member.name)

    def new_parameter(self, constant: Stored, name: str) -> ModelMember:
        array = self.narrow(constant.array)
        was_infinite = array.dtype.kind == "f" and not np.isfinite(constant.array).all()
        source = self.writer.stored.titles.get(constant.source, constant.source)
        return ModelMember(
            {"": array}, name or source or self.name, source=constant.source,
            is_frozen=not self.writer.is_weight(constant), is_infinite=bool(was_infinite),
        )  # fmt: skip

    def layer(
        self,
        kind: str,
        sizes: Sequence[int],
        name: str,
        arrays: Mapping[str, Array],
        **options: Given,
    ) -> ModelMember:
        """A standard layer with these parameters; options that are None are not written."""
        held = {key: self.narrow(array) for key, array in arrays.items()}
        given = {key: self.tree(option) for key, option in options.items()}
        return ModelMember(held, name, constructor(kind, sizes, given))

    def parameter_of(self, array: Array, name: str = "table") -> ModelMember:
        """A frozen parameter with numbers that the import has computed."""
        return self.new_parameter(Stored(array), name)

    def tensor(self, operand: Operand) -> Operand | Part:
        """An operand that must not be a list of numbers in the text."""
        if isinstance(operand, Stored):
            operand = self.recompute(operand)
        return self.parameter(operand) if isinstance(operand, Stored) else operand

    def layer_name(self, default: str) -> str:
        """The module that a node belongs to, or else what it is."""
        last = self.scope[-1] if self.scope else ""
        return last if last and not NUMBERED_BLOCK.fullmatch(last) else default

    def narrow(self, array: Array) -> Array:
        """Converts numbers to the type that the language holds them in."""
        kind = array.dtype.kind
        if kind not in "iub" and not np.isfinite(array).all():
            array = self._finite(array)
        if kind in "iu" and array.dtype.itemsize > 4 and array.size:
            low, high = int(array.min()), int(array.max())
            limits = (-(1 << 31), (1 << 31) - 1) if kind == "i" else (0, (1 << 32) - 1)
            if low < limits[0] or high > limits[1]:
                raise CannotImport(
                    f"it holds whole numbers from {low} to {high}: more than 32 bits"
                )
        return array.astype(DTYPE_TABLE[dtype_of(array.dtype)].numpy, order="C")

    def _finite(self, array: Array) -> Array:
        """Infinity, as masks have it, is the largest number there is."""
        if np.isnan(array).any():
            raise CannotImport("one of its constants is not a number")
        self.note("infinite constants are stored as the largest 32-bit floats")
        return finite(array)

    # The order of axes

    def with_order(self, operand: Operand, order: Shape | None) -> Operand:
        """The operand stored in an order of axes; ONNX's own without one."""
        wanted = order or plain_order(operand.shape)
        if isinstance(operand, Stored) and wanted != plain_order(wanted):
            operand = self.recompute(operand)
        if isinstance(operand, Stored):
            return reorder_constant(operand, wanted)
        if operand.order == wanted:
            return operand
        key = (operand, wanted)
        if key not in self.writer.orders:
            self.writer.orders[key] = self._move(operand, wanted)
        return self.writer.orders[key]

    def _move(self, value: Computed, order: Shape) -> Computed:
        tree = self.call("rearrange", value, axes_pattern(value.order, order))
        return self.emit("{0}", tree, order=order, name=value.name, element=value.element)

    def channels_last(self, place: int) -> Operand:
        operand = self.operand(place)
        return self.with_order(operand, channels_last_order(len(operand.shape)))

    def transpose(self, operand: Operand, axes: Sequence[int]) -> Operand:
        """The operand with ONNX's axes in another order, and stored like that."""
        return self.with_order(self.permute(operand, axes), None)

    def permute(self, operand: Operand, axes: Sequence[int]) -> Operand:
        """The operand with ONNX's axes in another order; elements are moved when that is needed."""
        if isinstance(operand, Stored):
            operand = self.recompute(operand)
        if isinstance(operand, Stored):
            return permute_constant(operand, tuple(axes))
        order = tuple(list(axes).index(axis) for axis in operand.order)
        return self.emit("{0}", operand, order=order, name=operand.name, element=operand.element)

    def reshape(self, operand: Operand, shape: Shape) -> Operand:
        if operand.shape == shape:
            return self.with_order(operand, None)
        check_elements(operand.shape, shape)
        if isinstance(operand, Stored):
            operand = self.recompute(operand)
        if isinstance(operand, Stored):
            return self._reshaped_constant(operand, shape)
        plain = self._before_reshape(operand)
        if plain.shape == shape:
            return self.with_order(plain, None)
        return self.emit("reshape({0}, {1})", plain, list(shape), element=operand.element)

    def _reshaped_constant(self, constant: Stored, shape: Shape) -> Operand:
        """A weight stays one; what other nodes read as well keeps its shape."""
        if not self.writer.is_weight(constant):
            return Stored(constant.array.reshape(shape))
        if constant.source not in self.writer.shared:
            return Stored(constant.array.reshape(shape), constant.source)
        whole = self.parameter(constant)
        return self.emit("reshape({0}, {1})", whole, list(shape))

    def view(self, operand: Operand, shape: Shape) -> Operand:
        """Like `reshape`, but axes stay stored in their order where the new shape allows that."""
        source: object = operand
        while isinstance(source, Computed):
            order = kept_order(source, shape)
            if order is not None and order != plain_order(shape):
                text, sizes = "reshape({0}, {1})", [shape[axis] for axis in order]
                return self.emit(text, source, sizes, order=order, element=source.element)
            made = self.writer.made_by.get(source)
            if made is None or made.reshapes is None or made.reshapes is source:
                break
            source = made.reshapes
        return self.reshape(operand, shape)

    def _before_reshape(self, value: Computed) -> Operand:
        """The tensor whose elements these are, in the order that `reshape` sees."""
        made = self.writer.made_by.get(value)
        before = made.reshapes if made else None
        if before is not None and has_free_order(value):
            return self._before_reshape(before)
        return value if has_free_order(value) else self.with_order(value, None)

    def need_layer(self, layer: ast.Layer) -> None:
        """A layer that the standard ones do not have is written into the model."""
        self.writer.traced.layers[layer.name.text] = layer

    def remark(self, text: str) -> None:
        """Adds this node to those that the remark is made of."""
        self.writer.traced.remark(text, f"{self.kind} {self.node or self.name}")

    def note(self, text: str) -> None:
        if text not in self.writer.traced.notes:
            self.writer.traced.notes.append(text)


def leaf(part: Computed | ModelMember) -> Leaf:
    return Leaf(NOWHERE, part)


def check_elements(before: Shape, after: Shape) -> None:
    """ONNX's own rules let some reshapes pass that no runtime can do."""
    count, wanted = math.prod(before), math.prod(after)
    if count != wanted:
        raise CannotImport(
            f"it reshapes {list(before)}, {count:,} elements, to {list(after)}, {wanted:,}"
        )


def reorder_constant(constant: Stored, order: Shape) -> Stored:
    return constant if order == plain_order(order) else permute_constant(constant, order)


def permute_constant(constant: Stored, axes: Shape) -> Stored:
    before = constant.axes or plain_order(constant.shape)
    array = constant.array.transpose(axes)
    if not constant.source:
        return Stored(array)
    after = tuple(before[axis] for axis in axes)
    return Stored(array, constant.source, None if after == plain_order(after) else after)
