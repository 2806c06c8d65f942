"""Walks through the sections of a `twin.wasm` before it is compiled: only what the compiler writes
is accepted.

A bundle may come from anywhere. A module with a start function would run while it is loaded, one
with a memory or table of its own would take more than `max_bytes`, and one with large functions
would keep the engine busy. `twin.form.json` has the rules; JavaScript has the same ones.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from wgcc_runtime.errors import WgccError
from wgcc_runtime.machine import GRADIENTS, UPDATE
from wgcc_runtime.plan import Entry, Plan

FORM_FILE = Path(__file__).with_name("twin.form.json")
HEADER = b"\0asm\x01\0\0\0"
# A number of 32 bits takes at most this many bytes.
LONGEST_NUMBER = 5
# What a host runs before and after a product that it computes itself.
PARTS = ("pack", "finish")


@lru_cache(maxsize=1)
def twin_form() -> dict[str, Any]:
    form: dict[str, Any] = json.loads(FORM_FILE.read_text(encoding="utf-8"))
    return form


def check_twin_form(code: bytes, plan: Plan) -> None:
    """Raises code `bundle` for a module that is not of the form that wgcc writes."""
    assert plan.twin is not None
    sections = _sections(code)
    _check_import(sections["imports"], plan.twin.memory_flag)
    types = _types(sections["types"])
    functions = sections["functions"].numbers("mostFunctions")
    sections["functions"].finish()
    _check_exports(sections["exports"], plan, types, functions)
    _check_code(sections["code"], len(functions))


class _Reader:
    """Bytes from `at` to `end`; whatever goes beyond them is refused."""

    def __init__(self, code: bytes, at: int, end: int) -> None:
        self.code, self.at, self.end = code, at, end

    def byte(self) -> int:
        if self.at >= self.end:
            _refuse("it is cut off")
        self.at += 1
        return self.code[self.at - 1]

    def number(self) -> int:
        value = 0
        for i in range(LONGEST_NUMBER):
            byte = self.byte()
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                if value < 1 << 32:
                    return value
                break
        _refuse("it has a number of more than 32 bits")

    def count(self, most: str) -> int:
        """The length of a list; `most` is the limit's name in the form."""
        count = self.number()
        if count > twin_form()[most] or count > self.end - self.at:
            _refuse("it has a list that is too long")
        return count

    def numbers(self, most: str) -> list[int]:
        return [self.number() for _ in range(self.count(most))]

    def part(self) -> _Reader:
        """A reader of the next part, which begins with its number of bytes."""
        size = self.number()
        if size > self.end - self.at:
            _refuse("it is cut off")
        self.at += size
        return _Reader(self.code, self.at - size, self.at)

    def text(self) -> str:
        part = self.part()
        return part.code[part.at : part.end].decode("utf-8", errors="replace")

    def finish(self) -> None:
        if self.at != self.end:
            _refuse("a section is longer than what it holds")


def _sections(code: bytes) -> dict[str, _Reader]:
    if code[: len(HEADER)] != HEADER:
        _refuse("it is no WebAssembly module of version 1")
    names = {int(number): name for number, name in twin_form()["sections"].items()}
    whole, sections, last = _Reader(code, len(HEADER), len(code)), dict[str, _Reader](), 0
    while whole.at < whole.end:
        number = whole.byte()
        if number not in names:
            _refuse(f"it has a section of kind {number}, which no twin has")
        if number <= last:
            _refuse("its sections are out of order")
        sections[names[number]] = whole.part()
        last = number
    for name in names.values():
        if name not in sections:
            _refuse(f"it has no section of {name}")
    return sections


def _check_import(section: _Reader, memory_flag: int) -> None:
    """The memory alone. Its limits are where the plan says, because a runtime changes that byte."""
    wanted = twin_form()["import"]
    if section.number() != 1 or (section.text(), section.text()) != (
        wanted["module"],
        wanted["name"],
    ):
        _refuse("it imports something else than env.memory")
    kind, at = section.byte(), section.at
    if (kind, section.byte()) != (wanted["kind"], wanted["limits"]) or at != memory_flag:
        _refuse("its memory is not the one that plan.json describes")
    section.number(), section.number()
    section.finish()


def _types(section: _Reader) -> list[tuple[list[int], list[int]]]:
    types = []
    for _ in range(section.count("mostTypes")):
        if section.byte() != 0x60:
            _refuse("it has a type that is no function")
        types.append((section.numbers("mostParams"), section.numbers("mostParams")))
    section.finish()
    return types


def _check_exports(
    section: _Reader, plan: Plan, types: list[tuple[list[int], list[int]]], functions: list[int]
) -> None:
    wanted = twin_form()["export"]
    needed, allowed = export_names(plan)
    there = set()
    for _ in range(section.count("mostFunctions")):
        name, kind, index = section.text(), section.byte(), section.number()
        if name not in allowed or name in there:
            _refuse(
                f"it exports `{name:.40}`, which the plan does not have or which is there twice"
            )
        number = functions[index] if kind == wanted["kind"] and index < len(functions) else -1
        if not 0 <= number < len(types):
            _refuse(f"its export `{name}` is no function")
        if types[number] != (wanted["params"], wanted["results"]):
            _refuse(f"`{name}` is of another type than entries are")
        there.add(name)
    section.finish()
    for name in needed:
        if name not in there:
            _refuse(f"it has no function `{name}`")


def export_names(plan: Plan) -> tuple[list[str], set[str]]:
    """The exports that a twin of this plan must have, and those that it may have."""
    needed: list[str] = []
    allowed: set[str] = set()
    for name, entry in plan.entries.items():
        needed += [name, *([f"{name}/guard"] if entry.guard else []), *_halves(name, entry)]
        allowed |= {f"{name}/{i}" for i in range(len(entry.dispatches))}
        allowed |= {f"{name}/{i}/{part}" for i in range(len(entry.dispatches)) for part in PARTS}
        if entry.guard:
            allowed |= {f"{name}/guard/{i}" for i in range(len(entry.guard.dispatches))}
    needed += [f"{name}/checked" for name in (plan.twin.checked if plan.twin else ())]
    return needed, allowed | set(needed)


def _halves(name: str, entry: Entry) -> tuple[str, ...]:
    has_halves = entry.exchange and not entry.exchange.why
    return (f"{name}/{GRADIENTS}", f"{name}/{UPDATE}") if has_halves else ()


def _check_code(section: _Reader, functions: int) -> None:
    most_bytes, most_locals = twin_form()["mostFunctionBytes"], twin_form()["mostLocals"]
    if section.count("mostFunctions") != functions:
        _refuse("it has more or fewer functions than it declares")
    for _ in range(functions):
        body = section.part()
        if body.end - body.at > most_bytes:
            _refuse(f"it has a function of more than {most_bytes:,} bytes")
        locals_ = 0
        for _ in range(body.count("mostLocals")):
            locals_ += body.number()
            body.byte()
        if locals_ > most_locals:
            _refuse(f"it has a function of more than {most_locals:,} locals")
    section.finish()


def _refuse(what: str) -> NoReturn:
    text = f"twin.wasm is not a module that wgcc writes: {what}"
    raise WgccError("bundle", f"{text}; build the model again", "twin.wasm")
