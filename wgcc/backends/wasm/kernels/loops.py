"""Loops of kernels, one iteration after the other or four at a time.

At most one of the nested loops runs along the lanes of a vector. What a loop accumulates is then
accumulated lane by lane and joined at its end, always in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from operator import itemgetter

from wgcc.backends.wasm.encoding.instructions import I32, V128
from wgcc.backends.wasm.kernels.memory import MemoryAccess, Reduction, reductions_of
from wgcc.backends.wasm.kernels.positions import Counter
from wgcc.backends.wasm.kernels.scopes import (
    GUESSED,
    LANES,
    Env,
    Held,
    LoopRange,
    Mutable,
    TooCostly,
    Unvectorisable,
    span_of,
    type_code,
)
from wgcc.backends.wasm.wgsl.evaluate import KnownOperand, Local
from wgcc.ir.index import Index, constant, variable
from wgcc.kernel.tree import (
    Binary,
    If,
    Loop,
    Name,
    Statement,
    counting_head,
    expressions_of,
    parts_of,
)

# Loops with fewer iterations are not worth vectors.
MIN_VECTOR = 4
# Loops with at most so many iterations, such as those over the taps of a convolution, are unrolled.
MOST_UNROLLED = 25
# Rows so long that it is always worth it to save divisions by their length.
LONG_ROW = 32
WithEnv = Callable[[Env], None]


def _nothing() -> None:
    pass


class Loops(MemoryAccess):
    # A local that is never set.
    _zero: int | None = None
    # Iterations of the loop that is written as one long row, if shorter ones may be better.
    row: int | None = None

    def note(self, index: Index) -> None:
        super().note(index)
        if self.row and any(row >= LONG_ROW for row in rows_of(self.row, self.divisors)):
            raise TooCostly

    def loop(self, statement: Loop, env: Env) -> None:
        head = counting_head(statement)
        if head is None:
            self._while(statement, env)
            return
        name, first, end, step = head
        start, stop = self.position(first, env), self.position(end, env)
        by = self.position(step, env)
        if self.positions.in_lanes(start) or self.positions.in_lanes(stop):
            raise Unvectorisable("a loop of different length")
        if not by.is_constant:
            self._while(statement, env)
            return
        span = LoopRange(start, stop, by.offset)
        if self._lane_depth is None and by.offset == 1 and span.trips >= MIN_VECTOR:
            self._write_best(name, span, statement.body, env)
        elif self._is_unrolled(name, span, statement.body):
            for number in range(span.start.offset, span.stop.offset, by.offset):
                inner = {**env, name: Held("u32", index=constant(number))}
                self.run(statement.body, inner)
        else:
            self._one_by_one(name, span, statement.body, env)

    def _is_unrolled(self, name: str, span: LoopRange, body: Sequence[Statement]) -> bool:
        """Whether iterations are few, and their divisions of the counter known before the loop."""
        if span.is_open or span.trips > MOST_UNROLLED or _has_loop(body):
            return False
        return self._lane_depth is not None and any(_divides(s, name) for s in body)

    def _write_best(self, name: str, span: LoopRange, body: Sequence[Statement], env: Env) -> None:
        """The loop as lanes, or loops inside it as lanes: whatever takes fewest instructions."""

        def lanes(columns: int | None) -> Callable[[], None]:
            return lambda: self._reduce(name, span, body, env, columns)

        before, seen = self.scopes.snapshot(), self.divisors
        self.divisors = set()
        cost = self._cost_of(lanes(None))
        divisors, self.divisors = self.divisors, seen
        if cost < inf and not divisors and not _has_loop(body):
            self.scopes.cost += cost
            return
        self.scopes.restore(before)
        options = [(cost, lanes(None))]
        fitting = () if span.is_open else rows_of(span.trips, divisors)
        for write in (*map(lanes, fitting), lambda: self._one_by_one(name, span, body, env)):
            least = min(known for known, _ in options)
            options.append((self._cost_of(write, least), write))
            self.scopes.restore(before)
        min(options, key=itemgetter(0))[1]()

    def _cost_of(self, write: Callable[[], None], most: float = inf) -> float:
        """The cost of what `write` emits; infinite if it cannot be written or exceeds `most`."""
        cost, before = self.scopes.cost, self.scopes.snapshot()
        try:
            with self.scopes.limit(cost + most):
                write()
            return self.scopes.cost - cost
        except (Unvectorisable, TooCostly):
            self.scopes.restore(before)
            return inf
        finally:
            self.scopes.cost = cost

    def _one_by_one(self, name: str, span: LoopRange, body: Sequence[Statement], env: Env) -> None:
        def block(inner: Env) -> None:
            self.run(body, inner)

        self.count(name, span, block, env)

    def _while(self, statement: Loop, env: Env) -> None:
        """A loop that is not counted: its variables are as any others."""
        inner = dict(env)
        self.run(statement.before, inner)
        with self.scopes.inside(GUESSED, conditional=True) as scope:
            condition = self.value(statement.condition, inner)
            if condition.lanes > 1:
                raise Unvectorisable("a loop of different length")
            self.push(condition, 1)
            self.f.emit("i32.eqz")
            head, scope.body = scope.body, bytearray()
            self.f.code = scope.body
            self.run((*statement.body, *statement.after), dict(inner))
        done, again = self.f.block(), self.f.loop()
        self.f.code += head
        self.f.br_if(done)
        self.f.code += scope.body
        self.f.br(again).end().end()

    def count(self, name: str, span: LoopRange, body: WithEnv, env: Env) -> None:
        """One iteration after the other."""
        counter = self.f.local(name, I32)
        inner = dict(env)
        with self.scopes.inside(span.trips, conditional=span.may_be_empty) as scope:
            depth = self.scopes.depth
            own = self.positions.name(name, Counter(counter, depth, span.unit))
            inner[name] = Held("u32", index=variable(own, span.extent), depth=depth)
            body(inner)
        self._repeat(counter, span, span.step, scope.body)

    def _repeat(self, counter: int, span: LoopRange, step: int, body: bytearray) -> None:
        """`body` for each value of the counter, which counts in the units of the span."""
        self.scopes.spend(3 * span.trips / max(step // span.step, 1))
        f = self.f
        end = self._end(span)
        self.positions.push(span.start, span.unit)
        f.set(counter)
        done = 0
        if span.may_be_empty:
            done = f.block()
            f.get(counter)
            self._push_end(end)
            f.emit("i32.ge_u").br_if(done)
        again = f.loop()
        f.code += body
        f.get(counter).i32(step * span.unit).emit("i32.add").tee(counter)
        self._push_end(end)
        f.emit("i32.lt_u").br_if(again).end()
        if span.may_be_empty:
            f.end()

    def _end(self, span: LoopRange) -> int | bytes:
        if span.stop.is_constant:
            return (span.stop.offset * span.unit).to_bytes(8, "little", signed=True)
        local = self.f.local("end", I32)
        self.positions.push(span.stop, span.unit)
        self.f.set(local)
        return local

    def _push_end(self, end: int | bytes) -> None:
        if isinstance(end, int):
            self.f.get(end)
        else:
            self.f.i32(int.from_bytes(end, "little", signed=True))

    def _reduce(
        self,
        name: str,
        span: LoopRange,
        body: Sequence[Statement],
        env: Env,
        columns: int | None,
    ) -> None:
        """The loop with its iterations as lanes, in rows of so many."""
        mutable = {n for n, thing in env.items() if isinstance(thing, Mutable)}
        reductions = reductions_of(body, mutable)
        if reductions is None:
            raise Unvectorisable("an iteration needs the one before")
        partial = dict(env)
        for reduction in reductions:
            partial[reduction.name] = self._partial(reduction, env)

        def block(inner: Env) -> None:
            self.run(body, inner)

        def join() -> None:
            self._join(reductions, partial, env)

        if columns is None:
            self.along_lanes(name, span, block, partial, join, env)
            return

        def row(inner: Env) -> None:
            start = inner["row"]
            assert isinstance(start, Held) and start.index is not None
            names = {reduction.name: partial[reduction.name] for reduction in reductions}
            self.along_row(name, start.index * columns, columns, block, {**inner, **names}, inner)

        self.count("row", span_of(span.trips // columns), row, env)
        join()

    def along_row(
        self, name: str, start: Index, columns: int, body: WithEnv, env: Env, rest_env: Env
    ) -> None:
        """Runs along the lanes of one row of a loop that is counted in rows."""

        def element(inner: Env) -> None:
            column = inner[name]
            assert isinstance(column, Held) and column.index is not None
            index = start + column.index
            depth = self.positions.depth(index)
            inner[name] = Held("u32", column.lanes, index=index, depth=depth)
            body(inner)

        self.along_lanes(name, span_of(columns), element, env, rest_env=rest_env)

    def _partial(self, reduction: Reduction, env: Env) -> Mutable:
        """A vector in which each lane reduces its own elements."""
        whole = env[reduction.name]
        assert isinstance(whole, Mutable)
        partial = Mutable(whole.kind, LANES, self.f.local(reduction.name, V128))
        start = reduction.start
        held = Held(whole.kind, 1, whole.local) if start is None else Held(whole.kind, number=start)
        self.push(held, LANES)
        self.f.set(partial.local)
        return partial

    def _join(self, reductions: Sequence[Reduction], partial: Env, env: Env) -> None:
        """Lanes into one number: first with the second, third with fourth, then all."""
        for reduction in reductions:
            whole, vector = env[reduction.name], partial[reduction.name]
            assert isinstance(whole, Mutable) and isinstance(vector, Mutable)
            names: dict[str, Local | KnownOperand] = {
                reduction.name: Local(whole.local, whole.kind)
            }
            for lane in range(LANES):
                local = self.f.local(f"lane{lane}", type_code(whole.kind, 1))
                self._push_lane(vector, lane)
                self.f.set(local)
                names[f"lane{lane}"] = Local(local, whole.kind)
            pairs = [reduction.combine(Name(f"lane{i}"), Name(f"lane{i + 1}")) for i in (0, 2)]
            joined = reduction.combine(Name(reduction.name), reduction.combine(*pairs))
            self._code.expression(joined, names)
            self.f.set(whole.local)

    def _push_lane(self, vector: Mutable, lane: int) -> None:
        self.f.get(vector.local)
        kind = "f32x4" if vector.kind == "f32" else "i32x4"
        self.f.emit(f"{kind}.extract_lane", lane)
        if vector.kind == "bool":
            self.f.i32(1).emit("i32.and")

    def along_lanes(
        self,
        name: str,
        span: LoopRange,
        body: WithEnv,
        env: Env,
        between: Callable[[], None] = _nothing,
        rest_env: Env | None = None,
        independent: bool = False,
    ) -> None:
        """Four iterations at a time, then `between`, then the rest one by one.

        `independent`: no two iterations store at the same place.
        """
        whole = span if span.is_open else span.vectors()
        counter = self.f.local(name, I32)
        limits = self._limits(span) if span.is_open else None
        inner = dict(env)
        with self.scopes.inside(span.trips / LANES, conditional=whole.may_be_empty) as scope:
            depth = self.scopes.depth
            own = self.positions.name(name, Counter(counter, depth, whole.unit, steps=True))
            inner[name] = Held("u32", LANES, index=variable(own, span.extent), depth=depth)
            self._lane_depth, self._independent = depth, independent
            try:
                body(inner)
            finally:
                self._lane_depth, self._independent = None, False
        if limits is None:
            self._repeat(counter, whole, LANES, scope.body)
        else:
            self._repeat_between(counter, *limits[:2], LANES * span.unit, scope.body)
        between()
        if limits is not None or span.has_rest:
            self._rest(name, span, body, dict(rest_env if rest_env is not None else env), limits)

    def four(self, name: str, body: WithEnv, env: Env) -> None:
        """`body` once, with `name` from 0 to 3 in the lanes; they never store at one place.

        Positions such as `(4 * v + name) / 8` are then known to be the same for all lanes.
        """
        if self._zero is None:
            self._zero = self.f.local("zero", I32)
        own = self.positions.name(name, Counter(self._zero, 0, steps=True))
        inner = {**env, name: Held("u32", LANES, index=variable(own, LANES))}
        self._lane_depth, self._independent = self.scopes.depth, True
        try:
            body(inner)
        finally:
            self._lane_depth, self._independent = None, False

    def _limits(self, span: LoopRange) -> tuple[int, int, int]:
        """Locals: where a loop of unknown length starts, where its vectors end, where it ends."""
        f = self.f
        start, vectors, end = (f.local(n, I32) for n in ("start", "vectors", "end"))
        self.positions.push(span.start, span.unit)
        f.set(start)
        self.positions.push(span.stop, span.unit)
        f.tee(end).get(start).get(end).get(start).emit("i32.gt_u").emit("select").set(end)
        f.get(end).get(start).emit("i32.sub").i32(-LANES * span.unit).emit("i32.and")
        f.get(start).emit("i32.add").set(vectors)
        return start, vectors, end

    def _repeat_between(
        self, counter: int, start: int, end: int, step: int, body: bytearray
    ) -> None:
        f = self.f
        f.get(start).set(counter)
        done = f.block()
        f.get(counter).get(end).emit("i32.ge_u").br_if(done)
        again = f.loop()
        f.code += body
        f.get(counter).i32(step).emit("i32.add").tee(counter)
        f.get(end).emit("i32.lt_u").br_if(again).end().end()

    def _rest(
        self,
        name: str,
        span: LoopRange,
        body: WithEnv,
        env: Env,
        limits: tuple[int, int, int] | None,
    ) -> None:
        """Runs the iterations after the last whole vector one by one."""
        if limits is None:
            self.count(name, span.rest(), body, env)
            return
        counter = self.f.local(name, I32)
        with self.scopes.inside(2, conditional=True) as scope:
            depth = self.scopes.depth
            own = self.positions.name(name, Counter(counter, depth, span.unit))
            env[name] = Held("u32", index=variable(own, span.extent), depth=depth)
            body(env)
        self._repeat_between(counter, limits[1], limits[2], span.unit, scope.body)


def rows_of(count: int, divisors: set[int]) -> list[int]:
    """The lengths of rows that a loop may run in, the longest first."""
    return sorted((d for d in divisors if count % d == 0 and LANES <= d < count), reverse=True)


def _divides(statement: Statement, name: str) -> bool:
    """Whether the statement divides the variable by something."""
    parts = (part for expr in expressions_of(statement) for part in parts_of(expr))
    return any(isinstance(p, Binary) and p.op in "/%" and p.left == Name(name) for p in parts)


def _has_loop(body: Sequence[Statement]) -> bool:
    """Whether loops are inside; functions that are called may have some, too."""
    return any(isinstance(s, Loop) or (isinstance(s, If) and _has_loop(s.then)) for s in body)
