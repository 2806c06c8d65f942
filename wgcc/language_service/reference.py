"""Documentation of built-ins, standard layers and optimizer settings, from the language's pages.

The tables of `grammar/README.md` and `grammar/DEFAULTS.md` are compared with the compiler by the
tests, so they are its documentation here, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from wgcc.files import data_dir

_ROW = re.compile(r"^\| `(?P<signature>(?P<name>\w+)[\[(].*?)` \| (?P<cells>.*) \|$", re.M)
_PYTORCH = re.compile(
    r"^\| `(\w+)` \| (.*?) \| (.*?) \| `([\w.]+)` \| (.*?) \| (.*?) \| (.*?) \|$", re.M
)
_SETTING = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", re.M)
_CELLS = re.compile(r"(?<!\\) \| ")


@dataclass(frozen=True, slots=True)
class Entry:
    """One row: `axis=none` is a parameter as the signature has it."""

    name: str
    signature: str
    meaning: str
    example: str = ""
    pytorch: str = ""

    @property
    def is_layer(self) -> bool:
        return self.name[:1].isupper()


@cache
def reference() -> dict[str, Entry]:
    """All built-in functions, standard layers and functions of the library, by name."""
    functions, layers = _section("Built-in functions"), _section("Standard layers")
    counterparts = _counterparts()
    rows: dict[str, Entry] = {}
    for section, has_example in ((functions, True), (layers, False)):
        for row in _ROW.finditer(section):
            first, _, second = row["cells"].rpartition(" | ")
            meaning, example = (first, second.strip("`")) if has_example else (second, "")
            if not has_example and first.strip():
                meaning = f"{meaning}\n\nHas {first.strip()}."
            meaning, name = meaning.lstrip("| "), row["name"]
            rows.setdefault(
                name,
                Entry(name, row["signature"], meaning, example, counterparts.get(name, "")),
            )
    return rows


@cache
def optimizer_settings() -> dict[str, str]:
    """Settings of optimizers and what they mean, with their defaults."""
    section = _section("Optimizers")
    return {
        row[1]: f"{row[5]}. Default: {row[3]}. Of {row[2]}." for row in _SETTING.finditer(section)
    }


@cache
def _counterparts() -> dict[str, str]:
    """`softmax` → "PyTorch: `F.softmax`", with the options that are called or set otherwise."""
    heads: dict[str, str] = {}
    options: dict[str, list[str]] = {}
    for name, option, default, theirs, their_option, their_default, why in _PYTORCH.findall(
        _page("DEFAULTS.md")
    ):
        heads.setdefault(name, f"PyTorch: `{theirs}`")
        if their_option.strip() and option.strip() != their_option.strip():
            options.setdefault(name, []).append(f"{option} is its {their_option}")
        if why.strip() and their_default.strip():
            options.setdefault(name, []).append(
                f"{option} = {default}, there {their_default}: {why.strip()}"
            )
    return {name: "; ".join([head, *options.get(name, [])]) for name, head in heads.items()}


def _section(heading: str) -> str:
    return _page("README.md").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def _page(name: str) -> str:
    return (data_dir("grammar") / name).read_text(encoding="utf-8")
