"""The patterns of `rearrange` and `einsum`: read from a string, matched with the dims of tensors.

Every axis of a pattern keeps its place inside the string, so that errors point at it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from wgcc.elaborate.builtins import expect
from wgcc.elaborate.operators import broadcasting
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import DIFF, SAME, Dim, compare, product
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor, Text, describe
from wgcc.errors import Span

TOKEN = re.compile(r"->|\.\.|[A-Za-z_]\w*|\d+|[(),]|\S")
REST = ".."
LONGEST = 1000


@dataclass(frozen=True)
class Axis:
    """A name, a number, or `..` (which `expanded` turns into `..1`, `..2`, … from the last)."""

    name: str
    span: Span


@dataclass(frozen=True)
class AxisGroup:
    """One axis of a tensor: a single axis of the pattern, or several in parentheses."""

    axes: tuple[Axis, ...]
    span: Span
    merged: bool = False


Side = tuple[AxisGroup, ...]


@dataclass(frozen=True)
class Pattern:
    """`inputs -> output`."""

    inputs: tuple[Side, ...]
    output: Side
    span: Span

    def own_names(self) -> set[str]:
        """Names that are a whole axis of a tensor (not in parentheses), which gives their size."""
        groups = (group for side in self.inputs for group in side if not group.merged)
        return {axis.name for group in groups for axis in group.axes}


@dataclass
class AxisSizes:
    """The size of each axis name: given as an argument, computed, or visible in the scope.

    The pattern's `own` names are local to it, whatever dims the scope may have.
    """

    tracer: Tracer
    own: set[str]
    by_name: dict[str, Dim] = field(default_factory=dict)

    def get(self, name: str) -> Dim | None:
        if name in self.by_name:
            return self.by_name[name]
        if name.isdigit():
            return Dim.literal(int(name))
        return None if name in self.own else self.visible(name)

    def visible(self, name: str) -> Dim | None:
        value = self.tracer.scope.find(name)
        return value if isinstance(value, Dim) else None


def read_pattern(tracer: Tracer, text: Text) -> Pattern:
    """Split `a b (c d), e -> a e`; reports syntax errors."""
    if len(text.value) > LONGEST:
        raise _wrong(tracer, f"a pattern has at most {LONGEST:,} characters", text.span)
    tokens = _tokens(text)
    arrows = [number for number, (word, _) in enumerate(tokens) if word == "->"]
    if len(arrows) > 1:
        raise _wrong(tracer, "a pattern has one `->`", tokens[arrows[1]][1])
    if not arrows or any(word == "," for word, _ in tokens[arrows[0] :]):
        raise _wrong(tracer, 'a pattern has the form "in, in -> out"', text.span)
    sides = [_read_side(tracer, side) for side in _split(tokens[: arrows[0]])]
    return Pattern(tuple(sides), _read_side(tracer, tokens[arrows[0] + 1 :]), text.span)


def match(tracer: Tracer, side: Side, x: Tensor, sizes: AxisSizes, at: Span) -> Side:
    """Check one input of a pattern against a tensor and learn the sizes of its axes.

    Returns the side with `..` written out.
    """
    side = expand_rest(tracer, side, x, at)
    names = [axis for group in side for axis in group.axes if axis.name != "1"]
    for number, axis in enumerate(names):
        if axis.name in [earlier.name for earlier in names[:number]]:
            raise _wrong(tracer, f"axis `{axis.name}` occurs twice", axis.span)
    for group, dim in zip(side, x.dims, strict=True):
        if group.merged:
            _match_merged(tracer, group, dim, sizes)
        else:
            _refuse_swapped(tracer, group.axes[0], dim, x, sizes)
            _match_one(tracer, group.axes[0], dim, sizes)
    return side


def _refuse_swapped(tracer: Tracer, axis: Axis, dim: Dim, x: Tensor, sizes: AxisSizes) -> None:
    """An axis may have any name but that of another axis of the same tensor."""
    named = sizes.visible(axis.name)
    if named is None or compare(dim, named) is SAME:
        return
    if any(not other.is_literal and compare(other, named) is SAME for other in x.dims):
        text = f"`{axis.name}` is another axis of {x}; this one is {dim.full}"
        raise _wrong(tracer, text, axis.span)


def expand_rest(tracer: Tracer, side: Side, x: Tensor, at: Span) -> Side:
    """`..` stands for as many axes as are left; they are numbered from the last one."""
    rest = [group for group in side if group.axes and group.axes[0].name == REST]
    left = x.rank - len(side) + len(rest)
    if len(rest) > 1:
        raise _wrong(tracer, "`..` can be used only once on a side", rest[1].span)
    if left < 0 or (left > 0 and not rest):
        axes = "1 axis" if len(side) == 1 else f"{len(side) - len(rest)} axes"
        raise _wrong(tracer, f"the pattern has {axes}, but the tensor is {x}", at)
    return write_out(side, left)


def write_out(side: Side, rest: int) -> Side:
    result: list[AxisGroup] = []
    for group in side:
        if group.axes and group.axes[0].name == REST:
            result += (
                AxisGroup((Axis(f"{REST}{number}", group.span),), group.span)
                for number in range(rest, 0, -1)
            )
        else:
            result.append(group)
    return tuple(result)


def check_output(tracer: Tracer, side: Side, known: Sequence[str]) -> None:
    """Every axis on the right of `->` must occur on the left, and only once on the right."""
    seen: set[str] = set()
    for axis in axes_of(side):
        if axis.name not in known:
            text = f"`{axis.name}` does not occur on the left of `->`"
            raise _wrong(tracer, text, axis.span)
        if axis.name in seen:
            raise _wrong(tracer, f"axis `{axis.name}` occurs twice", axis.span)
        seen.add(axis.name)


def axes_of(side: Side) -> Iterator[Axis]:
    """All axes of a side but those of size 1."""
    return (axis for group in side for axis in group.axes if axis.name != "1")


def names_of(side: Side) -> list[str]:
    return [axis.name for axis in axes_of(side)]


def dims_of(side: Side, sizes: AxisSizes) -> tuple[Dim, ...]:
    """The dims of a side, merged where the pattern merges."""
    return tuple(
        product(axis_dims(group, sizes)) if group.merged else axis_dims(group, sizes)[0]
        for group in side
    )


def axis_dims(group: AxisGroup, sizes: AxisSizes) -> list[Dim]:
    dims = [sizes.get(axis.name) for axis in group.axes]
    return [dim for dim in dims if dim is not None]


def _match_one(tracer: Tracer, axis: Axis, dim: Dim, sizes: AxisSizes) -> None:
    known = sizes.get(axis.name)
    if known is None:
        sizes.by_name[axis.name] = dim
        return
    if not tracer.same_size(dim, known, axis.span, "pattern"):
        text = f"`{axis.name}` is {known.size} in this pattern, but the axis is {dim.full}"
        raise _wrong(tracer, text, axis.span)
    if not axis.name.isdigit():
        # Keep the axis's own dim, which has a name, rather than a plain number.
        sizes.by_name[axis.name] = dim if known.is_literal else known


def _match_merged(tracer: Tracer, group: AxisGroup, dim: Dim, sizes: AxisSizes) -> None:
    open_axes = [axis for axis in group.axes if sizes.get(axis.name) is None]
    known = product(axis_dims(group, sizes))
    if len(open_axes) > 1:
        first, second = open_axes[0], open_axes[1]
        text = f"the sizes of `{first.name}` and `{second.name}` cannot both be inferred"
        raise _wrong(tracer, text, second.span)
    if open_axes:
        quotient = dim.divided_by(known)
        if quotient is None:
            text = f"{dim.full} is not a multiple of {known.full}"
            raise _wrong(tracer, text, open_axes[0].span)
        sizes.by_name[open_axes[0].name] = quotient
    elif compare(known, dim) is DIFF:
        raise _group_differs(tracer, group, dim, known, sizes)
    else:
        tracer.same_size(dim, known, group.span, "pattern")


def _group_differs(
    tracer: Tracer, group: AxisGroup, dim: Dim, known: Dim, sizes: AxisSizes
) -> Stop:
    names = " ".join(axis.name for axis in group.axes)
    shown = known if known.generic else known.size
    text = f"this axis is {dim.full}, but ({names}) is {shown}"
    problem = tracer.report.error("WG0416", text, group.span)
    known_dims = ((axis.name, sizes.get(axis.name)) for axis in group.axes)
    here = [
        f"{name} = {size.size}"
        for name, size in known_dims
        if size is not None and not name.isdigit() and not size.generic
    ]
    return Stop(problem.note("here " + ", ".join(here)) if here else problem)


def _tokens(text: Text) -> list[tuple[str, Span]]:
    source, base = text.span.source, text.span.start + 1
    return [
        (token.group(), Span(source, base + token.start(), base + token.end()))
        for token in TOKEN.finditer(text.value)
    ]


def _split(tokens: Sequence[tuple[str, Span]]) -> list[list[tuple[str, Span]]]:
    sides: list[list[tuple[str, Span]]] = [[]]
    for word, span in tokens:
        if word == ",":
            sides.append([])
        else:
            sides[-1].append((word, span))
    return sides


def _read_side(tracer: Tracer, tokens: Sequence[tuple[str, Span]]) -> Side:
    groups: list[AxisGroup] = []
    opened: Span | None = None
    inside: list[Axis] = []
    for word, span in tokens:
        if word == "(" and opened is None:
            opened, inside = span, []
        elif word == ")" and opened is not None:
            place = Span(span.source, opened.start, span.end)
            groups.append(AxisGroup(tuple(inside), place, merged=True))
            opened = None
        elif (word == REST and opened is not None) or not _is_axis(word):
            raise _wrong(tracer, f"`{word}` cannot be used here in a pattern", span)
        elif opened is not None:
            inside.append(Axis(word, span))
        else:
            groups.append(AxisGroup((Axis(word, span),), span))
    if opened is not None:
        raise _wrong(tracer, "this `(` is never closed", opened)
    return tuple(groups)


def _is_axis(word: str) -> bool:
    return word == REST or word[0].isalnum() or word[0] == "_"


def _wrong(tracer: Tracer, text: str, at: Span) -> Stop:
    return Stop(tracer.report.error("WG0416", text, at))


def rearrange(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """`rearrange(x, "B T (H K) -> B H T K")`; sizes may be given by name: `H = 4`."""
    x = expect.tensor(tracer, args, "x")
    pattern = read_pattern(tracer, _text(tracer, args))
    sizes = AxisSizes(tracer, pattern.own_names(), _given_sizes(tracer, args))
    if len(pattern.inputs) != 1:
        text = "`rearrange` takes one tensor, so its pattern has no `,`"
        raise Stop(tracer.report.error("WG0416", text, pattern.span))
    left = match(tracer, pattern.inputs[0], x, sizes, pattern.span)
    right = write_out(pattern.output, sum(".." in name for name in names_of(left)))
    before, after = names_of(left), names_of(right)
    check_output(tracer, right, before)
    for axis in axes_of(left):
        if axis.name not in after:
            name = ".." if axis.name.startswith("..") else axis.name
            text = f"axis `{name}` disappears; `rearrange` keeps every axis"
            problem = tracer.report.error("WG0416", text, axis.span)
            raise Stop(problem.help("to sum over an axis use `einsum` or `sum`"))
    split_dims = [dim for name in before if (dim := sizes.get(name)) is not None]
    split = broadcasting.reshape(tracer, x, split_dims)
    moved = broadcasting.transpose(tracer, split, [before.index(name) for name in after])
    return broadcasting.reshape(tracer, moved, dims_of(right, sizes))


def _text(tracer: Tracer, args: BoundArgs) -> Text:
    value = args["pattern"]
    if isinstance(value, Text):
        return value
    text = f'a pattern is a string such as "B T D -> B D T", but this is {describe(value)}'
    raise Stop(tracer.report.error("WG0416", text, args.span("pattern")))


def _given_sizes(tracer: Tracer, args: BoundArgs) -> dict[str, Dim]:
    return {
        name: expect.checked_whole(tracer, given.value, name, given.span)
        for name, given in args.extra.items()
    }


FUNCTIONS = (BuiltinFunction("rearrange", "x, pattern, **sizes", rearrange),)
