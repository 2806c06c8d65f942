"""Joins ES modules into the files that a bundle ships, one per folder of modules.

The modules of one file are put into one scope, each after those it imports, so that the result
reads like the modules. This requires that a name is declared once per file, and that modules use
only the forms of import and export below; anything else is a `JoinError` that names the module.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from wgcc.bundle.json_text import json_text

Texts = Mapping[str, str]
Names = dict[str, tuple[str, ...]]
Exports = Mapping[str, Mapping[str, str]]

_IMPORT = re.compile(r"^import \{([^}]*)\} from '([^']+)';\n", re.MULTILINE)
_JSON = re.compile(r"^import (\w+) from '([^']+\.json)' with \{ type: 'json' \};\n", re.MULTILINE)
_TYPES = re.compile(
    r"^/\*\*[\s*]* @import \{([^}]*)\}[\s*]* from '([^']+)'[\s*]*\*/\n", re.MULTILINE
)
_AGAIN = re.compile(r"^export \{([^}]*)\} from '([^']+)';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|class|const|let)", re.MULTILINE)
_DECLARED = re.compile(
    r"^(export )?(?:(?:async )?function\*?|class|const|let) ([\w$]+)", re.MULTILINE
)
_DYNAMIC = re.compile(r"\bimport\('([^']+)'\)")
_OTHER = re.compile(
    r"^(?:(?:import|export)\b|(?:const|let|var) [\[{]|var |[ /*]*@import\b).*", re.MULTILINE
)
LINE = 70


class JoinError(Exception):
    """A module that cannot be joined: a mistake in the source of the runtime."""


@dataclass(frozen=True)
class _Module:
    """`code` is without imports and exports. Imports are names by module, exports by name."""

    path: str
    code: str
    imports: Names
    types: Names
    data: dict[str, str]
    exports: dict[str, str]
    declared: tuple[str, ...]


def join_modules(texts: Texts, files: Texts, data: Texts) -> dict[str, str]:
    """The text of each file. `texts`: modules by path; `data`: JSON texts by file name.

    `files` maps each file to the module that defines its exports; all modules it imports in its
    own folder go into the file, others belong to the file of their folder.
    """
    joined = {name: _closure(texts, entry) for name, entry in files.items()}
    targets = {posixpath.dirname(entry): name for name, entry in files.items()}
    wanted = _wanted(joined, targets)
    return {
        name: _File(name, modules, targets, data).text({*wanted[name], *modules[-1].exports})
        for name, modules in joined.items()
    }


def _closure(texts: Texts, entry: str) -> list[_Module]:
    """The modules of one folder that `entry` imports, each after those it needs itself."""
    found: dict[str, _Module] = {}
    path_here: list[str] = []

    def visit(path: str) -> None:
        if path in path_here:
            cycle = " -> ".join([*path_here[path_here.index(path) :], path])
            raise JoinError(f"{path}: modules import each other: {cycle}")
        if path in found:
            return
        if path not in texts:
            raise JoinError(f"{path_here[-1] if path_here else path}: there is no module {path}")
        path_here.append(path)
        module = _parse(path, texts[path])
        for other in (*module.imports, *module.exports.values()):
            if posixpath.dirname(other) == posixpath.dirname(entry) and other != path:
                visit(other)
        path_here.pop()
        found[path] = module

    visit(entry)
    return list(found.values())


def _parse(path: str, text: str) -> _Module:
    def resolved(place: str) -> str:
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), place))

    def names(pattern: re.Pattern[str]) -> Names:
        found: Names = {}
        for match in pattern.finditer(text):
            other = resolved(match[2])
            found[other] = (*found.get(other, ()), *_split(path, match[1]))
        return found

    exports = {name: other for other, group in names(_AGAIN).items() for name in group}
    declared = _DECLARED.findall(text)
    exports |= {name: path for keyword, name in declared if keyword}
    code = text
    for pattern in (_IMPORT, _JSON, _TYPES, _AGAIN, _EXPORT):
        code = pattern.sub("", code)
    unknown = _OTHER.search(code)
    if unknown:
        raise JoinError(f"{path}: this cannot be joined: {unknown[0]}")
    return _Module(
        path=path,
        code=re.sub(r"\n{3,}", "\n\n", code).strip(),
        imports=names(_IMPORT),
        types=names(_TYPES),
        data={name: posixpath.basename(place) for name, place in _JSON.findall(text)},
        exports=exports,
        declared=tuple(name for _, name in declared),
    )


def _split(path: str, group: str) -> list[str]:
    names = [name.strip(" *\n") for name in group.split(",") if name.strip(" *\n")]
    for name in names:
        if not re.fullmatch(r"[\w$]+", name):
            raise JoinError(f"{path}: this cannot be joined, because it renames: {name}")
    return names


def _wanted(joined: Mapping[str, list[_Module]], targets: Texts) -> dict[str, set[str]]:
    """What each file must export, because another imports it."""
    exports = {module.path: module.exports for parts in joined.values() for module in parts}
    found: dict[str, set[str]] = {name: set() for name in joined}
    for name, parts in joined.items():
        for module in parts:
            for other, imported in module.imports.items():
                _check_exported(module.path, other, imported, exports)
            for other, imported in (*module.imports.items(), *module.types.items()):
                target = targets[posixpath.dirname(other)]
                # Types that are classes are exported too; others are comments.
                if target != name:
                    found[target].update(one for one in imported if one in exports.get(other, ()))
    return found


def _check_exported(path: str, other: str, names: Iterable[str], exports: Exports) -> None:
    for name in names:
        if name not in exports.get(other, ()):
            raise JoinError(f"{path}: {other} does not export {name}")


class _File:
    """One file that is joined from modules; the exports are those of the last."""

    def __init__(self, name: str, modules: list[_Module], targets: Texts, data: Texts) -> None:
        self._name, self._modules, self._targets, self._data = name, modules, targets, data

    def text(self, exports: set[str]) -> str:
        self._check_names()
        header = re.match(r"(//.*\n?)*", self._modules[-1].code)
        assert header
        parts = [
            f"{header[0].strip()}\n// Joined by `wgcc build` from the modules named below.",
            "\n".join(self._imported()),
            *(f"// ---- {module.path}\n\n{code}" for module, code in self._codes(len(header[0]))),
            f"export {_braced(exports)};",
        ]
        return "\n\n".join(filter(None, parts)) + "\n"

    def _codes(self, header: int) -> Iterator[tuple[_Module, str]]:
        for module in self._modules:
            code = module.code[header:] if module is self._modules[-1] else module.code
            data = "".join(
                f"const {name} = {json_text(self._data[file])};\n\n"
                for name, file in module.data.items()
            )
            if data or code.strip():
                yield module, data + _DYNAMIC.sub(partial(self._dynamic, module), code).strip()

    def _dynamic(self, module: _Module, match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(module.path), match[1]))
        return f"import('{self._place(path)}')"

    def _imported(self) -> Iterator[str]:
        """Imports from other files: of code, and of types, which are comments."""
        for form, groups in (
            ("import {} from '{}';", [module.imports for module in self._modules]),
            ("/** @import {} from '{}' */", [module.types for module in self._modules]),
        ):
            names: dict[str, set[str]] = {}
            for group in groups:
                for path, imported in group.items():
                    if self._targets[posixpath.dirname(path)] != self._name:
                        names.setdefault(self._place(path), set()).update(imported)
            for place, imported_names in sorted(names.items()):
                yield form.format(_braced(imported_names), place)

    def _place(self, path: str) -> str:
        """The path of the module's file, relative to this one."""
        target = self._targets[posixpath.dirname(path)]
        place = posixpath.relpath(target, posixpath.dirname(self._name) or ".")
        return place if place.startswith(".") else f"./{place}"

    def _check_names(self) -> None:
        """A name is declared once, or means the same in all modules."""
        owners: dict[str, str] = {}
        for module in self._modules:
            claims = {name: module.path for name in (*module.declared, *module.data)}
            for other, names in module.imports.items():
                claims |= dict.fromkeys(names, other)
            for name, owner in claims.items():
                if owners.setdefault(name, owner) != owner:
                    raise JoinError(f"{owner}: {name} is also declared in {owners[name]}")


def _braced(names: Iterable[str]) -> str:
    """Names in braces, each on its own line if there are many."""
    line = f"{{ {', '.join(sorted(names))} }}"
    if len(line) <= LINE:
        return line
    return "{\n" + "".join(f"  {name},\n" for name in sorted(names)) + "}"
