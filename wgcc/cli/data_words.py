"""What the command line advises where data was refused: which option decides it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wgcc_runtime.data.problems import DataError

_DECIMAL = ": give --decimal , or --decimal ."
# By problem, as in tables/data_problems.json; for others the runtime's own advice is said.
ADVICE = {
    "mixed-decimals": _DECIMAL,
    "thousands": _DECIMAL,
    "columns-left": ". Choose them with --columns",
    "which-target": " Give --target NAME; there are: {columns}",
    "no-value": ": give --value {input}=NUMBER",
    "names-in-columns": ": choose its columns with --columns {words}",
    "names-in-target": ": choose another column with --target NAME",
    "unknown-character": ": leave them out with --unknown drop",
}


def message_of(error: DataError) -> str:
    """The message of an error with advice for the command line."""
    if error.problem not in ADVICE:
        return error.message
    words = pasted(error.values["numbers"]) if error.values.get("numbers") else "NAMES"
    return error.worded(ADVICE[error.problem].replace("{words}", words))


def pasted(names: Sequence[str]) -> str:
    """`a,"b, c"` as one word of a command line, as `--columns` takes it: it can be pasted."""
    return shlex.quote(",".join(map(_field, names)))


def _field(name: str) -> str:
    is_plain = "," not in name and '"' not in name
    return name if is_plain else '"' + name.replace('"', '""') + '"'
