"""Arrays of a file of weights by name, whatever framework wrote it, and converted by a map.

No file runs code. Arrays that do not fit are refused.
"""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wgcc.errors import WgError
from wgcc.importing.llama2c import is_llama2c, read_llama2c
from wgcc.importing.propose import Pair
from wgcc.importing.transforms import FileWeights, Origin
from wgcc.ir.dtypes import DTYPE_TABLE, FLOATS, INTEGER_RANGES
from wgcc.ir.places import is_own_state
from wgcc.ir.program import ModelTensor, Program
from wgcc.lazy_numpy import Array, np

# Pickled objects of PyTorch: only its own safe reader opens them.
PICKLES = (".pt", ".pth", ".bin", ".ckpt")
KERAS = (".h5", ".hdf5", ".keras")
NAME_OF_META = re.compile(r"(?:.*\.)?layers\.\d+\.attention\.wq\.weight")
AS_META = (
    "the names are those of Meta's Llama, whose rotary positions turn neighbours: if the model "
    "uses `rope`, give queries and keys `rope HEADS` in a map (--map)"
)
# Where checkpoints of trainings keep the parameters.
INNER = ("state_dict", "model_state_dict", "model")


def read_weights(path: Path) -> FileWeights:
    from wgcc_runtime.regular_files import check_regular

    check_regular(path)
    if is_gguf(path):
        text = f"{path} is a GGUF file, which holds a whole model: wgcc import {path} -o FOLDER"
        raise WgError(text)
    kind = path.suffix.lower()
    if kind == ".npz":
        return _with_note(_npz(path))
    if kind in KERAS:
        from wgcc.importing.keras import read_keras

        return read_keras(path)
    if kind == ".bin" and is_llama2c(path):
        return read_llama2c(path)
    if kind in PICKLES:
        return _with_note(_pickle(path))
    from wgcc_runtime.weights import load_weights

    arrays, facts = load_weights(path)
    return FileWeights(arrays, Origin(own=True)) if facts else _with_note(arrays)


def is_gguf(path: Path) -> bool:
    """Such files begin with their name, whatever they are called."""
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"


def _with_note(arrays: dict[str, Array]) -> FileWeights:
    """Files with Meta's names do not say how many heads there are."""
    of_meta = any(NAME_OF_META.fullmatch(name) for name in arrays)
    return FileWeights(arrays, Origin(notes=(AS_META,) if of_meta else ()))


def _npz(path: Path) -> dict[str, Array]:
    from wgcc_runtime.data.numpy_files import read_numpy

    try:
        return read_numpy(path)
    except Exception as error:  # of numpy, zipfile or zlib
        reason = getattr(error, "strerror", None) or str(error)
        raise WgError(f"{path} cannot be read as an .npz file: {reason}") from None


def _pickle(path: Path) -> dict[str, Array]:
    """PyTorch reads it with `weights_only`, which refuses everything but tensors."""
    try:
        import torch
    except ImportError:
        raise WgError(
            f"{path} is a pickle, which only PyTorch can open safely, and it is not installed; "
            'save it there with safetensors.torch.save_file(model.state_dict(), "w.safetensors")'
        ) from None
    _check_archive(path)
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # PyTorch's own advice for a whole model is to run the code in the file.
        whole = isinstance(error, pickle.UnpicklingError)
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        reason = "it holds Python objects; save model.state_dict()" if whole else reason
        raise WgError(f"{path} is not a file of weights alone: {reason[:200]}") from None
    tensors = _tensors(held)
    if not tensors:
        raise WgError(f"{path} holds no tensors by name")
    return {name: tensor.detach().float().numpy() if tensor.is_floating_point()
            else tensor.numpy() for name, tensor in tensors.items()}  # fmt: skip


def _check_archive(path: Path) -> None:
    """PyTorch's files are zip archives; one that unpacks to more than memory has is refused."""
    from wgcc_runtime.regular_files import check_archive

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            check_archive(path, archive)


def _tensors(held: Any) -> dict[str, Any]:
    if not isinstance(held, dict):
        return {}
    for name in INNER:
        if isinstance(held.get(name), dict):
            return _tensors(held[name])
    return {name: item for name, item in held.items() if hasattr(item, "is_floating_point")}


def own_tensors(program: Program) -> dict[str, ModelTensor]:
    """The tensors that a weights file can fill: parameters and the model's own state."""
    state = {n: t for n, t in program.state.items() if is_own_state(n)}
    return {**program.params, **state}


def convert(
    pairs: Iterable[Pair], tensors: Mapping[str, ModelTensor], arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """The arrays by the names of the model's tensors."""
    return {
        pair.target: _convert(pair, tensors[pair.target], arrays[pair.source]) for pair in pairs
    }


def _convert(pair: Pair, tensor: ModelTensor, array: Array) -> Array:
    shape, way = tuple(array.shape), pair.transform.text() or "as it is"
    if not pair.transform.fits(shape, tensor.type.shape):
        becomes = pair.transform.shape(shape)
        text = f" cannot be {way}" if becomes is None else f", {way}, is {list(becomes)}"
        raise WgError(f"{pair.source} {list(shape)}{text}, but {pair.target} is {tensor.type}")
    result = np.ascontiguousarray(pair.transform.apply(array)).reshape(tensor.type.shape)
    return _with_type(pair, pair.transform.in_order(result), tensor.type.dtype)


def _with_type(pair: Pair, array: Array, dtype: str) -> Array:
    """Floats of any width become f32; integers stay integers."""
    held = DTYPE_TABLE[dtype].memory
    if dtype in FLOATS:
        if array.dtype.kind not in "fiub":
            raise WgError(f"{pair.source} holds {array.dtype}, but {pair.target} holds {dtype}")
        return array.astype(held)
    if array.dtype.kind not in "iub":
        raise WgError(f"{pair.source} holds {array.dtype}, but {pair.target} holds {dtype}")
    low, high = INTEGER_RANGES[dtype]
    if array.size and not low <= array.min() <= array.max() <= high:
        text = f"{pair.source} holds {array.min()} to {array.max()}, but {pair.target} is {dtype}"
        raise WgError(f"{text} ({low} to {high})")
    return array.astype(held)
