"""Arrays of a file of weights by name, whatever framework wrote it. No file runs code."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wgcc.errors import WgError
from wgcc.lazy_numpy import Array, np

# Pickled objects of PyTorch: only its own safe reader opens them.
PICKLES = (".pt", ".pth", ".bin", ".ckpt")
# Where checkpoints of trainings keep the parameters.
INNER = ("state_dict", "model_state_dict", "model")


def read_weights(path: Path) -> tuple[dict[str, Array], Mapping[str, Any]]:
    """Arrays by name, and the facts of a checkpoint if wgcc saved it."""
    if path.suffix == ".npz":
        return _npz(path), {}
    if path.suffix in PICKLES:
        return _pickle(path), {}
    from wgcc_runtime.weights import load_weights

    return load_weights(path)


def _npz(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise WgError(f"{path} cannot be read as an .npz file: {error}") from None


def _pickle(path: Path) -> dict[str, Array]:
    """By PyTorch with `weights_only`, which refuses everything but tensors."""
    try:
        import torch
    except ImportError:
        raise WgError(
            f"{path} is a pickle, which only PyTorch can open safely, and it is not installed; "
            'save it there with safetensors.torch.save_file(model.state_dict(), "w.safetensors")'
        ) from None
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise WgError(f"{path} is not a file of weights alone: {reason[:200]}") from None
    found = _tensors(held)
    if not found:
        raise WgError(f"{path} holds no tensors by name")
    return {name: tensor.detach().float().numpy() if tensor.is_floating_point()
            else tensor.numpy() for name, tensor in found.items()}  # fmt: skip


def _tensors(held: Any) -> dict[str, Any]:
    if not isinstance(held, dict):
        return {}
    for name in INNER:
        if isinstance(held.get(name), dict):
            return _tensors(held[name])
    return {name: item for name, item in held.items() if hasattr(item, "is_floating_point")}
