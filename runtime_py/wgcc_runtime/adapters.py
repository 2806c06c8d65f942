"""Adapters: low-rank corrections of a language model, as files that other programs read and write.

An adapter has two factors for each layer that it corrects. Those of wgcc are checkpoints of a model
that `wgcc train FOLDER --lora` made; those of PEFT are a folder with `adapter_config.json` and
`adapter_model.safetensors`. Mirrors adapter.js.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.errors import WgccError
from wgcc_runtime.weights import load_weights

if TYPE_CHECKING:
    from wgcc_runtime.model import Model
    from wgcc_runtime.plan import Plan

# The entry that says what a model multiplies its corrections by.
STRENGTH = "strength"
FACTORS = ".lora_a", ".lora_b"
PLACE = re.compile(r"blocks\.(\d+)\.(attn|mlp)\.(\w+)$")


@dataclass(frozen=True, slots=True)
class Factors:
    """A layer's correction of `x` is `scale (x @ a @ b)`: a [inputs, rank], b [rank, outputs]."""

    a: Array
    b: Array
    scale: float = 1.0

    @property
    def rank(self) -> int:
        return int(self.a.shape[1])

    @property
    def size(self) -> tuple[int, int]:
        return int(self.a.shape[0]), int(self.b.shape[1])


@dataclass(frozen=True, slots=True)
class Adapter:
    """`layers`: factors by the layer that they correct, such as `blocks.0.attn.wq`."""

    layers: Mapping[str, Factors]
    # In errors.
    name: str = "the adapter"

    @classmethod
    def read(cls, path: str | Path) -> Adapter:
        """A folder of PEFT, or the `adapter_model.safetensors` in it."""
        from wgcc_runtime.peft_files import read_peft

        return read_peft(Path(path))

    def save(self, folder: str | Path, base: str = "") -> None:
        """Writes PEFT's two files. `base`: the name or path of the model that it corrects."""
        from wgcc_runtime.peft_files import write_peft

        write_peft(self, Path(folder), base)

    def __mul__(self, strength: float) -> Adapter:
        layers = {n: replace(f, scale=f.scale * strength) for n, f in self.layers.items()}
        return replace(self, layers=layers)

    def __add__(self, other: Adapter) -> Adapter:
        """Both at once, exactly: their ranks add up."""
        layers = dict(self.layers)
        for name, factors in other.layers.items():
            layers[name] = _join(name, layers[name], factors) if name in layers else factors
        return Adapter(layers, f"{self.name} + {other.name}")


class WithAdapters(ABC):
    """Reads and replaces the corrections of a model."""

    @property
    @abstractmethod
    def plan(self) -> Plan: ...

    def adapter(self) -> Adapter:
        """The corrections as they are now."""
        return model_adapter(self)  # type: ignore[arg-type]

    def load_adapter(self, adapter: Adapter | str | Path | None) -> None:
        """Replaces the corrections; None: there are none. Optimizers and steps are reset.

        A path is PEFT's, or a checkpoint of this model. If it does not fit, nothing is changed.
        """
        load_adapter(self, adapter)  # type: ignore[arg-type]

    def merge_adapter(self) -> None:
        """Adds the corrections to the weights that they correct, which must be plain floats."""
        merge_adapter(self)  # type: ignore[arg-type]


def model_adapter(model: Model) -> Adapter:
    places, values, scale = _places(model.plan), model.parameters, _strength(model)
    layers = {
        short: Factors(
            np.array(values[f"{name}.lora_a"]), np.array(values[f"{name}.lora_b"]), scale
        )
        for short, name in places.items()
    }
    return Adapter(layers, model.plan.model)


def load_adapter(model: Model, adapter: Adapter | str | Path | None) -> None:
    if isinstance(adapter, str | Path) and _is_checkpoint(Path(adapter)):
        model.load(adapter, weights_only=True)
        return
    given = adapter if isinstance(adapter, Adapter | None) else Adapter.read(adapter)
    model.replace_params(
        fit_factors(model, given or Adapter({})), given.name if given else "no adapter"
    )


def fit_factors(model: Model, adapter: Adapter) -> dict[str, Array]:
    """The factors as the model has them: with its scale, and zeros in `b` up to its rank.

    What is left of `a` stays as it is, so that it can learn.
    """
    places, values, scale = _places(model.plan), model.parameters, _strength(model)
    _check_layers(adapter, places)
    arrays: dict[str, Array] = {}
    for short, name in places.items():
        a = np.array(values[f"{name}.lora_a"])
        b = np.zeros(model.plan.tensors[f"{name}.lora_b"].shape, np.float32)
        if short in adapter.layers:
            factors = adapter.layers[short]
            _check_size(adapter, short, factors, (a.shape[0], b.shape[1]), a.shape[1])
            a[:, : factors.rank] = factors.a
            b[: factors.rank] = factors.b * np.float32(factors.scale / scale)
        arrays |= {f"{name}.lora_a": a, f"{name}.lora_b": b}
    return arrays


def merge_adapter(model: Model) -> None:
    places, scale, tensors = _places(model.plan), _strength(model), model.plan.tensors
    merged: dict[str, Array] = {}
    for name in places.values():
        weight = f"{name}.w"
        if weight not in tensors or tensors[weight].dtype != "f32":
            text = f"`{name}` has packed weights, which cannot take a correction without rounding"
            raise WgccError("weights", f"{text}: keep the adapter beside them", name)
        values = model.parameters
        a, b = (np.array(values[f"{name}{part}"]) for part in FACTORS)
        merged[weight] = values[weight] + scale * (a @ b)
        merged[f"{name}.lora_b"] = np.zeros_like(b)
    model.load_params(merged, strict=False)


def _join(name: str, one: Factors, two: Factors) -> Factors:
    if one.size != two.size:
        text = f"`{name}` has {_sizes(one)} in one adapter, {_sizes(two)} in the other"
        raise WgccError("shape", text, name)
    parts = np.float32(one.scale) * one.b, np.float32(two.scale) * two.b
    return Factors(np.concatenate([one.a, two.a], 1), np.concatenate(parts, 0))


def _places(plan: Plan) -> dict[str, str]:
    """The layers that the model corrects, by what they are called in the model alone."""
    params = (name for name, tensor in plan.tensors.items() if tensor.role == "param")
    names = [name.removesuffix(".lora_a") for name in params if name.endswith(".lora_a")]
    places = {match[0]: name for name in names if (match := PLACE.search(name))}
    if not places:
        text = f"{plan.model} has no corrections: wgcc train FOLDER notes.txt --lora builds a model"
        raise WgccError("weights", f"{text} that has some", "lora_a")
    return places


def _strength(model: Model) -> float:
    if STRENGTH not in model.plan.entries:
        text = f"{model.plan.model} has no entry `{STRENGTH}` that says what its corrections are "
        raise WgccError("name", f"{text}multiplied by: delete lora.wg, and train again", STRENGTH)
    return float(model.call(STRENGTH)["scale"])


def _check_layers(adapter: Adapter, places: Mapping[str, str]) -> None:
    """Every layer must be one that the model corrects, and none may miss between others."""
    blocks = {int(name.split(".")[1]) for name in places}
    roles = {name.split(".", 2)[2] for name in places}
    for name in adapter.layers:
        block, role = _split(name)
        if block not in blocks:
            text = f"{adapter.name} corrects block {block}; the model has {len(blocks)} blocks: "
            raise WgccError("weights", f"{text}it was made for another model", name)
        if role not in roles:
            text = (
                f"{adapter.name} corrects {role} layers, the model only {', '.join(sorted(roles))}"
            )
            raise WgccError("weights", f"{text}: build it with --targets", name)
    for role in {_split(name)[1] for name in adapter.layers}:
        missing = min((b for b in blocks if f"blocks.{b}.{role}" not in adapter.layers), default=-1)
        if missing >= 0:
            text = f"{adapter.name} has no factors for `blocks.{missing}.{role}`, but for others"
            raise WgccError("weights", f"{text}: it is not whole", f"blocks.{missing}.{role}")


def _split(name: str) -> tuple[int, str]:
    match = PLACE.match(name)
    if match is None:
        raise WgccError("name", f"`{name}` is no layer such as blocks.0.attn.wq", name)
    return int(match[1]), f"{match[2]}.{match[3]}"


def _check_size(
    adapter: Adapter, name: str, factors: Factors, size: tuple[int, int], rank: int
) -> None:
    if factors.size != size:
        text = f"{adapter.name}: `{name}` has {_sizes(factors)}, the model's {size[0]} × {size[1]}"
        raise WgccError("shape", f"{text}: it was made for another model", name)
    if factors.rank > rank:
        text = f"{adapter.name} has rank {factors.rank}, the model room for {rank}"
        hint = f"wgcc train FOLDER notes.txt --lora --rank {factors.rank} builds one with more"
        raise WgccError("shape", f"{text}: {hint}", name)
    if not all(np.isfinite(part).all() for part in (factors.a, factors.b)):
        raise WgccError(
            "weights", f"{adapter.name}: `{name}` has numbers that are not finite", name
        )


def _sizes(factors: Factors) -> str:
    return f"{factors.size[0]} × {factors.size[1]}"


def _is_checkpoint(path: Path) -> bool:
    """Whether it is a file of wgcc, which names its tensors as the model does."""
    if path.is_dir() or (path.parent / "adapter_config.json").exists():
        return False
    names = load_weights(path)[0]
    return any(name.endswith(FACTORS) for name in names)
