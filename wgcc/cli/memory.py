"""What GPU memory holds: buffers, and the lifetime of every temporary of an entry."""

from __future__ import annotations

from typing import Any

from wgcc.cli.printing import size, table
from wgcc.cli.subject import Subject

WIDEST_TIMELINE = 60


def memory_text(subject: Subject) -> str:
    plan = subject.plan
    rows = [(f"  {b['name']}", b["role"], size(b["bytes"])) for b in plan["buffers"]]
    total = f"total {size(plan['memory']['peak'])}"
    if "guard" in plan["memory"]:
        total += f", and {size(plan['memory']['guard'])} to undo a step while it trains"
    parts = [f"buffers\n{table(rows, right=(2,))}", total]
    if subject.compiled is None:
        parts.append(
            "(for the lifetime of each temporary, give wgcc show the model file, not the bundle)"
        )
    for name, lives in _lives(subject).items():
        parts.append(f"entry {name}: {_timeline(lives, _steps(subject, name))}")
    return "\n\n".join(parts)


def memory_facts(subject: Subject) -> dict[str, Any]:
    plan = subject.plan
    return {
        "memory": plan["memory"],
        "buffers": plan["buffers"],
        "temporaries": _lives(subject),
    }


def _lives(subject: Subject) -> dict[str, list[dict[str, Any]]]:
    """For each entry its temporaries: name, bytes, buffer, first and last dispatch."""
    if subject.compiled is None:
        return {}
    return {
        name: [
            {
                "name": value,
                "bytes": place.bytes,
                "buffer": place.buffer,
                "first": first,
                "last": last,
            }
            for value, (place, first, last) in entry.temporaries.items()
        ]
        for name, entry in subject.compiled.schedule.entries.items()
    }


def _steps(subject: Subject, name: str) -> int:
    return len(subject.plan["entries"][name]["dispatches"])


def _timeline(lives: list[dict[str, Any]], steps: int) -> str:
    """A row for each temporary, a column for each dispatch (or several, in a long entry)."""
    if not lives:
        return "no temporaries"
    stride = -(-steps // WIDEST_TIMELINE)
    rows = [
        (f"  {life['name']}", size(life["bytes"]), life["buffer"], _bar(life, steps, stride))
        for life in lives
    ]
    each = "one dispatch" if stride == 1 else f"{stride} dispatches"
    return f"lifetimes of its temporaries (a column is {each})\n{table(rows, right=(1,))}"


def _bar(life: dict[str, Any], steps: int, stride: int) -> str:
    columns = range(0, steps, stride)
    cells = (life["first"] < at + stride and at <= life["last"] for at in columns)
    return "|" + "".join("#" if cell else "." for cell in cells) + "|"
