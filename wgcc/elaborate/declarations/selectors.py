"""Selectors of parameters and layers by path: `"blocks.*.attn.wq"`. A `*` also matches dots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase, translate

from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.context import Context, LayerReplacement
from wgcc.errors import Diagnostic
from wgcc.syntax import ast

SHOWN = 6
LONGEST = 1000
# Matching so many names takes as long as evaluating an expression.
NAMES_PER_STEP = 8


def select(context: Context, selector: ast.String) -> frozenset[str]:
    """The parameters that a selector matches; if there are none, that is an error."""
    names = list(context.parts.params)
    if not is_short(context, selector):
        return frozenset()
    context.budget.step(selector, context.generic, len(names) // NAMES_PER_STEP)
    matches = re.compile(translate(selector.value)).match
    found = frozenset(filter(matches, names))
    if not found:
        raise Stop(_no_parameter(context, selector, names))
    return found


def is_short(context: Context, selector: ast.String) -> bool:
    """Whether a selector can be matched in time; reports it if not."""
    if len(selector.value) <= LONGEST:
        return True
    context.report.error("WG0219", f"a selector has at most {LONGEST:,} characters", selector)
    return False


def report_unmatched(context: Context, replacement: LayerReplacement) -> None:
    """Report a `replace` that matched no layer."""
    selector = replacement.selector
    problem = context.report.error("WG0219", f'no layer matches "{selector.value}"', selector)
    near = context.report.meant(selector.value.replace("*", "0"), _layers(context))
    if near:
        best = re.sub(r"\.\d+(?=\.|$)", ".*", near[0])
        problem.help(f'did you mean "{best}"?', (selector.span, f'"{best}"'))


def _layers(context: Context) -> Iterator[str]:
    """Paths of layers; a generator, because they are seldom needed."""
    names = (name for name in [*context.parts.params, *context.parts.states] if "." in name)
    yield from sorted({name.rpartition(".")[0] for name in names})


def listing(names: Iterable[str], most: int = 3) -> str:
    """`` `a`, `b`, `c` and 4 more ``."""
    every = [f"`{name}`" for name in names]
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def _no_parameter(context: Context, selector: ast.String, names: list[str]) -> Diagnostic:
    pattern = selector.value
    problem = context.report.error("WG0219", f'no parameter matches "{pattern}"', selector)
    shown = ", ".join(names[:SHOWN]) + (
        f", ... ({len(names)} in all)" if len(names) > SHOWN else ""
    )
    problem.note(f"parameters: {shown}" if names else "this model has no parameters")
    best = _meant(context, pattern, names)
    if best:
        problem.help(f'did you mean "{best}"?', (selector.span, f'"{best}"'))
    return problem


def _meant(context: Context, pattern: str, names: list[str]) -> str:
    """A member of the same layer whose name begins alike (`bias` for `b`), or a similar path."""
    context.budget.step(context.here, context.generic, len(names) // NAMES_PER_STEP)
    stem, _, leaf = pattern.rpartition(".")
    siblings = [name for name in names if fnmatchcase(name.rpartition(".")[0], stem)]
    near = [name for name in siblings if leaf.startswith(name.rpartition(".")[2])]
    near = near or context.report.meant(pattern.replace("*", "0"), names)
    if not near:
        return ""
    return f"{stem}.{near[0].rpartition('.')[2]}" if "*" in pattern and siblings else near[0]
