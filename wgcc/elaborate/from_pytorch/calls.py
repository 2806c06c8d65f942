"""A call as a PyTorch user writes it, as texts and facts; and how rules read it.

Rules know nothing of the checker: an argument is its text, and what is known of its value.

Tables of counterparts: for each name of PyTorch its parameters and what to write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

# These have no meaning here, and leaving them out changes no number.
IGNORED = (
    "device", "requires_grad", "inplace", "out", "generator", "pin_memory", "memory_format",
    "non_blocking", "copy", "layout", "training",
)  # fmt: skip
_PYTHON_WORDS = {"True": "true", "False": "false"}
_NUMBER = re.compile(r"[0-9][0-9_]*(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ATOM = re.compile(r"[\w.]*")
_PARAMETER = re.compile(r"(?P<name>\*?\w*)(\[(?P<axes>\d\+?)\])?(:(?P<value>[-\w]+))?")


@dataclass(frozen=True)
class PytorchArgument:
    """`sizes` and `lengths` are those of a tensor: as one writes them, and as numbers.

    `items` are the parts of a list or tuple. An optimizer has `rate`, its learning rate as written.
    """

    text: str
    sizes: tuple[str, ...] | None = None
    lengths: tuple[int, ...] | None = None
    dtype: str = ""
    number: float | None = None
    items: tuple[PytorchArgument, ...] | None = None
    rate: str = ""

    @property
    def rank(self) -> int | None:
        return None if self.sizes is None else len(self.sizes)

    @property
    def whole(self) -> int | None:
        """The value, if it is a whole number known at compile time."""
        return self.number if isinstance(self.number, int) else None

    @property
    def group(self) -> str:
        """The text, in parentheses if it is more than a name, number, call or index."""
        return self.text if is_atom(self.text) else f"({self.text})"


@dataclass(frozen=True)
class PytorchCall:
    positional: tuple[PytorchArgument, ...] = ()
    named: Mapping[str, PytorchArgument] = field(default_factory=dict)


Bound = Mapping[str, PytorchArgument]


def is_atom(text: str) -> bool:
    """Whether an operator may stand beside it: `x`, `2.0`, `f(a + b)[0]`."""
    if _NUMBER.fullmatch(text):
        return True
    depth, outside = 0, ""
    for sign in text:
        depth -= sign in ")]"
        outside += sign if depth == 0 and sign not in ")]([" else ""
        depth += sign in "(["
    return bool(text) and _ATOM.fullmatch(outside) is not None


def bind(parameters: str, call: PytorchCall) -> dict[str, PytorchArgument] | None:
    """Arguments by PyTorch's name of the parameter; None if the call has others, or too few.

    `"input, dim=0, *, keepdim="`: a parameter with `=` may be missing, with the text behind it as
    its default, if there is one. After `*` they are given by name. `*dims` takes all that are left,
    or those of one list, as `items`. `p:2` must be 2, and is not among the results; `x[1]` must be
    a tensor with one axis, `x[1+]` with one or more.
    """
    named = {key: value for key, value in call.named.items() if key not in IGNORED}
    left = list(call.positional)
    bound: dict[str, PytorchArgument] = {}
    by_position = True
    conditions: dict[str, re.Match[str]] = {}
    for part in filter(None, map(str.strip, parameters.split(","))):
        head, has_default, default = part.partition("=")
        parsed = _PARAMETER.fullmatch(head)
        assert parsed is not None
        name = parsed["name"]
        conditions[name] = parsed
        if name == "*":
            by_position = False
        elif name.startswith("*"):
            conditions[name[1:]] = parsed
            bound[name[1:]], left = _rest(left, named.pop(name[1:], None)), []
        elif left and by_position:
            bound[name] = left.pop(0)
        elif name in named:
            bound[name] = named.pop(name)
        elif not has_default:
            return None
        elif default:
            bound[name] = PytorchArgument(default, number=_number(default))
    if left or named or not all(_fits(value, conditions[name]) for name, value in bound.items()):
        return None
    kept = {name: value for name, value in bound.items() if not conditions[name]["value"]}
    return _in_our_words(kept)


def _fits(argument: PytorchArgument, condition: re.Match[str]) -> bool:
    value, axes = condition["value"], condition["axes"]
    if value:
        number = argument.number is not None and argument.number == _number(value)
        return number or argument.text.strip("\"'").lower() == value.lower()
    if not axes:
        return True
    least, rank = int(axes.rstrip("+")), argument.rank
    return rank is not None and (rank == least or (axes.endswith("+") and rank > least))


def _rest(left: list[PytorchArgument], given: PytorchArgument | None) -> PytorchArgument:
    items = tuple(left) if given is None else (given,)
    if len(items) == 1 and items[0].items is not None:
        items = items[0].items
    return PytorchArgument(", ".join(item.text for item in items), items=items)


def _number(text: str) -> float | None:
    if not _NUMBER.fullmatch(text.removeprefix("-")):
        return None
    return int(text) if text.removeprefix("-").isdigit() else float(text)


def _in_our_words(bound: dict[str, PytorchArgument]) -> dict[str, PytorchArgument]:
    """`None` is an argument that is not given."""
    return {
        name: PytorchArgument(_PYTHON_WORDS[value.text]) if value.text in _PYTHON_WORDS else value
        for name, value in bound.items()
        if value.text != "None"
    }


_PLACE = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"<<(.*?)>>")
# A place between these needs no parentheses: brackets, commas, and `=` of a named argument.
_OPENING, _CLOSING = re.compile(r"(^|[(\[]|, |\w = | step )$"), (")", "]", ",", "")

Build = Callable[[Bound], str | None]


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The code for a name of PyTorch with these `parameters` (see `bind`).

    `form` has places for arguments, `{input}`, and parts that are there only with their arguments,
    `<<, axis = {dim}>>`. `cases` are parameters and forms, of which the first that fits is taken;
    `build` writes what a form cannot. Without `form` and `build`, `remark` says what to do;
    `missing` explains the form to one whose call cannot be translated.
    """

    parameters: str = ""
    form: str = ""
    remark: str = ""
    build: Build | None = None
    missing: str = ""
    cases: tuple[tuple[str, str], ...] = ()

    def code(self, call: PytorchCall) -> str | None:
        """The code for this call; None if that is not known for its arguments."""
        if self.build is not None:
            bound = bind(self.parameters, call)
            return self.build(bound) if bound is not None else None
        forms = self.cases or ((self.parameters, self.form),)
        pairs = ((bind(parameters, call), form) for parameters, form in forms if form)
        codes = (fill_form(form, bound) for bound, form in pairs if bound is not None)
        return next((code for code in codes if code is not None), None)

    @property
    def general(self) -> str:
        """The form with the names of its parameters, for a call that cannot be translated."""
        form = _OPTIONAL.sub("", self.form)
        return _PLACE.sub(lambda match: match[1], form)

    def advice(self, code: str | None = None) -> str:
        missing = "" if code else self.missing
        code = code or self.general
        written = f"write `{code}`" if code else ""
        return "; ".join(part for part in (written, missing, self.remark) if part)


def fill_form(form: str, bound: Bound) -> str | None:
    """The form with arguments in its places; None if an argument has no place."""

    def part(match: re.Match[str]) -> str:
        return match[1] if all(name in bound for name in _PLACE.findall(match[1])) else ""

    kept = _OPTIONAL.sub(part, form)
    places = _PLACE.findall(kept)
    if set(places) != set(bound):
        return None
    return _PLACE.sub(lambda match: _place(match, bound[match[1]]), kept)


def _place(match: re.Match[str], argument: PytorchArgument) -> str:
    before, after = match.string[: match.start()], match.string[match.end() :]
    alone = _OPENING.search(before) is not None and after[:1] in _CLOSING
    return argument.text if alone else argument.group


def read(section: str, builders: dict[str, Build] | None = None) -> dict[str, Counterpart]:
    """The lines of a section of `hints.txt`, which says what they mean."""
    counterparts: dict[str, Counterpart] = {}
    for line in _sections()[section]:
        head, _, rest = line.partition(" = ")
        name, _, parameters = head.removesuffix(")").partition("(")
        name = name.strip()
        if name == "|":
            known = next(reversed(counterparts))
            cases = (*counterparts[known].cases, (parameters, rest))
            counterparts[known] = replace(counterparts[known], cases=cases)
            continue
        rest, _, missing = rest.partition(" ;; ")
        form, _, remark = rest.partition(" ; ")
        if form.startswith("- "):
            form, remark = "", form.removeprefix("- ")
        build = (builders or {}).get(name)
        counterparts[name] = Counterpart(
            parameters, form.strip(), remark.strip(), build, missing.strip()
        )
    return counterparts


@cache
def _sections() -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in (Path(__file__).parent / "hints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            lines = sections[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            lines.append(line)
    return sections
