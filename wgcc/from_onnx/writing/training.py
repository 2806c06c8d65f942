"""Makes an imported model trainable: an optimizer, `entry train`, low-rank corrections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from wgcc.errors import WgError
from wgcc.from_onnx.literals import real
from wgcc.from_onnx.training_options import Training
from wgcc.from_onnx.values import ModelMember, Shape, Statement, Traced, axes_pattern, plain_order
from wgcc.from_onnx.writing.blocks import LayerDraft, members_of
from wgcc.from_onnx.writing.layers import ModelWriter, WrittenLayer, argument, function
from wgcc.from_onnx.writing.trained_output import has_matrix_product, is_call
from wgcc.spelling import did_you_mean
from wgcc.syntax import ast
from wgcc.syntax.templates import NOWHERE, bind, call, identifier, name, type_expr
from wgcc.syntax.tree_text import walk


@dataclass(frozen=True, slots=True)
class TrainedMember:
    """A member, its path in the model, and the statement that uses it."""

    path: str
    member: ModelMember
    statement: Statement


def places(
    block: LayerDraft, kind: WrittenLayer, model: ModelWriter, prefix: str = ""
) -> Iterator[TrainedMember]:
    """All members in the order in which the model uses them."""
    own = dict(zip(block.members, kind.member_names, strict=True))
    inner = [item for item in block.body if isinstance(item, LayerDraft)]
    names = dict(zip(map(id, inner), kind.block_names, strict=True))
    for item in block.body:
        if statement := item.loop if isinstance(item, LayerDraft) else item:
            used = [member for member in members_of(statement) if member in own]
            yield from (TrainedMember(f"{prefix}{own[m]}", m, statement) for m in used)
        if isinstance(item, LayerDraft):
            yield from places(item, model.type_of(item), model, f"{prefix}{names[id(item)]}.")


def selectors(training: Training, member_places: Sequence[TrainedMember]) -> list[str] | None:
    """Which parameters are trained; None: all of them."""
    if training.lora:
        return ["*lora_*"]
    trained = [place for place in member_places if not place.member.is_frozen]
    if training.train in ("all", "head") and not trained:
        raise WgError(f"--train {training.train}: the model has no parameters")
    if training.train == "all":
        return None
    if training.train == "head":
        return [_pattern(place) for place in _head(trained)]
    pattern = str(training.train)
    names = [name for place in trained for name in _names(place)]
    if not any(fnmatchcase(name, pattern) for name in names):
        near = did_you_mean(pattern, names)
        hint = f"; did you mean {near[0]}?" if near else f": they are {', '.join(names[:8])}, …"
        raise WgError(f'--train "{pattern}": no parameter has a name like this{hint}')
    return [pattern]


def remark_frozen(
    traced: Traced, training: Training, member_places: Sequence[TrainedMember]
) -> None:
    """Floats that `--train all` does not reach are named."""
    for place in member_places if training.train == "all" else ():
        has_floats = any(array.dtype.kind == "f" for array in place.member.arrays.values())
        if has_floats and place.member.is_frozen:
            text = "--train all leaves these as they are, as they are no weights"
            traced.remark(text, place.path)


def _head(trained: Sequence[TrainedMember]) -> list[TrainedMember]:
    """The last product with a matrix, and what comes after it."""
    products = [place.statement for place in trained if _is_matrix_product(place)]
    last = products[-1] if products else trained[-1].statement
    first = next(n for n, place in enumerate(trained) if place.statement is last)
    return list(trained[first:])


def _is_matrix_product(place: TrainedMember) -> bool:
    """Not a bias or a norm."""
    item = place.statement
    is_product = item.layer is not None or has_matrix_product(item)
    is_product |= any(is_call(node, "conv") or is_call(node, "einsum") for node in walk(item.tree))
    return is_product and any(array.ndim > 1 for array in place.member.arrays.values())


def _names(place: TrainedMember) -> list[str]:
    return [f"{place.path}.{key}" if key else place.path for key in place.member.arrays]


def _pattern(place: TrainedMember) -> str:
    return place.path if "" in place.member.arrays else f"{place.path}.*"


def corrected_paths(training: Training, member_places: Sequence[TrainedMember]) -> list[str]:
    """Paths of the linear layers that get a correction; numbers of lists become `*`."""
    result: dict[str, None] = {}
    for pattern in training.lora:
        paths = [p.path for p in member_places if p.member.kind == "Linear"]
        hits = [path for path in paths if fnmatchcase(path, pattern)]
        if not hits:
            raise WgError(
                f'--lora "{pattern}": no linear layer is called like this: {_list(paths)}'
            )
        result |= dict.fromkeys(_collapse(path, paths, hits) for path in hits)
    return list(result)


def _collapse(path: str, paths: Sequence[str], hits: Sequence[str]) -> str:
    """`h.*.attn` for `h.0.attn`, if all of that list are meant."""
    pattern = re.sub(r"\.\d+(?=\.)", ".*", path)
    alike = [other for other in paths if re.sub(r"\.\d+(?=\.)", ".*", other) == pattern]
    return pattern if set(alike) <= set(hits) else path


def _list(paths: Sequence[str]) -> str:
    return ", ".join(paths[:8]) + (", …" if len(paths) > 8 else "") if paths else "there are none"


@dataclass(frozen=True, slots=True)
class ForwardPorts:
    """The inputs of `forward` as declared by entries, and which of its outputs is trained."""

    declared: Sequence[ast.ValueParam]
    place: int | None

    def forward(self) -> ast.Expr:
        """All outputs."""
        return call("forward", *(name(port.name.text) for port in self.declared))

    def trained_output(self) -> ast.Expr:
        """The output that the loss reads."""
        return self.forward() if self.place is None else output_of(self.forward(), self.place)


def output_of(tree: ast.Expr, place: int) -> ast.Expr:
    return ast.Index(NOWHERE, tree, (ast.Int(NOWHERE, place),))


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of an output of this shape, whose `axis` has the classes."""

    name: str
    shape: Shape
    axis: int

    @property
    def has_classes(self) -> bool:
        return self.name == "cross_entropy"

    def target(self) -> ast.TypeExpr:
        if not self.has_classes:
            return type_expr("f32", self.shape)
        return type_expr("i32", [self.shape[axis] for axis in self._others])

    @property
    def _others(self) -> list[int]:
        return [axis for axis in range(len(self.shape)) if axis != self.axis]

    def classes_last(self, tree: ast.Expr) -> ast.Expr:
        order = (*self._others, self.axis)
        if not self.has_classes or order == plain_order(self.shape):
            return tree
        return call("rearrange", tree, axes_pattern(plain_order(self.shape), order))


def named_results(results: Mapping[str, ast.TypeExpr]) -> ast.TupleType:
    fields = [ast.TupleField(NOWHERE, identifier(key), kind) for key, kind in results.items()]
    return ast.TupleType(NOWHERE, tuple(fields))


def training_members(
    training: Training, ports: ForwardPorts, loss: Loss, over: Sequence[str] | None
) -> list[ast.Optimizer | ast.Function]:
    """The optimizer, and the entries that train and evaluate."""
    y, target, number = name("y"), name("target"), type_expr("f32", ())
    value = call(loss.name, y, target)
    measured = (call("accuracy", y, target),) if loss.has_classes else ()
    results = named_results(dict.fromkeys(("loss", "accuracy")[: 1 + len(measured)], number))
    values = [*ports.declared, argument("target", loss.target())]
    made = bind([y], loss.classes_last(ports.trained_output()))
    selectors = tuple(ast.String(NOWHERE, pattern) for pattern in over or ())
    steps: list[ast.Statement] = [
        made,
        bind([name("loss")], value),
        ast.Minimize(NOWHERE, name("loss"), name("opt"), selectors),
        ast.Return(NOWHERE, (name("loss"), *measured)),
    ]
    measuring: list[ast.Statement] = [made, ast.Return(NOWHERE, (value, *measured))]
    return [
        _optimizer(lr=real(training.lr), weight_decay=real(0.0)),
        function("train", values, results, steps, is_entry=True),
        function("eval", values, results, measuring, is_entry=True),
    ]


def _optimizer(**settings: ast.Expr) -> ast.Optimizer:
    items = tuple(ast.Setting(NOWHERE, identifier(key), value) for key, value in settings.items())
    return ast.Optimizer(NOWHERE, identifier("opt"), identifier("adamw"), items)
