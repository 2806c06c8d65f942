"""Reads a file of functions in WGSL: each of them checked, with all that it calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from wgcc.kernel.own.check import Checker
from wgcc.kernel.own.effort import MOST, effort
from wgcc.kernel.own.expressions import Typed, WrongFunction, check_name
from wgcc.kernel.own.words import REFUSED
from wgcc.kernel.parse import parse_with_places
from wgcc.kernel.tokenize import WgslError, tokenize
from wgcc.kernel.tree import ConstantDef, FunctionDef, Module

LONGEST = 64_000
MOST_FUNCTIONS = 100
# Kernels have few bindings, and each operand may need one.
MOST_OPERANDS = 6
DEEPEST_BRACKETS = 60
_COLLECTIVE = re.compile(r"(atomic|subgroup|workgroup|texture|dpd|fwidth|storageBarrier)")


class WrongWgsl(Exception):
    """Says what is wrong with a file, at which characters of it, and what to do."""

    def __init__(self, message: str, start: int, end: int, help: str = "") -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.help = message, start, end, help


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """A function with all that it calls: `functions` of the same file, and files of the `library`.

    `call` is its name in kernels, `effort` how many operations it takes.
    """

    call: str
    params: tuple[str, ...]
    result: str
    functions: tuple[FunctionDef, ...]
    library: tuple[str, ...]
    effort: int
    file: str
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"


def read_functions(
    text: str, file: str, name_in_kernels: Callable[[str], str]
) -> dict[str, OwnFunction]:
    """The functions of a file by name; raises `WrongWgsl`. `file` is its name in listings."""
    _refuse_tokens(text)
    try:
        module, places = parse_with_places(text)
        return _Reader(module, text, file, name_in_kernels).read()
    except WgslError as error:
        raise WrongWgsl(error.reason, error.at, error.at + 1) from None
    except RecursionError:
        raise WrongWgsl("expressions or blocks are nested too deeply", 0, 1) from None
    except WrongFunction as problem:
        start, end = next((places[id(n)] for n in problem.nodes if id(n) in places), (0, 1))
        raise WrongWgsl(problem.message, start, end, problem.help) from None


def _refuse_tokens(text: str) -> None:
    if len(text) > LONGEST:
        raise WrongWgsl(f"the file has more than {LONGEST:,} characters", 0, 1)
    block = re.search(r"^(?:(?!//).)*?(/\*)", text, re.MULTILINE)
    if block:
        raise WrongWgsl(
            "`/*` is not supported: begin each line of a comment with `//`", *block.span(1)
        )
    try:
        tokens = tokenize(text)
    except WgslError as error:
        raise WrongWgsl(error.reason, error.at, error.at + 1) from None
    depth = 0
    for word, at, _ in tokens:
        depth += (word in ("(", "{", "[")) - (word in (")", "}", "]"))
        if depth > DEEPEST_BRACKETS:
            raise WrongWgsl(f"brackets are nested more than {DEEPEST_BRACKETS} deep", at, at + 1)
        if word in REFUSED:
            raise WrongWgsl(REFUSED[word], at, at + len(word))
        if _COLLECTIVE.match(word):
            text = f"`{word}` is for whole kernels, and this is a function of one element"
            raise WrongWgsl(text, at, at + len(word))
        if word == "const" and depth:
            raise WrongWgsl("inside a function, write `let`", at, at + len(word))
        if word == "var" and not depth:
            text = "a function of scalars has no memory: declare variables inside it"
            raise WrongWgsl(text, at, at + len(word))


class _Reader:
    def __init__(
        self, module: Module, text: str, file: str, name_in_kernels: Callable[[str], str]
    ) -> None:
        self._module, self._text, self._file = module, text, file
        self._names = {name: name_in_kernels(name) for name in module.functions}

    def read(self) -> dict[str, OwnFunction]:
        self._refuse_repeated()
        constants = self._constants()
        checked, library, calls, rounds = {}, {}, {}, dict[int, int]()
        for name, function in self._module.functions.items():
            checker = Checker(self._module.functions, constants, self._names)
            checked[name] = self._with_origin(function, checker.function(function))
            library[name], calls[name] = checker.library, checker.calls
            rounds |= checker.rounds
        order = _in_order(calls)
        efforts: dict[str, int] = {}
        for name in order:
            efforts[self._names[name]] = self._effort(checked[name], rounds, efforts, name)
        return {name: self._own(name, checked, library, calls, efforts) for name in checked}

    def _refuse_repeated(self) -> None:
        seen = set[str]()
        for declared in self._module.declarations:
            assert isinstance(declared, FunctionDef | ConstantDef)
            if declared.name in seen:
                raise WrongFunction(f"`{declared.name}` is declared twice", declared)
            seen.add(declared.name)
        if not self._module.functions:
            raise WrongWgsl("there is no function in this file", 0, 1)
        if len(self._module.functions) > MOST_FUNCTIONS:
            raise WrongWgsl(f"a file has at most {MOST_FUNCTIONS} functions", 0, 1)

    def _constants(self) -> dict[str, Typed]:
        constants: dict[str, Typed] = {}
        for declared in self._module.declarations:
            if isinstance(declared, ConstantDef):
                check_name(declared.name, declared)
                checker = Checker(self._module.functions, constants, self._names)
                constants[declared.name] = checker.number(declared.value)
        return constants

    def _with_origin(self, function: FunctionDef, checked: FunctionDef) -> FunctionDef:
        """Listings say which lines of which file it was."""
        at = re.search(rf"\bfn\s+{function.name}\b", self._text)
        line = self._text.count("\n", 0, at.start() if at else 0) + 1
        comment = f"{self._file}:{line}"
        return replace(checked, comment="\n".join(filter(None, (function.comment, comment))))

    def _effort(
        self,
        function: FunctionDef,
        rounds: Mapping[int, int],
        efforts: Mapping[str, int],
        name: str,
    ) -> int:
        operations = effort(function, rounds, efforts)
        if operations > MOST:
            text = (
                f"`{name}` takes {operations:,} operations for an element; at most {MOST:,} may be"
            )
            raise WrongFunction(text, self._module.functions[name])
        return operations

    def _own(
        self,
        name: str,
        checked: Mapping[str, FunctionDef],
        library: Mapping[str, set[str]],
        calls: Mapping[str, Mapping[str, object]],
        efforts: Mapping[str, int],
    ) -> OwnFunction:
        needed, waiting = dict[str, None](), [name]
        while waiting:
            one = waiting.pop()
            if one not in needed:
                needed[one] = None
                waiting += calls[one]
        function = checked[name]
        assert function.result is not None
        return OwnFunction(
            function.name,
            tuple(kind for _, kind in function.params),
            function.result,
            tuple(checked[one] for one in needed),
            tuple(sorted(set[str]().union(*(library[one] for one in needed)))),
            efforts[function.name],
            self._file,
            name,
        )


def _in_order(calls: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Functions after all that they call; one that calls itself is refused."""
    order: dict[str, None] = {}
    path: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        path.append(name)
        for other, at in calls[name].items():
            if other in path:
                raise WrongFunction(f"`{other}` calls itself, and so might never end", at)
            visit(other)
        path.pop()
        order[name] = None

    for name in calls:
        visit(name)
    return list(order)
