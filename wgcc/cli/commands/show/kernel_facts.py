"""Static figures of a kernel: threads, memory, registers, operations per byte.

They are read from the plan and the kernel's tree, so a bundle shows as much as its model file. What
it does to a GPU says `wgcc.access`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import prod
from typing import Any

from wgcc.access.devices import DEVICES
from wgcc.access.model import Access, access_or_none
from wgcc.backends.wgsl.print_tree import print_expression
from wgcc.bundle.check_kernel import check_kernel
from wgcc.bundle.plan import all_dispatches, times_run
from wgcc.cli.printing import size, table, thousands
from wgcc.kernel.abstract import Evaluation, Findings
from wgcc.kernel.limits import size_of, workgroup_bytes
from wgcc.kernel.parse import readable_module
from wgcc.kernel.rewrite.subgroups import with_subgroups
from wgcc.kernel.tokenize import WgslError
from wgcc.kernel.tree import (
    Assign,
    Call,
    Let,
    Loop,
    Module,
    Name,
    names_of,
    root_of,
    statements_of,
)
from wgcc.kernel.types import SCALARS, width_of
from wgcc.schedule.kernel import GPU

WORD = 4
Facts = dict[str, Any]


def kernel_facts(plan: Mapping[str, Any], name: str, text: str) -> Facts:
    """Facts of the kernel itself, then of each dispatch that runs it."""
    number = next(i for i, kernel in enumerate(plan["kernels"]) if kernel["name"] == name)
    module = readable_module(text)
    evaluation = Evaluation(module, Findings(), {})
    workgroup = plan["kernels"][number]["workgroup"]
    facts: Facts = {
        "kernel": name,
        "workgroup": workgroup,
        "threads": prod(workgroup),
        "workgroup_bytes": workgroup_bytes(evaluation),
        "accumulators": _accumulators(evaluation),
        "operations_per_load": None,
        "indices": _indices(plan, name, module),
        "dispatches": _dispatches(plan, number),
    }
    _add_access(facts, module)
    if module.whole("TM") and module.whole("TN"):
        facts["operations_per_load"] = _operations_per_load(module)
    return facts


def facts_comment(facts: Facts) -> str:
    """Writes the facts as comment lines, so that the kernel below them is still a WGSL file."""
    workgroup = " x ".join(map(str, facts["workgroup"]))
    lines = [
        f"workgroup: {workgroup} = {facts['threads']} threads",
        f"workgroup memory: {size(facts['workgroup_bytes'])}",
        f"registers: {facts['registers']} per thread, {facts['accumulators']} of them accumulate",
    ]
    if facts["indices"]:
        lines.append(_indices_line(facts["indices"]))
    if facts["operations_per_load"]:
        lines.append(f"operations per operand loaded: {facts['operations_per_load']:.1f}")
    for item in facts["dispatches"]:
        work = f"{thousands(item['flops'])} operations, " if item["flops"] else ""
        intensity = f", {item['intensity']:.1f} per byte" if item["flops"] else ""
        grid = " x ".join(map(str, item["grid"]))
        lines.append(
            f"{item['entry']} {item['at']} ({item['profile']}): {grid} workgroups, "
            f"{work}{size(item['bytes'])} moved at least{intensity}"
        )
        lines += _access_lines(item)
    return "".join(f"// {line}\n" for line in lines)


def _indices(plan: Mapping[str, Any], name: str, module: Module) -> Facts | None:
    """How many indices are proven to be in range; None of a file that the checker cannot read."""
    try:
        report = check_kernel(plan, name, module)
    except WgslError:
        return None
    unproven = [
        f"{index.array}[{print_expression(index.index)}]: {index.reason}"
        for index in report.unproven
    ]
    return {"count": len(report.indices), "unproven": unproven}


def _indices_line(indices: Facts) -> str:
    unproven = list(dict.fromkeys(indices["unproven"]))
    proven = indices["count"] - len(indices["unproven"])
    line = f"indices: {proven} of {indices['count']} are proven to be in range"
    return "\n//   not proven: ".join([line, *unproven])


def facts_table(kernels: list[Facts]) -> str:
    """All kernels of a bundle, each with the one of its dispatches that moves most bytes.

    `wgcc/cli/columns.py` says what the columns mean.
    """
    times = [f"{device.short} us" for device in DEVICES]
    lines = [
        ["kernel", "workgroup", "shared", "registers", "workgroups", "operations", "bytes",
         "moved", "sectors", "banks", "barriers", "useful", *times, "line"]
    ]  # fmt: skip
    for facts in kernels:
        largest = max(facts["dispatches"], key=lambda item: int(item["bytes"]), default=None)
        if not largest:
            continue
        lines.append([
            facts["kernel"], "x".join(map(str, facts["workgroup"])),
            size(facts["workgroup_bytes"]) if facts["workgroup_bytes"] else "-",
            _cell(facts["registers"], str), "x".join(map(str, largest["grid"])),
            thousands(largest["flops"]) if largest["flops"] else "-",
            size(largest["bytes"]), *_access_cells(largest.get("access")), largest["at"],
        ])  # fmt: skip
    return table(lines, right=range(1, len(lines[0]) - 1))


def access_facts(access: Access) -> Facts:
    """The figures of the access model for a dispatch."""
    return {
        "sectors": access.sector_ratio,
        "sectors_64": access.sector_ratio_64,
        "bank_conflicts": access.bank_conflicts,
        "barriers": access.barriers,
        "useful": access.useful,
        "moved": round(access.traffic),
        "us": {name: 1e6 * time for name, time in access.seconds.items()},
    }


def _add_access(facts: Facts, module: Module) -> None:
    """`registers`, and what each dispatch does; equal dispatches are modelled once."""
    known: dict[tuple[Any, ...], Access | None] = {}
    for item in facts["dispatches"]:
        bound, flops = item.pop("bound"), item["flops"] // item["times"]
        key = (*item["grid"], flops, *bound)
        if key not in known:
            known[key] = access_or_none(module, tuple(item["grid"]), flops, bound)
        access = known[key]
        item["bytes"] = item["times"] * (access.least_bytes if access else sum(bound))
        item["intensity"] = item["flops"] / item["bytes"] if item["bytes"] else 0.0
        item["access"] = access_facts(access) if access else None
        if access:
            item["access"]["subgroup_barriers"] = _subgroup_barriers(module, tuple(item["grid"]))
    first = next((access for access in known.values() if access), None)
    facts["registers"] = first.registers if first else None


@lru_cache
def _subgroup_barriers(module: Module, grid: tuple[int, int, int]) -> float | None:
    """Barriers of the form for devices with subgroups, if the kernel has one."""
    form = with_subgroups(module)
    access = access_or_none(form, grid) if form else None
    return access.barriers if access else None


def _access_lines(item: Facts) -> list[str]:
    access = item["access"]
    if not access:
        return []
    useful = f", {access['useful']:.0%} of the arithmetic is useful" if access["useful"] else ""
    times = ", ".join(f"{name} {us:.1f} us" for name, us in access["us"].items())
    return [
        f"  {access['sectors']:.2f} x the least sectors ({access['sectors_64']:.2f} in subgroups "
        f"of 64), {access['bank_conflicts']}-way bank conflicts{useful}, "
        f"{_barriers(access)} barriers, {size(access['moved'])} through caches",
        f"  at least: {times}",
    ]


def _access_cells(access: Facts | None) -> list[str]:
    if not access:
        return ["-"] * (5 + len(DEVICES))
    return [
        size(access["moved"]), f"{access['sectors']:.2f}", str(access["bank_conflicts"]),
        _barriers(access), _cell(access["useful"], "{:.0%}".format),
        *(f"{us:.1f}" for us in access["us"].values()),
    ]  # fmt: skip


def _barriers(access: Facts) -> str:
    fewer = access["subgroup_barriers"]
    return f"{access['barriers']:.0f}" + ("" if fewer is None else f" ({fewer:.0f})")


def _cell(value: Any, form: Callable[[Any], str]) -> str:
    return "-" if value is None else form(value)


def _operations_per_load(module: Module) -> float:
    """How many operations a matrix product does with each operand that a thread loads."""
    rows, cols = module.whole("TM"), module.whole("TN")
    return 2 * rows * cols / (rows + cols)


def _dispatches(plan: Mapping[str, Any], number: int) -> list[Facts]:
    facts: dict[tuple[str, int], Facts] = {}
    copies = {"f16 copies": {"dispatches": plan["copies"]}} if "copies" in plan else {}
    for name, entry in {**plan["entries"], **copies}.items():
        for profile in (GPU, *plan.get("profiles", {})):
            changed = plan.get("profiles", {}).get(profile, {}).get(name, [])
            replaced = {item["dispatch"]: item for item in changed}
            times = times_run(entry)
            for i, dispatch in enumerate(all_dispatches(entry)):
                launch = replaced.get(i, dispatch)
                # A dispatch that several profiles share is listed once.
                if launch["kernel"] != number or (name, i) in facts:
                    continue
                facts[name, i] = {
                    "entry": name, "profile": profile, "at": dispatch.get("at", ""),
                    "grid": launch["grid"], "times": times[i],
                    "flops": times[i] * dispatch.get("flops", 0),
                    "bound": [binding["size"] for binding in dispatch["bindings"]],
                }  # fmt: skip
    return list(facts.values())


def _accumulators(evaluation: Evaluation) -> int:
    """Words of the variables of `main` that accumulate a result; loop counters do not."""
    main = evaluation.module.functions.get("main")
    statements = list(statements_of(main.body)) if main else []
    heads = [id(first) for loop in statements if isinstance(loop, Loop) for first in loop.before]
    # `x += a`, `x = fma(a, b, x)`, `x.y = max(x.y, a)`: the new value depends on the old one.
    changes = ((root_of(s.target), s.value) for s in statements if isinstance(s, Assign))
    grown = {r.name for r, value in changes if isinstance(r, Name) and r.name in names_of(value)}
    size = sum(
        size_of(evaluation, _kind(let))
        for let in statements
        if isinstance(let, Let) and let.mutable and let.name in grown and id(let) not in heads
    )
    return size // WORD


def _kind(let: Let) -> str:
    """The declared type; without one, the first value shows it."""
    shown = let.value.name if isinstance(let.value, Call) else ""
    is_type = shown in SCALARS or width_of(shown) > 1 or shown.startswith("array<")
    return let.kind or (shown if is_type else "f32")
