"""`rearrange`: axes split, moved and merged as given by a pattern."""

from __future__ import annotations

from wgcc.elaborate.builtins import expect, patterns
from wgcc.elaborate.operators import views
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import BoundArgs, BuiltinFunction
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.tracer import Tracer
from wgcc.elaborate.tracing.values import Tensor, Text, describe
from wgcc.errors import Span


def rearrange(tracer: Tracer, args: BoundArgs, at: Span) -> Tensor:
    """`rearrange(x, "B T (H K) -> B H T K")`; sizes may be given by name: `H = 4`."""
    x = expect.tensor(tracer, args, "x")
    pattern = patterns.read_pattern(tracer, _text(tracer, args))
    sizes = patterns.Sizes(tracer, pattern.own_names(), _given_sizes(tracer, args))
    if len(pattern.inputs) != 1:
        text = "`rearrange` takes one tensor, so its pattern has no `,`"
        raise Stop(tracer.report.error("WG0416", text, pattern.span))
    left = patterns.match(tracer, pattern.inputs[0], x, sizes, pattern.span)
    right = patterns.write_out(
        pattern.output, sum(".." in name for name in patterns.names_of(left))
    )
    before, after = patterns.names_of(left), patterns.names_of(right)
    patterns.check_output(tracer, right, before)
    for axis in patterns.axes_of(left):
        if axis.name not in after:
            name = ".." if axis.name.startswith("..") else axis.name
            text = f"axis `{name}` disappears; `rearrange` keeps every axis"
            found = tracer.report.error("WG0416", text, axis.span)
            raise Stop(found.help("to sum over an axis use `einsum` or `sum`"))
    split_dims = [dim for name in before if (dim := sizes.get(name)) is not None]
    split = views.reshape(tracer, x, split_dims)
    moved = views.transpose(tracer, split, [before.index(name) for name in after])
    return views.reshape(tracer, moved, patterns.dims_of(right, sizes))


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
