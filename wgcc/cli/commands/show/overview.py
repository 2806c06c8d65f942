"""Text of `wgcc show`: a summary of a bundle, what GPU memory holds (`--memory`), fused kernels
(`--stage fused`) with the ops that each computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from wgcc.bundle.plan import all_dispatches, run_count, times_run
from wgcc.cli.commands.show.subject import Subject
from wgcc.cli.printing import dispatches, plural, size, table
from wgcc.errors import WgError
from wgcc.ir.places import ceil_div, is_own_state
from wgcc.schedule.kernel import GPU, Dispatch, EntrySchedule, Made, Rounds

Plan = Mapping[str, Any]

MOST_TENSORS = 40


def overview(plan: Plan) -> str:
    parts = [_title(plan), _tensors(plan, "param"), _tensors(plan, "state")]
    parts += [_entries(plan), _kernels(plan), _memory(plan)]
    return "\n\n".join(part for part in parts if part)


def overview_facts(plan: Plan) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "model": plan["model"]["name"],
        "source": plan["model"]["source"],
        "generator": plan["generator"],
        "parameters": _count(plan),
        "entries": {
            name: {
                "inputs": {key: _type(plan, tensor) for key, tensor in entry["inputs"].items()},
                "outputs": {key: _type(plan, tensor) for key, tensor in entry["outputs"].items()},
                "dispatches": run_count(entry),
                "training": entry["training"],
                **({"captures": _captures(plan, entry)} if "captures" in entry else {}),
            }
            for name, entry in plan["entries"].items()
        },
        "kernels": [kernel["name"] for kernel in plan["kernels"]],
        "memory": plan["memory"],
        "requires": plan["requires"],
        **({"edited": list(plan["edited"])} if "edited" in plan else {}),
    }


def _title(plan: Plan) -> str:
    return (
        f"{plan['model']['name']} from {plan['model']['source']}, by {plan['generator']}: "
        f"{plural(_count(plan), 'parameter')}{_edited_line(plan)}"
    )


def _edited_line(plan: Plan) -> str:
    return f"\nedited by hand: {', '.join(plan['edited'])}" if "edited" in plan else ""


def _count(plan: Plan) -> int:
    return sum(
        prod(tensor["shape"]) for tensor in plan["tensors"].values() if tensor["role"] == "param"
    )


def _tensors(plan: Plan, role: str) -> str:
    """Parameters, or state; the state of optimizers is left out."""
    named = {
        name: tensor
        for name, tensor in plan["tensors"].items()
        if tensor["role"] == role and is_own_state(name)
    }
    if not named:
        return ""
    rows = [
        (f"  {name}", _shape(tensor), _first(tensor), "" if _is_trained(tensor, role) else "frozen")
        for name, tensor in list(named.items())[:MOST_TENSORS]
    ]
    more = len(named) - len(rows)
    title = "parameters" if role == "param" else "state"
    return f"{title}\n{table(rows)}" + (f"\n  … and {more} more" if more else "")


def _is_trained(tensor: Plan, role: str) -> bool:
    return role != "param" or bool(tensor["trainable"])


def _first(tensor: Plan) -> str:
    init = tensor["init"]
    if init["kind"] == "value":
        values = init.get("values", [])
        return f"= {values[0]:g}" if len(values) == 1 else f"= {len(values)} values"
    arguments = ", ".join(f"{name} = {value:g}" for name, value in init.get("args", {}).items())
    return f"~ {init['kind']}({arguments})"


def _entries(plan: Plan) -> str:
    lines = ["entries"]
    for name, entry in plan["entries"].items():
        inputs = ", ".join(f"{key}: {_type(plan, t)}" for key, t in entry["inputs"].items())
        outputs = ", ".join(f"{key}: {_type(plan, t)}" for key, t in entry["outputs"].items())
        count = dispatches(len(entry["dispatches"]), run_count(entry))
        optimizers = [
            f"{opt} ({record['kind']})"
            for opt, record in plan["optimizer"].items()
            if name in record["entry"]
        ]
        means = f" with {' and '.join(optimizers)}" if optimizers else " by gradients of its own"
        trains = f", trains{means}" if entry["training"] else ""
        lines += [f"  {name}({inputs}) -> ({outputs})", f"    {count}{trains}"]
        lines += [f"    captures {key}: {t}" for key, t in _captures(plan, entry).items()]
    return "\n".join(lines)


def _captures(plan: Plan, entry: Plan) -> dict[str, str]:
    return {
        name: _type(plan, record["tensor"])
        if "tensor" in record
        else f"statistics of {_size(record)}"
        for name, record in entry.get("captures", {}).items()
    }


def _size(record: Plan) -> str:
    return f"[{', '.join(map(str, record['shape']))}]"


def _kernels(plan: Plan) -> str:
    """The kernels that the shown entries use, with the number of dispatches."""
    uses: dict[int, int] = {}
    for entry in plan["entries"].values():
        for dispatch, times in zip(all_dispatches(entry), times_run(entry), strict=True):
            uses[dispatch["kernel"]] = uses.get(dispatch["kernel"], 0) + times
    rows = [
        (f"  {plan['kernels'][number]['name']}", f"× {count}", _first_place(plan, number))
        for number, count in uses.items()
    ]
    return f"kernels (wgcc show … --kernel NAME)\n{table(rows)}" if rows else ""


def _first_place(plan: Plan, kernel: int) -> str:
    for entry in plan["entries"].values():
        for dispatch in all_dispatches(entry):
            if dispatch["kernel"] == kernel:
                return str(dispatch["at"])
    return ""


def _memory(plan: Plan) -> str:
    rows = [(f"  {name}", size(count)) for name, count in plan["memory"].items() if count]
    return f"GPU memory\n{table(rows, right=(1,))}" if rows else ""


def _type(plan: Plan, tensor: str) -> str:
    return _shape(plan["tensors"][tensor])


def _shape(tensor: Plan) -> str:
    shape = ", ".join(map(str, tensor["shape"]))
    return f"{tensor['dtype']}[{shape}]" if shape else str(tensor["dtype"])


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
    """The temporaries of each entry: name, bytes, buffer, first and last dispatch."""
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
    stride = ceil_div(steps, WIDEST_TIMELINE)
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
        lines += [_fused_title(entry)]
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


def _fused_title(entry: EntrySchedule) -> str:
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
        yield f"        {_made_text(made)}"


def _made_text(made: Made) -> str:
    names = ", ".join(made.names[:LISTED])
    more = len(made.names) - LISTED
    stored = f"stored because {made.stored}" if made.stored else "not stored"
    return f"{names}{f' and {more} more' if more > 0 else ''}: {made.here}; {stored}"
