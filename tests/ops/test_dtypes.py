"""Every list of element types, in any language, equals that of `wgcc/ir/dtypes.py`."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from adapters import ROOT
from wgcc.ir.dtypes import DTYPE_TABLE, DTYPES, FLOATS, INTEGER_RANGES, INTEGERS
from wgcc_runtime import arrays, plan, weights
from wgcc_runtime.strict_json import plan_schema


def alternatives(path: str, pattern: str) -> list[str]:
    """The names in the one place of a file that a pattern finds."""
    (found,) = re.findall(pattern, (ROOT / path).read_text(encoding="utf-8"))
    return re.findall(r"\w+", found)


def test_plan_schema() -> None:
    tensor = plan_schema()["properties"]["tensors"]["additionalProperties"]
    assert tensor["properties"]["dtype"]["enum"] == list(DTYPES)


@pytest.mark.parametrize(
    "path, pattern",
    [
        ("grammar/wg.lark", r"DTYPE\.2: /\((.*?)\)"),
        ("runtime_js/core/plan.js", r"@typedef \{(.*?)\} Dtype"),
        ("wgcc/BUNDLE.md", r"\| `tensors\.\*\.dtype` \| (.*?) \|"),
    ],
)
def test_lists_of_names(path: str, pattern: str) -> None:
    assert alternatives(path, pattern) == list(DTYPES)


def test_editor_grammar() -> None:
    text = (ROOT / "grammar/editors/vscode/wg.tmLanguage.json").read_text(encoding="utf-8")
    matches = re.findall(r'"match": (".*")', text)
    lists = [re.findall(r"\w+", json.loads(match).replace(r"\b", "")) for match in matches]
    assert list(DTYPES) in lists


def test_python_runtime() -> None:
    """Elements in memory and in files, arrays of callers, ranges."""
    assert {name: row.memory for name, row in DTYPE_TABLE.items()} == arrays.MEMORY_TYPES
    for name, row in DTYPE_TABLE.items():
        assert np.dtype(row.numpy) == arrays.CALLER_TYPES[name]
        stored = np.dtype(weights._TYPES[row.stored]).str[1:]
        assert np.dtype(row.memory).str[1:] == ("u1" if row.stored == "BOOL" else stored)
    assert list(arrays.CALLER_TYPES) == list(DTYPES)
    assert (plan.FLOATS, plan.INTEGERS) == (FLOATS, INTEGERS)
    assert arrays.INTEGER_RANGES == INTEGER_RANGES


def test_javascript_runtime() -> None:
    """What callers get; the words are compared with Python's in test_web_facts.py."""
    arrays_of = r"CALLER_TYPES = \{(.*?)\}"
    text = (ROOT / "runtime_js/core/arrays.js").read_text(encoding="utf-8")
    found = dict(re.findall(r"(\w+): (\w+)", re.findall(arrays_of, text, re.DOTALL)[0]))
    assert found == {name: row.array for name, row in DTYPE_TABLE.items()}
