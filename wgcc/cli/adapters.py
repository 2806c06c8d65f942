"""Adapters of language models where commands take weights: PEFT's, llama.cpp's, and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wgcc.cli.progress import Loading
from wgcc.errors import WgError

if TYPE_CHECKING:
    from wgcc_runtime.model import Model
    from wgcc_runtime.plan import Plan

CONFIG = "adapter_config.json"


def load_with(bundle: Path, weights: Path | None, **options: Any) -> Model:
    """A bundle's model with these weights, which may be a foreign adapter."""
    import wgcc_runtime

    if weights is None or not is_foreign(weights):
        return wgcc_runtime.load(bundle, weights=weights, on_bytes=Loading(), **options)
    model = wgcc_runtime.load(bundle, on_bytes=Loading(), **options)
    use_adapter(model, weights)
    return model


def use_adapter(model: Model, path: Path) -> None:
    """Replaces the corrections of a model by those of a file, whatever its form."""
    from wgcc.from_gguf.adapter_file import read_adapter

    model.load_adapter(read_adapter(path, head_size(model.plan)) if is_foreign(path) else path)


def is_foreign(path: Path) -> bool:
    """Whether it is an adapter of PEFT or llama.cpp."""
    from wgcc.from_gguf.adapter_file import is_gguf

    return path.is_dir() or (path.parent / CONFIG).is_file() or is_gguf(path)


def head_size(plan: Plan) -> int:
    """The width of a head of queries and keys, which the cache of an imported model tells."""
    caches = (t.shape[-1] for name, t in plan.tensors.items() if name.endswith(".attn.keys"))
    size = next(caches, 0)
    if not size:
        raise WgError(f"{plan.model} is no imported language model: it has no cache of keys")
    return int(size)
