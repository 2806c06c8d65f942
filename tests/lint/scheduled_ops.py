"""The ops that the scheduler knows by name are those that ARCHITECTURE.md lists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lint.tree import Problem, Tree
from wgcc.ops import OPS
from wgcc.ops.registry import Special

SCHEDULER = "wgcc/schedule"
# Files that write the kernel of a family may know the ops of that family.
FAMILIES = f"{SCHEDULER}/kernels/"
PAGE = "ARCHITECTURE.md"
LISTED = re.compile(r"makes, pairs or places itself: ([^.]+)\.")
SPECIAL = {name for name, op in OPS.items() if isinstance(op.lower, Special)}


def the_scheduler_names_few_ops(tree: Tree) -> Iterator[Problem]:
    """Elsewhere it asks for an op's lowering, or for a property that the op declares."""
    if PAGE not in tree.files:
        return
    match = LISTED.search(" ".join(tree.text(PAGE).split()))
    if match is None:
        yield Problem(PAGE, 1, "invariant 5 lists no ops that the scheduler knows")
        return
    listed, used = set(re.findall(r"`(\w+)`", match[1])), set()
    for module in tree.python(SCHEDULER):
        constants = _named_strings(tree.syntax(module))
        for line, name in _ops_by_name(tree.syntax(module), constants):
            used.add(name)
            if name not in listed and not (module.startswith(FAMILIES) and name in SPECIAL):
                text = f"knows the op {name}, which invariant 5 of {PAGE} does not list"
                yield Problem(module, line, text)
    for name in sorted(listed - used):
        yield Problem(PAGE, 1, f"invariant 5 lists the op {name}, which nothing names")


def _ops_by_name(nodes: list[ast.AST], constants: dict[str, set[str]]) -> Iterator[tuple[int, str]]:
    """Names of ops that are compared with `.op`, looked up by it, or given to what makes nodes."""
    for node in nodes:
        if isinstance(node, ast.Compare) and any(map(_is_op, (node.left, *node.comparators))):
            operands = (node.left, *node.comparators)
        elif isinstance(node, ast.Call) and _name_of(node.func) in ("Node", "apply", "producer"):
            operands = tuple(node.args[:2])
        elif isinstance(node, ast.Subscript) and _is_op(node.slice):
            operands = (node.value,)
        else:
            continue
        strings = set[str]().union(*(_strings(operand, constants) for operand in operands))
        yield from ((node.lineno, name) for name in sorted(strings & OPS.keys()))


def _named_strings(nodes: list[ast.AST]) -> dict[str, set[str]]:
    """The strings in the value of each name that a module assigns."""
    return {
        target.id: _strings(node.value, {})
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _strings(node: ast.AST, constants: dict[str, set[str]]) -> set[str]:
    if isinstance(node, ast.Name):
        return constants.get(node.id, set())
    parts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return {part for part in parts if isinstance(part, str)}


def _is_op(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "op"


def _name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
