"""Loads files and declares what they define: imports, dims, constants, layers, functions, tests."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from wgcc.elaborate.declarations.constants import check_assertion, declare_const, declare_dim
from wgcc.elaborate.report import Place, Stop
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.values import (
    BUILT_IN,
    FAILED,
    AnyValue,
    DtypeValue,
    FunctionValue,
    LayerDefinition,
    LayerType,
    LoadedFile,
    ModuleValue,
    Scope,
    Text,
)
from wgcc.errors import Diagnostic, Diagnostics, Source, Span
from wgcc.files import LARGEST_TEXT, Unreadable, data_dir, keep_cached, read_cached, read_text
from wgcc.kernel.own.read import OwnFunction, WrongWgsl, read_functions
from wgcc.live_settings import with_settings
from wgcc.syntax import ast
from wgcc.syntax.parser import parse
from wgcc.syntax.tree_text import decode, encode, walk

PRELUDE = "nn.wg"
# Read only for programs that use one of their names.
ON_DEMAND = ("recurrent.wg", "losses.wg", "matrices.wg", "channels.wg", "packed.wg")
# Nested imports: each level takes some of the stack.
MOST_NESTED = 50
MOST_FILES = 1000
WGSL = ".wgsl"


# The trees of a program's own files, by path and text.
Trees = dict[tuple[Path, str], ast.File]


class Loader:
    """Reads each file once. `sizes` are for dims and consts, from outside (`--set`).

    `trees` has what an earlier load of the program parsed, whose messages were reported then.
    """

    def __init__(self, context: Context, sizes: Mapping[str, float], trees: Trees) -> None:
        self.context = context
        self.sizes = sizes
        self._trees = trees
        self.used_sizes: set[str] = set()
        self._files: dict[Path, LoadedFile] = {}
        self._loading: list[Path] = []
        self._prelude: LoadedFile | None = None
        self._root = self._shown_folder = Path()
        self._given: Mapping[str, str] = {}
        self._own: dict[Path, Mapping[str, OwnFunction]] = {}
        self._length = 0
        self._read = 0

    @property
    def files(self) -> list[LoadedFile]:
        """The files that were read, except those of the library."""
        library = self.context.report.library
        return [file for file in self._files.values() if file.source not in library]

    def file_of(self, source: Source) -> LoadedFile:
        """The file of a text that was read."""
        return next(file for file in self._files.values() if file.source is source)

    def load_root(self, root: Path | Source) -> LoadedFile:
        """The program itself, after the library. A file that cannot be read is a `WgError`."""
        path = Path(root.path) if isinstance(root, Source) else root
        self._root, self._shown_folder = _resolve(path.parent), path.parent
        library = data_dir("grammar") / "std" / PRELUDE
        if _resolve(path) != _resolve(library):
            self._prelude = self._load_library(library)
        source = root if isinstance(root, Source) else Source(path.name, read_text(path), str(path))
        # `opt.lr`: dims and consts have no dots.
        if settings := {name: n for name, n in self.sizes.items() if "." in name}:
            source = with_settings(source, settings)
            self.used_sizes.update(settings)
        self._given = source.files
        self._count(path, source.text)
        self._load_used(source.text)
        tree = self._parse(source, _resolve(path))
        self.context.report.root = tree.span.source
        return self._declare(tree, _resolve(path))

    def _parse(self, source: Source, path: Path) -> ast.File:
        key = path, source.text
        if key not in self._trees:
            self._trees[key] = parse(source, self.context.report.diagnostics)
        return self._trees[key]

    def built_in(self, name: str) -> AnyValue:
        """A built-in function that is written in the language; it is read at its first use."""
        path = data_dir("grammar") / BUILT_IN
        file = self._files.get(_resolve(path)) or self._load_library(path)
        return file.scope.names[name]

    def _load_used(self, text: str) -> None:
        """The files of the library that define a word of `text`; their names join the others.

        Capitals do not matter, so that `Lstm` can be corrected.
        """
        words = set(re.findall(r"[a-z_]\w*", text.lower()))
        for path in (data_dir("grammar") / "std" / name for name in ON_DEMAND):
            if self._prelude and _resolve(path) not in self._files and words & _defined_names(path):
                library = self._load_library(path)
                names = {name: library.scope.names[name] for name in library.places}
                self._prelude.scope.names.update(names)

    def _load_library(self, path: Path) -> LoadedFile:
        tree, problems = _library(path)
        self.context.report.diagnostics.items += problems
        self.context.report.library.add(tree.span.source)
        return self._declare(tree, _resolve(path))

    def _declare(self, tree: ast.File, path: Path) -> LoadedFile:
        source = tree.span.source
        above = self._prelude.scope if self._prelude else self.context.base
        file = LoadedFile(source, path, tree, Scope(above))
        self._loading.append(path)
        try:
            with self.context.within(file.scope, ""):
                self._declare_items(file)
        finally:
            self._loading.pop()
        self._files[path] = file
        return file

    def _declare_items(self, file: LoadedFile) -> None:
        """Code first: functions and layers may be used before the line that defines them."""
        for item in file.tree.items:
            self._define_code(file, item)
        for item in file.tree.items:
            try:
                self._define_values(file, item)
            except Stop:
                continue

    def _define_code(self, file: LoadedFile, item: ast.Item) -> None:
        if isinstance(item, ast.Layer):
            definition = LayerDefinition(item.name.text, item, file)
            (file.models if item.is_model else file.layers).append(definition)
            self._define(file, item.name, LayerType(definition))
        elif isinstance(item, ast.Function):
            function = FunctionValue(item.name.text, item, file.scope, file)
            file.functions.append(function)
            self._define(file, item.name, function)
        elif isinstance(item, ast.DtypeAlias):
            self._define(file, item.name, DtypeValue(item.dtype.text))
        elif isinstance(item, ast.Test):
            file.tests.append(item)
        elif isinstance(item, ast.Broken):
            for name in item.names:
                file.scope.names.setdefault(name, FAILED)
        elif isinstance(item, ast.Dims):
            file.scope.pending.update(dim.name.text for dim in item.dims)
        elif isinstance(item, ast.Const):
            file.scope.pending.add(item.name.text)

    def _define_values(self, file: LoadedFile, item: ast.Item) -> None:
        context = self.context
        if isinstance(item, ast.ImportNames):
            self._import_names(file, item)
        elif isinstance(item, ast.ImportModule):
            other = self._import(file, item.path)
            self._define(file, item.name, ModuleValue(other) if other else FAILED)
        elif isinstance(item, ast.Dims):
            for dim in item.dims:
                self._define(
                    file, dim.name, declare_dim(context, dim, self._given_size(file, dim.name))
                )
        elif isinstance(item, ast.Const):
            size = self._given_size(file, item.name)
            self._define(file, item.name, declare_const(context, item, size))
        elif isinstance(item, ast.Assert):
            check_assertion(context, item)

    def _given_size(self, file: LoadedFile, identifier: ast.Identifier) -> float | None:
        name = identifier.text
        if file.source in self.context.report.library or name not in self.sizes:
            return None
        self.used_sizes.add(name)
        return self.sizes[name]

    def _define(self, file: LoadedFile, name: ast.Identifier, value: AnyValue) -> None:
        if name.text in file.places:
            first, second = sorted((file.places[name.text], name.span), key=lambda at: at.start)
            text = f"`{name.text}` is defined twice"
            problem = self.context.report.error("WG0204", text, second, "second definition")
            problem.also(first, "first definition")
            return
        file.places[name.text] = name.span
        file.scope.bind(name.text, value)

    def _import_names(self, file: LoadedFile, item: ast.ImportNames) -> None:
        other = self._import(file, item.path)
        for name in item.names:
            value: AnyValue = FAILED
            if other is not None and name.text in other.places:
                value = other.scope.names[name.text]
            elif other is not None and name.text not in other.scope.names:
                what = f'name in "{item.path.value}":'
                self.context.report.unknown(
                    "WG0703", what, name.text, other.places, name, "not defined there"
                )
            self._define(file, name, value)

    def _import(self, file: LoadedFile, at: ast.String) -> LoadedFile | None:
        """None if an error was reported."""
        try:
            return self._load(file, at)
        except Stop:
            return None

    def _load(self, file: LoadedFile, at: ast.String) -> LoadedFile:
        report = self.context.report
        if at.value.startswith("std/"):
            return self._load_standard(at)
        path = self._beside(file, at.value, at)
        if path in self._files:
            return self._files[path]
        if path in self._loading:
            cycle = [*self._loading[self._loading.index(path) :], path]
            problem = report.error(
                "WG0702", f"`{path.name}` imports itself", at, "this import closes the cycle"
            )
            raise Stop(problem.note(" -> ".join(step.name for step in cycle)))
        if len(self._loading) > MOST_NESTED:
            text = f"imports are nested more than {MOST_NESTED} levels deep"
            raise Stop(report.error("WG0702", text, at))
        source = self._read_beside(path, at)
        self._load_used(source.text)
        return self._declare(self._parse(source, path), path)

    def _beside(self, file: LoadedFile, name: str, at: Place) -> Path:
        """The path of another file of the program, which is in its folder."""
        report = self.context.report
        try:
            path = _resolve(file.path.parent / name)
        except (
            OSError,
            ValueError,
            RuntimeError,
        ) as error:  # a null byte, half a character, a cycle of links
            text = f"cannot read `{name}`"
            raise Stop(report.error("WG0701", text, at, "not a file name")) from error
        if Path(name).is_absolute() or not path.is_relative_to(self._root):
            text = f"`{name}` is outside the folder of the program"
            problem = report.error("WG0704", text, at)
            raise Stop(problem.help("copy the file next to the model, or into a folder beside it"))
        return path

    def _read_beside(self, path: Path, at: Place) -> Source:
        name = path.relative_to(self._root).as_posix()
        try:
            given = self._given.get(name)
            text = self._count(path, read_text(path) if given is None else given)
        except Unreadable as error:
            problem = self.context.report.error("WG0701", f"cannot read `{name}`", at, error.reason)
            raise Stop(problem) from error
        return Source(name, text, str(self._shown_folder / name))

    def own_functions(self, file: LoadedFile, at: Text) -> Mapping[str, OwnFunction]:
        """The functions of a file in WGSL, which a function of `file` names; it is read once."""
        path = self._beside(file, at.value, at.span)
        if path.suffix != WGSL:
            text = f"functions in WGSL are in a file that ends with {WGSL}, not in `{at.value}`"
            raise Stop(self.context.report.error("WG0705", text, at.span))
        if path not in self._own:
            self._own[path] = self._read_own(path, at)
        if not self._own[path]:
            raise Stop
        return self._own[path]

    def _read_own(self, path: Path, at: Text) -> Mapping[str, OwnFunction]:
        """Nothing if the file has a mistake, which is reported at its line."""
        source = self._read_beside(path, at.span)
        number = self._own_paths().index(path) if path in self._own_paths() else 0
        prefix = f"own{number + 1}_" if number else "own_"
        try:
            return read_functions(source.text, source.name, lambda name: prefix + name)
        except WrongWgsl as error:
            span = Span(source, error.start, error.end)
            problem = self.context.report.diagnostics.error("WG0705", error.message, span)
            problem.also(at.span, "used here")
            if error.help:
                problem.help(error.help)
            return {}

    def _own_paths(self) -> list[Path]:
        """All files in WGSL that the program names: their order numbers them."""
        paths = set()
        for file in self.files:
            for piece in walk(file.tree):
                if isinstance(piece, ast.String) and piece.value.endswith(WGSL):
                    with contextlib.suppress(OSError, ValueError, RuntimeError):
                        paths.add(_resolve(file.path.parent / piece.value))
        return sorted(paths)

    def _count(self, path: Path, text: str) -> str:
        """The limit on the size of a program holds for all its files together."""
        self._length += len(text)
        self._read += 1
        if self._length > LARGEST_TEXT:
            most = f"{LARGEST_TEXT / 1e6:g} MB"
            raise Unreadable(path, f"the files of this program have more than {most}")
        if self._read > MOST_FILES:
            raise Unreadable(path, f"a program has at most {MOST_FILES} files")
        return text

    def _load_standard(self, at: ast.String) -> LoadedFile:
        name = at.value.removeprefix("std/").removesuffix(".wg") + ".wg"
        folder = data_dir("grammar") / "std"
        known = {path.name: path for path in folder.glob("*.wg")}
        if name not in known:
            options = [f"std/{option}" for option in known]
            raise Stop(self.context.report.unknown("WG0701", "file", at.value, options, at))
        path = _resolve(known[name])
        return self._files[path] if path in self._files else self._load_library(known[name])


@functools.cache
def _library(path: Path) -> tuple[ast.File, list[Diagnostic]]:
    """The library's tree, read once per process, because it is the same for every program."""
    return parse_once(Source(f"std/{path.name}", path.read_text(encoding="utf-8")))


def parse_once(source: Source) -> tuple[ast.File, list[Diagnostic]]:
    """The tree of a text, and what is wrong with it. A tree without errors is kept between runs:
    to parse the library takes longer than all else that a check of a small model does.
    """
    key = _tree_key(source)
    kept = read_cached(key)
    if kept is not None:
        tree: ast.File = decode(json.loads(kept), source)
        return tree, []
    diagnostics = Diagnostics()
    tree = parse(source, diagnostics)
    if not diagnostics.items:
        keep_cached(key, json.dumps(encode(tree)).encode())
    return tree, diagnostics.items


def shipped_trees() -> list[tuple[str, bytes]]:
    """The trees of the library as they are kept between runs, with their keys."""
    paths = sorted((data_dir("grammar") / "std").glob("*.wg"))
    sources = [Source(f"std/{path.name}", path.read_text(encoding="utf-8")) for path in paths]
    return [
        (_tree_key(source), json.dumps(encode(parse_once(source)[0])).encode())
        for source in sources
    ]


def _tree_key(source: Source) -> str:
    return f"tree-{hashlib.sha256(f'{_parser()} {source.text}'.encode()).hexdigest()[:24]}"


@functools.cache
def _parser() -> str:
    """Names what makes a tree of a text: a tree that another parser made is not read."""
    digest = hashlib.sha256((data_dir("grammar") / "wg.lark").read_bytes())
    for path in sorted(Path(ast.__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _defined_names(path: Path) -> frozenset[str]:
    """The names of the layers and functions of a file, in small letters, without parsing it."""
    text = path.read_text(encoding="utf-8").lower()
    return frozenset(re.findall(r"^(?:layer|fn) (\w+)", text, re.MULTILINE))


def _resolve(path: Path) -> Path:
    return path.resolve()
