"""Definition, uses and renaming of what a file defines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from wgcc.errors import Diagnostics, Source, Span
from wgcc.files import data_dir, read_text
from wgcc.language_service.analysis import Analysis, analyse
from wgcc.language_service.fixes import Edit, apply_edits
from wgcc.language_service.hover import word_at
from wgcc.language_service.names import IMPORT, NameScope, Symbol, find_names
from wgcc.syntax import ast
from wgcc.syntax.grammar import grammar
from wgcc.syntax.parser import parse
from wgcc.syntax.tree_text import walk

IMPORTS = (ast.ImportNames, ast.ImportModule)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class CannotRename(Exception):
    """Its text says why."""


def definition(analysis: Analysis, offset: int) -> Span | None:
    """The definition of the name at a place, also in another file or in the library."""
    use = analysis.names.used_at(offset)
    if use is not None and use[0].kind != IMPORT:
        return use[0].place
    word = word_at(analysis.source.text, offset)
    return _find_elsewhere(analysis, word.text) if word is not None else None


def _find_elsewhere(analysis: Analysis, name: str) -> Span | None:
    """Looks in the files that this one imports, then in the library."""
    root = Path(analysis.source.path)
    paths = [item.path.value for item in analysis.tree.items if isinstance(item, IMPORTS)]
    files = [(path, root.parent / path) for path in paths if not path.startswith("std/")]
    library = sorted((data_dir("grammar") / "std").glob("*.wg"))
    declaration = re.compile(rf"^(?:layer|model|fn|const|dim|dtype)\s+({re.escape(name)})\b", re.M)
    for shown, path in (*files, *((f"std/{path.name}", path) for path in library)):
        text = read_text(path) if path.is_file() else ""
        match = declaration.search(text)
        if match is not None:
            return Span(Source(shown, text), match.start(1), match.end(1))
    return None


def path_of(source: Source, root: Path) -> Path:
    """The file of a source that the program `root` is made of."""
    if source.name.startswith("std/"):
        return data_dir("grammar") / source.name
    return (root.parent / source.name).absolute()


def references(analysis: Analysis, offset: int) -> list[Span]:
    use = analysis.names.used_at(offset)
    return _uses_in_order(use[0]) if use is not None else []


def rename(analysis: Analysis, offset: int, new: str, others: Iterable[Source] = ()) -> list[Edit]:
    """Edits that give a symbol another name, also in the files among `others` that import it.

    The checker decides whether the program is still the same: it must have no other problems than
    before.
    """
    use = analysis.names.used_at(offset)
    if use is None or use[0].kind == IMPORT:
        raise CannotRename("only what this file defines can be renamed")
    if not _NAME.fullmatch(new) or new in grammar().keywords:
        raise CannotRename(f"`{new}` is not a name")
    symbol = use[0]
    if symbol.scope.find(new) is not None:
        raise CannotRename(f"`{new}` is defined already")
    _refuse_selectors(analysis, symbol)
    edits = [(span, new) for span in _uses_in_order(symbol)]
    after = _with_edits(analysis, edits)
    if len(after.diagnostics.items) > len(analysis.diagnostics.items):
        message = after.diagnostics.items[-1].message
        raise CannotRename(f"that would change the program: {message}")
    return [*edits, *((span, new) for span in _imported_uses(analysis, symbol, others))]


def weights_map(analysis: Analysis, edits: Iterable[Edit]) -> list[str]:
    """The rules by which `wgcc import OLD.safetensors MODEL.wg --map` reads weights that were saved
    before these edits renamed parameters."""
    after = _with_edits(analysis, [edit for edit in edits if edit[0].source is analysis.source])
    rules: dict[str, None] = {}
    for old, new in zip(analysis.programs.values(), after.programs.values(), strict=False):
        pairs = [
            *zip(old.params, new.params, strict=False),
            *zip(old.state, new.state, strict=False),
        ]
        for before, now in pairs:
            # Moments follow their parameters.
            if before != now and "/" not in now:
                rules[f"{_as_pattern(now)} <- {_as_pattern(before)}"] = None
    return list(rules)


def _as_pattern(path: str) -> str:
    """`blocks.*.w` for `blocks.3.w`."""
    return re.sub(r"\.\d+(?=\.)", ".*", path)


def _with_edits(analysis: Analysis, edits: Iterable[Edit]) -> Analysis:
    source = analysis.source
    text = apply_edits(source.text, list(edits))
    return analyse(Source(source.name, text, source.path, source.files))


def _imported_uses(analysis: Analysis, symbol: Symbol, others: Iterable[Source]) -> Iterator[Span]:
    """Uses in files that import this one: of the name itself; of members, by hand."""
    for source in others:
        tree = parse(source, Diagnostics())
        imports = [item for item in tree.items if isinstance(item, IMPORTS)]
        folder = Path(source.path).parent
        own = [
            item for item in imports
            if (folder / item.path.value).resolve() == Path(analysis.source.path).resolve()
        ]  # fmt: skip
        if own and re.search(rf"\.\s*{symbol.name}\b", source.text):
            raise CannotRename(f"{source.path} may use it as a member: change that by hand first")
        names = find_names(tree, {}) if own else NameScope()
        use = names.symbols.get(symbol.name)
        if use is not None and use.node in own and symbol.scope.outer is None:
            yield from _uses_in_order(use)


def _refuse_selectors(analysis: Analysis, symbol: Symbol) -> None:
    """`over "blocks.*.w"` selects parameters by name, of this layer and perhaps of others."""
    for node in walk(analysis.tree):
        for selector in getattr(node, "selectors", ()):
            if symbol.name in re.split(r"[.*]", selector.value) and symbol.members is None:
                text = f'"{selector.value}" on line {selector.span.line} may select it by name'
                raise CannotRename(f"{text}: change that by hand first")


def _uses_in_order(symbol: Symbol) -> list[Span]:
    places = {(span.start, span.end): span for span in symbol.uses}
    return [places[key] for key in sorted(places)]
