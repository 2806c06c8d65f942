"""Numbers in the settings of optimizers, which can change without compiling again.

A sweep of learning rates is one compilation: `const rate = 0.1` becomes `state rate: f32 = 0.1`,
which a setting `lr = rate` reads in each step; so does the setting itself, named `opt.lr`. Where
another part of the program uses a const, it stays known at compile time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from wgcc.errors import Diagnostics, Source, Span, WgError
from wgcc.spelling import did_you_mean
from wgcc.syntax import ast
from wgcc.syntax.parser import parse
from wgcc.syntax.tree_text import walk

# A change of a text: the first place, the end, and what stands there then.
Edit = tuple[int, int, str]


def state_name(name: str) -> str:
    """The state that a live setting is: `rate` itself, `opt_lr` for `opt.lr`."""
    return name.replace(".", "_")


def live_names(source: Source, names: Iterable[str]) -> frozenset[str]:
    """Those of `names` that can be live: settings, and consts that settings alone use."""
    tree = parse(source, Diagnostics())
    if len(_models(tree)) != 1:
        return frozenset()
    consts = {item.name.text for item in tree.items if isinstance(item, ast.Const)}
    wanted = consts & set(names)
    settings = {id(node) for part in walk(tree) for node in _in_settings(part)}
    uses = [node for node in walk(tree) if isinstance(node, ast.Name) and node.text in wanted]
    elsewhere = {node.text for node in uses if id(node) not in settings}
    live = wanted & {node.text for node in uses} - elsewhere
    return frozenset(live | {name for name in names if is_setting(name)})


def is_setting(name: str) -> bool:
    """Whether it names a setting of an optimizer: `opt.lr`."""
    return "." in name


def with_live_settings(source: Source, values: Mapping[str, float]) -> Source:
    """The program with these numbers as state of its model. No line gets another number."""
    tree = parse(source, Diagnostics())
    (model,) = _models(tree)
    start = source.text.index("{", model.name.span.end) + 1
    states = (f" state {state_name(name)}: f32 = {value!r};" for name, value in values.items())
    edits = [(start, start, "".join(states))]
    for item in tree.items:
        if isinstance(item, ast.Const) and item.name.text in values:
            edits.append((item.span.start, item.span.end, _blank(item.span)))
    return _apply_edits(source, [*edits, *_setting_edits(tree, values, state_name)])


def with_settings(source: Source, values: Mapping[str, float]) -> Source:
    """The program with these numbers in the settings of its optimizers: `{"opt.lr": 0.1}`."""
    diagnostics = Diagnostics()
    tree = parse(source, diagnostics)
    if diagnostics.errors:
        return source
    return _apply_edits(source, list(_setting_edits(tree, values, lambda name: repr(values[name]))))


def _setting_edits(
    tree: ast.File, names: Iterable[str], text_of: Callable[[str], str]
) -> Iterator[Edit]:
    """A setting that the program does not have is added at the beginning of its optimizer."""
    optimizers = {node.name.text: node for node in walk(tree) if isinstance(node, ast.Optimizer)}
    for name in filter(is_setting, names):
        owner, _, setting = name.partition(".")
        if owner not in optimizers:
            near = did_you_mean(owner, optimizers)
            advice = f"; did you mean {near[0]}?" if near else ""
            raise WgError(f"there is no optimizer {owner} to set {name}{advice}")
        node = optimizers[owner]
        written = [s for s in node.items if isinstance(s, ast.Setting) and s.name.text == setting]
        if written:
            span = written[0].value.span
            yield span.start, span.end, text_of(name)
        else:
            start = node.span.source.text.index("{", node.kind.span.end) + 1
            yield start, start, f" {setting} = {text_of(name)};"


def _apply_edits(source: Source, edits: list[Edit]) -> Source:
    text = source.text
    # From the end, so that earlier places stay where they are.
    for first, end, new in sorted(edits, reverse=True):
        text = text[:first] + new + text[end:]
    return Source(source.name, text, source.path, source.files)


def _models(tree: ast.File) -> list[ast.Layer]:
    return [item for item in tree.items if isinstance(item, ast.Layer) and item.is_model]


def _in_settings(node: ast.Syntax) -> Iterable[ast.Syntax]:
    """The nodes of an optimizer's settings: where it is declared, or where it is used."""
    if isinstance(node, ast.Optimizer):
        return walk(node)
    return walk(node.optimizer) if isinstance(node, ast.Minimize) else ()


def _blank(span: Span) -> str:
    return "".join(letter if letter == "\n" else " " for letter in span.text)
