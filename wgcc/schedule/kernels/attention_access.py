"""How attention kernels touch memory: operands as WGSL functions, results as procedures.

`key_at(z, h, t, d)` is one element and `load_key(z, h, t, c)` four of them, which are loaded as a
vector where they are stored as such. Also the functions that say which keys a row sees. What is
computed with all of them is in the templates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Coordinates, linear, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import expression, functions, member, when
from wgcc.kernel.tree import ConstantDef, Declaration, Name, Return, Statement
from wgcc.ops.attention import HIDDEN, AttentionScope, optional
from wgcc.ops.registry import wgsl_type
from wgcc.schedule.codegen.bindings import number
from wgcc.schedule.codegen.emitter import COMPONENTS, Emitter
from wgcc.schedule.codegen.emitter import CodeScope as Statements
from wgcc.schedule.kernel import VECTOR, Place
from wgcc.schedule.kernels.context import GroupContext
from wgcc.schedule.kernels.operands import vector_of, vector_regions

# So many rows, or keys, a workgroup works at together.
NEIGHBOURS = 64
AXES = ("z", "h", "t", "d")
_VECTOR_AT = "z: u32, h: u32, t: u32, c: u32"


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """`shared` heads of q belong to each key head: the rows of all of them see the same keys."""

    batch: int
    key_heads: int
    shared: int
    rows: int
    keys: int
    inner: int
    width: int

    @classmethod
    def of(cls, q: Value, k: Value, v: Value) -> AttentionSizes:
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

    def keys_seen(self, window: int | None) -> int:
        """How many keys neighbouring rows see together, at most."""
        return min(self.keys, self.keys if window is None else 2 * window + NEIGHBOURS)

    def rows_seeing(self, window: int | None) -> int:
        """How many rows see one of some neighbouring keys, at most."""
        rows = min(self.rows, self.rows if window is None else 2 * window + NEIGHBOURS)
        return self.shared * rows

    @property
    def inner_4(self) -> int:
        return ceil_div(self.inner, 4)

    @property
    def width_4(self) -> int:
        return ceil_div(self.width, 4)

    def constants(self) -> dict[str, int]:
        return {
            "KEY_HEADS": self.key_heads,
            "PAIRS": self.pairs,
            "SHARED": self.shared,
            "ROWS": self.rows,
            "TALL": self.tall,
            "KEYS": self.keys,
            "INNER": self.inner,
            "INNER_VEC4": self.inner_4,
            "WIDTH": self.width,
            "WIDTH_VEC4": self.width_4,
        }


@dataclass(frozen=True, slots=True)
class TileLoop:
    """Each of `length` rows (or keys) loops over up to `steps` keys (or rows).

    `products` are the vectors of a head that are multiplied for a score, `sums` those of a row that
    are added up: one number for each product or sum. `joins`: threads share their greatest scores.
    """

    length: int
    steps: int
    products: tuple[int, ...]
    sums: tuple[int, ...]
    joins: bool = False

    @property
    def inner(self) -> int:
        """Elements that are read for each step."""
        return 4 * (sum(self.products) + sum(self.sums))


class AttentionAccess:
    """Collects the functions of one kernel; `vectors` are regions bound as arrays of vectors."""

    def __init__(self, context: GroupContext, vectors: Set[Place] = frozenset()) -> None:
        self.context = context
        self.emitter = Emitter(context.inlined, context.bindings(vectors))
        self.functions: list[Declaration] = []
        self._scalar_stores: set[Place] = set()

    def may_be_vectors(self) -> Set[Place]:
        """The regions that could be bound as vectors."""
        return vector_regions(self.emitter.bindings.touched) - self._scalar_stores

    def reads(self, name: str, value: Value) -> None:
        """`name_at(z, h, t, d)`: one element."""
        signature = f"{name}_at({self._parameters(value)}) -> f32"
        self.functions += self.emitter.reader(signature, value, self._coordinates(value))

    def reads_vec4(self, name: str, value: Value) -> None:
        """`load_name(z, h, t, c)`: elements 4 c … 4 c + 3 of a row, zero past its end."""
        size = value.shape[-1]
        if size % VECTOR:
            self.reads(name, value)
            self.functions += _load_ragged(name, size)
            return
        self._begin()
        self.emitter.shares = True
        parts = [self.emitter.at(value, self._fourth(value, i, size)) for i in range(VECTOR)]
        self.emitter.shares = False
        self._function(f"load_{name}({_VECTOR_AT}) -> vec4f", Return(vector_of(parts)))

    def stores(self, name: str, value: Value) -> None:
        """`name(z, h, t, d, x)`; does nothing where nobody wants the value."""
        self._begin()
        stores = []
        if self.context.is_stored(value):
            stores = [self.emitter.store(value, self._coordinates(value), Name("x"))]
            self._scalar_stores.add(self.emitter.bindings.region(value))
        self._function(f"{name}({self._parameters(value)}, x: f32)", *stores)

    def stores_vec4(self, name: str, value: Value, size: int, start: int = 0) -> None:
        """`name(z, h, t, c, x)`: four of the `size` elements of a row that begin at `start`."""
        self._begin()
        bindings = self.emitter.bindings
        stores: list[Statement] = []
        if self.context.is_stored(value):
            at = [linear(self._fourth(value, i, size, start), value.shape) for i in range(VECTOR)]
            parts = [member(f"x.{component}") for component in COMPONENTS]
            if size % VECTOR:
                self._scalar_stores.add(bindings.region(value))
            if bindings.region(value) in bindings.vectors:
                stores = [bindings.store_vector(value, at[0], parts)]
            else:
                ones = [bindings.store(value, *one) for one in zip(at, parts, strict=True)]
                stores = [_within(i, size, store) for i, store in enumerate(ones[:size])]
        self._function(f"{name}({_VECTOR_AT}, x: vec4f)", *stores)

    def sees(self, node: Node, extras: Sequence[Value], sizes: AttentionSizes, along: str) -> None:
        """`sees(row, key)` by position, and which keys a row sees (or rows see a key)."""
        scope = AttentionScope(node.attrs["causal"], node.attrs["window"])
        offset, mask = optional(extras)
        self.functions += [
            ConstantDef("SCALE", number(node.attrs["scale"], "f32")),
            ConstantDef("HIDDEN", number(HIDDEN, "f32")),
            *_ranges(scope, sizes, along),
        ]
        if offset is not None:
            self._offset(offset, sizes, scope)
        if mask is not None:
            self.reads("mask", mask)

    def _offset(self, offset: Value, sizes: AttentionSizes, scope: AttentionScope) -> None:
        self._begin()
        # Beyond these every row sees all or nothing; sums of positions cannot overflow.
        far = scope.window or 0
        low, high = sizes.rows + far, sizes.keys + far
        raw = self.emitter.at(offset, ())
        unsigned = wgsl_type(offset.dtype) == "u32"
        near = f"i32(min(RAW, {high}u))" if unsigned else f"clamp(RAW, -{low}, {high})"
        self._function("offset() -> i32", Return(expression(near, RAW=raw)))

    def _begin(self) -> None:
        self.emitter.outer = Statements()

    def _function(self, signature: str, *last: Statement) -> None:
        self.functions += self.emitter.function(signature, *last)

    def _coordinates(self, value: Value) -> Coordinates:
        names = AXES[: len(value.shape)]
        return tuple(variable(n, extent) for n, extent in zip(names, value.shape, strict=True))

    def _fourth(self, value: Value, component: int, size: int, start: int = 0) -> Coordinates:
        """The coordinates of a component of vector `c` of a row."""
        column = variable("c", ceil_div(size, VECTOR)) * VECTOR + component + start
        return (*self._coordinates(value)[:-1], column)

    def _parameters(self, value: Value) -> str:
        return ", ".join(f"{name}: u32" for name in AXES[: len(value.shape)])


def with_vectors(write: Callable[[Set[Place]], AttentionAccess]) -> AttentionAccess:
    """Writes with as many regions as possible bound as vectors."""
    return write(write(frozenset()).may_be_vectors())


def _within(component: int, size: int, store: Statement) -> Statement:
    """The statement for a component of a vector, which may be past the end of a row."""
    if size % VECTOR == 0 or component == 0:
        return store
    (guarded,) = when(expression(f"c * 4u + {component}u < {size}u"), (store,))
    return guarded


def _load_ragged(name: str, size: int) -> tuple[Declaration, ...]:
    """Rows that are no whole vectors."""
    parts = [f"{name}_at(z, h, t, c * 4u)"]
    for i in (1, 2, 3):
        place = f"c * 4u + {i}u"
        inside = f"{name}_at(z, h, t, min({place}, {size - 1}u))"
        parts.append(f"select(0.0, {inside}, {place} < {size}u)")
    head = f"fn load_{name}({_VECTOR_AT}) -> vec4f"
    return functions(f"{head} {{ return vec4f({', '.join(parts)}); }}")


def _ranges(scope: AttentionScope, sizes: AttentionSizes, along: str) -> tuple[Declaration, ...]:
    """A row's position counts from the first key; `first_row` and `end_row` count from the first
    row, and so does the key they are given."""
    conditions = []
    first_key, end_key = "0", f"{sizes.keys}"
    first_row, end_row = "0", f"{sizes.rows}"
    if scope.window is not None:
        near = scope.window - 1
        conditions.append(f"row - key <= {near}")
        first_key, end_row = f"max(0, row - {near})", f"min({sizes.rows}, key + {near + 1})"
        if not scope.causal:
            conditions.append(f"key - row <= {near}")
            end_key, first_row = f"min({sizes.keys}, row + {near + 1})", f"max(0, key - {near})"
    if scope.causal:
        conditions.append("key <= row")
        end_key, first_row = f"min({sizes.keys}, row + 1)", "max(0, key)"
    # Not `&&`, which branches: compilers of software adapters choke on many branches.
    seen = " & ".join(f"({condition})" for condition in conditions) or "true"
    first, end = (first_key, end_key) if along == "key" else (first_row, end_row)
    given = "row" if along == "key" else "key"
    return functions(
        f"""
        fn sees(row: i32, key: i32) -> bool {{ return {seen}; }}
        fn first_{along}({given}: i32) -> u32 {{ return u32({first}); }}
        fn end_{along}({given}: i32) -> u32 {{ return u32(max(0, {end})); }}
        """
    )
