"""Joins ES modules into the files that a bundle ships, one per folder of modules.

The modules of one file are put into one scope, each after those it imports, so that the result
reads like the modules. This requires that a name is declared once per file, and that modules use
only the forms of import and export that `read_module` knows.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile

from wgcc.bundle.json_text import json_text
from wgcc.bundle.modules import JoinError, Module, Names, read_module

Texts = Mapping[str, str]
Exports = Mapping[str, Mapping[str, str]]
LINE = 70


def join_modules(
    texts: Texts, files: Texts, data: Texts, folders: Texts | None = None
) -> dict[str, str]:
    """The text of each file. `texts`: modules by path; `data`: JSON texts by file name.

    `files` maps each file to the module that defines its exports; all modules it imports in its
    own folder go into the file, others belong to the file of their folder. `folders` maps more
    folders to files.
    """
    targets = dict(folders or {})
    targets |= {posixpath.dirname(entry): name for name, entry in files.items()}
    joined = {name: _closure(texts, entry, targets) for name, entry in files.items()}
    wanted = _wanted(joined, targets)
    return {
        name: _File(name, modules, targets, data).text({*wanted[name], *modules[-1].exports})
        for name, modules in joined.items()
    }


def _closure(texts: Texts, entry: str, targets: Texts) -> list[Module]:
    """The modules of one file that `entry` imports, each after those it needs itself."""
    name = targets[posixpath.dirname(entry)]
    modules: dict[str, Module] = {}
    path_here: list[str] = []

    def visit(path: str) -> None:
        if path in path_here:
            cycle = " -> ".join([*path_here[path_here.index(path) :], path])
            raise JoinError(f"{path}: modules import each other: {cycle}")
        if path in modules:
            return
        if path not in texts:
            raise JoinError(f"{path_here[-1] if path_here else path}: there is no module {path}")
        path_here.append(path)
        module = read_module(path, texts[path])
        for other in (*module.imports, *module.exports.values()):
            if targets.get(posixpath.dirname(other)) == name and other != path:
                visit(other)
        path_here.pop()
        modules[path] = module

    visit(entry)
    return list(modules.values())


def _wanted(joined: Mapping[str, list[Module]], targets: Texts) -> dict[str, set[str]]:
    """What each file must export, because another imports it."""
    exports = {module.path: module.exports for parts in joined.values() for module in parts}
    wanted: dict[str, set[str]] = {name: set() for name in joined}
    for name, parts in joined.items():
        for module in parts:
            for other, imported in module.imports.items():
                _check_exported(module.path, other, imported, exports)
            for other, imported in (*module.imports.items(), *module.types.items()):
                target = targets[posixpath.dirname(other)]
                # Types that are classes are exported too; others are comments.
                if target != name:
                    wanted[target].update(one for one in imported if one in exports.get(other, ()))
    return wanted


def _check_exported(path: str, other: str, names: Iterable[str], exports: Exports) -> None:
    for name in names:
        if name not in exports.get(other, ()):
            raise JoinError(f"{path}: {other} does not export {name}")


class _File:
    """One file that is joined from modules; the exports are those of the last."""

    def __init__(self, name: str, modules: list[Module], targets: Texts, data: Texts) -> None:
        self._name, self._modules, self._targets, self._data = name, modules, targets, data
        self._constants: set[str] = set()

    def text(self, exports: set[str]) -> str:
        self._check_names()
        *codes, last = [(module.path, self._code(module)) for module in self._modules]
        header = "".join(takewhile(_is_remark, last[1].splitlines(keepends=True)))
        codes.append((last[0], last[1][len(header) :].strip()))
        parts = [
            f"{header.strip()}\n// Joined by `wgcc build` from the modules named below.",
            "\n".join(self._imported()),
            *(f"// ---- {path}\n\n{code}" for path, code in codes if code),
            f"export {_braced(exports)};",
        ]
        return "\n\n".join(filter(None, parts)) + "\n"

    def _code(self, module: Module) -> str:
        new = {name: file for name, file in module.data.items() if name not in self._constants}
        self._constants |= new.keys()
        constants = [f"const {name} = {json_text(self._data[file])};" for name, file in new.items()]
        code = module.code(lambda path: f"import('{self._place(path)}')")
        return "\n\n".join([*constants, code])

    def _imported(self) -> Iterator[str]:
        """Imports from other files: of code, and of types, which are comments."""
        yield from self._imports("import {} from '{}';", lambda module: module.imports)
        yield from self._imports("/** @import {} from '{}' */", lambda module: module.types)

    def _imports(self, form: str, groups_of: Callable[[Module], Names]) -> Iterator[str]:
        names: dict[str, set[str]] = {}
        for module in self._modules:
            for path, imported in groups_of(module).items():
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
            claims = {**dict.fromkeys(module.declared, module.path), **module.data}
            for other, names in module.imports.items():
                claims |= dict.fromkeys(names, other)
            for name, owner in claims.items():
                if owners.setdefault(name, owner) != owner:
                    raise JoinError(f"{owner}: {name} is also declared in {owners[name]}")


def _is_remark(line: str) -> bool:
    return line.startswith("//")


def _braced(names: Iterable[str]) -> str:
    """Names in braces, each on its own line if there are many."""
    line = f"{{ {', '.join(sorted(names))} }}"
    if len(line) <= LINE:
        return line
    return "{\n" + "".join(f"  {name},\n" for name in sorted(names)) + "}"
