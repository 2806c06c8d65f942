"""Defaults and initial values are PyTorch's, but for a list with reasons: grammar/DEFAULTS.md.

PyTorch's are recorded (record_defaults.py); ours are read from the compiler and measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import default_pairs as pairs
import golden
from adapters import ROOT
from default_pairs import Pair, recorded_as
from elaborated import program
from wgcc.elaborate.builtins import BUILTINS
from wgcc.elaborate.declarations.constants import DISTRIBUTIONS
from wgcc.ir.program import Init
from wgcc.ops.optimizers import OPTIMIZERS
from wgcc_runtime.drawn import initial_values

PAGE = ROOT / "grammar" / "DEFAULTS.md"
TORCH = json.loads(pairs.RECORDED.read_text(encoding="utf-8"))
LIBRARY = "".join(path.read_text() for path in sorted((ROOT / "grammar/std").glob("*.wg")))
REQUIRED = "required"
# Of a standard deviation and of bounds, measured with 6,000 draws or more.
TOLERANCE = 0.05
SEEDS = 20


def signatures() -> dict[str, str]:
    """Of layers, library functions, built-ins and distributions: what is in their parentheses."""
    layers = re.findall(r"^(?:layer|fn) (\w+)(?:\[[^\]]*\])?(?:\(([^{]*?)\))? ", LIBRARY, re.M)
    own = {name: re.sub(r":\s*[\w\[\]\"., ]+?(?= =|,|$|\n)", "", text) for name, text in layers}
    return {**own, **{name: f.parameters for name, f in BUILTINS.items()}, **DISTRIBUTIONS}


SIGNATURES = signatures()


def options(name: str) -> dict[str, Any]:
    """The options of ours that have a default; of distributions all of them."""
    if name in OPTIMIZERS:
        kind = OPTIMIZERS[name]
        return {key: _json(value) for key, value in kind.defaults.items() if key in pairs.SETTINGS}
    found: dict[str, Any] = {}
    for part in filter(None, re.split(r",\s*(?![^(]*\))", SIGNATURES[name])):
        key, equals, value = (text.strip() for text in part.partition("="))
        if equals:
            found[key] = _read(value)
        elif name in DISTRIBUTIONS:
            found[key] = REQUIRED
    return found


def _read(text: str) -> Any:
    words = {"none": None, "true": True, "false": False}
    if text in words:
        return words[text]
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _json(value: object) -> Any:
    return json.loads(json.dumps(value))


def ours_and_theirs(pair: Pair) -> Iterator[tuple[str, str, Any, Any]]:
    """Option of ours and of PyTorch, and both defaults; what PyTorch's means is in our words."""
    known, recorded = options(pair.ours), TORCH["defaults"][pair.ours]
    for ours, theirs in pair.options:
        if pair.ours in OPTIMIZERS and (ours not in known or theirs not in recorded):
            continue
        value = _read(ours.strip('"')) if ours.startswith('"') else known[ours]
        if theirs == "-":
            yield ours, "", value, None
            continue
        default = recorded[recorded_as(ours, theirs)]
        said, means = pairs.MEANS.get((pair.ours, ours), (default, default))
        yield ours, theirs, value, means if default == said else default


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, bool) or isinstance(theirs, bool) or ours is None or theirs is None:
        return ours is theirs
    if isinstance(ours, str) or isinstance(theirs, str):
        return bool(ours == theirs)
    return float(ours) == pytest.approx(float(theirs), rel=1e-6)


@pytest.mark.parametrize("pair", pairs.all_pairs(), ids=lambda pair: pair.ours)
def test_defaults_are_those_of_pytorch(pair: Pair) -> None:
    for ours, theirs, value, default in ours_and_theirs(pair):
        if not theirs or ours == "lr":
            continue
        differs = (pair.ours, ours) in pairs.DIFFERENT
        assert same(value, default) != differs, f"{ours}: {value!r}, in PyTorch {default!r}"


def test_all_options_and_all_names_of_pytorch_are_compared() -> None:
    """Whoever adds an option or a function with PyTorch's name adds its pair."""
    compared = {pair.ours: {ours for ours, _ in pair.options} for pair in pairs.all_pairs()}
    names = {*TORCH["names"], *(name.removesuffix("_") for name in TORCH["names"])}
    for name in SIGNATURES:
        if options(name) and name not in pairs.OWN and (name in names or name in compared):
            missing = set(options(name)) - compared.get(name, set())
            known = DISTRIBUTIONS.get(name, "").split(", ") if name in DISTRIBUTIONS else []
            missing -= {key for key in known if key.startswith("fan")}
            assert not missing, f"{name}: {missing}"
    assert {name.lower() for name in TORCH["names"]} & OPTIMIZERS.keys() <= compared.keys()


def test_reasons_belong_to_options_that_exist() -> None:
    compared = {(pair.ours, ours) for pair in pairs.all_pairs() for ours, _ in pair.options}
    assert pairs.DIFFERENT.keys() <= compared
    assert pairs.MEANS.keys() <= compared


def figures(values: Any) -> dict[str, float]:
    numbers = np.asarray(values, np.float64)
    found = {"mean": numbers.mean(), "std": numbers.std(), "count": numbers.size}
    return {**found, "low": numbers.min(), "high": numbers.max()}


def drawn(init: Init, shape: tuple[int, ...], name: str) -> dict[str, float]:
    known = {"kind": init.kind, "args": dict(init.args), "values": list(init.values)}
    return figures([initial_values(known, shape, seed, name) for seed in range(SEEDS)])


def check_figures(ours: Mapping[str, float], theirs: Mapping[str, float], normal: bool) -> None:
    # Five standard errors, of both.
    error = 10 * theirs["std"] / ours["count"] ** 0.5
    assert ours["std"] == pytest.approx(theirs["std"], rel=TOLERANCE)
    assert ours["mean"] == pytest.approx(theirs["mean"], abs=error + 1e-6)
    if not normal:
        for end in ("low", "high"):
            assert ours[end] == pytest.approx(theirs[end], rel=TOLERANCE)


def initial_rows() -> Iterator[tuple[str, str, Init, tuple[int, ...], str, dict[str, float]]]:
    """Our layer and parameter, its initial values, PyTorch's layer and parameter with figures."""
    members = "\n".join(f"  l{i}: {ours}" for i, (ours, _, _) in enumerate(pairs.INITIAL))
    entry = "  entry run(x: f32) -> (y: f32) = x"
    found = program(f"model M {{\n{members}\n{entry}\n}}\n")
    states = {ref: shape for ref, shape in _states().items()}
    for i, (ours, theirs, names) in enumerate(pairs.INITIAL):
        for name in names.split():
            own, _, other = name.partition("=")
            tensor = found.params.get(f"l{i}.{own}")
            init, shape = (tensor.init, tensor.type.shape) if tensor else states[own]
            yield ours, own, init, shape, theirs, TORCH["initial"][theirs][other or own]


def _states() -> dict[str, tuple[Init, tuple[int, ...]]]:
    """State is part of a program only where an entry uses it."""
    entry = "entry run(x: f32[2, 300]) -> (y: f32[2, 300]) = n(x)"
    found = program(f"model M {{\n  n: BatchNorm[300]\n  {entry}\n}}\n").state
    return {path.removeprefix("n."): (ref.init, ref.type.shape) for path, ref in found.items()}


INITIAL = list(initial_rows())


@pytest.mark.parametrize("row", INITIAL, ids=lambda row: f"{row[0]}.{row[1]}")
def test_initial_values_are_distributed_as_in_pytorch(row: tuple[Any, ...]) -> None:
    ours, own, init, shape, _, theirs = row
    check_figures(drawn(init, shape, f"{ours}.{own}"), theirs, init.kind == "normal")


@pytest.mark.parametrize(("ours", "theirs"), pairs.DRAWN)
def test_distributions_are_those_of_pytorch(ours: str, theirs: str) -> None:
    text = f"model M {{\n  param w: {ours}\n  entry run() -> (y: f32) = sum(w)\n}}\n"
    tensor = program(text).params["w"]
    found = drawn(tensor.init, tensor.type.shape, "w")
    check_figures(found, TORCH["drawn"][theirs], "normal" in ours or "orthogonal" in ours)


def test_page_compares_every_default(bless: bool) -> None:
    golden.check_text(PAGE, page(), bless)


HEAD = """\
# Defaults, compared with PyTorch's

Every option that has a default, beside that of PyTorch {version}, whose signatures and initial
values were recorded by `tests/support/record_defaults.py`. A layer or function with PyTorch's
name starts and behaves as PyTorch's; where a default differs, the last column says why. `none: 1`
is PyTorch's `None`, which means 1 there. One thing has no option: `TransformerEncoderLayer` and
`TransformerDecoderLayer` do not drop attention weights.
Generated by `python3 dev.py bless -k test_defaults`.
"""


def page() -> str:
    lines = [HEAD.format(version=TORCH["version"])]
    for title, table in (("Layers", pairs.LAYERS), ("Functions", pairs.FUNCTIONS)):
        lines += section(title, pairs.read_pairs(table))
    lines += section("Optimizers", pairs.optimizer_pairs())
    lines += section("Distributions", pairs.read_pairs(pairs.DISTRIBUTIONS))
    lines += initial_section()
    return "\n".join(lines) + "\n"


def section(title: str, listed: list[Pair]) -> list[str]:
    lines = [f"## {title}\n", "| wgcc | option | default | PyTorch | option | default | |"]
    lines.append("|---|---|---|---|---|---|---|")
    for pair in listed:
        theirs_name = pair.theirs.removeprefix("aten::").partition(".dim")[0]
        for ours, theirs, value, default in ours_and_theirs(pair):
            own = "" if ours.startswith('"') else f"`{ours}`"
            other = {"": "", "()": "`dim`"}.get(theirs, f"`{theirs.removeprefix('forward.')}`")
            shown = _recorded(pair, ours, theirs, default) if theirs else ""
            remark = _remark(pair, ours, theirs)
            mine = REQUIRED if ours == "lr" else _shown(value)
            torch = f"`{theirs_name}` | {other} | {shown}"
            lines.append(f"| `{pair.ours}` | {own} | {mine} | {torch} | {remark} |")
    return [*lines, ""]


def _recorded(pair: Pair, ours: str, theirs: str, means: Any) -> str:
    default = TORCH["defaults"][pair.ours][recorded_as(ours, theirs)]
    shown = _shown(default)
    return shown if default == means else f"{shown}: {_shown(means)}"


def _remark(pair: Pair, ours: str, theirs: str) -> str:
    if not theirs:
        return "wgcc's own"
    if ours == "lr":
        return "a model says its own"
    return pairs.DIFFERENT.get((pair.ours, ours), "")


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"({', '.join(map(_shown, value))})"
    if isinstance(value, (bool, str)):
        return str(value).lower()
    return f"{value:.8g}"


def initial_section() -> list[str]:
    lines = ["## Initial values\n"]
    lines.append("Figures of PyTorch are measured; those of wgcc follow from its distribution.\n")
    lines.append("| wgcc | parameter | draws | PyTorch | mean | standard deviation | from | to |")
    lines.append("|---|---|---|---|---|---|---|---|")
    for ours, own, init, _, theirs, numbers in INITIAL:
        figures = " | ".join(f"{numbers[key]:.4g}" for key in ("mean", "std", "low", "high"))
        lines.append(f"| `{ours}` | `{own}` | {_draws(init)} | `{theirs}` | {figures} |")
    return lines


def _draws(init: Init) -> str:
    if init.kind == "value":
        return f"{init.values[0]:g}"
    if init.kind == "uniform":
        return f"uniform within ± {init.args['high']:.4g}"
    return f"{init.kind}, standard deviation {init.args['std']:g}"
