"""What makes an imported model trainable: an optimizer, `entry train`, low-rank corrections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from wgcc.errors import WgError
from wgcc.from_onnx.literals import float_text
from wgcc.from_onnx.orders import axes_pattern
from wgcc.from_onnx.training_options import Training
from wgcc.from_onnx.values import Member, Shape, Statement, Traced, plain_order
from wgcc.from_onnx.writing.blocks import Block, members_of
from wgcc.from_onnx.writing.text import LayerType, ModelText, held_type
from wgcc.spelling import did_you_mean

# How templates of products look like.
PRODUCTS = (" @ ", "conv", "einsum(")


@dataclass(frozen=True, slots=True)
class Place:
    """A member, its path in the model, and the statement that uses it."""

    path: str
    member: Member
    statement: Statement


def places(block: Block, kind: LayerType, model: ModelText, prefix: str = "") -> Iterator[Place]:
    """All members in the order in which the model uses them."""
    own = dict(zip(block.members, kind.member_names, strict=True))
    inner = [item for item in block.body if isinstance(item, Block)]
    names = dict(zip(map(id, inner), kind.block_names, strict=True))
    for item in block.body:
        if statement := item.loop if isinstance(item, Block) else item:
            used = [member for member in members_of(statement) if member in own]
            yield from (Place(f"{prefix}{own[m]}", m, statement) for m in used)
        if isinstance(item, Block):
            yield from places(item, model.type_of(item), model, f"{prefix}{names[id(item)]}.")


def is_trained(member: Member) -> bool:
    return not member.kind.startswith("frozen ")


def selectors(training: Training, found: Sequence[Place]) -> list[str] | None:
    """Which parameters are trained; None: all of them."""
    if training.lora:
        return ["*lora_*"]
    trained = [place for place in found if is_trained(place.member)]
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


def remark_frozen(traced: Traced, training: Training, found: Sequence[Place]) -> None:
    """Floats that `--train all` does not reach are named."""
    for place in found if training.train == "all" else ():
        has_floats = any(array.dtype.kind == "f" for array in place.member.arrays.values())
        if has_floats and not is_trained(place.member):
            text = "--train all leaves these as they are, as they are no weights"
            traced.remark(text, place.path)


def _head(trained: Sequence[Place]) -> list[Place]:
    """The last product with a matrix, and what comes after it."""
    products = [place.statement for place in trained if _is_matrix_product(place)]
    last = products[-1] if products else trained[-1].statement
    first = next(n for n, place in enumerate(trained) if place.statement is last)
    return list(trained[first:])


def _is_matrix_product(place: Place) -> bool:
    """Not a bias or a norm."""
    text = place.statement.text
    is_product = text == "{1}({0})" or any(mark in text for mark in PRODUCTS)
    return is_product and any(array.ndim > 1 for array in place.member.arrays.values())


def _names(place: Place) -> list[str]:
    return [f"{place.path}.{key}" if key else place.path for key in place.member.arrays]


def _pattern(place: Place) -> str:
    return place.path if "" in place.member.arrays else f"{place.path}.*"


def corrected(training: Training, found: Sequence[Place]) -> list[str]:
    """Paths of the linear layers that get a correction; numbers of lists become `*`."""
    result: dict[str, None] = {}
    for pattern in training.lora:
        paths = [p.path for p in found if p.member.kind.startswith("{name}: Linear[")]
        hits = [path for path in paths if fnmatchcase(path, pattern)]
        if not hits:
            raise WgError(
                f'--lora "{pattern}": no linear layer is called like this: {_list(paths)}'
            )
        result |= dict.fromkeys(_collapsed(path, paths, hits) for path in hits)
    return list(result)


def _collapsed(path: str, paths: Sequence[str], hits: Sequence[str]) -> str:
    """`h.*.attn` for `h.0.attn`, if all of that list are meant."""
    found = re.sub(r"\.\d+(?=\.)", ".*", path)
    alike = [other for other in paths if re.sub(r"\.\d+(?=\.)", ".*", other) == found]
    return found if set(alike) <= set(hits) else path


def _list(paths: Sequence[str]) -> str:
    return ", ".join(paths[:8]) + (", …" if len(paths) > 8 else "") if paths else "there are none"


@dataclass(frozen=True, slots=True)
class Ports:
    """The inputs of `forward` as declared and as passed on, and how to get the trained output."""

    declared: str
    passed: str
    place: str


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of an output of this shape, whose `axis` has the classes."""

    name: str
    shape: Shape
    axis: int

    @property
    def has_classes(self) -> bool:
        return self.name == "cross_entropy"

    def target(self) -> str:
        if not self.has_classes:
            return held_type("f32", self.shape)
        return held_type("i32", [self.shape[axis] for axis in self._others])

    @property
    def _others(self) -> list[int]:
        return [axis for axis in range(len(self.shape)) if axis != self.axis]

    def classes_last(self, text: str) -> str:
        order = (*self._others, self.axis)
        if not self.has_classes or order == plain_order(self.shape):
            return text
        return f'rearrange({text}, "{axes_pattern(plain_order(self.shape), order)}")'


def training_text(
    training: Training, ports: Ports, loss: Loss, over: Sequence[str] | None
) -> list[str]:
    """The optimizer, and the entries that train and evaluate."""
    target, value = loss.target(), f"{loss.name}(y, target)"
    results, measured = "loss: f32", ""
    if loss.has_classes:
        results, measured = "loss: f32, accuracy: f32", ", accuracy(y, target)"
    names = "" if over is None else " over " + ", ".join(f'"{name}"' for name in over)
    heading = f"({ports.declared}, target: {target}) -> ({results}) {{"
    made = f"  y = {loss.classes_last(f'forward({ports.passed}){ports.place}')}"
    return [
        f"optimizer opt: adamw {{ lr = {float_text(training.lr)}; weight_decay = 0.0 }}",
        "",
        f"entry train{heading}",
        made,
        f"  loss = {value}",
        f"  minimize loss with opt{names}",
        f"  return loss{measured}",
        "}",
        "",
        f"entry eval{heading}",
        made,
        f"  return {value}{measured}",
        "}",
        "",
    ]
