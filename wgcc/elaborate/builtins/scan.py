"""`scan`: a loop that is traced, differentiated and compiled once for any number of rounds.

What the body of a loop returns: the next state, of the type of the last one, and a result.

`selective_scan`: the recurrence of state-space models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.index_ranges.input_ranges import (
    Lookup,
    intervals_so_far,
    settle_lookups,
    with_checks,
)
from wgcc.elaborate.index_ranges.preimages import Allowed
from wgcc.elaborate.operators import broadcasting
from wgcc.elaborate.operators.broadcasting import TensorExpr
from wgcc.elaborate.operators.operands import CALLABLE
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import (
    Arguments,
    BoundArgs,
    BuiltinFunction,
    Given,
    as_sequence,
)
from wgcc.elaborate.tracing.dims import DIFF, Dim, compare
from wgcc.elaborate.tracing.traced_graph import TracedBody
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    FunctionValue,
    LayerType,
    LayerValue,
    ListValue,
    Number,
    RangeValue,
    Tensor,
    TupleValue,
    describe,
)
from wgcc.errors import Diagnostic, Span
from wgcc.ir.graph import FLOATS, Graph, Value


def parts(value: AnyValue) -> Sequence[AnyValue] | None:
    """The items of a tuple, or of a list of tensors; None for a tensor or a list of numbers."""
    if isinstance(value, TupleValue):
        return value.items
    if isinstance(value, ListValue) and not _is_literal(value):
        return value.items
    return None


def _is_literal(value: AnyValue) -> bool:
    if isinstance(value, ListValue):
        return all(map(_is_literal, value.items))
    return isinstance(value, (Number, Dim, BoolValue))


def leaves(tracer: Tracer, value: AnyValue, name: str, at: Span) -> list[Tensor]:
    """The tensors of a tensor, or of a tuple of tensors and tuples; numbers become tensors."""
    if (items := parts(value)) is not None:
        return [leaf for item in items for leaf in leaves(tracer, item, name, at)]
    return [expect.as_tensor(tracer, Given(value, at), name)]


def rebuild(like: AnyValue, tensors: Iterator[Tensor]) -> AnyValue:
    """The same tuple or list of other tensors."""
    if (items := parts(like)) is None:
        return next(tensors)
    members = tuple(rebuild(item, tensors) for item in items)
    return ListValue(members) if isinstance(like, ListValue) else TupleValue(members)


def round_results(
    tracer: Tracer, value: AnyValue, at: Span, declared: Span | None
) -> tuple[AnyValue, AnyValue]:
    """The next state, and the result of the round. The body is `declared` there."""
    items = value.items if isinstance(value, TupleValue) else ()
    if len(items) == 2:
        return items[0], items[1]
    text = f"the body of `scan` returns the next state and a result, but this is {form_text(value)}"
    problem = _with_body(tracer.report.error("WG0317", text, at), declared)
    problem.help("return both, e.g. `return h, h`; a result that is not used costs nothing")
    if len(items) > 2:
        problem.help("put several states into a tuple: `return (h, c), y`")
    raise Stop(problem)


def check_state(
    tracer: Tracer,
    before: AnyValue,
    after: AnyValue,
    carried: Sequence[Tensor],
    at: Span,
    declared: Span | None,
) -> list[Tensor]:
    """The tensors of the next state, which has the type of the last one."""
    next_state = list(_match(tracer, before, after, iter(carried), at))
    if len(next_state) != len(carried) or not all(map(_same_type, carried, next_state)):
        changed = _difference(tracer, rebuild(before, iter(carried)), after, at)
        raise Stop(_with_body(changed, declared))
    for old, new in zip(carried, next_state, strict=True):
        for want, have in zip(old.dims, new.dims, strict=True):
            tracer.same_size(have, want, at, "the next state of `scan`")
    return next_state


def _match(
    tracer: Tracer, before: AnyValue, after: AnyValue, carried: Iterator[Tensor], at: Span
) -> Iterator[Tensor]:
    """The tensors of `after`, as far as it has the form of `before`."""
    if (items := parts(before)) is not None:
        new_items = parts(after) or ()
        if len(new_items) == len(items):
            for old_item, new_item in zip(items, new_items, strict=True):
                yield from _match(tracer, old_item, new_item, carried, at)
        return
    old = next(carried)
    if isinstance(after, (Number, Dim, BoolValue)):
        yield tracer.fit(after, old.dtype, old.dims, at)
    elif isinstance(after, Tensor):
        yield after


def _same_type(old: Tensor, new: Tensor) -> bool:
    return (
        old.dtype == new.dtype
        and old.rank == new.rank
        and all(compare(a, b) is not DIFF for a, b in zip(old.dims, new.dims, strict=True))
    )


def _difference(tracer: Tracer, before: AnyValue, after: AnyValue, at: Span) -> Diagnostic:
    text = f"the state of `scan` is {form_text(before)}, but a round makes it {form_text(after)}"
    problem = tracer.report.error("WG0317", text, at)
    return problem.help("every round gets the state of the last one, so its type must not change")


def _with_body(problem: Diagnostic, declared: Span | None) -> Diagnostic:
    return problem if declared is None else problem.also(declared, "the body")


def form_text(value: AnyValue) -> str:
    """`(f32[B, H], f32[B, H])`"""
    if isinstance(value, Tensor):
        return str(value)
    if isinstance(value, (TupleValue, ListValue)):
        return f"({', '.join(map(form_text, value.items))})" if value.items else "nothing"
    return describe(value)


def scan(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """(state, ys) of state, y = body(state, x) for each x along an axis."""
    return _Scan(tracer, args, at).run()


@dataclass(slots=True)
class _Over:
    """A loop runs over tensors, whose leading axis is the rounds, or over numbers."""

    rounds: Dim
    form: AnyValue
    tensors: Sequence[Tensor] = ()
    numbers: range | None = None


class _Scan:
    def __init__(self, tracer: Tracer, args: BoundArgs, at: Span) -> None:
        self.tracer, self.args, self.at = tracer, args, at
        self.reverse = expect.flag(tracer, args, "reverse")
        self.function = self._body()
        init = expect.argument(args, "init")
        self.state = init.value
        self.inits = leaves(tracer, init.value, "init", init.span)
        self.axis = 0
        self.over = self._over()
        self.trace = TracedBody(tracer.trace)
        self.checked: Sequence[Lookup] = ()

    def run(self) -> AnyValue:
        """The state after the last round, and the results of all."""
        outer = self.tracer.trace
        self.tracer.trace = self.trace
        try:
            after, form, outputs = self._round()
        finally:
            self.tracer.trace = outer
            self.tracer.here = self.at
        finals, stacks = self._emit(after, outputs)
        ys = iter([self._move(stack) for stack in stacks])
        return TupleValue((rebuild(self.state, iter(finals)), rebuild(form, ys)))

    def _body(self) -> AnyValue:
        function, at = self.args["body"], self.args.span("body")
        if isinstance(function, CALLABLE) and not isinstance(function, LayerType):
            return function
        text = f"`scan` calls a layer or function in each round, but this is {describe(function)}"
        problem = self.tracer.report.error("WG0217", text, at)
        if isinstance(function, LayerType):
            problem.help("declare a member of this type, and give that")
        raise Stop(problem)

    def _declaration_span(self) -> Span | None:
        function: AnyValue | None = self.function
        if isinstance(function, LayerValue):
            function = function.scope.names.get("forward")
        return function.node.name.span if isinstance(function, FunctionValue) else None

    def _over(self) -> _Over:
        xs, at = self.args["xs"], self.args.span("xs")
        if isinstance(xs, (Dim, RangeValue)):
            return self._numbers(xs, at)
        assert xs is not None
        tensors = [self._leading(x, at) for x in leaves(self.tracer, xs, "xs", at)]
        if not tensors:
            text = f"`scan` runs along an axis of `xs`, but this is {form_text(xs)}"
            raise Stop(self.tracer.report.error("WG0317", text, at))
        first = tensors[0]
        for other in tensors[1:]:
            if not self.tracer.same_size(first.dims[0], other.dims[0], at, "the rounds of `scan`"):
                text = f"the rounds of `scan` differ: {first.dims[0].full}, {other.dims[0].full}"
                raise Stop(self.tracer.report.error("WG0317", text, at))
        return _Over(first.dims[0], xs, tensors)

    def _numbers(self, xs: Dim | RangeValue, at: Span) -> _Over:
        sequence = as_sequence(self.tracer, xs, at)
        assert isinstance(sequence, RangeValue)
        if not sequence.count:
            text = "`scan` needs at least one round, but this range is empty"
            raise Stop(self.tracer.report.error("WG0317", text, at))
        rounds = xs if isinstance(xs, Dim) else Dim.literal(sequence.count)
        axis = self.args["axis"]
        self.axis = max(axis.size, 0) if isinstance(axis, Dim) and axis.is_literal else 0
        return _Over(rounds, xs, numbers=sequence.numbers)

    def _leading(self, x: Tensor, at: Span) -> Tensor:
        """`x` with the axis of the rounds in front."""
        if not x.rank:
            text = f"`scan` runs along an axis of `xs`, but this is {describe(x)}"
            raise Stop(self.tracer.report.error("WG0317", text, at))
        axis = expect.axis(self.tracer, self.args, x)
        self.axis = max(self.axis, axis)
        order = [axis, *(other for other in range(x.rank) if other != axis)]
        return broadcasting.transpose(self.tracer, x, order)

    def _round(self) -> tuple[list[Tensor], AnyValue, list[Tensor]]:
        """The next state, the form of the result and its tensors."""
        carried = [self.trace.carry(init, f"state{i}") for i, init in enumerate(self.inits)]
        positional = (
            Given(rebuild(self.state, iter(carried)), self.args.span("init")),
            Given(self._slices(), self.args.span("xs")),
        )
        errors = len(self.tracer.report.diagnostics.errors)
        output = self.tracer.call(self.function, Arguments(positional), self.at)
        if len(self.tracer.report.diagnostics.errors) > errors:
            raise Stop
        where = self._declaration_span()
        state, result = round_results(self.tracer, self.tracer.read(output), self.at, where)
        after = check_state(self.tracer, self.state, state, carried, self.at, where)
        return after, result, leaves(self.tracer, result, "result", self.at)

    def _slices(self) -> AnyValue:
        if self.over.numbers is None:
            parts = [self.trace.slice(x, "x") for x in self.over.tensors]
            return rebuild(self.over.form, iter(parts))
        tracer, numbers = self.tracer, self.over.numbers
        tracer.here = self.at
        index = tracer.cast(Tensor(self.trace.index), "i32")
        if numbers.step != 1:
            step = tracer.constant(numbers.step, "i32")
            index = tracer.emit("mul", index, step, dims=(), dtype="i32")
        if numbers.start:
            first = tracer.constant(numbers.start, "i32")
            index = tracer.emit("add", index, first, dims=(), dtype="i32")
        return index

    def _emit(
        self, after: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        trace, tracer = self.trace, self.tracer
        named = {f"y{i}": output.value for i, output in enumerate(outputs)}
        body, starts, captured = trace.finish_round([tensor.value for tensor in after], named)
        written = trace.written.values()
        stored = [Tensor(value, ref.dims) for value, ref in zip(starts, written, strict=True)]
        body, flags = self._add_checks(
            body, [*(init.value for init in self.inits), *starts], captured
        )
        carries = [*self.inits, *stored, *flags]
        types = [(tensor.dims, tensor.dtype) for tensor in carries]
        types += [((self.over.rounds, *tensor.dims), tensor.dtype) for tensor in outputs]
        inputs = (*carries, *self.over.tensors, *map(Tensor, captured))
        results = tracer.emit_many(
            "repeat", *inputs, outputs=types, body=body, rounds=self.over.rounds.size,
            reverse=self.reverse, maybe_unused=True,
        )  # fmt: skip
        count = len(self.inits)
        for ref, final in zip(written, results[count:], strict=False):
            tracer.trace.write(ref, final)
        self._report_flags(results[count + len(stored) : len(carries)])
        return results[:count], results[len(carries) :]

    def _add_checks(
        self, body: Graph, starts: Sequence[Value], captured: Sequence[Value]
    ) -> tuple[Graph, list[Tensor]]:
        """The body with carries for lookups that each round checks, and what those start with."""
        if not self.trace.lookups:
            return body, []
        values = (*starts, *(x.value for x in self.over.tensors), *captured)
        known = intervals_so_far(self.tracer.trace.builder.nodes, values)
        lookups = settle_lookups(body, self.trace.lookups, self.over.rounds.size, known)
        outside = dict(zip((*body.state, *body.inputs[1:]), values, strict=True))
        for lookup in lookups.moved:
            self.tracer.trace.look_up(lookup.of(outside[lookup.value]))
        self.checked = lookups.checked
        flags = [self.tracer.constant(0, "u32") for _ in lookups.checked]
        return with_checks(body, lookups.checked, self.trace.builder.inner()), flags

    def _report_flags(self, flags: Sequence[Tensor]) -> None:
        """Each flag is 0 unless its lookup has failed in a round."""
        for lookup, flag in zip(self.checked, flags, strict=True):
            reported = lookup.shown or lookup.check
            self.tracer.trace.look_up(
                Lookup(flag.value, Allowed(0, 0), lookup.what, lookup.span, shown=reported)
            )

    def _move(self, stack: Tensor) -> Tensor:
        """The rounds at the axis where those of `xs` are, or at the last one."""
        place = min(self.axis, stack.rank - 1)
        order = [*range(1, place + 1), 0, *range(place + 1, stack.rank)]
        return broadcasting.transpose(self.tracer, stack, order)


# What the input does during a step: count once, with weight dt, or be constant.
HOLDS = ("euler", "zero_order")
RANKS = {"u": 3, "dt": 3, "a": 2, "b": 3, "c": 3}
# Which axes of which arguments are the same size.
EQUAL = {
    "B": (("u", 0), ("dt", 0), ("b", 0), ("c", 0)),
    "T": (("u", 1), ("dt", 1), ("b", 1), ("c", 1)),
    "E": (("u", 2), ("dt", 2), ("a", 0)),
    "N": (("a", 1), ("b", 2), ("c", 2)),
}


def selective_scan(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """h_t = exp(dt_t a) h_{t-1} + dt_t u_t b_t and y_t = Σ_n c_t h_t, from h = 0.

    With `hold = "zero_order"` the input is constant during each step, and (exp(dt_t a) - 1) / a
    replaces dt_t.
    """
    tensors = {
        name: expect.tensor(tracer, args, name, FLOATS, rank) for name, rank in RANKS.items()
    }
    _check(tracer, tensors, at)
    zero_order = expect.choice(tracer, args, "hold", HOLDS) == "zero_order"
    operands = [TensorExpr(tracer, tensor).cast("f32").tensor for tensor in tensors.values()]
    y = tracer.emit(
        "selective_scan", *operands, dims=tensors["u"].dims, dtype="f32", zero_order=zero_order
    )
    return TensorExpr(tracer, y).cast(tensors["u"].dtype).tensor


def _check(tracer: Tracer, tensors: dict[str, Tensor], at: Span) -> None:
    fits = all(
        compare(tensors[first].dims[axis], tensors[name].dims[other]) is not DIFF
        for (first, axis), *rest in EQUAL.values()
        for name, other in rest
    )
    if fits and len({tensor.dtype for tensor in tensors.values()}) == 1:
        return
    types = ", ".join(f"{name} {tensor}" for name, tensor in tensors.items())
    problem = tracer.report.error("WG0418", f"selective_scan: {types} do not fit together", at)
    raise Stop(problem.note("it takes u, dt: [B, T, E]; a: [E, N]; b, c: [B, T, N]"))


FUNCTIONS = (
    BuiltinFunction("scan", "body, init, xs, axis=0, reverse=false", scan),
    BuiltinFunction("selective_scan", 'u, dt, a, b, c, hold="euler"', selective_scan),
)
