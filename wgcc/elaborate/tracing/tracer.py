"""The interface for built-ins and operators: reporting errors, and appending nodes to the graph.

It depends neither on the syntax of programs nor on any single op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from inspect import signature
from math import isinf
from typing import Any

from wgcc.elaborate.index_ranges.input_ranges import Lookup
from wgcc.elaborate.index_ranges.preimages import Allowed
from wgcc.elaborate.report import Budget, Place, Report, Stop, place
from wgcc.elaborate.tracing.arguments import (
    MOST_NUMBERS,
    Arguments,
    BoundArgs,
    RaggedList,
    common_dtype,
    list_contents,
    plain_number,
)
from wgcc.elaborate.tracing.dims import COINCIDENCE, DIFF, Dim, compare, sizes_note, sizes_of
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.values import (
    AnyValue,
    BoolValue,
    ListValue,
    Number,
    ParamRef,
    Scope,
    StateRef,
    Tensor,
    TrainingFlag,
    TupleValue,
    describe,
    type_text,
)
from wgcc.errors import Span
from wgcc.ir.dtypes import DTYPE_TABLE
from wgcc.ir.graph import FLOATS, INTEGERS, Choice, TensorType
from wgcc.ir.places import DRAWS_STATE, SEED_STATE
from wgcc.ir.program import Init
from wgcc.ops import OPS, ShapeError
from wgcc.syntax import ast

# The largest binding that any device grants: 4 GiB, in words of 32 bits.
LARGEST_TENSOR = 2**30 - 1
MOST_AXES = 16
# Odd numbers whose multiples are spread over all u32: the golden ratio's, and one of murmur3's.
GOLDEN, MIX = 0x9E3779B9, 0x85EBCA6B


class Tracer:
    """The state of tracing.

    - `report`: errors and warnings; `raise Stop(report.error(…))` abandons an expression
    - `scope`: the names visible at the place being traced (`scope.find("B")`)
    - `training`: true inside an entry that trains; read it with `is_training`
    - `generic`: true while a layer that nothing uses is checked with placeholder sizes: what
      depends on actual numbers (divisibility, bounds) cannot be checked, and `emit` records nothing
    - `here`: the source place of the nodes being appended; `prefix`: the prefix of their names
    - `evaluate(expr)`: the value of an expression in `scope`, with parameters and state read;
      raises `Stop` if it failed (for index items, which are handed over as syntax)
    - `call(function, arguments, at)`: the result of a call, for built-ins that take functions
    - `built_in(name)`: a built-in function that is written in the language
    - `own_kernel(args, at)`: the result of a function whose body is in WGSL
    """

    def __init__(self, report: Report, trace: TracedGraph, here: Span) -> None:
        self.report = report
        self.trace = trace
        self.scope = Scope()
        self.budget = Budget(report)
        self.training = False
        self.asked_for_training = False
        self.here = here
        self.prefix = ""
        self.evaluate: Callable[[ast.Expr], AnyValue]
        self.call: Callable[[AnyValue, Arguments, Span], AnyValue]
        self.built_in: Callable[[str], AnyValue]
        self.own_kernel: Callable[[BoundArgs, Span], AnyValue]
        # Call sites of random numbers are numbered.
        self.sites = 0
        self.choices: list[Choice] = []

    @property
    def generic(self) -> bool:
        return self.trace.dry

    def repetitions(self, count: Dim) -> int:
        """How often to repeat: at most twice while sizes are placeholders."""
        return min(count.size, 2) if self.generic else count.size

    def choose(self, at: Span, *numbers: float) -> None:
        """Record that these numbers decide what is traced, or are rounded: the result may stay the
        same while they change, so it alone does not show what it depends on."""
        self.choices.append((at, numbers))

    def is_training(self) -> bool:
        """Whether the entry trains; records that the graph depends on the answer."""
        self.asked_for_training = True
        return self.training

    def emit(
        self,
        op: str,
        *tensors: Tensor,
        dims: Sequence[Dim],
        dtype: str,
        name: str = "",
        **attrs: Any,
    ) -> Tensor:
        """Append a node with one output of these dims and this dtype.

        The attributes `shape` and `dtype` of ops that have them are filled in.
        """
        known = {"shape": sizes_of(dims), "dtype": dtype}
        attrs |= {key: known[key] for key in _type_attributes(op)}
        (result,) = self.emit_many(op, *tensors, outputs=[(tuple(dims), dtype)], **attrs)
        if name:
            self.name(result, name)
        return result

    def emit_many(
        self,
        op: str,
        *tensors: Tensor,
        outputs: Sequence[tuple[tuple[Dim, ...], str]],
        maybe_unused: bool = False,
        **attrs: Any,
    ) -> tuple[Tensor, ...]:
        """`maybe_unused`: an output that is too large is an error only where it is used."""
        for dims, dtype in outputs:
            self.check_axes(dims, dtype, self.here)
        types = tuple(TensorType(sizes_of(dims), dtype) for dims, dtype in outputs)
        for type_, (dims, dtype) in zip(types, outputs, strict=True):
            if not OPS[op].never_stored and not maybe_unused:
                self.check_size(type_, type_text(dtype, dims), self.here)
        self.budget.node(self.here, self.generic)
        builder = self.trace.builder
        builder.span, builder.prefix = self.report.user_span(self.here), self.prefix
        inputs = tuple(tensor.value for tensor in tensors)
        try:
            values = self.trace.apply(op, inputs, types, attrs)
        except ShapeError as error:
            raise Stop(self.report.error("WG0400", str(error), self.here)) from error
        return tuple(Tensor(value, dims) for value, (dims, _) in zip(values, outputs, strict=True))

    def look_up(
        self,
        ids: Tensor,
        count: int,
        what: str,
        ignore: int | None = None,
        takes_padding: bool = False,
    ) -> None:
        """Record that `ids` must be 0 to `count - 1` (or `ignore`); see `Lookup`."""
        span, allowed = self.report.user_span(self.here), Allowed(0, count - 1, ignore)
        self.trace.look_up(Lookup(ids.value, allowed, what, span, takes_padding))

    def constant(self, number: float | int | bool, dtype: str) -> Tensor:
        """A scalar; the number must fit into its dtype."""
        self.check_fits(number, dtype, self.here)
        kind: type = float if dtype in FLOATS else bool if dtype == "bool" else int
        return self.emit("const", dims=(), dtype=dtype, value=kind(number))

    def literal(self, value: ListValue, dtypes: Sequence[str], at: Place) -> Tensor:
        """A list of numbers as a tensor, of one of these dtypes if any are named.

        `here` stays as it is.
        """
        try:
            sizes, items = list_contents(value)
        except RaggedList:
            text = "the rows of a tensor must be equally long, and not empty"
            raise Stop(self.report.error("WG0415", text, at)) from None
        if len(items) > MOST_NUMBERS:
            text = f"a list of {len(items):,} numbers is too long, at most {MOST_NUMBERS:,} fit"
            problem = self.report.error("WG0422", text, at)
            raise Stop(problem.help("declare a `frozen param` with `~ external`, and give a file"))
        own = common_dtype(items)
        dtype = own if not dtypes or own in dtypes else dtypes[0]
        values = tuple(self._list_item(item, dtype, at) for item in items)
        here, self.here = self.here, place(at)
        dims = tuple(map(Dim.literal, sizes))
        result = self.emit("literal", dims=dims, dtype=dtype, values=values)
        self.here = here
        return result

    def _list_item(self, item: AnyValue, dtype: str, at: Place) -> float | int | bool:
        if isinstance(item, Tensor):
            text = f"a tensor is made of numbers known at compile time, but this list has {item}"
            problem = self.report.error("WG0501", text, at)
            advice = "`stack([a, b])` makes one tensor of them, `append(list, x)` a longer list"
            raise Stop(problem.help(advice))
        known = isinstance(item, (Dim, Number, BoolValue))
        fraction = isinstance(item, Number) and dtype in INTEGERS
        if not known or fraction or isinstance(item, BoolValue) != (dtype == "bool"):
            text = f"{dtype} expected, but this list has {describe(item)}"
            raise Stop(self.report.error("WG0501", text, at))
        assert isinstance(item, (Dim, Number, BoolValue))
        number = plain_number(item)
        self.check_fits(number, dtype, at)
        return float(number) if dtype in FLOATS else number

    def check_fits(self, number: float | int | bool, dtype: str, at: Place) -> None:
        """Refuse what `dtype` cannot hold, and infinities, which kernels cannot write."""
        low, high = DTYPE_TABLE[dtype].low, DTYPE_TABLE[dtype].high
        if self.generic or low <= number <= high:
            return
        text = f"{number} does not fit into {dtype} ({low} to {high})"
        problem = self.report.error("WG0504", text, at)
        if isinf(number):
            problem.help(f"use a large number instead, e.g. `{'-' if number < 0 else ''}1e30`")
        raise Stop(problem)

    def broadcast(self, tensor: Tensor, dims: Sequence[Dim]) -> Tensor:
        """Broadcast to `dims`, which the caller has checked; no node if they are equal."""
        if sizes_of(tensor.dims) == sizes_of(dims):
            return Tensor(tensor.value, tuple(dims))
        return self.emit("broadcast", tensor, dims=dims, dtype=tensor.dtype)

    def cast(self, tensor: Tensor, dtype: str) -> Tensor:
        if tensor.dtype == dtype:
            return tensor
        return self.emit("cast", tensor, dims=tensor.dims, dtype=dtype)

    def random(
        self, dims: Sequence[Dim], kind: str, at: Place, seed: Tensor | None = None
    ) -> Tensor:
        """f32 numbers, `uniform` in 0..1 or `normal`, from a call site of their own.

        They follow the model's generator, or `seed` (a u32 scalar) alone if that is given.
        """
        self.here = place(at)
        self.sites += 1
        step = (
            self.constant(0, "u32")
            if seed is not None
            else self.trace.read(self.generator_state(DRAWS_STATE))
        )
        key = seed if seed is not None else self.trace.read(self.generator_state(SEED_STATE))
        where = self._site()
        return self.emit(
            "random", key, step, *where, dims=dims, dtype="f32", site=self.sites, kind=kind
        )

    def _site(self) -> list[Tensor]:
        """In a loop, the number of the call site for this round: it differs from round to round."""
        if not self.trace.positions:
            return []
        site = self.constant(self.sites, "u32")
        for depth, position in enumerate(self.trace.positions):
            if depth:
                site = self._words("mul", site, self.constant(MIX, "u32"))
            round_ = self._words("add", Tensor(position), self.constant(1, "u32"))
            step = self._words("mul", round_, self.constant(GOLDEN, "u32"))
            site = self._words("add", site, step)
        return [site]

    def _words(self, op: str, x: Tensor, y: Tensor) -> Tensor:
        return self.emit(op, x, y, dims=(), dtype="u32")

    def read(self, value: AnyValue) -> AnyValue:
        """Parameters and state become their current tensors, also inside tuples and lists."""
        if isinstance(value, (ParamRef, StateRef)):
            return self.trace.read(value)
        if isinstance(value, TrainingFlag):
            return BoolValue(self.is_training())
        if isinstance(value, TupleValue):
            return TupleValue(tuple(self.read(item) for item in value.items))
        if isinstance(value, ListValue):
            return ListValue(tuple(self.read(item) for item in value.items))
        return value

    def same_size(self, a: Dim, b: Dim, at: Place, why: str) -> bool:
        """Whether two sizes agree; warns if only by coincidence. `why` begins the warning.

        It is an error if dims must agree by construction (`--strict-dims`).
        """
        match = compare(a, b)
        if match is COINCIDENCE:
            text = f"{why}: `{a}` and `{b}` are different dims that both happen to be {a.size}"
            say = self.report.error if self.report.strict_dims else self.report.warning
            say("WG0410", text, at).help(
                "if they are meant to be the same, declare one in terms of the other"
            )
        return match is not DIFF

    def fit(self, value: AnyValue, dtype: str, dims: tuple[Dim, ...], at: Place) -> Tensor:
        """`value` as a tensor of exactly this type: numbers are converted, axes broadcast.

        For everything that is stored: initial values, state, windows of state.
        """
        want = type_text(dtype, dims)
        if isinstance(value, ListValue):
            value = self.literal(value, (dtype,), at)
        if isinstance(value, (Dim, Number, BoolValue)):
            return self.broadcast(self._adapt(value, dtype, at), dims)
        if not isinstance(value, Tensor):
            text = f"a tensor {want} is expected here, but this is {describe(value)}"
            raise Stop(self.report.error("WG0501", text, at))
        if value.dtype != dtype:
            problem = self.report.error("WG0501", f"{want} expected, but this is {value}", at)
            raise Stop(problem.help(f"convert it: `{dtype}(...)`"))
        pairs = list(zip(reversed(value.dims), reversed(dims), strict=False))
        fits = all(have.is_one or compare(have, wanted) is not DIFF for have, wanted in pairs)
        if len(value.dims) > len(dims) or not fits:
            problem = self.report.error("WG0405", f"{want} expected, but this is {value}", at)
            note = sizes_note(dims, value.dims)
            raise Stop(problem.note(note) if note else problem)
        for have, wanted in pairs:
            if not have.is_one:
                self.same_size(have, wanted, at, "the value to store")
        return self.broadcast(value, dims)

    def number(self, value: AnyValue, dtype: str, at: Place) -> Tensor | None:
        """A compile-time number as a scalar tensor of this dtype; None if it is no number."""
        return self._adapt(value, dtype, at) if isinstance(value, (Dim, Number)) else None

    def check_axes(self, dims: Sequence[Dim], what: str, at: Place) -> None:
        """Refuse tensors with more axes than a plan allows."""
        if len(dims) > MOST_AXES:
            text = f"`{what}` has {len(dims)} axes; at most {MOST_AXES} are possible"
            raise Stop(self.report.error("WG0608", text, at))

    def check_size(self, type_: TensorType, text: str, at: Place) -> None:
        """Refuse a tensor that is too large for one buffer."""
        if self.generic or type_.size <= LARGEST_TENSOR:
            return
        message = f"{text} has {type_.size:,} values, too many for one GPU buffer"
        note = f"a buffer holds at most 4 GiB, that is {LARGEST_TENSOR:,} values"
        raise Stop(self.report.error("WG0422", message, at).note(note))

    def name(self, value: AnyValue, name: str) -> None:
        """Name a tensor after what the source binds it to."""
        if isinstance(value, Tensor):
            self.trace.name(value.value, f"{self.prefix}.{name}" if self.prefix else name)

    @contextmanager
    def within(self, scope: Scope, prefix: str) -> Iterator[None]:
        """Trace in another scope; scope, place and prefix are restored afterwards."""
        saved = self.scope, self.prefix, self.here
        self.scope, self.prefix = scope, prefix
        try:
            yield
        finally:
            self.scope, self.prefix, self.here = saved

    def _adapt(self, value: Dim | Number | BoolValue, dtype: str, at: Place) -> Tensor:
        number = value.size if isinstance(value, Dim) else value.value
        fraction = isinstance(value, Number) and dtype in INTEGERS
        if fraction or isinstance(value, BoolValue) != (dtype == "bool"):
            text = f"{dtype} expected, but this is {describe(value)}"
            raise Stop(self.report.error("WG0501", text, at))
        self.here = place(at)
        return self.constant(number, dtype)

    def generator_state(self, path: str) -> StateRef:
        """`SEED_STATE` or `DRAWS_STATE`; an entry that draws increments the latter when it ends."""
        return StateRef(path, "u32", (), Init("value"), self.here, self.here)


@cache
def _type_attributes(op: str) -> tuple[str, ...]:
    """The parts of its output's type that an op has as attributes."""
    taken = signature(OPS[op].infer).parameters
    return tuple(name for name in ("shape", "dtype") if name in taken)
