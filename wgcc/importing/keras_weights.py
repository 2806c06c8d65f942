"""Weights that Keras saved, under names that say what each tensor is.

Keras 3 numbers the tensors of a layer (`layers/dense/vars/0`); Keras 2 names them
(`dense/dense/kernel:0`). Matrices and kernels are stored as wgcc stores them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from wgcc.errors import WgError
from wgcc.importing.hdf5 import Folder, read_hdf5
from wgcc.importing.keras_layers import Layer, attention_paths, layer_tensors
from wgcc.importing.origin import Origin, Weights
from wgcc.importing.transforms import Shape
from wgcc.lazy_numpy import Array

# State of Keras that no model needs.
_NOT_WEIGHTS = ("optimizer", "seed_generator", "metrics", "_trackable_metrics")
# Lists of layers; the second is that of the first versions.
_LISTS = ("layers", "_layer_checkpoint_dependencies")
_NUMBERED = re.compile(r"_[0-9]+$")
_RECURRENT = ["kernel", "recurrent_kernel", "bias"]
_BATCH_NORM = ["gamma", "beta", "moving_mean", "moving_variance"]


def read_keras(path: Path) -> Weights:
    """Of `.weights.h5`, `.h5` and `.keras` files."""
    whole = read_hdf5(path)
    old = whole.folders.get("model_weights")
    # Keras 2 has whole models in such a group, and weights alone without it.
    layers = [*_old_layers(old, ())] if old else [*_layers(whole, ())] or [*_old_layers(whole, ())]
    arrays: dict[str, Array] = {}
    gates: dict[str, str] = {}
    notes: dict[str, None] = {}
    attention = attention_paths(layers)
    for layer in layers:
        found = layer_tensors(layer, layer.path[:-1] in attention)
        for name in found.arrays:
            if name in arrays:
                raise WgError(f"{path}: two tensors are {name}")
        arrays |= found.arrays
        gates |= found.gates
        notes |= dict.fromkeys(found.notes)
    if not arrays:
        raise WgError(f"{path} holds no weights of Keras")
    return Weights(arrays, Origin(keras=True, gates=gates, notes=tuple(notes)))


def _layers(folder: Folder, path: tuple[str, ...]) -> Iterator[Layer]:
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


def _numbered_layer(held: Folder, path: tuple[str, ...]) -> Layer:
    keys = sorted(held.arrays, key=lambda key: (len(key), key))
    arrays = [held.arrays[key] for key in keys]
    kind = " ".join((*path[-2:], held.name)).lower()
    names = _names(kind, [array.shape for array in arrays])
    return Layer(path, dict(zip(names, arrays, strict=True)), kind)


def _names(kind: str, shapes: Sequence[Shape]) -> list[str]:
    """What the tensors of a layer are, in the order in which Keras stores them."""
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
    """Of norms; one of batches without scale or shift does not show which of them it has."""
    if "batch" in kind or count == 4:
        return {4: _BATCH_NORM, 2: _BATCH_NORM[2:], 3: ["vars_0", *_BATCH_NORM[2:]]}.get(count, [])
    return _BATCH_NORM[:count] if count <= 2 else []


def _old_layers(folder: Folder, path: tuple[str, ...]) -> Iterator[Layer]:
    """Keras 2: `dense/dense/kernel:0`, where the first word is the layer's own name."""
    if folder.arrays:
        arrays = {key.partition(":")[0]: array for key, array in folder.arrays.items()}
        yield Layer(path, arrays, " ".join(path[-2:]).lower())
    for key, inner in folder.folders.items():
        if key != "top_level_model_weights":
            word = f"{key}_0" if not path and f"{key}_1" in folder.folders else key
            yield from _old_layers(inner, path if key in _spellings(path) else (*path, word))


def _spellings(path: tuple[str, ...]) -> tuple[str, ...]:
    """The last word of a path, with and without its number."""
    return (path[-1], path[-1].removesuffix("_0")) if path else ()
