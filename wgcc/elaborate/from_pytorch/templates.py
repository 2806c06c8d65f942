"""Tables of counterparts: for each name of PyTorch its parameters and what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from wgcc.elaborate.from_pytorch.calls import Argument, Bound, Call, bind

_PLACE = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"<<(.*?)>>")
# A place between these needs no parentheses: brackets, commas, and `=` of a named argument.
_OPENING, _CLOSING = re.compile(r"(^|[(\[]|, |\w = )$"), (")", "]", ",", "")

Build = Callable[[Bound], str | None]


@dataclass(frozen=True, slots=True)
class Counterpart:
    """What to write for a name of PyTorch with these `parameters` (see `bind`).

    `form` has places for arguments, `{input}`, and parts that are there only with their arguments,
    `<<, axis = {dim}>>`. `build` writes what a form cannot. Without `form` and `build`, `remark`
    says what to do; `missing` explains the form to one whose call cannot be translated.
    """

    parameters: str = ""
    form: str = ""
    remark: str = ""
    build: Build | None = None
    missing: str = ""

    def code(self, call: Call) -> str | None:
        """What to write for this call; None if that is not known for its arguments."""
        bound = bind(self.parameters, call)
        if bound is None or not (self.form or self.build):
            return None
        return self.build(bound) if self.build is not None else filled(self.form, bound)

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


def filled(form: str, bound: Bound) -> str | None:
    """The form with arguments in its places; None if an argument has no place."""

    def part(match: re.Match[str]) -> str:
        return match[1] if all(name in bound for name in _PLACE.findall(match[1])) else ""

    kept = _OPTIONAL.sub(part, form)
    places = _PLACE.findall(kept)
    if set(places) != set(bound):
        return None
    return _PLACE.sub(lambda match: _placed(match, bound[match[1]]), kept)


def _placed(match: re.Match[str], argument: Argument) -> str:
    before, after = match.string[: match.start()], match.string[match.end() :]
    alone = _OPENING.search(before) is not None and after[:1] in _CLOSING
    return argument.text if alone else argument.group


def read(table: str, builders: dict[str, Build] | None = None) -> dict[str, Counterpart]:
    """Lines `name(parameters) = form ; remark`, `name(parameters) = form ;; missing`, or `name = -
    remark`.
    """
    counterparts = {}
    for line in filter(None, (" ".join(line.split()) for line in table.splitlines())):
        head, _, rest = line.partition(" = ")
        name, _, parameters = head.partition("(")
        rest, _, missing = rest.partition(" ;; ")
        form, _, remark = rest.partition(" ; ")
        if form.startswith("- "):
            form, remark = "", form.removeprefix("- ")
        build = (builders or {}).get(name.strip())
        parameters = parameters.removesuffix(")")
        counterparts[name.strip()] = Counterpart(
            parameters, form.strip(), remark.strip(), build, missing.strip()
        )
    return counterparts
