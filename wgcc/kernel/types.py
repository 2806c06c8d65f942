"""The types of WGSL: what operators and functions take and give.

Types are their text, as in the tree. "int" and "float" are numbers whose type is still open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")
WHOLE = ("int", "i32", "u32")
FLOATS = ("float", "f32", "f16")
SCALARS = (*WHOLE, *FLOATS, "bool")
BARRIERS = ("workgroupBarrier", "storageBarrier")
# How numbers and short names of vectors end: `1.0h`, `vec4u`.
SUFFIXES = {"f": "f32", "h": "f16", "i": "i32", "u": "u32"}
SHORT_VECTORS = {f"vec{n}{s}": f"vec{n}<{kind}>" for n in "234" for s, kind in SUFFIXES.items()}
# Bytes of a scalar in memory.
BYTES = {"bool": 4, "f32": 4, "i32": 4, "u32": 4, "atomic<u32>": 4, "atomic<i32>": 4, "f16": 2}
_VECTOR = re.compile(r"vec([234])<(\w+)>")
_OPEN = {"int": ("i32", "u32", "f32", "f16", "float"), "float": ("f32", "f16")}
# Functions whose result has the type that their arguments have together, by what these may be.
_NUMERIC = {
    name: elements
    for names, elements in {
        "exp exp2 log log2 sqrt inverseSqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh "
        "atanh atan2 pow floor ceil round trunc fract fma dot": (*FLOATS, "int"),
        "countOneBits countLeadingZeros countTrailingZeros reverseBits firstLeadingBit": WHOLE,
        "abs sign min max clamp": (*FLOATS, *WHOLE),
    }.items()
    for name in names.split()
}
# Functions whose result has the type of the first argument.
_FIRST = (
    "extractBits",
    "subgroupShuffle",
    "subgroupShuffleXor",
    "subgroupBroadcast",
    "subgroupAdd",
    "subgroupMax",
    "subgroupMin",
)
_RESULTS = {
    "workgroupBarrier": "",
    "storageBarrier": "",
    "all": "bool",
    "any": "bool",
    "subgroupAll": "bool",
    "subgroupAny": "bool",
    "subgroupBallot": "vec4<u32>",
    "pack2x16float": "u32",
    "unpack2x16float": "vec2<f32>",
    "pack4xI8": "u32",
    "pack4xU8": "u32",
    "unpack4xI8": "vec4<i32>",
    "unpack4xU8": "vec4<u32>",
    "dot4I8Packed": "i32",
    "dot4U8Packed": "u32",
}
ATOMICS = ("atomicOr", "atomicAdd", "atomicMax", "atomicMin", "atomicAnd", "atomicLoad")
# Functions that need all threads of a workgroup, or of a subgroup.
COLLECTIVE = (*BARRIERS, "workgroupUniformLoad", "subgroup")


class TypeMismatch(ValueError):
    """An operator or function does not take these types."""


def is_collective(function: str) -> bool:
    return function.startswith(COLLECTIVE)


def element_of(kind: str) -> str:
    """The type of the elements of a vector; a scalar is its own."""
    match = _VECTOR.fullmatch(kind)
    return match[2] if match else kind


def width_of(kind: str) -> int:
    match = _VECTOR.fullmatch(kind)
    return int(match[1]) if match else 1


def vector(width: int, element: str) -> str:
    return element if width == 1 else f"vec{width}<{element}>"


def array_parts(kind: str) -> tuple[str, str] | None:
    """Element type and text of the length."""
    if not kind.startswith("array<"):
        return None
    element, _, length = kind[6:-1].rpartition(", ")
    return element, length


def fits(wanted: str, kind: str) -> bool:
    """May a value of this type stand where `wanted` is asked for?"""
    same = width_of(wanted) == width_of(kind)
    inner, element = element_of(wanted), element_of(kind)
    return wanted == kind or (same and inner in _OPEN.get(element, ()))


def default_kind(kind: str) -> str:
    """The type of a variable without a declared one."""
    concrete = {"int": "i32", "float": "f32"}
    return vector(width_of(kind), concrete.get(element_of(kind), element_of(kind)))


def common_kind(kinds: Sequence[str]) -> str:
    """The one type that values can all have."""
    common = kinds[0]
    for kind in kinds[1:]:
        if fits(kind, common):
            common = kind
        elif not fits(common, kind):
            raise TypeMismatch(f"{common} and {kind} do not go together")
    return common


def unary_kind(op: str, kind: str) -> str:
    inner = element_of(kind)
    is_right = {"!": inner == "bool", "~": inner in WHOLE, "-": inner in (*FLOATS, "i32", "int")}
    if not is_right[op]:
        raise TypeMismatch(f"{op} of {kind}")
    return kind


def binary_kind(op: str, left: str, right: str) -> str:
    width = max(width_of(left), width_of(right))
    a, b = element_of(left), element_of(right)
    if op in ("<<", ">>"):
        if a not in WHOLE or b not in ("u32", "int"):
            raise TypeMismatch(f"{left} {op} {right}")
        return left
    if width_of(left) != width_of(right) and (1 not in (width_of(left), width_of(right))):
        raise TypeMismatch(f"{left} {op} {right}")
    kind = common_kind((a, b))
    if op in ("&&", "||"):
        is_right = kind == "bool" and width == 1
    elif op in ("&", "|", "^"):
        is_right = kind in (*WHOLE, "bool")
    elif op in ("==", "!="):
        is_right = kind in SCALARS
    else:
        is_right = kind in (*WHOLE, *FLOATS)
    if not is_right:
        raise TypeMismatch(f"{left} {op} {right}")
    return vector(width, "bool" if op in (*COMPARISONS, "&&", "||") else kind)


def built_in_kind(name: str, kinds: Sequence[str]) -> str:
    """The type of what a function of WGSL gives."""
    if name in _RESULTS:
        return _RESULTS[name]
    if name in _FIRST:
        return kinds[0]
    if name == "select":
        if element_of(kinds[2]) != "bool":
            raise TypeMismatch(f"select by {kinds[2]}")
        return common_kind(kinds[:2])
    if name not in _NUMERIC:
        raise TypeMismatch(f"`{name}` is not known")
    kind = common_kind(kinds)
    if element_of(kind) not in _NUMERIC[name]:
        raise TypeMismatch(f"{name} of {kind}")
    return element_of(kind) if name == "dot" else kind


def constructor_kind(name: str, kinds: Sequence[str]) -> str:
    """`f32(x)`, `vec4<f32>(a, b)`; nothing inside means zeros."""
    width = width_of(name)
    given = sum(width_of(kind) for kind in kinds)
    is_right = not kinds or given == width or (len(kinds) == 1 and given == 1)
    if not is_right or any(element_of(kind) not in SCALARS for kind in kinds):
        raise TypeMismatch(f"{name} of {', '.join(kinds)}")
    return name


def bytes_of(kind: str) -> int:
    """The size in memory; vectors of three take the room of four."""
    width = width_of(kind)
    return BYTES[element_of(kind)] * (4 if width == 3 else width)
