"""Facts that both runtimes contain are equal: element types, roles, limits, profiles, codes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from adapters import ROOT
from web_stacks import run_node
from wgcc.bundle.page import runtime_modules
from wgcc.ir.places import SEED_STATE, is_optimizer_state
from wgcc.schedule.kernel import CANDIDATE, GPU
from wgcc_runtime import (
    arrays,
    device,
    drawn,
    plan,
    values,
    weights,
)
from wgcc_runtime.data import numbers
from wgcc_runtime.strict_json import TABLES, plan_schema

# The numpy type of each of JavaScript's arrays.
NUMPY = {
    "Float64Array": "f8", "Float32Array": "f4", "BigInt64Array": "i8", "Int32Array": "i4",
    "Int16Array": "i2", "Int8Array": "i1", "BigUint64Array": "u8", "Uint32Array": "u4",
    "Uint16Array": "u2", "Uint8Array": "u1",
}  # fmt: skip
# Not every browser has Float16Array, and there is no array of booleans.
CALLERS = {"f2": "f4", "b1": "u1"}
STORED = {"f2": "u2", "b1": "u1"}
# Python has codes of its own, too: for processes, threads and files.
ONLY_IN_JAVASCRIPT = {"no-webgpu", "storage"}


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    return dict(run_node("facts.mjs"))


def code_of(kind: Any, names: dict[str, str]) -> str:
    found = np.dtype(kind).str[1:]
    return names.get(found, found)


def test_element_types(facts: dict[str, Any]) -> None:
    dtypes = plan_schema()["properties"]["tensors"]["additionalProperties"]["properties"]["dtype"]
    typed = re.search(r"@typedef \{(.*)\} Dtype", runtime_modules()["core/plan.js"])
    assert typed and re.findall(r"'(\w+)'", typed[1]) == dtypes["enum"]
    in_memory = {dtype: code_of(kind, {}) for dtype, kind in arrays.MEMORY_TYPES.items()}
    assert {dtype: NUMPY[name] for dtype, name in facts["callerTypes"].items()} == in_memory
    widths = {dtype: np.dtype(kind).itemsize for dtype, kind in arrays.MEMORY_TYPES.items()}
    assert facts["elementBytes"] == widths
    assert {dtype for dtype, width in widths.items() if width == 1} == set(plan.BYTES)
    for_callers = {dtype: code_of(kind, CALLERS) for dtype, kind in arrays.CALLER_TYPES.items()}
    assert {dtype: NUMPY[name] for dtype, name in facts["callerTypes"].items()} == for_callers
    ranges = {d: (range_["low"], range_["high"]) for d, range_ in facts["integerRanges"].items()}
    assert ranges == arrays.INTEGER_RANGES
    assert facts["wordBytes"] == plan.WORD
    assert list(for_callers) == list(in_memory) == dtypes["enum"]


def test_tables_are_read_in_both_languages() -> None:
    """Limits, roles, words and problems stand in one file each."""
    modules = "".join(runtime_modules().values())
    python = "".join(path.read_text("utf-8") for path in TABLES.parent.rglob("*.py"))
    tables = [path.stem for path in sorted(TABLES.glob("*.json"))]
    assert len(tables) >= 5
    for name in tables:
        assert f"wgcc_runtime/tables/{name}.json' with" in modules, name
        assert f'table("{name}")' in python, name


def test_files_and_draws(facts: dict[str, Any]) -> None:
    read = {kind: code_of(name, STORED) for kind, name in weights._TYPES.items()}
    found = {kind: NUMPY[name] for kind, name in facts["storedTypes"].items()}
    assert found == {**read, "BF16": "u2"}
    assert {"value", *facts["draws"]} == set(drawn.INIT_KINDS)


def test_names_of_state(facts: dict[str, Any]) -> None:
    found = facts["optimizerState"]
    assert found == {name: is_optimizer_state(name) for name in found}
    assert found == {name: values.is_optimizer_state(name) for name in found}
    assert set(found.values()) == {True, False}
    assert facts["seedState"] == values.SEED_STATE == SEED_STATE


def test_profiles(facts: dict[str, Any]) -> None:
    """The compiler writes the profiles that runtimes look for."""
    assert facts["defaultProfile"] == device.DEFAULT_PROFILE == GPU
    assert facts["tuned"] == device.TUNED
    assert facts["candidate"] == CANDIDATE
    allowed = plan_schema()["properties"]["profiles"]["propertyNames"]["pattern"]
    assert all(re.match(allowed, prefix) for prefix in (device.TUNED, CANDIDATE))
    typed = re.search(r"profile\?: (.*) \|", (ROOT / "runtime_js/bundle/index.d.ts").read_text())
    assert typed and re.findall(r"'(\w+)'", typed[1]) == [GPU]


def test_error_codes() -> None:
    python = set()
    for path in sorted((ROOT / "runtime_py" / "wgcc_runtime").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        python |= set(re.findall(r"""(?:(?:Wgcc|Call)Error\(\s*|code: str = )"([a-z-]+)\"""", text))
        python |= set(re.findall(r"""_refuse\([^\n]*"([a-z-]+)"\)$""", text, re.MULTILINE))
    javascript = set()
    for text in runtime_modules().values():
        javascript |= set(re.findall(r"(?:fail|WgccError)\(\s*'([a-z-]+)'", text))
    assert len(javascript) > 20
    assert javascript - python == ONLY_IN_JAVASCRIPT


def test_missing_cells() -> None:
    """The words of the table are those of the documentation."""
    page = (ROOT / "wgcc" / "DATA.md").read_text(encoding="utf-8")
    rule = page.partition("**Missing cells.**")[2].partition(". The row")[0]
    assert set(re.findall(r"`([^`]+)`", rule)) == numbers.MISSING - {""}
