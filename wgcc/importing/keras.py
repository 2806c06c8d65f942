"""Weights that Keras saved, under names that say what each tensor is.

Keras 3 numbers the tensors of a layer (`layers/dense/vars/0`); Keras 2 names them
(`dense/dense/kernel:0`). Matrices and kernels are stored as wgcc stores them; what only Keras
stores otherwise is changed. HDF5 files may be damaged or hostile: no link is followed, sizes are
bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from wgcc.errors import WgError
from wgcc.importing.transforms import FileWeights, Origin, Shape, before_product
from wgcc.lazy_numpy import Array, np

LARGEST = 1 << 33
_DEEPEST, _MOST = 32, 100_000
# Deflate shrinks nothing to less than a 1032nd.
_SHRINKS = 1032
# The weights inside a `.keras` file, which is a zip archive.
INNER_FILE = "model.weights.h5"


@dataclass(slots=True)
class Folder:
    """A group: the name that its writer gave it, its arrays and its groups."""

    name: str = ""
    arrays: dict[str, Array] = field(default_factory=dict)
    folders: dict[str, Folder] = field(default_factory=dict)


def read_hdf5(path: Path) -> Folder:
    """All groups and arrays of an HDF5 file, or of the weights in a `.keras` file."""
    h5py = _need_h5py(path)
    with _open(h5py, path) as file:
        try:
            return _Reader(h5py, path).folder(file, "", 0)
        except WgError:
            raise
        except Exception as error:  # of HDF5, whatever is damaged
            raise _unreadable(path, error) from None


def _need_h5py(path: Path) -> Any:
    try:
        import h5py
    except ImportError:
        raise WgError(
            f"{path} is an HDF5 file, and the package h5py is not installed: "
            "pip install 'wgcc[keras]'"
        ) from None
    return h5py


@contextmanager
def _open(h5py: Any, path: Path) -> Iterator[Any]:
    try:
        file = h5py.File(_contents(path), "r")
    except WgError:
        raise
    except Exception as error:
        raise _unreadable(path, error) from None
    with file:
        yield file


def _contents(path: Path) -> Path | BytesIO:
    if path.suffix.lower() != ".keras":
        return path
    try:
        with ZipFile(path) as archive:
            if archive.getinfo(INNER_FILE).file_size > LARGEST:
                raise WgError(f"{path}: its weights take more than 8 GB")
            return BytesIO(archive.read(INNER_FILE))
    except KeyError:
        raise WgError(f"{path} holds no {INNER_FILE}: it is no model of Keras") from None
    except (BadZipFile, NotImplementedError, EOFError, OSError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> WgError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return WgError(f"{path} cannot be read as a file of Keras: {reason[:200]}")


class _Reader:
    def __init__(self, h5py: Any, path: Path) -> None:
        self._h5py, self._path = h5py, path
        self._count = self._bytes = 0

    def folder(self, group: Any, place: str, depth: int) -> Folder:
        if depth > _DEEPEST:
            raise WgError(f"{self._path}: groups are nested more than {_DEEPEST} deep")
        folder = Folder(_text(group.attrs.get("name")))
        for key in group:
            self._count += 1
            if self._count > _MOST:
                raise WgError(f"{self._path}: more than {_MOST} groups and tensors")
            inner = f"{place}/{key}".lstrip("/")
            item = self._item(group, key, inner)
            if isinstance(item, self._h5py.Group):
                folder.folders[key] = self.folder(item, inner, depth + 1)
            elif item.dtype.kind in "fiub":
                folder.arrays[key] = self._array(item, inner)
        return folder

    def _item(self, group: Any, key: str, place: str) -> Any:
        if not isinstance(group.get(key, getlink=True), self._h5py.HardLink):
            raise WgError(f"{self._path}: {place} is a link, which is not followed")
        item = group[key]
        if not isinstance(item, (self._h5py.Group, self._h5py.Dataset)):
            raise WgError(f"{self._path}: {place} is neither a group nor a tensor")
        return item

    def _array(self, dataset: Any, place: str) -> Array:
        if dataset.is_virtual or dataset.external:
            raise WgError(f"{self._path}: {place} is stored in another file, which is not read")
        size = prod(dataset.shape or ()) * dataset.dtype.itemsize
        held = dataset.id.get_storage_size()
        if size > (held * _SHRINKS if dataset.compression else held):
            raise WgError(
                f"{self._path}: {place} holds fewer numbers than its shape {list(dataset.shape)}"
            )
        self._bytes += size
        if self._bytes > LARGEST:
            raise WgError(f"{self._path}: its tensors take more than 8 GB")
        return np.asarray(dataset[()])


def _text(name: Any) -> str:
    if isinstance(name, bytes):
        return name.decode("utf-8", "replace")
    return name if isinstance(name, str) else ""


# Keras stores the gates of an LSTM as input, forget, cell, output, those of a GRU as update, reset,
# new.
GATES = {4: "ifgo", 3: "zrn"}
_ATTENTION = re.compile(r"(query|key|value|output|attention_output)(_dense)?")
_SEPARABLE = {
    "depthwise_kernel": "depthwise.kernel", "pointwise_kernel": "pointwise.kernel",
    "bias": "pointwise.bias",
}  # fmt: skip
_CELL = re.compile(r"(.*_)?cell")
_BACKWARD = re.compile(r"backward(_.*)?")
_FORWARD = re.compile(r"forward(_.*)?")


@dataclass(frozen=True, slots=True)
class KerasLayer:
    """`path` of names, arrays by what they are (`kernel`), and words that name its class."""

    path: tuple[str, ...]
    arrays: dict[str, Array]
    kind: str


@dataclass(slots=True)
class Tensors:
    """Arrays by their whole names, the order of gates, and what users must know."""

    arrays: dict[str, Array] = field(default_factory=dict)
    gates: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def attention_paths(layers: Iterable[KerasLayer]) -> set[tuple[str, ...]]:
    """Paths of layers of attention: those with queries, keys and values of several heads."""
    parts: dict[tuple[str, ...], set[str]] = {}
    for layer in layers:
        kernel, bias = layer.arrays.get("kernel"), layer.arrays.get("bias")
        has_heads = kernel is not None and kernel.ndim == 3 and (bias is None or bias.ndim == 2)
        if layer.path and has_heads:
            parts.setdefault(layer.path[:-1], set()).add(layer.path[-1].removesuffix("_dense"))
    return {path for path, names in parts.items() if names >= {"query", "key", "value"}}


def layer_tensors(layer: KerasLayer, is_in_attention: bool = False) -> Tensors:
    name = ".".join(layer.path) or "model"
    _refuse_quantised(name, layer.arrays)
    if "recurrent_kernel" in layer.arrays:
        return _recurrent(layer)
    arrays = layer.arrays
    if layer.path and is_in_attention and _ATTENTION.fullmatch(layer.path[-1]):
        name = ".".join((*layer.path[:-1], layer.path[-1].removesuffix("_dense")))
        arrays = _matrices(arrays, to_heads="output" not in layer.path[-1])
    arrays = {leaf: _depthwise(layer.kind, leaf, array) for leaf, array in arrays.items()}
    parts = _SEPARABLE if "pointwise_kernel" in arrays else {}
    return Tensors({f"{name}.{parts.get(leaf, leaf)}": array for leaf, array in arrays.items()})


def _refuse_quantised(name: str, arrays: dict[str, Array]) -> None:
    for leaf, array in arrays.items():
        if array.dtype.kind in "iu" and array.ndim > 1:
            raise WgError(
                f"{name}.{leaf} holds whole numbers: the model was quantised; save the weights "
                "that it had before"
            )


def _matrices(arrays: dict[str, Array], to_heads: bool) -> dict[str, Array]:
    """[inputs, heads, size] and [heads, size, outputs] as matrices, biases as vectors."""
    kernel, rest = arrays.get("kernel"), {n: array.reshape(-1) for n, array in arrays.items()}
    if kernel is None or kernel.ndim != 3:
        return arrays
    width = kernel.shape[0] if to_heads else kernel.size // max(kernel.shape[2], 1)
    return {**rest, "kernel": kernel.reshape(width, -1)}


def _depthwise(kind: str, leaf: str, array: Array) -> Array:
    """[kernel …, inputs, multiplier] as [kernel …, 1, outputs]."""
    named = leaf == "depthwise_kernel" or (leaf == "kernel" and "depthwise" in kind)
    if array.ndim < 3 or not named:
        return array
    return array.reshape(*array.shape[:-2], 1, -1)


def _check_recurrent(name: str, arrays: dict[str, Array]) -> None:
    """Two matrices, and at most one bias for each."""
    inputs, hidden = arrays.get("kernel"), arrays["recurrent_kernel"]
    if hidden.ndim > 2:
        raise WgError(
            f"{name} is a recurrent layer of convolutions (ConvLSTM), which wgcc does not have"
        )
    bias = arrays.get("bias")
    is_matrix = hidden.ndim == 2 and hidden.size and inputs is not None and inputs.ndim == 2
    is_bias = bias is None or bias.ndim == 1 or (bias.ndim == 2 and len(bias) == 2)
    if not is_matrix or not is_bias:
        shapes = ", ".join(f"{leaf} {list(array.shape)}" for leaf, array in arrays.items())
        raise WgError(f"{name} is no recurrent layer of Keras: it has {shapes}")


def _recurrent(layer: KerasLayer) -> Tensors:
    """`lstm.kernel_ih`, `lstm.kernel_hh` and a bias for each, with `_reverse` for the way back."""
    words = [w for w in layer.path if not _CELL.fullmatch(w)]
    end = "_reverse" if any(_BACKWARD.fullmatch(w) for w in words) else ""
    inner = [w for w in words if not _BACKWARD.fullmatch(w) and not _FORWARD.fullmatch(w)]
    name = ".".join(inner) or "model"
    _check_recurrent(name, layer.arrays)
    units, width = layer.arrays["recurrent_kernel"].shape
    tensors = Tensors()
    tensors.arrays[f"{name}.kernel_ih{end}"] = layer.arrays["kernel"]
    tensors.arrays[f"{name}.kernel_hh{end}"] = layer.arrays["recurrent_kernel"]
    if (bias := layer.arrays.get("bias")) is not None:
        both = bias if bias.ndim == 2 else np.stack([bias, np.zeros_like(bias)])
        tensors.arrays[f"{name}.bias_ih{end}"], tensors.arrays[f"{name}.bias_hh{end}"] = both
        if width == 3 * units and bias.ndim == 1:
            tensors.notes.append(before_product(name, "reset_after=False"))
    if order := GATES.get(width // units):
        tensors.gates = dict.fromkeys(tensors.arrays, order)
    return tensors


# State of Keras that no model needs.
_NOT_WEIGHTS = ("optimizer", "seed_generator", "metrics", "_trackable_metrics")
# Lists of layers; the second is that of the first versions.
_LISTS = ("layers", "_layer_checkpoint_dependencies")
_NUMBERED = re.compile(r"_[0-9]+$")
_RECURRENT = ["kernel", "recurrent_kernel", "bias"]
_BATCH_NORM = ["gamma", "beta", "moving_mean", "moving_variance"]


def read_keras(path: Path) -> FileWeights:
    """The weights of a `.weights.h5`, `.h5` or `.keras` file."""
    whole = read_hdf5(path)
    old = whole.folders.get("model_weights")
    # Keras 2 has whole models in such a group, and weights alone without it.
    layers = [*_old_layers(old, ())] if old else [*_layers(whole, ())] or [*_old_layers(whole, ())]
    arrays: dict[str, Array] = {}
    gates: dict[str, str] = {}
    notes: dict[str, None] = {}
    attention = attention_paths(layers)
    for layer in layers:
        tensors = layer_tensors(layer, layer.path[:-1] in attention)
        for name in tensors.arrays:
            if name in arrays:
                raise WgError(f"{path}: two tensors are {name}")
        arrays |= tensors.arrays
        gates |= tensors.gates
        notes |= dict.fromkeys(tensors.notes)
    if not arrays:
        raise WgError(f"{path} holds no weights of Keras")
    return FileWeights(arrays, Origin(keras=True, gates=gates, notes=tuple(notes)))


def _layers(folder: Folder, path: tuple[str, ...]) -> Iterator[KerasLayer]:
    """Groups with `vars`; those in a group `layers` are named after their class and a number."""
    for key, inner in folder.folders.items():
        if key in _NOT_WEIGHTS or key.startswith("seed_generator"):
            continue
        if key == "vars":
            if inner.arrays:
                yield _numbered_layer(inner, path)
        elif key in _LISTS:
            for word, layer in inner.folders.items():
                yield from _layers(layer, (*path, _layer_name(word, layer, inner)))
        else:
            yield from _layers(inner, (*path, key.lstrip("_")))


def _layer_name(word: str, layer: Folder, siblings: Folder) -> str:
    """The user's name if there is one; `dense`, `dense_1`, … are numbered from 0."""
    given = layer.folders["vars"].name if "vars" in layer.folders else ""
    if given and _NUMBERED.sub("", given) != _NUMBERED.sub("", word):
        return given.replace("/", ".")
    return f"{word}_0" if f"{word}_1" in siblings.folders else word


def _numbered_layer(held: Folder, path: tuple[str, ...]) -> KerasLayer:
    keys = sorted(held.arrays, key=lambda key: (len(key), key))
    arrays = [held.arrays[key] for key in keys]
    kind = " ".join((*path[-2:], held.name)).lower()
    names = _names(kind, [array.shape for array in arrays])
    return KerasLayer(path, dict(zip(names, arrays, strict=True)), kind)


def _names(kind: str, shapes: Sequence[Shape]) -> list[str]:
    """The names of a layer's tensors, in the order in which Keras stores them."""
    count, ranks = len(shapes), [len(shape) for shape in shapes]
    unknown = [f"vars_{place}" for place in range(count)]
    if "cell" in kind and ranks[:2] == [2, 2] and count <= len(_RECURRENT):
        return _RECURRENT[:count]
    if "separable" in kind and ranks[:2] in ([4, 4], [3, 3]):
        return ["depthwise_kernel", "pointwise_kernel", "bias"][:count] if count <= 3 else unknown
    if set(ranks) == {1}:
        return _vectors(kind, count) or unknown
    if "embedding" in kind and ranks == [2]:
        return ["embeddings"]
    with_bias = count == 2 and shapes[1] and ranks[0] >= 2
    return ["kernel", "bias"] if with_bias else ["kernel"] if ranks == [max(*ranks, 2)] else unknown


def _vectors(kind: str, count: int) -> list[str]:
    """The vectors of a norm; a batch norm with three does not show whether it scales or shifts."""
    if "batch" in kind or count == 4:
        return {4: _BATCH_NORM, 2: _BATCH_NORM[2:], 3: ["vars_0", *_BATCH_NORM[2:]]}.get(count, [])
    return _BATCH_NORM[:count] if count <= 2 else []


def _old_layers(folder: Folder, path: tuple[str, ...]) -> Iterator[KerasLayer]:
    """Keras 2: `dense/dense/kernel:0`, where the first word is the layer's own name."""
    if folder.arrays:
        arrays = {key.partition(":")[0]: array for key, array in folder.arrays.items()}
        yield KerasLayer(path, arrays, " ".join(path[-2:]).lower())
    for key, inner in folder.folders.items():
        if key != "top_level_model_weights":
            word = f"{key}_0" if not path and f"{key}_1" in folder.folders else key
            yield from _old_layers(inner, path if key in _spellings(path) else (*path, word))


def _spellings(path: tuple[str, ...]) -> tuple[str, ...]:
    """The last word of a path, with and without its number."""
    return (path[-1], path[-1].removesuffix("_0")) if path else ()
