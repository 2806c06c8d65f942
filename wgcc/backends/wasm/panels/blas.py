"""Large products as views of linear memory: for hosts with a BLAS library, such as Python's numpy.

Operands and results that lie in memory as matrices are views. An operand that a kernel computes is
packed by a function of the module first, and a result that its epilogue goes on computing with is
finished by another; both are made of the kernel's own `left`, `right` and `finish`. The host keeps
what is packed behind the buffers, where threads have their scratch memory at other times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from wgcc.backends.wasm.encoding.instructions import F32, I32
from wgcc.backends.wasm.kernels.body import BodyParts, KernelBody
from wgcc.backends.wasm.kernels.positions import Counter
from wgcc.backends.wasm.kernels.scopes import Env, Held, Storage, Unvectorisable
from wgcc.backends.wasm.panels.micro_kernel import cheapest_axis
from wgcc.ir.index import Index, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.parse import parse_statements
from wgcc.kernel.tree import Call, Element, Expr, Name
from wgcc.schedule.kernel import WORD, Binding, DispatchWork, ProductTask, ThreadTask

# Smaller products, or all of them with fewer rows, columns or inner elements, are not worth a call
# of another library: that takes 10 µs, in which the twin computes 400,000 operations.
MIN_FLOPS, MIN_EACH, MIN_EXTENT = 4_000_000, 250_000, 8
# An operand is packed if each of its elements is used so often, and if it takes at most so much.
MIN_USES, MOST_PACKED = 16, 1 << 24
# Packed matrices start on boundaries of this many bytes.
ALIGNED = 64
# The names of constants that say how far each axis goes.
COUNTS = {"z": "BATCH", "m": "ROWS", "k": "DEPTH", "n": "COLS"}
AXES = {"left": ("z", "m", "k"), "right": ("z", "k", "n"), "out": ("z", "m", "n")}

_PACK = """
    let {row} = o % {rows};
    let z = o / {rows};
    for (var {column} = 0u; {column} < {columns}; {column}++) {{
      blas_packed[o * {columns} + {column}] = {element};
    }}
"""
_FINISH = """
    let n = o % COLS;
    let m = o / COLS % ROWS;
    let z = o / (ROWS * COLS);
    finish(z, m, n, blas_packed[o]);
"""
_SUM = """
    var total = 0.0;
    for (var k = 0u; k < DEPTH; k++) {{ total += {element}; }}
    finish_sum(n, total);
"""
_STORED = parse_statements("finish(z, m, n, x);")

# Work, and the bytes at which its bindings start.
PlacedWork = tuple[DispatchWork, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Matrices:
    """Matrices of f32 from byte `at` on; `strides`: bytes to the next matrix, row and column."""

    at: int
    strides: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class BlasProduct:
    """`out` = `left` @ `right` by a library, between the steps that pack and those that finish."""

    task: ProductTask
    left: Matrices
    right: Matrices
    out: Matrices
    packs: tuple[PlacedWork, ...]
    finishes: tuple[PlacedWork, ...]

    @property
    def matrices(self) -> dict[str, Matrices]:
        return {"left": self.left, "right": self.right, "out": self.out}


class Probe(KernelBody):
    """Writes an expression to see what it loads and stores, and where."""

    def __init__(self, parts: BodyParts) -> None:
        super().__init__(*parts)
        self.loads = list[Access]()
        self.stores = list[Access]()

    def load(self, storage: Storage, index: Index) -> Held:
        held = super().load(storage, index)
        self.loads.append((storage, index, held))
        return held

    def store(self, target: Element, value: Expr, env: Env) -> None:
        assert isinstance(target.whole, Name)
        storage = env[target.whole.name]
        assert isinstance(storage, Storage)
        held = self.value(value, env, storage.kind)
        self.stores.append((storage, self.position(target.index, env), held))


Access = tuple[Storage, Index, Held]
NewParts = Callable[[], BodyParts]


def blas_product(
    work: DispatchWork, starts: Sequence[int], free: int, new_parts: NewParts
) -> BlasProduct | None:
    """None where a library would not be faster. `starts`: the byte of each binding.

    `free`: the byte from which on memory may be used.
    """
    if not isinstance(work.task, ProductTask) or not _is_large(work.task):
        return None
    try:
        return _Finder(work, work.task, tuple(starts), free, new_parts).product()
    except Unvectorisable:
        return None


def _is_large(task: ProductTask) -> bool:
    each = 2 * task.rows * task.cols * task.inner
    is_wide = min(task.rows, task.cols, task.inner) >= MIN_EXTENT
    return is_wide and each >= MIN_EACH and each * task.batch >= MIN_FLOPS


class _Finder:
    """Finds the matrices of a product; from byte `_free` on nothing is packed yet."""

    def __init__(
        self,
        work: DispatchWork,
        task: ProductTask,
        starts: tuple[int, ...],
        free: int,
        new_parts: NewParts,
    ) -> None:
        self._work, self._task, self._starts = work, task, starts
        self._free, self._new_parts = free, new_parts
        self._extents = {"z": task.batch, "m": task.rows, "k": task.inner, "n": task.cols}

    def product(self) -> BlasProduct:
        task, first = self._task, self._free
        left, pack_left = self._operand("left", uses=task.cols)
        right, pack_right = self._operand("right", uses=task.rows)
        out, finishes = self._result()
        if task.sums:
            finishes += (self._sums(right, is_packed=right.at >= first),)
        return BlasProduct(task, left, right, out, pack_left + pack_right, finishes)

    def _operand(self, name: str, uses: int) -> tuple[Matrices, tuple[PlacedWork, ...]]:
        probe, axes = Probe(self._new_parts()), AXES[name]
        env = self._variables(probe, axes)
        value = probe.value(_call(name), env)
        bindings = self._work.bindings
        if any(bindings[storage.local].element != "f32" for storage, _, _ in probe.loads):
            raise Unvectorisable("elements that are not f32")
        if view := self._matrices(probe.loads, value, axes, env):
            return view, ()
        if uses < MIN_USES:
            raise Unvectorisable("too few uses of what would be packed")
        return self._pack(name)

    def _pack(self, name: str) -> tuple[Matrices, tuple[PlacedWork, ...]]:
        """The rows of the packed matrix are along the axis that takes fewest instructions."""
        z, row, column = AXES[name]
        extents = tuple((axis, self._extents[axis]) for axis in AXES[name])
        costs = {column: 0.0, row: 0.0}
        best = cheapest_axis(name, extents, costs, lambda: KernelBody(*self._new_parts()))
        is_transposed = best == row
        if is_transposed:
            row, column = column, row
        text = _PACK.format(
            row=row,
            column=column,
            rows=COUNTS[row],
            columns=COUNTS[column],
            element=f"{name}({', '.join(AXES[name])})",
        )
        view, count = self._new_matrices(z, row, column)
        step = self._step(text, "o", count // self._extents[column], view.at, written=True)
        if is_transposed:
            matrix, along, across = view.strides
            view = Matrices(view.at, (matrix, across, along))
        return view, (step,)

    def _result(self) -> tuple[Matrices, tuple[PlacedWork, ...]]:
        probe, axes = Probe(self._new_parts()), AXES["out"]
        env = self._variables(probe, axes)
        product = Held("f32", local=probe.f.local("x", F32))
        probe.run(_STORED, {**env, "x": product})
        if view := self._matrices(probe.stores, product, axes, env):
            return view, ()
        view, count = self._new_matrices(*axes)
        return view, (self._step(_FINISH, "o", count, view.at),)

    def _sums(self, right: Matrices, is_packed: bool) -> PlacedWork:
        if not is_packed:
            return self._step(_SUM.format(element="right(0u, k, n)"), "n", self._task.cols)
        _, row, column = (stride // WORD for stride in right.strides)
        element = f"blas_packed[k * {row}u + n * {column}u]"
        return self._step(_SUM.format(element=element), "n", self._task.cols, right.at)

    def _variables(self, body: KernelBody, axes: Sequence[str]) -> Env:
        env: Env = {}
        for axis in axes:
            counter = Counter(body.f.local(axis, I32), 0)
            name = body.positions.name(axis, counter)
            body.bind(env, axis, variable(name, self._extents[axis]))
        return env

    def _matrices(
        self, accesses: Sequence[Access], value: Held, axes: Sequence[str], env: Env
    ) -> Matrices | None:
        """The view that one access of `value` is; None if it is none that BLAS takes."""
        if len(accesses) != 1 or accesses[0][2] != value:
            return None
        storage, index, _ = accesses[0]
        variables = {held.index: axis for axis, held in env.items() if isinstance(held, Held)}
        strides = dict.fromkeys(axes, 0)
        for atom, factor in index.terms:
            axis = variables.get(Index(((atom, 1),)))
            if axis is None or factor < 0:
                return None
            strides[axis] = factor * WORD
        matrix, row, column = (strides[axis] for axis in axes)
        rows, columns = (self._extents[axis] for axis in axes[1:])
        by_rows = column == WORD and row >= columns * WORD
        by_columns = row == WORD and column >= rows * WORD
        if storage.unit != WORD or not (by_rows or by_columns):
            return None
        return Matrices(self._starts[storage.local] + index.offset * WORD, (matrix, row, column))

    def _new_matrices(self, *axes: str) -> tuple[Matrices, int]:
        """Memory for matrices with their rows one after the other, and how many elements it has."""
        matrices, rows, columns = (self._extents[axis] for axis in axes)
        count, at = matrices * rows * columns, self._free
        if count > MOST_PACKED:
            raise Unvectorisable("too large to be packed")
        self._free += ceil_div(count * WORD, ALIGNED) * ALIGNED
        return Matrices(at, (rows * columns * WORD, columns * WORD, WORD)), count

    def _step(
        self, text: str, index: str, count: int, packed: int = 0, written: bool = False
    ) -> PlacedWork:
        """The work of `count` threads; `packed`: where `blas_packed` starts, if it is used."""
        work, starts = self._work, self._starts
        if packed:
            own = Binding("blas_packed", "f32", MOST_PACKED, written)
            work, starts = replace(work, bindings=(*work.bindings, own)), (*starts, packed)
        sizes = ((COUNTS[axis], extent) for axis, extent in self._extents.items())
        task = ThreadTask(index, count, parse_statements(text))
        return replace(work, constants=(*work.constants, *sizes), task=task), starts


def _call(name: str) -> Call:
    return Call(name, tuple(Name(axis) for axis in AXES[name]))
