"""The rows of an entry in a plan: what both runtimes refuse."""

from __future__ import annotations

from typing import Any

import pytest

import line_bundle
from changed_plans import change, encode
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import read_plan

# Where, what it becomes, the field the error must name ("" when it is the same place).
MALFORMED: list[tuple[str, Any, str]] = [
    ("entries.predict.rows.count", 0, ""),
    ("entries.predict.rows.count", 7, "entries.predict.rows.inputs[0]"),
    ("entries.predict.rows.inputs", [], ""),
    ("entries.predict.rows.inputs", ["x", "y"], "entries.predict.rows.inputs[1]"),
    ("entries.predict.rows.inputs", ["toString"], "entries.predict.rows.inputs[0]"),
    ("entries.predict.rows.dim", "2 * B", ""),
    ("entries.predict.rows.why", "rows mix", "entries.predict.rows.outputs"),
    ("entries.predict.rows.outputs", {"p": "last"}, "entries.predict.rows.outputs.p"),
    ("entries.predict.rows.outputs", {"q": "rows"}, "entries.predict.rows.outputs"),
    ("entries.train.rows.outputs", {"loss": "mean"}, "entries.train.rows.outputs"),
    (
        "entries.pick.rows",
        {"count": 3, "inputs": ["ids"], "outputs": {"rows": 1}},
        "entries.pick.rows.outputs.rows",
    ),
]


def test_sound_rows_are_read() -> None:
    rows = read_plan(encode(line_bundle.make_plan())).entries["predict"].rows
    assert rows is not None
    assert (rows.count, rows.inputs, rows.outputs) == (8, ("x",), {"p": "rows"})
    assert rows.advice(5) == "wgcc build MODEL --set B=5"


@pytest.mark.parametrize(("path", "value", "field"), MALFORMED)
def test_malformed_rows_are_refused(path: str, value: Any, field: str) -> None:
    with pytest.raises(WgccError) as caught:
        read_plan(encode(change(line_bundle.make_plan(), path, value)))
    assert (caught.value.code, caught.value.field) == ("plan", field or path)
