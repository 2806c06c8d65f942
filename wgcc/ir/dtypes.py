"""The element types of tensors, and all that is known of each: the one place to add another.

The grammar, the editor grammar, the schema of plans and both runtimes list them too, because they
must stand alone; `tests/ops/test_dtypes.py` compares them with this table.
"""

from __future__ import annotations

from dataclasses import dataclass

FLOAT, INTEGER, BOOL = "float", "integer", "bool"
LARGEST_FLOAT = 3.4028234663852886e38
_FLOATS, _F16 = (-LARGEST_FLOAT, LARGEST_FLOAT), (-65504.0, 65504.0)


@dataclass(frozen=True, slots=True)
class ElementType:
    """One row of the table.

    - `numpy`: the dtype of arrays that callers and the reference evaluation see
    - `wgsl`: the type of an element in WGSL expressions
    - `memory`, `stored`: an element in memory and in files, as numpy and safetensors call its type
    - `bytes`: how many it takes there; elements of one byte are packed, four to a word
    - `array`: the typed array that callers in JavaScript see
    - `low`, `high`: the least and the greatest finite number
    - `onnx`: the number of the element type in ONNX
    - `other_names`: what C, numpy and PyTorch call it, or a wider type that becomes it
    """

    name: str
    kind: str
    numpy: str
    wgsl: str
    memory: str
    stored: str
    array: str
    low: int | float
    high: int | float
    onnx: int
    other_names: tuple[str, ...]

    @property
    def bytes(self) -> int:
        return int(self.memory[-1])


_ROWS = (
    ElementType("f32", FLOAT, "float32", "f32", "<f4", "F32", "Float32Array", *_FLOATS, 1,
                ("float", "float32", "double", "float64")),
    ElementType("f16", FLOAT, "float16", "f32", "<f4", "F32", "Float32Array", *_F16, 10,
                ("half", "float16")),
    ElementType("i32", INTEGER, "int32", "i32", "<i4", "I32", "Int32Array", -(2**31), 2**31 - 1, 6,
                ("int", "int32", "long", "int64")),
    ElementType("u32", INTEGER, "uint32", "u32", "<u4", "U32", "Uint32Array", 0, 2**32 - 1, 12, ()),
    ElementType("i8", INTEGER, "int8", "i32", "<i1", "I8", "Int8Array", -128, 127, 3, ("int8",)),
    ElementType("u8", INTEGER, "uint8", "u32", "<u1", "U8", "Uint8Array", 0, 255, 2,
                ("uint8", "byte")),
    ElementType("bool", BOOL, "bool", "bool", "<u1", "BOOL", "Uint8Array", 0, 1, 9, ("boolean",)),
)  # fmt: skip
DTYPE_TABLE = {row.name: row for row in _ROWS}
DTYPES = tuple(DTYPE_TABLE)
FLOATS = tuple(row.name for row in _ROWS if row.kind == FLOAT)
INTEGERS = tuple(row.name for row in _ROWS if row.kind == INTEGER)
NUMBERS = (*FLOATS, *INTEGERS)
# Types with numbers below 0.
SIGNED = tuple(row.name for row in _ROWS if row.low < 0)
# Types whose elements callers' tensors hold four to a word.
PACKED = tuple(row.name for row in _ROWS if row.bytes == 1)
# Integers of less than 32 bits, whose sums and products soon wrap around.
NARROW_INTEGERS = tuple(
    row.name for row in _ROWS if row.kind == INTEGER and row.high - row.low < 2**32 - 1
)
# Floats that a model of lower precision stores; values of this type are rounded to it.
F16 = "f16"
OTHER_NAMES = {other: row.name for row in _ROWS for other in row.other_names}
# What integers and bools can hold.
INTEGER_RANGES = {
    row.name: (int(row.low), int(row.high)) for row in _ROWS if row.kind in (INTEGER, BOOL)
}


def words_of(dtype: str, size: int) -> int:
    """How many 32-bit words a tensor takes that callers see; its last one may be padded."""
    return -(-size * DTYPE_TABLE[dtype].bytes // 4)
