"""The fused kernels of each entry, in the order they run.

For each value of a kernel: why it is computed there, and why it is stored or that it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from wgcc.cli.commands.show.subject import Subject
from wgcc.cli.printing import dispatches, plural
from wgcc.errors import WgError
from wgcc.schedule.kernel import GPU, Dispatch, EntrySchedule, Made, Rounds

# How many values of one op, for example the parameters of an update, are listed.
LISTED = 3
INDENT = "  "


def fused_text(subject: Subject) -> str:
    compiled = subject.compiled
    if compiled is None:
        raise WgError(
            "a bundle contains only the plan; for --stage fused give wgcc show the model file"
        )
    names = {kernel: file.name for file in compiled.planned.kernels for kernel in file.kernels}
    lines: list[str] = []
    for entry in compiled.schedule.entries.values():
        lines += [_title(entry)]
        for number, dispatch in enumerate(entry.dispatches):
            launch = dispatch.launches[GPU]
            own = _dispatch(number, dispatch, names[launch.kernel])
            lines += _in_loops(number, entry.repeats, own)
        lines += [""]
    return "\n".join(lines)


def _in_loops(number: int, repeats: Sequence[Rounds], lines: Iterable[str]) -> Iterator[str]:
    """A dispatch in braces for each loop that starts or ends with it, indented for each around."""
    around = [loop for loop in repeats if loop.first <= number < loop.end]
    for depth, loop in enumerate(around):
        if loop.first == number:
            yield f"{INDENT * depth}      repeat {plural(loop.rounds, 'round')} {{"
    yield from (INDENT * len(around) + line for line in lines)
    for depth, loop in reversed(list(enumerate(around))):
        if loop.end == number + 1:
            yield f"{INDENT * depth}      }}"


def _title(entry: EntrySchedule) -> str:
    runs = dispatches(len(entry.dispatches), sum(entry.times))
    return f"entry {entry.name}: {plural(entry.naive_dispatches, 'op')} → {runs}"


def _dispatch(number: int, dispatch: Dispatch, name: str) -> Iterator[str]:
    launch = dispatch.launches[GPU]
    grid = " x ".join(map(str, launch.grid))
    threads = prod(launch.kernel.workgroup)
    place = f"  // {dispatch.span.place}" if dispatch.span else ""
    yield f"{number:4}  {name}: {grid} workgroups of {threads} threads{place}"
    for written, verb in ((False, "reads"), (True, "writes")):
        shown = [
            what
            for what, binding in zip(dispatch.shows, launch.kernel.bindings, strict=False)
            if binding.written is written
        ]
        if shown:
            yield f"        {verb:6} {', '.join(shown)}"
    for made in dispatch.made:
        yield f"        {_made(made)}"


def _made(made: Made) -> str:
    names = ", ".join(made.names[:LISTED])
    more = len(made.names) - LISTED
    stored = f"stored because {made.stored}" if made.stored else "not stored"
    return f"{names}{f' and {more} more' if more > 0 else ''}: {made.here}; {stored}"
