"""Numbers with a unit or with separated thousands: `$1,200`, `12 kg`, `25 %`, `6'380`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wgcc_runtime.data.numbers import LARGEST, MISSING, Parser, Values, are_numbers

_SEPARATORS = ",.'’ \u00a0\u202f"
_BLANK = "[ \u00a0\u202f]?"
_BEFORE = "[$€£¥₹]|[A-Z]{3}"
_AFTER = "[A-Za-zµ°%$€£¥₹²³/]{1,8}"


@dataclass(frozen=True, slots=True)
class Amounts:
    """Numbers by row, None where a cell is no amount; each cell has this unit, or none."""

    values: Values
    unit: str


class AmountParser:
    """Reads amounts with the decimal mark of a table."""

    def __init__(self, parser: Parser) -> None:
        separators = _SEPARATORS.replace(parser.mark, "")
        # The fifth group is what separates thousands, the same in the whole cell.
        grouped = rf"[1-9][0-9]{{0,2}}([{separators}])[0-9]{{3}}(?:\5[0-9]{{3}})*"
        number = rf"(?:{grouped}|[0-9]+)(?:{re.escape(parser.mark)}[0-9]*)?"
        signs = f"([+-]?)({_BEFORE})?{_BLANK}([+-]?)"
        self._amount = re.compile(f"{signs}({number}){_BLANK}({_AFTER})?")
        self._parser = parser

    def amount(self, cell: str) -> tuple[float, str] | None:
        """The number of a cell and its unit; None if it is no amount."""
        plain = self._parser.number(cell)
        if plain is not None:
            return plain, ""
        match = self._amount.fullmatch(cell)
        if not match or (match[1] and match[3]):
            return None
        digits = match[4].replace(match[5], "") if match[5] else match[4]
        value = float(match[1] + match[3] + digits.replace(self._parser.mark, "."))
        unit = (match[2] or "") + (match[6] or "")
        return (value, unit) if -LARGEST <= value <= LARGEST else None

    def amounts(self, cells: Sequence[str]) -> Amounts | None:
        """The amounts of a column: at least 90 % of its cells, all with one unit."""
        pairs = [None if cell in MISSING else self.amount(cell) for cell in cells]
        values: Values = [pair and pair[0] for pair in pairs]
        units = {pair[1] for pair in pairs if pair} - {""}
        if len(units) > 1 or not are_numbers(cells, values):
            return None
        return Amounts(values, units.pop() if units else "")
