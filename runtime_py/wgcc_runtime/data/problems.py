"""Why data was refused: a problem with its values, which each front end puts into its own words.

`tables/data_problems.json` has the text of each problem, the option that would decide it, and
advice for callers of the runtime. JavaScript reads the same table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wgcc_runtime.errors import WgccError
from wgcc_runtime.strict_json import table

MOST_ITEMS = 12
# `[name:text]` is there if the value is; `{name}` is a value, `{name:one|many}` a number of things.
_PART = re.compile(r"\[(\w+):([^\]]*)\]")
_VALUE = re.compile(r"\{(\w+)(?::([^|}]*)\|([^}]*))?\}")


def problems() -> Mapping[str, Mapping[str, str]]:
    templates: dict[str, dict[str, str]] = table("data_problems")
    return templates


class DataError(WgccError):
    """Data that was refused: `problem` says why, `option` what would decide it, if one does."""

    def __init__(self, problem: str, values: Mapping[str, Any], source: str, place: str) -> None:
        self.problem, self.values, self.place = problem, values, place
        self.option = problems()[problem].get("option", "")
        self._source = source
        super().__init__("data", self.message_with(problems()[problem].get("advice", "")), source)

    def message_with(self, advice: str) -> str:
        """The whole message with the advice of a front end: a template of the same form."""
        place = f", {self.place}" if self.place else ""
        text = fill_words(problems()[self.problem]["text"] + advice, self.values)
        return f"{self._source}{place}: {text}"


def fill_words(template: str, values: Mapping[str, Any]) -> str:
    def value(match: re.Match[str]) -> str:
        argument = values[match[1]]
        if match[2] is not None:
            return quantity(argument, match[2], match[3])
        return join_items(argument) if isinstance(argument, list | tuple) else str(argument)

    chosen = _PART.sub(lambda match: match[2] if values.get(match[1]) else "", template)
    return _VALUE.sub(value, chosen)


def join_items(items: Iterable[str]) -> str:
    """`a, b, c`, cut after `MOST_ITEMS`."""
    entries: Sequence[str] = list(items)
    more = ", …" if len(entries) > MOST_ITEMS else ""
    return ", ".join(entries[:MOST_ITEMS]) + more


def quantity(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
