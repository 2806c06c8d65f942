"""Training steps that change nothing if something that they would write is not finite.

To undo a step takes copies of all parameters and moments, which for large models is more memory
than anything else. So updates are computed twice: first without storing, to test what they would
store, then again, if all of it is finite. What the dispatches before them change is small (running
means, counters of steps), and is kept beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from wgcc.ir.places import SCALARS, ceil_div
from wgcc.kernel.build import expression, statements
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import (
    Assign,
    Call,
    Element,
    Expr,
    Literal,
    Name,
    Statement,
    expressions_of,
    parts_of,
    statements_of,
)
from wgcc.schedule.kernel import (
    GPU,
    WORD,
    Binding,
    Dispatch,
    DispatchWork,
    EntrySchedule,
    Place,
    ThreadTask,
)
from wgcc.schedule.kernels.guard import FLAG, FLAG_BINDING, WORDS_PER_GROUP, guard
from wgcc.schedule.kernels.update import UPDATE_PAGE

# Bytes that may be kept beside.
MOST_KEPT = 1 << 22
_TEST = """
    var highest = 0u;
    for (var i = o * WORDS; i < min(SIZE, o * WORDS + WORDS); i++) { STEP(); }
    if (highest == 0x7f800000u) { flag[0] = 1u; }
"""


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """Dispatches from number `first` on are updates and counters.

    `tests` set the flag of the guard if these, or the dispatches before, write what is not finite.
    `kept`: tensors that the dispatches before change.
    """

    first: int
    tests: tuple[Dispatch, ...]
    kept: tuple[Place, ...]

    @property
    def kept_words(self) -> int:
        return sum(place.count for place in self.kept)


def checked_step(entry: EntrySchedule, tensors: Mapping[str, Place]) -> CheckedStep | None:
    """None where an update needs results of another, or where too much would have to be kept.

    None, too, where only updated parameters tell whether a number is finite or an index in range.
    """
    first = next((i for i, each in enumerate(entry.dispatches) if _is_update(each)), None)
    if first is None or any(loop.end > first for loop in entry.repeats):
        return None
    late = entry.dispatches[first:]
    updates = [each for each in late if _is_update(each)]
    stored = [place for each in late for place in _places(each, stores=True)]
    tested = [place for each in updates for place in _places(each, stores=True)]
    rest = {name: place for name, place in entry.finite.items() if not _meet([place], tested)}
    kept = [tensors[name] for name in entry.written if not _meet([tensors[name]], stored)]
    known_before = [*rest.values(), *([entry.range_flag] if entry.range_flag else [])]
    if _depend(late) or _meet(known_before, stored) or any(place.half for place in kept):
        return None
    step = CheckedStep(first, (*map(_test, updates), *guard(rest)), tuple(kept))
    return step if step.kept_words * WORD <= MOST_KEPT else None


def _is_update(dispatch: Dispatch) -> bool:
    return dispatch.launches[GPU].kernel.page == UPDATE_PAGE


def _depend(late: Sequence[Dispatch]) -> bool:
    """Does an update read or write what an earlier one of these dispatches writes?"""
    return any(
        _meet(_places(earlier, stores=True), _places(later))
        for number, later in enumerate(late)
        for earlier in (late[:number] if _is_update(later) else ())
    )


def _places(dispatch: Dispatch, stores: bool = False) -> list[Place]:
    """The words that a dispatch reads or writes, or only those that it writes."""
    return [
        place
        for work, regions in dispatch.works
        for region, binding in zip(regions, work.bindings, strict=True)
        if binding.written or not stores
        for place in _parts(work, region, binding, stores)
    ]


def _parts(work: DispatchWork, region: Place, binding: Binding, stores: bool) -> list[Place]:
    """Kernels bind all scalars, of which they use a few."""
    if region.buffer != SCALARS or not isinstance(work.task, ThreadTask):
        return [region]
    words = [
        part.index
        for statement in statements_of(work.task.body)
        for expr in _expressions(statement, stores)
        for part in parts_of(expr)
        if isinstance(part, Element) and part.whole == Name(binding.name)
    ]
    known = [word.value for word in words if isinstance(word, Literal)]
    if len(known) < len(words):
        return [region]
    return [Place(SCALARS, region.offset + int(word), 1) for word in known]


def _expressions(statement: Statement, stores: bool) -> tuple[Expr, ...]:
    if not stores:
        return expressions_of(statement)
    return (statement.target,) if isinstance(statement, Assign) else ()


def _meet(some: Iterable[Place], others: Sequence[Place]) -> bool:
    return any(
        a.buffer == b.buffer and a.offset < b.offset + b.count and b.offset < a.offset + a.count
        for a in some
        for b in others
    )


def _test(update: Dispatch) -> Dispatch:
    """Computes what the update would store, and sets the flag if some of it is not finite."""
    ((work, regions),) = update.works
    assert isinstance(work.task, ThreadTask) and work.task.index == "i"
    constants = dict(work.constants) | {"SIZE": work.task.count, "WORDS": WORDS_PER_GROUP}
    body = statements(_TEST, STEP=_looks(work.task.body))
    tested = replace(
        work,
        bindings=(*(replace(b, written=False) for b in work.bindings), FLAG_BINDING),
        constants=tuple(constants.items()),
        task=ThreadTask("o", ceil_div(work.task.count, WORDS_PER_GROUP), body),
    )
    places = (*regions, FLAG)
    return replace(update, regions=places, launches={}, works=((tested, places),))


def _looks(body: Body) -> Body:
    """All stores become one look at their bits: NaN and infinity have the highest exponent.

    One, because iterations of a loop become lanes only where `highest` is assigned to once.
    """
    step, highest = list[Statement](), expression("0u")
    for statement in body:
        match statement:
            case Assign(Element(), value):
                bits = expression("bitcast<u32>(VALUE) & 0x7f800000u", VALUE=value)
                highest = Call("max", (bits, highest))
            case _:
                step.append(statement)
    return (*step, *statements("highest = max(highest, BITS);", BITS=highest))
