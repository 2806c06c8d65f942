"""How attention kernels touch memory: operands as WGSL functions, results as procedures.

`key(z, h, t, d)` is one element and `key_4(z, h, t, c)` four of them, zero past the end. Also the
functions that say which keys a row sees. What is computed with them is in the templates.
"""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.ir.graph import Node, Value
from wgcc.ops.attention_rule import HIDDEN, Scope, optional
from wgcc.schedule.context import Context
from wgcc.schedule.emit import Emitter
from wgcc.schedule.emit import Scope as Lines
from wgcc.schedule.index import variable
from wgcc.schedule.wgsl import literal, wgsl_type

AXES = ("z", "h", "t", "d")


@dataclass(frozen=True, slots=True)
class Sizes:
    """`shared` heads of q belong to each key head: the rows of all of them meet the same keys."""

    batch: int
    key_heads: int
    shared: int
    rows: int
    keys: int
    inner: int
    width: int

    @classmethod
    def of(cls, q: Value, k: Value, v: Value) -> Sizes:
        batch, heads, rows, inner = q.shape
        _, key_heads, keys, width = v.shape
        return cls(batch, key_heads, heads // key_heads, rows, keys, inner, width)

    @property
    def pairs(self) -> int:
        """Independent problems: key heads of all sequences."""
        return self.batch * self.key_heads

    @property
    def tall(self) -> int:
        """Rows of one problem."""
        return self.shared * self.rows

    @property
    def inner_4(self) -> int:
        return -(-self.inner // 4)

    @property
    def width_4(self) -> int:
        return -(-self.width // 4)

    def constants(self) -> dict[str, int]:
        return {
            "KEY_HEADS": self.key_heads,
            "PAIRS": self.pairs,
            "SHARED": self.shared,
            "ROWS": self.rows,
            "TALL": self.tall,
            "KEYS": self.keys,
            "INNER": self.inner,
            "INNER_FOURS": self.inner_4,
            "WIDTH": self.width,
            "WIDTH_FOURS": self.width_4,
        }


class Access:
    """Collects the functions of one kernel."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.emitter = Emitter(context.inlined, context.bindings())
        self.texts: list[str] = []

    def text(self) -> str:
        return "\n\n".join(self.texts)

    def reads(self, name: str, value: Value) -> None:
        """`name(z, h, t, d)`: one element."""
        self._begin()
        result = self.emitter.at(value, self._coordinates(value))
        self._function(f"{name}({self._parameters(value)}) -> f32", [f"return {result};"])

    def reads_fours(self, name: str, value: Value) -> None:
        """`name(z, h, t, d)` and `name_4(z, h, t, c)`: elements 4 c … 4 c + 3."""
        self.reads(name, value)
        size = value.shape[-1]
        parts = [f"{name}(z, h, t, c * 4u)"]
        for i in (1, 2, 3):
            place = f"c * 4u + {i}u"
            if size % 4 == 0:
                parts.append(f"{name}(z, h, t, {place})")
            else:
                inside = f"{name}(z, h, t, min({place}, {size - 1}u))"
                parts.append(f"select(0.0, {inside}, {place} < {size}u)")
        lines = [f"return vec4f({', '.join(parts)});"]
        self.texts.append(_function(f"{name}_4(z: u32, h: u32, t: u32, c: u32) -> vec4f", lines))

    def stores(self, name: str, value: Value) -> None:
        """`name(z, h, t, d, x)`; does nothing where nobody wants the value."""
        self._begin()
        kept = self.context.is_stored(value)
        lines = [self.emitter.store(value, self._coordinates(value), "x")] if kept else []
        self._function(f"{name}({self._parameters(value)}, x: f32)", lines)

    def sees(self, node: Node, extras: tuple[Value, ...], sizes: Sizes) -> None:
        """`offset()`, `sees(row, key)` by position, the range of keys of a row and its opposite."""
        scope = Scope(node.attrs["causal"], node.attrs["window"])
        offset, mask = optional(extras)
        self.texts.append(
            f"const SCALE = {literal(node.attrs['scale'], 'f32')};\n"
            f"const HIDDEN = {literal(HIDDEN, 'f32')};"
        )
        self._offset(offset, sizes, scope)
        self.texts += _ranges(scope, sizes)
        if mask is not None:
            self.reads("mask", mask)

    def _offset(self, offset: Value | None, sizes: Sizes, scope: Scope) -> None:
        self._begin()
        result = "0"
        if offset is not None:
            # Beyond these every row sees all or nothing; sums of positions cannot overflow.
            far = scope.window or 0
            low, high = sizes.rows + far, sizes.keys + far
            raw = self.emitter.at(offset, ())
            unsigned = wgsl_type(offset.dtype) == "u32"
            result = f"i32(min({raw}, {high}u))" if unsigned else f"clamp({raw}, -{low}, {high})"
        self._function("offset() -> i32", [f"return {result};"])

    def _begin(self) -> None:
        self.emitter.outer = Lines()

    def _function(self, head: str, lines: list[str]) -> None:
        self.texts.append(_function(head, [*self.emitter.outer.lines, *lines]))

    def _coordinates(self, value: Value) -> tuple:
        names = AXES[: len(value.shape)]
        return tuple(variable(n, extent) for n, extent in zip(names, value.shape, strict=True))

    def _parameters(self, value: Value) -> str:
        return ", ".join(f"{name}: u32" for name in AXES[: len(value.shape)])


def _function(head: str, lines: list[str]) -> str:
    return f"fn {head} {{\n" + "".join(f"  {line}\n" for line in lines) + "}"


def _ranges(scope: Scope, sizes: Sizes) -> list[str]:
    """Positions of rows count from the first key; those of a row's keys and a key's rows."""
    window = scope.window
    seen, first, end = [], "0", f"{sizes.keys}"
    row_first, row_end = "0", f"{sizes.rows}"
    if window is not None:
        seen.append(f"row - key < {window}")
        first, row_end = f"max(0, row - {window - 1})", f"min({sizes.rows}, key + {window})"
        if not scope.causal:
            seen.append(f"key - row < {window}")
            end, row_first = f"min({sizes.keys}, row + {window})", f"max(0, key - {window - 1})"
    if scope.causal:
        seen.append("key <= row")
        end, row_first = f"min({sizes.keys}, row + 1)", "max(0, key)"
    return [
        _function("sees(row: i32, key: i32) -> bool", [f"return {' && '.join(seen) or 'true'};"]),
        _function("first_key(row: i32) -> u32", [f"return u32({first});"]),
        _function("end_key(row: i32) -> u32", [f"return u32(max(0, {end}));"]),
        # Here keys are counted from the first row.
        _function("first_row(key: i32) -> u32", [f"return u32({row_first});"]),
        _function("end_row(key: i32) -> u32", [f"return u32(max(0, {row_end}));"]),
    ]
