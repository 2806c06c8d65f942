"""The tensors of a GGUF file as parameters of the imported model, one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wgcc.errors import WgError
from wgcc.from_gguf.architecture import FACTORS, OUTPUT, POSITIONS, TABLE, Decoder
from wgcc.from_gguf.pack import (
    BlockRows,
    PackedLayer,
    is_exact,
    matrix_layer,
    pack_matrix,
    pack_table,
    table_layer,
)
from wgcc.from_gguf.read import StoredTensor, TensorSource
from wgcc.from_gguf.rope_factors import rope_factors
from wgcc.lazy_numpy import Array, np

# Where a role's parameters are within a block.
PLACES = {
    "attn_q": "attn.wq",
    "attn_k": "attn.wk",
    "attn_v": "attn.wv",
    "attn_output": "attn.wo",
    "ffn_gate": "mlp.gate",
    "ffn_up": "mlp.up",
    "ffn_down": "mlp.down",
}
VECTORS = {
    "attn_norm": "norm1",
    "ffn_norm": "norm2",
    "attn_q_norm": "attn.q_norm",
    "attn_k_norm": "attn.k_norm",
}


@dataclass(frozen=True, slots=True)
class MatrixPart:
    """Some rows of a stored matrix, and those of its bias, which play one role in a block."""

    tensor: str
    first: int
    count: int
    inputs: int
    # Heads whose rows are stored for rotations of neighbours; 0: as ours.
    heads: int = 0


class Weights:
    """`layers`: the layer of each role. `parameters` are made when they are asked for."""

    def __init__(self, file: TensorSource, decoder: Decoder) -> None:
        self._file, self._decoder = file, decoder
        self.notes: list[str] = []
        self._parts = matrix_parts(file, decoder)
        self.layers = {role: self._layer(role) for role in self._parts}
        self.layers["token_embd"] = table_layer(self._tensor(TABLE).type)
        if not decoder.is_tied:
            self.layers["output"] = matrix_layer([self._tensor(OUTPUT).type])
        self._note_rounding(TABLE, self.layers["token_embd"])

    def parameters(self) -> Iterator[tuple[str, Array]]:
        """Every parameter of the model by its name."""
        d = self._decoder
        table = self._rows(TABLE, d.vocabulary, d.width)
        yield from _at_place("tok", pack_table(table, self.layers["token_embd"]))
        if d.has_positions:
            yield "positions.w", self._rows(POSITIONS, d.context, d.width).numbers()
        yield from self._vector("output_norm", "norm", d.width)
        if not d.is_tied:
            rows = self._rows(OUTPUT, d.vocabulary, d.width)
            yield from _at_place("head", pack_matrix(rows, self.layers["output"]))
        if d.has_head_bias:
            yield "head.b", self._numbers(self._tensor("output.bias"))
        for block in range(d.blocks):
            yield from self._block(block)

    def checked_parameters(self) -> Iterator[tuple[str, Array]]:
        """The same; numbers that are not finite are refused, and tensors that play no role."""
        self._refuse_others()
        for name, array in self.parameters():
            if array.dtype == np.float32 and not np.isfinite(array).all():
                raise WgError(f"{self._file.path}: `{name}` holds numbers that are not finite")
            yield name, array

    def _refuse_others(self) -> None:
        """A tensor that is not read is part of a computation that is not here."""
        d = self._decoder
        roles = {part.tensor for part in self._parts.values()} | set(VECTORS)
        known = {f"blk.{block}.{role}" for block in range(d.blocks) for role in roles}
        known |= {stem.rpartition(".")[0] for stem in (TABLE, POSITIONS, OUTPUT, FACTORS)}
        known.add("output_norm")
        for name in self._file.tensors:
            if name.rpartition(".")[0] not in known:
                text = f"{self._file.path} has `{name}`, which is not known in models of"
                raise WgError(f"{text} architecture {d.architecture} and {d.blocks} blocks")

    def _block(self, block: int) -> Iterator[tuple[str, Array]]:
        d = self._decoder
        for role, part in self._parts.items():
            place = f"blocks.{block}.{PLACES[role]}"
            yield from _at_place(place, pack_matrix(self._part(block, part), self.layers[role]))
            bias = self._file.tensors.get(f"blk.{block}.{part.tensor}.bias")
            if bias is not None:
                numbers = self._numbers(bias)[part.first : part.first + part.count]
                yield f"{place}.b", turn_heads(numbers, part.heads)
        for role, name in VECTORS.items():
            if f"blk.{block}.{role}.weight" in self._file.tensors:
                size = d.head_size if "_norm" in role and role.startswith("attn_q_") else None
                yield from self._vector(f"blk.{block}.{role}", f"blocks.{block}.{name}", size)
        if d.scaling:
            factors = rope_factors(self._file, d, d.scaling)
            yield f"blocks.{block}.attn.factors", factors

    def _vector(self, stored: str, place: str, size: int | None) -> Iterator[tuple[str, Array]]:
        for end, name in (("weight", "g"), ("bias", "b")):
            tensor = self._file.tensors.get(f"{stored}.{end}")
            if tensor is None:
                continue
            if len(tensor.shape) != 1 or size not in (None, tensor.shape[0]):
                raise self._wrong_shape(tensor, f"[{size}]")
            yield f"{place}.{name}", self._numbers(tensor)

    def _layer(self, role: str) -> PackedLayer:
        names = [f"blk.{block}.{self._parts[role].tensor}" for block in range(self._decoder.blocks)]
        types = [self._tensor(f"{name}.weight").type for name in names]
        layer = matrix_layer(types)
        for name in names:
            self._note_rounding(f"{name}.weight", layer)
        return layer

    def _note_rounding(self, name: str, layer: PackedLayer) -> None:
        tensor = self._tensor(name)
        if not is_exact(tensor.type, layer):
            role = name.split(".", 2)[2] if name.startswith("blk.") else name
            note = f"{role}: {tensor.type.name} is rounded to 8 bits"
            if note not in self.notes:
                self.notes.append(note)

    def _part(self, block: int, part: MatrixPart) -> BlockRows:
        name = f"blk.{block}.{part.tensor}.weight"
        whole = self._rows(name, None, part.inputs)
        if part.first + part.count > len(whole.data):
            raise self._wrong_shape(
                self._tensor(name), f"[{part.first + part.count}, {part.inputs}]"
            )
        data = whole.data[part.first : part.first + part.count]
        return BlockRows(whole.type, turn_heads(data, part.heads))

    def _rows(self, name: str, outputs: int | None, inputs: int) -> BlockRows:
        tensor = self._tensor(name)
        shape = tensor.shape
        if len(shape) != 2 or shape[1] != inputs or outputs not in (None, shape[0]):
            raise self._wrong_shape(tensor, f"[{outputs or '..'}, {inputs}]")
        data = np.frombuffer(self._file.read(tensor), np.uint8).reshape(shape[0], -1)
        return BlockRows(tensor.type, data)

    def _numbers(self, tensor: StoredTensor) -> Array:
        data = np.frombuffer(self._file.read(tensor), np.uint8).reshape(1, -1)
        return BlockRows(tensor.type, data).numbers().reshape(tensor.shape)

    def _tensor(self, name: str) -> StoredTensor:
        if name not in self._file.tensors:
            raise WgError(f"{self._file.path} has no tensor `{name}`")
        return self._file.tensors[name]

    def _wrong_shape(self, tensor: StoredTensor, wanted: str) -> WgError:
        text = f"{self._file.path}: `{tensor.name}` has shape {list(tensor.shape)}, not {wanted}"
        return WgError(f"{text}, as its metadata says")


def turn_heads(rows: Array, heads: int) -> Array:
    """Rows 0, 1, 2, … of each head, which rotate as neighbours, as 0, 2, …, 1, 3, … (halves)."""
    if not heads:
        return rows
    pairs = rows.reshape(heads, len(rows) // heads // 2, 2, *rows.shape[1:])
    turned: Array = np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)
    return turned


def _at_place(place: str, parts: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    for name, part in parts.items():
        yield f"{place}.{name}", part


def matrix_parts(file: TensorSource, d: Decoder) -> dict[str, MatrixPart]:
    """The rows of each role; some files store queries, keys and values as one matrix."""
    queries, keys = d.heads * d.head_size, d.key_heads * d.head_size
    heads = (d.heads, d.key_heads) if d.rotates_neighbours else (0, 0)
    parts = {
        "attn_q": MatrixPart("attn_q", 0, queries, d.width, heads[0]),
        "attn_k": MatrixPart("attn_k", 0, keys, d.width, heads[1]),
        "attn_v": MatrixPart("attn_v", 0, keys, d.width),
        "attn_output": MatrixPart("attn_output", 0, d.width, queries),
        "ffn_gate": MatrixPart("ffn_gate", 0, d.inner, d.width),
        "ffn_up": MatrixPart("ffn_up", 0, d.inner, d.width),
        "ffn_down": MatrixPart("ffn_down", 0, d.width, d.inner),
    }
    if "blk.0.attn_qkv.weight" in file.tensors:
        parts["attn_q"] = MatrixPart("attn_qkv", 0, queries, d.width, heads[0])
        parts["attn_k"] = MatrixPart("attn_qkv", queries, keys, d.width, heads[1])
        parts["attn_v"] = MatrixPart("attn_qkv", queries + keys, keys, d.width)
    if not d.is_gated:
        del parts["ffn_gate"]
    elif "blk.0.ffn_gate.weight" not in file.tensors:
        parts["ffn_gate"] = MatrixPart("ffn_up", 0, d.inner, d.width)
        parts["ffn_up"] = MatrixPart("ffn_up", d.inner, d.inner, d.width)
    return parts
