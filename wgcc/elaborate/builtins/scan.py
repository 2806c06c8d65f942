"""`scan`: a loop that is traced, differentiated and compiled once for any number of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.builtins.loop_results import (
    check_state,
    leaves,
    rebuilt,
    round_results,
    shown,
)
from wgcc.elaborate.index_ranges.body_lookups import (
    intervals_so_far,
    settle_lookups,
    with_checks,
)
from wgcc.elaborate.index_ranges.input_ranges import Lookup
from wgcc.elaborate.index_ranges.preimages import Allowed
from wgcc.elaborate.operators import views
from wgcc.elaborate.operators.operands import CALLABLE
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import Arguments, BoundArgs, BuiltinFunction, Given
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.sequences import as_sequence
from wgcc.elaborate.tracing.traced_body import TracedBody
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import (
    AnyValue,
    FunctionValue,
    LayerType,
    LayerValue,
    RangeValue,
    Tensor,
    TupleValue,
    describe,
)
from wgcc.errors import Span
from wgcc.ir.graph import Graph, Value


def scan(tracer: Tracer, args: BoundArgs, at: Span) -> AnyValue:
    """(state, ys) of state, y = body(state, x) for each x along an axis."""
    return _Scan(tracer, args, at).run()


@dataclass(slots=True)
class _Over:
    """What the loop runs over: tensors whose leading axis is the rounds, or numbers."""

    rounds: Dim
    form: AnyValue
    tensors: Sequence[Tensor] = ()
    numbers: range | None = None


class _Scan:
    def __init__(self, tracer: Tracer, args: BoundArgs, at: Span) -> None:
        self.tracer, self.args, self.at = tracer, args, at
        self.reverse = expect.flag(tracer, args, "reverse")
        self.function = self._body()
        init = expect.given(args, "init")
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
        ys = iter([self._moved(stack) for stack in stacks])
        return TupleValue((rebuilt(self.state, iter(finals)), rebuilt(form, ys)))

    def _body(self) -> AnyValue:
        function, at = self.args["body"], self.args.span("body")
        if isinstance(function, CALLABLE) and not isinstance(function, LayerType):
            return function
        text = f"`scan` calls a layer or function in each round, but this is {describe(function)}"
        found = self.tracer.report.error("WG0217", text, at)
        if isinstance(function, LayerType):
            found.help("declare a member of this type, and give that")
        raise Stop(found)

    def _declared(self) -> Span | None:
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
            text = f"`scan` runs along an axis of `xs`, but this is {shown(xs)}"
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
        return views.transpose(self.tracer, x, order)

    def _round(self) -> tuple[list[Tensor], AnyValue, list[Tensor]]:
        """The next state, the form of the result and its tensors."""
        carried = [self.trace.carry(init, f"state{i}") for i, init in enumerate(self.inits)]
        given = (
            Given(rebuilt(self.state, iter(carried)), self.args.span("init")),
            Given(self._slices(), self.args.span("xs")),
        )
        errors = len(self.tracer.report.diagnostics.errors)
        found = self.tracer.call(self.function, Arguments(given), self.at)
        if len(self.tracer.report.diagnostics.errors) > errors:
            raise Stop
        where = self._declared()
        state, result = round_results(self.tracer, self.tracer.read(found), self.at, where)
        after = check_state(self.tracer, self.state, state, carried, self.at, where)
        return after, result, leaves(self.tracer, result, "result", self.at)

    def _slices(self) -> AnyValue:
        if self.over.numbers is None:
            parts = [self.trace.slice(x, "x") for x in self.over.tensors]
            return rebuilt(self.over.form, iter(parts))
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
        body, flags = self._checked(body, [*(init.value for init in self.inits), *starts], captured)
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

    def _checked(
        self, body: Graph, starts: Sequence[Value], captured: Sequence[Value]
    ) -> tuple[Graph, list[Tensor]]:
        """The body with carries for lookups that each round checks, and what those start with."""
        if not self.trace.lookups:
            return body, []
        values = (*starts, *(x.value for x in self.over.tensors), *captured)
        known = intervals_so_far(self.tracer.trace.builder.nodes, values)
        found = settle_lookups(body, self.trace.lookups, self.over.rounds.size, known)
        outside = dict(zip((*body.state, *body.inputs[1:]), values, strict=True))
        for lookup in found.moved:
            self.tracer.trace.look_up(lookup.of(outside[lookup.value]))
        self.checked = found.checked
        flags = [self.tracer.constant(0, "u32") for _ in found.checked]
        return with_checks(body, found.checked, self.trace.builder.inner()), flags

    def _report_flags(self, flags: Sequence[Tensor]) -> None:
        """Each flag is 0 unless its lookup has failed in a round."""
        for lookup, flag in zip(self.checked, flags, strict=True):
            reported = lookup.shown or lookup.check
            self.tracer.trace.look_up(
                Lookup(flag.value, Allowed(0, 0), lookup.what, lookup.span, shown=reported)
            )

    def _moved(self, stack: Tensor) -> Tensor:
        """The rounds at the axis where those of `xs` are, or at the last one."""
        place = min(self.axis, stack.rank - 1)
        order = [*range(1, place + 1), 0, *range(place + 1, stack.rank)]
        return views.transpose(self.tracer, stack, order)


FUNCTIONS = (BuiltinFunction("scan", "body, init, xs, axis=0, reverse=false", scan),)
