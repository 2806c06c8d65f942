"""ES modules of ours, read by their tokens and joined into the files that a bundle ships.

Only the forms of import and export below are known; anything else is a `JoinError` that names the
module. The modules of one file (one per folder) are put into one scope, each after those it
imports, so that the result reads like the modules; a name is declared once per file.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile

from wgcc.bundle.javascript import JavaScriptError, ScriptToken, json_text, tokenize

Names = dict[str, tuple[str, ...]]
_DECLARING = frozenset(("async", "function", "class", "const", "let"))
_WORDS = _DECLARING | {"import", "export", "var"}
_END = ScriptToken("end", "", 0, 0, False)


class JoinError(Exception):
    """A module that cannot be joined: a mistake in the source of the runtime."""


@dataclass
class ScriptModule:
    """Imports are names by module, `types` those of comments; exports are modules by name."""

    path: str
    text: str
    imports: Names = field(default_factory=dict)
    types: Names = field(default_factory=dict)
    # Files of JSON by the name of their value.
    data: dict[str, str] = field(default_factory=dict)
    exports: dict[str, str] = field(default_factory=dict)
    declared: list[str] = field(default_factory=list)
    # Spans of imports and exports, which `code` leaves out.
    removed: list[tuple[int, int]] = field(default_factory=list)
    # Calls `import('…')`: their spans, and the modules they load.
    loads: list[tuple[int, int, str]] = field(default_factory=list)

    def code(self, load: Callable[[str], str]) -> str:
        """The text without imports and exports; `load` writes the call that loads a module."""
        edits = [(start, end, "") for start, end in self.removed]
        edits += [(start, end, load(path)) for start, end, path in self.loads]
        parts, at = [], 0
        for start, end, text in sorted(edits):
            parts += [self.text[at:start], text]
            at = end
        return "".join([*parts, self.text[at:]]).strip()


@lru_cache(maxsize=512)
def read_module(path: str, text: str) -> ScriptModule:
    module = ScriptModule(path, text)
    try:
        _Reader(module, tokenize(text)).read_all()
    except JavaScriptError as error:
        raise JoinError(f"{path}: {error}") from error
    return module


def _inside(comment: ScriptToken) -> Iterator[ScriptToken]:
    """The tokens of a comment without the stars that begin its lines."""
    tokens = tokenize(comment.text.removeprefix("/**").removesuffix("*/"))
    return (token._replace(start=comment.start) for token in tokens if token.text != "*")


class _Reader:
    """Reads tokens one after the other; `_peeked` is the next one, if it is known already."""

    def __init__(self, module: ScriptModule, tokens: Iterator[ScriptToken]) -> None:
        self._module, self._tokens = module, tokens
        self._peeked: ScriptToken | None = None
        self._last = ";"

    def read_all(self) -> None:
        while True:
            before = self._last
            token = self._take()
            if token is _END:
                return
            if token.text not in _WORDS or token.kind != "name":
                continue
            if token.text == "import" and self._next().text in ("(", "."):
                self._read_load(token)
            elif token.depth == 0 and before in (";", "}"):
                self._read_statement(token)
            elif token.text in ("import", "export") and not self._is_property(before):
                raise self._error(token)

    def _is_property(self, before: str) -> bool:
        """Whether the last name is one of an object: `a.import`, or `{ import: 1 }`."""
        return before in (".", "?.") or self._next().text == ":"

    def read_types(self, comment: ScriptToken) -> None:
        """`@import { A, B } from './module.js'`, which is all that the comment says."""
        if (self._take().text, self._take().text) != ("@", "import"):
            raise self._error(comment)
        self._read_names(comment, self._module.types)
        if self._next() is not _END:
            raise self._error(comment)
        self._remove(comment.start, comment.end)

    def _read_statement(self, first: ScriptToken) -> None:
        if first.text == "import":
            self._read_import(first)
        elif first.text != "export":
            self._declare(first)
        elif self._next().text == "{":
            self._read_exports(first)
        else:
            keyword = self._take()
            if keyword.text not in _DECLARING:
                raise self._error(first)
            count = len(self._module.declared)
            self._declare(keyword)
            names = self._module.declared[count:]
            self._module.exports |= dict.fromkeys(names, self._module.path)
            self._remove(first.start, keyword.start)

    def _read_import(self, first: ScriptToken) -> None:
        if self._next().kind == "name":
            name = self._take().text
            self._expect(first, "from")
            self._module.data[name] = posixpath.basename(self._take_string(first))
            self._expect(first, "with", "{", "type", ":", "'json'")
            if self._next().text == ",":
                self._take()
            self._expect(first, "}")
        else:
            self._read_names(first, self._module.imports)
        self._remove(first.start, self._expect(first, ";").end)

    def _read_exports(self, first: ScriptToken) -> None:
        """`export { a };`, or `export { a } from './module.js';`."""
        names = self._take_names(first)
        owner = self._module.path
        if self._next().text == "from":
            self._take()
            owner = self._resolve(self._take_string(first))
        self._module.exports |= dict.fromkeys(names, owner)
        self._remove(first.start, self._expect(first, ";").end)

    def _read_names(self, first: ScriptToken, groups: Names) -> None:
        """`{ a, b } from './module.js'`: adds the names to those of the module."""
        names = self._take_names(first)
        self._expect(first, "from")
        other = self._resolve(self._take_string(first))
        groups[other] = (*groups.get(other, ()), *names)

    def _take_names(self, first: ScriptToken) -> list[str]:
        self._expect(first, "{")
        names = []
        while self._next().text != "}":
            name = self._take()
            if name.kind != "name":
                raise self._error(first)
            if self._next().text == "as":
                raise JoinError(
                    f"{self._module.path}: this cannot be joined, because it renames: {name.text}"
                )
            names.append(name.text)
            if self._next().text != "}":
                self._expect(first, ",")
        self._take()
        return names

    def _declare(self, keyword: ScriptToken) -> None:
        word = keyword.text
        if word == "async":
            word = self._take().text
        if word == "function" and self._next().text == "*":
            self._take()
        if word in ("const", "let") and self._next().text in ("{", "["):
            self._declare_parts(keyword)
            return
        name = self._take()
        if word not in _DECLARING or name.kind != "name":
            raise self._error(keyword)
        self._module.declared.append(name.text)

    def _declare_parts(self, keyword: ScriptToken) -> None:
        """`{ a, b }` or `[a, b]`: names alone."""
        self._take()
        while self._next().text not in ("}", "]"):
            token = self._take()
            if token.kind == "name":
                self._module.declared.append(token.text)
            elif token.text != ",":
                raise self._error(keyword)

    def _read_load(self, first: ScriptToken) -> None:
        """`import('./module.js')`; `import.meta` and paths that are computed stay as they are."""
        if self._take().text == "(" and self._next().kind == "string":
            path = self._resolve(self._take_string(first))
            self._module.loads.append((first.start, self._expect(first, ")").end, path))

    def _resolve(self, place: str) -> str:
        """Modules outside of runtime_js name those inside by this folder."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self._module.path), place))
        return path.removeprefix("../runtime_js/")

    def _remove(self, start: int, end: int) -> None:
        """Removes a span with the blanks behind it."""
        text = self._module.text
        while end < len(text) and text[end].isspace():
            end += 1
        self._module.removed.append((start, end))

    def _next(self) -> ScriptToken:
        if self._peeked is None:
            self._peeked = self._read_token()
        return self._peeked

    def _take(self) -> ScriptToken:
        token = self._peeked or self._read_token()
        self._peeked, self._last = None, token.text
        return token

    def _read_token(self) -> ScriptToken:
        """The next one that is no comment. Types that a comment imports are read."""
        for token in self._tokens:
            if token.kind != "comment":
                return token
            if "@import" in token.text:
                _Reader(self._module, _inside(token)).read_types(token)
        return _END

    def _take_string(self, first: ScriptToken) -> str:
        if self._next().kind != "string":
            raise self._error(first)
        return self._take().text[1:-1]

    def _expect(self, first: ScriptToken, *texts: str) -> ScriptToken:
        """The last of these tokens, which must come next."""
        for text in texts:
            token = self._take()
            if token.text != text:
                raise self._error(first)
        return token

    def _error(self, first: ScriptToken) -> JoinError:
        line = self._module.text[first.start :].partition("\n")[0]
        return JoinError(f"{self._module.path}: this cannot be joined: {line}")


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
    wanted = _needed_exports(joined, targets)
    return {
        name: _File(name, modules, targets, data).text({*wanted[name], *modules[-1].exports})
        for name, modules in joined.items()
    }


def _closure(texts: Texts, entry: str, targets: Texts) -> list[ScriptModule]:
    """The modules of one file that `entry` imports, each after those it needs itself."""
    name = targets[posixpath.dirname(entry)]
    modules: dict[str, ScriptModule] = {}
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


def _needed_exports(
    joined: Mapping[str, list[ScriptModule]], targets: Texts
) -> dict[str, set[str]]:
    """The names that each file must export, because another imports them."""
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

    def __init__(self, name: str, modules: list[ScriptModule], targets: Texts, data: Texts) -> None:
        self._name, self._modules, self._targets, self._data = name, modules, targets, data
        self._constants: set[str] = set()

    def text(self, exports: set[str]) -> str:
        self._check_names()
        *codes, last = [(module.path, self._code(module)) for module in self._modules]
        header = "".join(takewhile(_is_remark, last[1].splitlines(keepends=True)))
        codes.append((last[0], last[1][len(header) :].strip()))
        parts = [
            f"{header.strip()}\n// Joined by `wgcc build` from the modules named below.",
            "\n".join(self._import_lines()),
            *(f"// ---- {path}\n\n{code}" for path, code in codes if code),
            f"export {_in_braces(exports)};",
        ]
        return "\n\n".join(filter(None, parts)) + "\n"

    def _code(self, module: ScriptModule) -> str:
        new = {name: file for name, file in module.data.items() if name not in self._constants}
        self._constants |= new.keys()
        constants = [f"const {name} = {json_text(self._data[file])};" for name, file in new.items()]
        code = module.code(lambda path: f"import('{self._place(path)}')")
        return "\n\n".join([*constants, code])

    def _import_lines(self) -> Iterator[str]:
        """Imports from other files: of code, and of types, which are comments."""
        yield from self._imports("import {} from '{}';", lambda module: module.imports)
        yield from self._imports("/** @import {} from '{}' */", lambda module: module.types)

    def _imports(self, form: str, groups_of: Callable[[ScriptModule], Names]) -> Iterator[str]:
        names: dict[str, set[str]] = {}
        for module in self._modules:
            for path, imported in groups_of(module).items():
                if self._targets[posixpath.dirname(path)] != self._name:
                    names.setdefault(self._place(path), set()).update(imported)
        for place, imported_names in sorted(names.items()):
            yield form.format(_in_braces(imported_names), place)

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


def _in_braces(names: Iterable[str]) -> str:
    """Names in braces, each on its own line if there are many."""
    line = f"{{ {', '.join(sorted(names))} }}"
    if len(line) <= LINE:
        return line
    return "{\n" + "".join(f"  {name},\n" for name in sorted(names)) + "}"
