"""Static figures of a kernel: threads, memory, registers, operations per byte.

They are read from the plan and the WGSL alone, so a bundle shows as much as its model file. What
it does to a GPU says `wgcc.access`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import prod
from typing import Any

from wgcc.access.devices import DEVICES
from wgcc.access.model import Access, access_or_none
from wgcc.backends.wgsl.print_tree import print_expression, print_module
from wgcc.bundle.check_kernel import check_kernel
from wgcc.bundle.plan import all_dispatches, times_run
from wgcc.cli.printing import size, table, thousands
from wgcc.ir.dtypes import F16
from wgcc.kernel.parse import parse_module
from wgcc.kernel.rewrite.subgroups import with_subgroups
from wgcc.kernel.tokenize import WgslError
from wgcc.schedule.kernel import GPU

WORD = 4
_CONSTANT = re.compile(r"^const (\w+) = (\d+)u;", re.M)
_SHARED = re.compile(r"^var<workgroup> \w+: (.+);", re.M)
_VARIABLE = re.compile(r"^ +var (\w+)(?:: ([^=;]+?))?(?: = (.+))?;", re.M)
# `x += a`, `x = fma(a, b, x)`, `x.y = max(x.y, a)`: the new value depends on the old one.
_GROWS = r"\b{0}(?:\.\w+|\[[^\]]+\])?\s*(?:[-+*|]=|=[^=;]*\b{0}\b)"
# By the prefix of a type; vectors of f16 come first.
_WORDS = {F16: 0.5, "vec2h": 1, "vec4h": 2, "vec2": 2, "vec3": 3, "vec4": 4}

Facts = dict[str, Any]


def kernel_facts(plan: Mapping[str, Any], name: str, text: str) -> Facts:
    """Facts of the kernel itself, then of each dispatch that runs it."""
    number = next(i for i, kernel in enumerate(plan["kernels"]) if kernel["name"] == name)
    constants = {key: int(value) for key, value in _CONSTANT.findall(text)}
    workgroup = plan["kernels"][number]["workgroup"]
    facts: Facts = {
        "kernel": name,
        "workgroup": workgroup,
        "threads": prod(workgroup),
        "workgroup_bytes": _bytes(_SHARED.findall(text), constants),
        "accumulators": _accumulators(text, constants),
        "operations_per_load": None,
        "indices": _indices(plan, name, text),
        "dispatches": _dispatches(plan, number),
    }
    _add_access(facts, text)
    if {"TM", "TN"} <= set(constants):
        facts["operations_per_load"] = _operations_per_load(constants)
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


def _indices(plan: Mapping[str, Any], name: str, text: str) -> Facts | None:
    """How many indices are proven to be in range; None of a file that the checker cannot read."""
    try:
        report = check_kernel(plan, name, parse_module(text))
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


def _add_access(facts: Facts, text: str) -> None:
    """`registers`, and what each dispatch does; equal dispatches are modelled once."""
    known: dict[tuple[Any, ...], Access | None] = {}
    for item in facts["dispatches"]:
        bound, flops = item.pop("bound"), item["flops"] // item["times"]
        key = (*item["grid"], flops, *bound)
        if key not in known:
            known[key] = access_or_none(text, tuple(item["grid"]), flops, bound)
        access = known[key]
        item["bytes"] = item["times"] * (access.least_bytes if access else sum(bound))
        item["intensity"] = item["flops"] / item["bytes"] if item["bytes"] else 0.0
        item["access"] = access_facts(access) if access else None
        if access:
            item["access"]["subgroup_barriers"] = _subgroup_barriers(text, tuple(item["grid"]))
    first = next((access for access in known.values() if access), None)
    facts["registers"] = first.registers if first else None


@lru_cache
def _subgroup_barriers(text: str, grid: tuple[int, int, int]) -> float | None:
    """Barriers of the form for devices with subgroups, if the kernel has one."""
    try:
        form = with_subgroups(parse_module(text))
    except WgslError:
        return None
    access = access_or_none(print_module(form), grid) if form else None
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


def _operations_per_load(constants: Mapping[str, int]) -> float:
    """How many operations a matrix product does with each operand that a thread loads."""
    rows, cols = constants["TM"], constants["TN"]
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


def _accumulators(text: str, constants: Mapping[str, int]) -> int:
    """Words of the variables of `main` that accumulate a result; loop counters do not."""
    main = text[text.index("@compute") :] if "@compute" in text else ""
    words = sum(
        _words(type_, value, constants)
        for name, type_, value in _VARIABLE.findall(main)
        if re.search(_GROWS.format(name), main.replace(f"var {name}", ""))
    )
    return int(words)


def _bytes(types: list[str], constants: Mapping[str, int]) -> int:
    return sum(int(WORD * _words(type_, "", constants)) for type_ in types)


def _words(type_: str, value: str, constants: Mapping[str, int]) -> float:
    """`array<vec4f, 2 * TM>` has 8 TM words; without a type the first value shows it."""
    text = (type_ or value).strip()
    array = re.match(r"array<(.+),\s*([^,>]+?)\s*>", text)
    if array:
        return _words(array[1], "", constants) * prod(
            constants[part] if part in constants else int(part.rstrip("u"))
            for part in (factor.strip() for factor in array[2].split("*"))
        )
    return next((count for key, count in _WORDS.items() if text.startswith(key)), 1)
