"""Words and facts that have one place: counts that may only shrink.

A count that falls is a reason to lower its ceiling here, in the same commit.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from lint.tree import Problem, Tree

DTYPES = "wgcc/ir/dtypes.py"
# How many files name an element type that only `wgcc/ir/dtypes.py` should know.
MOST_NAMED_DTYPES = 10
# How many variables are called `found`, which says nothing of what they are.
MOST_FOUND = 2
# Words in -ed that are no participles.
OTHER_WORDS = ("feed", "need", "seed", "speed")
# How many docstrings open as a fragment without a verb.
MOST_FRAGMENTS = 0
# Nodes of the language's syntax tree, which are always written `ast.NAME`.
SYNTAX_TREE = ("wgcc/syntax/ast.py", "wgcc/syntax/ast_expressions.py")

PARTICIPLE = re.compile(r"([a-z]+ed|found|given|shown|written|taken|made|kept|held|known|drawn)")
FRAGMENT = re.compile(r"(Of|With|So|Nor|What|Where|From|To|By) ")


def element_types_are_asked_of_the_table(tree: Tree) -> Iterator[Problem]:
    """`DTYPE_TABLE[dtype].bytes`, `PACKED`, … instead of comparisons with names."""
    message = "files name i8, u8 or f16: ask ir/dtypes.py"
    yield from _above(
        tree, MOST_NAMED_DTYPES, lambda module: min(1, _named_dtypes(tree, module)), message
    )


def _named_dtypes(tree: Tree, module: str) -> int:
    nodes = tree.syntax(module) if module != DTYPES else []
    return sum(
        isinstance(node, ast.Constant) and node.value in ("i8", "u8", "f16") for node in nodes
    )


def variables_say_what_they_are(tree: Tree) -> Iterator[Problem]:
    def count(module: str) -> int:
        names = (node for node in tree.syntax(module) if isinstance(node, ast.Name))
        return sum(node.id == "found" and isinstance(node.ctx, ast.Store) for node in names)

    yield from _above(tree, MOST_FOUND, count, "variables are called `found`: name what they are")


def functions_are_verbs_or_nouns(tree: Tree) -> Iterator[Problem]:
    """Properties may be participles: they say how an object is."""
    for module in tree.python("wgcc", "runtime_py"):
        for node in tree.syntax(module):
            if isinstance(node, ast.FunctionDef) and not _is_property(node):
                word = node.name.lstrip("_")
                if PARTICIPLE.fullmatch(word) and word not in OTHER_WORDS:
                    text = f"function {node.name} is a participle: a verb or what it returns"
                    yield Problem(module, node.lineno, text)


def _is_property(node: ast.FunctionDef) -> bool:
    names = (getattr(each, "id", getattr(each, "attr", "")) for each in node.decorator_list)
    return any(name.endswith("property") for name in names)


def docstrings_are_sentences(tree: Tree) -> Iterator[Problem]:
    def count(module: str) -> int:
        kinds = (ast.FunctionDef, ast.ClassDef, ast.Module)
        nodes = (node for node in tree.syntax(module) if isinstance(node, kinds))
        return sum(FRAGMENT.match(ast.get_docstring(node) or "") is not None for node in nodes)

    yield from _above(
        tree, MOST_FRAGMENTS, count, "docstrings open with Of, With, What, …: name a subject"
    )


def class_names_mean_one_thing(tree: Tree) -> Iterator[Problem]:
    places = defaultdict(set)
    for module in set(tree.python("wgcc")).difference(SYNTAX_TREE):
        for node in tree.syntax(module):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(module)
    for name, modules in sorted(places.items()):
        if len(modules) > 1:
            text = f"class {name} stands in several files: {', '.join(sorted(modules))}"
            yield Problem(min(modules), 1, f"{text}; say what each of them is")


def _above(tree: Tree, most: int, count: Callable[[str], int], message: str) -> Iterator[Problem]:
    counts: Counter[str] = Counter()
    for module in tree.python("wgcc", "runtime_py"):
        counts[module.rpartition("/")[0]] += count(module)
    number = counts.total()
    if number > most:
        where = ", ".join(f"{folder} {times}" for folder, times in sorted(counts.items()) if times)
        yield Problem("wgcc", 1, f"{number} {message} (at most {most}): {where}")
