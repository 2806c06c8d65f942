"""Creates layers: sizes and options, then the members in order, down to every parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from wgcc.elaborate.declarations.constants import (
    check_assertion,
    declare_const,
    declare_dim,
    is_true,
    lint_sizes,
    param_init,
    value_init,
)
from wgcc.elaborate.declarations.constructors import layer_type_of, option_value
from wgcc.elaborate.declarations.optimizers import NAMES_PER_STEP, is_short
from wgcc.elaborate.declarations.signatures import coerce, dim_of, type_of
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.arguments import plural
from wgcc.elaborate.tracing.context import Context, LayerReplacement
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.foreign_calls import layer_counterpart
from wgcc.elaborate.tracing.values import (
    FAILED,
    AnyValue,
    Failed,
    FunctionValue,
    LayerType,
    LayerValue,
    ListValue,
    OptimizerValue,
    ParamRef,
    Scope,
    StateRef,
)
from wgcc.errors import Span
from wgcc.ir.graph import FLOATS
from wgcc.syntax import ast

MOST_LAYERS = 4096
MODEL_SETTINGS = ("seed", "precision", "vocab")
# The sub-layer that is what a `replace` took the place of.
KEPT = "replaced"


@dataclass(frozen=True, slots=True)
class ReplacedLayer:
    """A layer that another takes the place of, with the one whose place it took itself."""

    layer: LayerType
    frozen: bool
    at: Span
    earlier: ReplacedLayer | None = None


def instantiate(
    context: Context,
    layer: LayerType,
    path: str,
    frozen: bool,
    at: Span,
    remat: bool = False,
    replaced: ReplacedLayer | None = None,
) -> LayerValue:
    """A new instance at `path`; `at` is the place where it is created."""
    definition = layer.definition
    context.spend(at)
    _refuse_nesting(context, layer, at)
    scope = Scope(definition.file.scope)
    created = LayerValue(definition, path, scope, at, remat)
    _bind_sizes(context, layer, scope, at)
    _bind_options(context, layer, scope, at)
    context.instantiated.add(id(definition.node))
    context.building.append(definition)
    try:
        with context.catch_deep_nesting(at), context.report.inside(at), context.within(scope, path):
            lint_sizes(context, definition)
            _Members(context, created, frozen, replaced).build()
    finally:
        context.building.pop()
    return created


def _refuse_nesting(context: Context, layer: LayerType, at: Span) -> None:
    definition = layer.definition
    if not any(outer.node is definition.node for outer in context.building):
        return
    problem = context.report.error("WG0802", f"layer `{definition.name}` contains itself", at)
    cycle = [*(outer.name for outer in context.building), definition.name]
    raise Stop(problem.note(" -> ".join(cycle)))


def _bind_sizes(context: Context, layer: LayerType, scope: Scope, at: Span) -> None:
    definition, given = layer.definition, layer.sizes or ()
    sizes = definition.node.sizes
    if len(given) != len(sizes):
        wanted = f"{plural(len(sizes), 'size')} [{', '.join(size.text for size in sizes)}]"
        text = f"`{definition.name}` takes {wanted if sizes else 'no sizes'}"
        problem = context.report.error("WG0206", text, at, f"{len(given)} given")
        raise Stop(problem.also(definition.node.name.span, "defined here"))
    for size, dim in zip(sizes, given, strict=True):
        scope.bind(size.text, dim)


def _bind_options(context: Context, layer: LayerType, scope: Scope, at: Span) -> None:
    name, parameters = layer.definition.name, layer.definition.node.values
    names = [parameter.name.text for parameter in parameters]
    for key, given in layer.arguments.items():
        if key not in names:
            where = given.name_span or given.span
            what = f"argument of `{name}`:"
            problem = context.report.unknown("WG0207", what, key, names, where, "no such argument")
            if names:
                problem.note(f"`{name}` takes ({', '.join(names)})")
    for parameter in parameters:
        with context.within(scope, ""):
            value = _option(context, layer, parameter, at)
        scope.bind(parameter.name.text, value)


def _option(context: Context, layer: LayerType, parameter: ast.ValueParam, at: Span) -> AnyValue:
    name, key = layer.definition.name, parameter.name.text
    argument = layer.arguments.get(key)
    if argument is None and parameter.default is None:
        text = f"`{name}` needs the argument `{key}`"
        raise Stop(context.report.error("WG0208", text, at))
    if argument is not None:
        value, where = context.read(argument.value), argument.span
    else:
        assert parameter.default is not None
        value = context.read(option_value(context, parameter.default))
        where = parameter.default.span
    if isinstance(value, Failed):
        return FAILED
    try:
        return coerce(context, value, parameter.kind, where, f"argument `{key}` of `{name}`")
    except Stop:
        return FAILED


class _Members:
    """Builds the members of one layer into its scope."""

    def __init__(
        self,
        context: Context,
        layer: LayerValue,
        frozen: bool,
        replaced: ReplacedLayer | None = None,
    ) -> None:
        self.context = context
        self.layer = layer
        self.frozen = frozen
        self.replaced = replaced
        self.places: dict[str, Span] = {}
        self.is_model = layer.definition.node.is_model
        self.is_root = layer.path == "" and self.is_model

    def build(self) -> None:
        members = self.layer.definition.node.members
        for member in members:
            self._announce(member)
        for member in members:
            try:
                _BUILDERS[type(member)](self, member)
            except Stop:
                if isinstance(member, ast.Assert):
                    raise
                self._fail(member)

    def _announce(self, member: ast.LayerMember) -> None:
        """Declare what must be known before any member is built."""
        scope = self.layer.scope
        if isinstance(member, ast.Replace):
            for selector in member.selectors:
                pattern = self._path(selector.value)
                depth = self.layer.path.count(".") + bool(self.layer.path)
                replacement = LayerReplacement(pattern, selector, member.constructor, scope, depth)
                if is_short(self.context, selector):
                    self.context.parts.replacements.append(replacement)
        elif isinstance(member, ast.Dims):
            scope.pending.update(dim.name.text for dim in member.dims)
        elif isinstance(member, ast.Const):
            scope.pending.add(member.name.text)

    def _fail(self, member: ast.LayerMember) -> None:
        if isinstance(member, (ast.Param, ast.State, ast.Submodule, ast.Const)):
            self.layer.scope.names.setdefault(member.name.text, FAILED)

    def _path(self, name: str) -> str:
        return f"{self.layer.path}.{name}" if self.layer.path else name

    def _put(self, name: ast.Identifier, value: AnyValue) -> None:
        if name.text in self.places:
            definition = self.layer.definition
            kind = "model" if self.is_model else "layer"
            text = f"`{name.text}` is defined twice in {kind} `{definition.name}`"
            problem = self.context.report.error("WG0204", text, name, "second definition")
            problem.also(self.places[name.text], "first definition")
            return
        self.places[name.text] = name.span
        self.layer.scope.bind(name.text, value)

    def dims(self, member: ast.Dims) -> None:
        for dim in member.dims:
            self._put(dim.name, declare_dim(self.context, dim))

    def const(self, member: ast.Const) -> None:
        self._put(member.name, declare_const(self.context, member))

    def assertion(self, member: ast.Assert) -> None:
        check_assertion(self.context, member)

    def setting(self, member: ast.Setting) -> None:
        report, name = self.context.report, member.name
        if isinstance(member.value, (ast.Call, ast.Index)) and name.text not in MODEL_SETTINGS:
            self._report_layer(member)
        elif not self.is_model:
            problem = report.error("WG0210", f"a layer has no setting `{name.text}`", name)
            problem.help(
                "declare a constant with `const`, a tensor with `param` or `state`, "
                "a sub-layer with `name: Layer[...]`"
            )
        elif name.text not in MODEL_SETTINGS:
            problem = report.unknown("WG0210", "model setting", name.text, MODEL_SETTINGS, name)
            problem.note("model settings: " + ", ".join(sorted(MODEL_SETTINGS)))
        elif self.is_root:
            self.context.parts.settings[name.text] = member.value

    def _report_layer(self, member: ast.Setting) -> None:
        """`fc = nn.Linear(3, 4)`, `fc = Linear[3, 4]`"""
        context, name = self.context, member.name.text
        what = "model" if self.is_model else "layer"
        problem = context.report.error("WG0210", f"a {what} has no setting `{name}`", member.name)
        known = layer_counterpart(context, member.value)
        shown = known or "Layer[...]"
        edits = ((member.span, f"{name}: {known}"),) if known else ()
        problem.help(f"declare a sub-layer with a colon: `{name}: {shown}`", *edits)

    def param(self, member: ast.Param) -> None:
        context = self.context
        if member.guard is not None and not is_true(context, member.guard):
            return
        dtype, dims = type_of(context, member.type)
        frozen = self.frozen or member.frozen
        if dtype not in FLOATS and not frozen:
            text = f"a parameter that is trained must hold floats, not {dtype}"
            problem = context.report.error("WG0502", text, member.type)
            problem.help(f"weights that stay as they are: `frozen param {member.name.text}: …`")
            raise Stop(problem.help("values that an entry changes: `state`"))
        path, span = self._path(member.name.text), member.name.span
        self._refuse_kept(member.name)
        ref = ParamRef(
            path,
            dtype,
            dims,
            frozen,
            param_init(context, member, dtype, dims),
            span,
            context.report.user_span(span),
        )
        if member.name.text not in self.places:
            context.parts.params[path] = ref
        self._put(member.name, ref)

    def state(self, member: ast.State) -> None:
        context = self.context
        if member.guard is not None and not is_true(context, member.guard):
            return
        dtype, dims = type_of(context, member.type)
        path, span = self._path(member.name.text), member.name.span
        self._refuse_kept(member.name)
        init = value_init(context, member.value, dtype, dims)
        ref = StateRef(path, dtype, dims, init, span, context.report.user_span(span))
        if member.name.text not in self.places:
            context.parts.states[path] = ref
        self._put(member.name, ref)

    def _refuse_kept(self, name: ast.Identifier) -> None:
        """Two tensors would have one path."""
        names = self.layer.scope.names
        if KEPT in self.places and name.text in names and name.text not in self.places:
            text = f"`{name.text}` is also a tensor of the layer that `{KEPT}` keeps"
            raise Stop(self.context.report.error("WG0204", text, name))

    def submodule(self, member: ast.Submodule) -> None:
        context, frozen = self.context, self.frozen or member.frozen
        if member.guard is not None and not is_true(context, member.guard):
            return
        path = self._path(member.name.text)
        if member.name.text in self.places:
            self._put(member.name, FAILED)
        elif member.name.text == KEPT and member.list_size is None:
            self._put(member.name, self._keep(member))
        elif member.list_size is None:
            self._put(member.name, self._one(member, path, frozen))
        else:
            self._put(member.name, self._list(member, member.list_size, path, frozen))

    def _list(
        self, member: ast.Submodule, size: ast.ListSize, path: str, frozen: bool
    ) -> ListValue:
        context = self.context
        count = context.repetitions(dim_of(context, size.count))
        if not 0 <= count <= MOST_LAYERS:
            text = f"a list has 0 to {MOST_LAYERS} layers, but this asks for {count}"
            raise Stop(context.report.error("WG0401", text, size.count))
        layers = []
        for position in range(count):
            inner = Scope(context.scope)
            if size.variable is not None:
                inner.bind(size.variable.text, Dim.literal(position))
            with context.within(inner, context.prefix):
                layers.append(self._one(member, f"{path}.{position}", frozen))
        return ListValue(tuple(layers))

    def _one(self, member: ast.Submodule, path: str, frozen: bool) -> AnyValue:
        context, constructor = self.context, member.constructor
        layer = layer_type_of(context, constructor)
        cost = len(context.parts.replacements) // NAMES_PER_STEP
        context.budget.step(constructor, context.generic, cost)
        matches = [x for x in context.parts.replacements if fnmatchcase(path, x.pattern)]
        replaced, at = None, constructor.span
        for replacement in sorted(matches, key=lambda x: -x.depth):
            replacement.matched = True
            replaced = ReplacedLayer(layer, frozen, at, replaced)
            # `frozen` is as the new layer declares it.
            layer, frozen = self._replacement(layer, replacement), False
            at = replacement.constructor.span
        return instantiate(context, layer, path, frozen, at, member.remat, replaced)

    def _replacement(self, old: LayerType, replacement: LayerReplacement) -> LayerType:
        """Keeps sizes and options of the old layer."""
        context = self.context
        with context.within(replacement.scope, context.prefix):
            new = layer_type_of(context, replacement.constructor)
        names = [value.name.text for value in new.definition.node.values]
        kept = {key: given for key, given in old.arguments.items() if key in names}
        sizes = new.sizes if new.sizes is not None else old.sizes
        return LayerType(new.definition, sizes, {**kept, **new.arguments})

    def _keep(self, member: ast.Submodule) -> LayerValue:
        """The layer that this one replaces, whose tensors keep their paths and are members here."""
        context, path, old = self.context, self.layer.path, self.replaced
        if old is None:
            constructor = member.constructor
            old = ReplacedLayer(layer_type_of(context, constructor), False, constructor.span)
        elif any(outer.node is old.layer.definition.node for outer in context.building):
            text = f"`{path}` is replaced by `{old.layer.definition.name}` twice"
            raise Stop(context.report.error("WG0219", text, old.at))
        frozen = self.frozen or member.frozen or old.frozen
        kept = instantiate(context, old.layer, path, frozen, old.at, member.remat, old.earlier)
        tensors = {n: x for n, x in kept.scope.names.items() if isinstance(x, (ParamRef, StateRef))}
        self.layer.scope.names.update(tensors)
        return kept

    def function(self, member: ast.Function) -> None:
        definition = self.layer.definition
        if not member.is_entry:
            function = FunctionValue(
                member.name.text, member, self.layer.scope, definition.file, self.layer
            )
            self._put(member.name, function)
        elif not self.is_model:
            text = "an `entry` belongs in a `model`, not in a layer"
            self.context.report.error("WG0211", text, member.name)

    def optimizer(self, member: ast.Optimizer) -> None:
        optimizer = OptimizerValue(member.name.text, member, self.layer.scope)
        if self.is_root and member.name.text not in self.places:
            self.context.parts.optimizers[member.name.text] = optimizer
        self._put(member.name, optimizer)

    def broken(self, member: ast.Broken) -> None:
        for name in member.names:
            if self.layer.scope.find(name) is None:
                self.layer.scope.bind(name, FAILED)

    def nothing(self, member: ast.LayerMember) -> None:
        """Declared by `_announce`."""


_BUILDERS: Mapping[type, Callable[[_Members, Any], None]] = {
    ast.Dims: _Members.dims,
    ast.Const: _Members.const,
    ast.Assert: _Members.assertion,
    ast.Setting: _Members.setting,
    ast.Param: _Members.param,
    ast.State: _Members.state,
    ast.Submodule: _Members.submodule,
    ast.Function: _Members.function,
    ast.Optimizer: _Members.optimizer,
    ast.Broken: _Members.broken,
    ast.Replace: _Members.nothing,
}
