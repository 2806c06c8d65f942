"""Statements of a kernel as instructions: what one thread of a GPU does, four threads at a time.

Bindings are addresses in memory. What lanes would have to do at different times is not for vectors:
`Unvectorisable`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from wgcc.backends.wasm.encoding.instructions import I32
from wgcc.backends.wasm.encoding.module import WasmFunction
from wgcc.backends.wasm.kernels.loops import Loops, WithEnv
from wgcc.backends.wasm.kernels.positions import Counter
from wgcc.backends.wasm.kernels.scopes import (
    LANES,
    Env,
    Held,
    LoopRange,
    Mutable,
    Storage,
    Unvectorisable,
    span_of,
    type_code,
)
from wgcc.backends.wasm.wgsl.library import Library
from wgcc.ir.index import Index, constant, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.parse import parse_expression
from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Element,
    Expr,
    FunctionDef,
    If,
    Let,
    Literal,
    Loop,
    Name,
    Return,
    Run,
    Statement,
    counting_head,
    expressions_of,
    parts_of,
)

ORIGIN = constant(0)
# Iterations of a loop that is a part of another one, and how many such parts are written out.
LEAST_PART, MOST_PARTS = 16, 2
UNNAMED = ("f32", "i32", "u32", "bool", "x")
Emit = Callable[[], None]
# What a body is made of.
BodyParts = tuple[WasmFunction, Library, Mapping[str, FunctionDef], Env]


class KernelBody(Loops):
    def run(self, statements: Sequence[Statement], env: Env) -> Held | None:
        """Writes the statements, and returns the value of their `return`, if there is one."""
        for statement in statements:
            match statement:
                case Return(value):
                    return self.value(value, env) if value else None
                case Let():
                    self._let(statement, env)
                case Assign():
                    self._assign(statement, env)
                case Run():
                    self._run(statement, env)
                case If():
                    self._if(statement, env)
                case Loop():
                    self.loop(statement, env)
        return None

    def run_together(
        self, statements: Sequence[Statement], envs: Sequence[Env], steps: int = 1
    ) -> None:
        """Writes the statements for several environments, which share each loop.

        `steps`: so many iterations of a loop are written out for each, if there are as many.
        """
        for statement in statements:
            if isinstance(statement, Loop):
                self._loop_together(statement, envs, steps)
            else:
                for env in envs:
                    self.run((statement,), env)

    def _loop_together(self, statement: Loop, envs: Sequence[Env], steps: int) -> None:
        """One loop for several environments, in all of which it has the same iterations."""
        name, span = self._common_span(statement, envs)
        parts = _parts_of(statement, name, span)
        if span.is_open or span.step != 1 or parts[0] % steps:
            steps = 1

        def bodies(inner: Env) -> None:
            for number, env in enumerate(envs):
                # Vectors of bytes that follow each other are loaded in pairs.
                self.pair = number % 2 if len(envs) % 2 == 0 else None
                for step in range(steps):
                    own = dict(env)
                    self.bind(own, name, self.index_of(inner, name) + step)
                    self.run(statement.body, own)
            self.pair = None

        if parts[0] < span.trips:
            self._in_parts(name, parts, span.trips // sum(parts), steps, bodies)
            return

        def block(inner: Env) -> None:
            self.unswitch(bodies, inner)

        self.count(name, LoopRange(span.start, span.stop, span.step * steps), block, {})

    def _common_span(self, statement: Loop, envs: Sequence[Env]) -> tuple[str, LoopRange]:
        """The counter of the loop and its iterations, which are the same in all environments."""
        head = counting_head(statement)
        if head is None:
            raise Unvectorisable("a loop that is not counted")
        name, *limits = head
        first, *others = [[self.position(limit, env) for limit in limits] for env in envs]
        start, stop, by = first
        if any(other != first for other in others) or not by.is_constant:
            raise Unvectorisable("loops of different length")
        if self.positions.in_lanes(start) or self.positions.in_lanes(stop):
            raise Unvectorisable("a loop of different length")
        return name, LoopRange(start, stop, by.offset)

    def _in_parts(
        self, name: str, parts: Sequence[int], groups: int, steps: int, bodies: WithEnv
    ) -> None:
        """The loop as a loop over groups of iterations, each of which has a loop for each part."""

        def group(inner: Env) -> None:
            first = self.index_of(inner, "group") * sum(parts)
            for number, length in enumerate(parts):
                start = first + number * length

                def row(own: Env, start: Index = start) -> None:
                    self.bind(own, name, start + self.index_of(own, name))
                    self.unswitch(bodies, own)

                self.count(name, LoopRange(ORIGIN, constant(length), steps), row, inner)

        self.count("group", span_of(groups), group, {})

    def _let(self, statement: Let, env: Env) -> None:
        if not statement.mutable:
            assert statement.value is not None
            held = self.value(statement.value, env, statement.kind)
            env[statement.name] = held
            self._call(held.local, statement.name)
            return
        value = statement.value or Literal(0, "int")
        kind = statement.kind or self.kind(value, env)
        held = self.value(value, env, kind)
        lanes = LANES if self._lane_depth is not None else 1
        variable_ = Mutable(kind, lanes, self.f.local(statement.name, type_code(kind, lanes)))
        self.push(held, lanes)
        self.f.set(variable_.local)
        env[statement.name] = variable_

    def _assign(self, statement: Assign, env: Env) -> None:
        if isinstance(statement.target, Element):
            self.store(statement.target, statement.value, env)
            return
        assert isinstance(statement.target, Name)
        target = env[statement.target.name]
        assert isinstance(target, Mutable), statement.target.name
        held = self.value(statement.value, env, target.kind)
        if held.lanes > target.lanes:
            raise Unvectorisable(f"`{statement.target.name}` is one for all lanes")
        self.push(held, target.lanes)
        self.f.set(target.local)

    def _run(self, statement: Run, env: Env) -> None:
        assert isinstance(statement.call, Call)
        self._inline(statement.call, env)

    def _if(self, statement: If, env: Env) -> None:
        condition = self.value(statement.condition, env)
        if condition.number is not None:
            self.run(statement.then if condition.number else statement.other, dict(env))
            return
        if condition.lanes > 1:
            raise Unvectorisable("a branch")
        self.when(
            condition,
            lambda: self._run_apart(statement.then, env),
            (lambda: self._run_apart(statement.other, env)) if statement.other else None,
        )

    def _run_apart(self, statements: Sequence[Statement], env: Env) -> None:
        self.run(statements, dict(env))

    def when(self, condition: Held, then: Emit, other: Emit | None = None) -> None:
        """A branch on a condition that all lanes share."""
        bodies = []
        for part in (then, other or _nothing):
            with self.scopes.inside(conditional=True) as scope:
                part()
            bodies.append(scope.body)
        self.push(condition, 1)
        self.f.if_()
        self.f.code += bodies[0]
        if bodies[1]:
            self.f.else_()
            self.f.code += bodies[1]
        self.f.end()

    def unswitch(self, write: Callable[[Env], None], env: Env) -> None:
        """Writes a loop twice if it tests conditions that are known before: once as if all hold.

        Those are, for example, whether the window of a convolution is inside the image.
        """
        scopes = self.scopes
        with (
            self.watch_conditions() as conditions,
            scopes.apart() as spent,
            scopes.inside() as inner,
        ):
            write(dict(env))
        if not conditions:
            scopes.cost += spent[0]
            self.f.code += inner.body
            return
        names = {f"condition{i}": held for i, held in enumerate(conditions.values())}
        terms: list[Expr] = [Name(name) for name in names]
        all_hold = reduce(lambda a, b: Binary("&&", a, b), terms)

        def mostly() -> None:
            with self.assume(conditions):
                write(dict(env))

        def rarely() -> None:
            with scopes.apart():
                write(dict(env))

        self.when(self.value(all_hold, {**env, **names}), mostly, rarely)

    def _call(self, local: int, name: str) -> None:
        """Locals without a name of their own get that of the first variable they hold."""
        if local >= 0 and self.f.local_names[local] in UNNAMED:
            self.f.local_names[local] = name

    def function(self, name: str) -> FunctionDef:
        """One of the kernel's own functions."""
        return self._functions[name]

    def bind(self, env: Env, name: str, index: Index | int) -> None:
        """`name` stands for a position from here on."""
        index = index if isinstance(index, Index) else constant(index)
        lanes = LANES if self.positions.in_lanes(index) else 1
        env[name] = Held("u32", lanes, index=index, depth=self.positions.depth(index))

    def index_of(self, env: Env, name: str) -> Index:
        held = env[name]
        assert isinstance(held, Held) and held.index is not None, name
        return held.index

    @property
    def scratch(self) -> Storage:
        """The thread's own memory."""
        storage = self._outermost["scratch"]
        assert isinstance(storage, Storage)
        return storage

    def at_most(self, text: str, env: Env, most: int) -> Index:
        """The value of an expression that is never greater than `most`, as a position."""
        held = self.value(parse_expression(text), env, "u32")
        if held.index is not None:
            return held.index
        return variable(self.positions.name("limit", Counter(held.local, held.depth)), most + 1)

    def push_address(self, storage: Storage, index: Index) -> None:
        offset = self.positions.address(storage.local, index)
        if offset:
            self.f.i32(offset).emit("i32.add")

    def call_shared(self, key: str, write: Callable[[], WasmFunction]) -> None:
        """Calls a function that all kernels of the module share, with what has been pushed."""
        self.f.call(self._library.shared_function(key, write))


def _nothing() -> None:
    pass


def _parts_of(loop: Loop, name: str, span: LoopRange) -> list[int]:
    """The lengths of loops of which each iteration of an outer loop has one after the other.

    In each of them, quotients of the counter stay the same: what depends on them, such as the scale
    of a group of weights, or which half of a byte is read, is known before it.
    """
    whole = [span.trips]
    if span.is_open or span.start != ORIGIN or span.step != 1:
        return whole
    divisors = _divisors_of(loop.body, name)
    least, most = min(divisors, default=1), max(divisors, default=1)
    if least < LEAST_PART or most > MOST_PARTS * least or most >= span.trips:
        return whole
    if span.trips % most or any(most % d or d % least for d in divisors):
        return whole
    return [least] * (most // least)


def _divisors_of(body: Sequence[Statement], name: str) -> set[int]:
    """The numbers by which the statements divide the variable."""
    parts = (p for s in body for expr in expressions_of(s) for p in parts_of(expr))
    quotients = (p for p in parts if isinstance(p, Binary) and p.op in "/%")
    literals = (p.right for p in quotients if p.left == Name(name))
    return {int(right.value) for right in literals if isinstance(right, Literal)}


def share(body: KernelBody, first: int, count: int, grain: int) -> LoopRange:
    """This thread's part of `count` iterations, whole grains of them.

    Parameter `first` of the function is the thread's number, the next one how many there are.
    """
    f, thread, threads = body.f, first, first + 1
    chunk, start, stop = (f.local(name, I32) for name in ("chunk", "start", "stop"))
    # ceil(ceil(count / grain) / threads) * grain
    grains = ceil_div(count, grain)
    f.i32(grains - 1).get(threads).emit("i32.add").get(threads)
    f.emit("i32.div_u").i32(grain).emit("i32.mul").tee(chunk)
    f.get(thread).emit("i32.mul").set(start)
    for local, extra in ((start, False), (stop, True)):
        if extra:
            f.get(start).get(chunk).emit("i32.add").set(stop)
        f.get(local).i32(count).get(local).i32(count).emit("i32.lt_u").emit("select").set(local)
    return LoopRange(_bound(body, start, count), _bound(body, stop, count), guess=count)


def _bound(body: KernelBody, local: int, count: int) -> Index:
    return variable(body.positions.name("bound", Counter(local, 0)), count + 1)
