"""The language reference is complete, and every block and example in it is correct."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest

import golden
from adapters import ROOT
from elaborated import problems
from wgcc.elaborate.builtins import BUILTINS
from wgcc.elaborate.declarations.constants import DISTRIBUTIONS
from wgcc.elaborate.declarations.layers import MODEL_SETTINGS
from wgcc.ir.graph import DTYPES
from wgcc.ops.optimizers import OPTIMIZERS
from wgcc.ops.optimizers.kind import SETTINGS, Setting

PAGE = ROOT / "grammar" / "README.md"
TEXT = PAGE.read_text(encoding="utf-8")
FILES = dict(re.findall(r"```wgsl (\S+)\n(.*?)```", TEXT, re.DOTALL))
BLOCKS = re.findall(r"```wg\n(.*?)```", TEXT, re.DOTALL)
ROWS = re.findall(r"^\| `(\w+)\((.*?)\)` \| .* \| `(.*)` \|$", TEXT, re.MULTILINE)

# For the examples of `scan`, which takes a function, and of `wgsl`, which is the body of one.
FUNCTION = """fn add_up(total: f32, x: f32) { return total + x, total + x }
fn wiggle(x: f32[..]) -> f32[..] = wgsl("wiggle.wgsl")
"""


def errors(text: str) -> list[str]:
    return [found for found in problems(text, FILES) if not found.startswith("WG09")]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block_checks(number: int) -> None:
    assert errors(BLOCKS[number]) == []


def test_examples_of_built_in_functions_hold() -> None:
    examples = [example for _, _, example in ROWS]
    lines = [e if e.startswith("for ") else f"assert {e}" for e in examples]
    assert errors(FUNCTION + 'test "examples" {\n' + "\n".join(lines) + "\n}\n") == []


def test_every_built_in_is_described_with_its_signature() -> None:
    written = {name: parameters for name, parameters, _ in ROWS}
    assert written == {name: function.parameters for name, function in BUILTINS.items()}


def test_every_statement_and_item_is_described() -> None:
    """The keywords of the grammar: whoever adds a statement adds its row."""
    grammar = (ROOT / "grammar" / "wg.lark").read_text(encoding="utf-8")
    rules = grammar[: grammar.index("- tokens\n")]
    keywords = set(re.findall(r'"([a-z]+)"', rules)) | {"frozen", "remat", "or", "and"}
    code = " ".join(re.findall(r"`([^`]*)`", TEXT)) + " ".join(BLOCKS)
    missing = [word for word in sorted(keywords) if not re.search(rf"\b{word}\b", code)]
    assert missing == []


def test_every_distribution_type_and_model_setting_is_described() -> None:
    for name, parameters in DISTRIBUTIONS.items():
        signature = f"{name}({parameters})" if parameters else name
        assert f"| `{signature}` |" in TEXT, signature
    section = TEXT[TEXT.index("## Element types") : TEXT.index("## Built-in functions")]
    assert all(f"`{dtype}`" in section for dtype in DTYPES)
    assert all(f"| `{name} = " in TEXT for name in MODEL_SETTINGS)


def test_every_standard_layer_is_described_with_its_sizes_and_options() -> None:
    library = sorted((ROOT / "grammar" / "std").glob("*.wg"))
    source = "".join(path.read_text(encoding="utf-8") for path in library)
    section = TEXT[TEXT.index("## Standard layers") : TEXT.index("## Initial values")]
    for layer in re.finditer(r"^layer (\w+)(\[[^\]]*\])?(\([^)]*\))?", source, re.MULTILINE):
        name, sizes, options = layer.groups()
        plain = re.sub(r":\s*\w+", "", " ".join((options or "").split()))
        assert f"| `{name}{sizes or ''}{plain.replace('( ', '(').replace(' )', ')')}` |" in section
    for function in re.findall(r"^fn ([a-z]\w*)", source, re.MULTILINE):
        assert function in BUILTINS or f"| `{function}(" in section


def test_table_of_optimizer_settings(bless: bool) -> None:
    head = "| setting | of | default | may be | meaning |\n|---|---|---|---|---|\n"
    produced = head + "".join(f"{row}\n" for row in setting_rows())
    start = TEXT.index(head)
    end = TEXT.index("\n\n", start) + 1
    golden.check_text(PAGE, TEXT[:start] + produced + TEXT[end:], bless)


def setting_rows() -> Iterator[str]:
    for name, setting in SETTINGS.items():
        kinds = [kind for kind in OPTIMIZERS.values() if name in kind.settings]
        owners = "all" if len(kinds) == len(OPTIMIZERS) else ", ".join(k.name for k in kinds)
        if setting.per_group:
            owners = f"{owners}, groups" if owners else "groups"
        defaults = {kind.name: kind.defaults[name] for kind in kinds if name in kind.defaults}
        if name == "lr":
            defaults = {}  # there is one, but a model must say its own
        yield (
            f"| `{name}` | {owners} | {_default(defaults)} | {_values(setting)} | "
            f"{setting.meaning} |"
        )


def _default(defaults: Mapping[str, object]) -> str:
    """What most have comes first, without their names."""
    names: dict[str, list[str]] = {}
    for name, value in defaults.items():
        names.setdefault(_number(value), []).append(name)
    texts = sorted(names, key=lambda text: -len(names[text]))
    others = [f"{text} ({', '.join(names[text])})" for text in texts[1:]]
    return "; ".join([texts[0], *others]) if texts else "not set"


def _number(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(f'{number:g}' for number in value)})"
    return str(value).lower()


def _values(setting: Setting) -> str:
    if setting.form == "bool":
        return "`true` or `false`"
    if setting.form == "word":
        return " or ".join(f'`"{word}"`' for word in setting.words)
    forms = {"pair": "two numbers, each ", "whole": "a whole number, ", "triple": "three numbers, "}
    what = forms.get(setting.form, "")
    return f"{what}{setting.bounds}" + ("; may use `step`" if setting.dynamic else "")
