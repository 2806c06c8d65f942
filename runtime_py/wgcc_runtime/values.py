"""The values that a model starts with: given weights, the bundle's own, or newly drawn ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from wgcc_runtime.arrays import Array, as_array, convert
from wgcc_runtime.bundle_files import Folder, Read
from wgcc_runtime.data.form import EntryForm
from wgcc_runtime.data.preparation import KEY, Data, Preparation, is_only_names
from wgcc_runtime.drawn import initial_values
from wgcc_runtime.errors import WgccError, did_you_mean
from wgcc_runtime.plan import Plan, Tensor
from wgcc_runtime.read_again import Unkept, fixed_names
from wgcc_runtime.weights import (
    OUTER,
    Facts,
    LargeFile,
    is_large,
    load_weights,
    names_averages,
    with_averages,
)

SEED_STATE = "rng/seed"
WEIGHTS = "weights.safetensors"
# Bytes that a safetensors file may have beyond its tensors: header and padding.
FILE_EXTRA = 16 << 20
# Bytes of the widest element that a file may hold instead of the model's own.
WIDEST = 8

Words = Mapping[str, Array]

# Hears how many bytes are done, and how many there are.
OnBytes = Callable[[int, int], object]


class DrawnWords(Mapping[str, Array]):
    """The words of tensors by name, each made when it is asked for: all at once would be many."""

    def __init__(self, tensors: Mapping[str, Tensor], make: Callable[[Tensor], Array]) -> None:
        self.tensors, self._make = tensors, make

    @property
    def bytes(self) -> int:
        return sum(tensor.bytes for tensor in self.tensors.values())

    def without(self, names: Container[str]) -> DrawnWords:
        others = {name: tensor for name, tensor in self.tensors.items() if name not in names}
        return DrawnWords(others, self._make)

    def __getitem__(self, name: str) -> Array:
        return self._make(self.tensors[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


def with_progress(words: DrawnWords, on_bytes: OnBytes) -> DrawnWords:
    """The same words, to be used once each; `on_bytes` hears how many bytes were used."""
    total, done = words.bytes, 0

    def make(tensor: Tensor) -> Array:
        nonlocal done
        array = words[tensor.name]
        done += tensor.bytes
        on_bytes(done, total)
        return array

    return DrawnWords(words.tensors, make)


class StartValues:
    """The words of every parameter, state and constant at the start, for any seed."""

    def __init__(self, plan: Plan, read: Read, weights: Any) -> None:
        self._plan, self._read = plan, read
        self.constants, _ = _file(plan, read, "constants.safetensors", ("constant",))
        own, facts = _file(plan, read, WEIGHTS, ("param", "state"))
        # Moments without the step count that belongs to them would give steps of the wrong size.
        self._own = own if isinstance(own, Unkept) else without_moments(own)
        self.given: Words
        if names_averages(weights):
            self.given = without_moments(with_averages(own, weights, WEIGHTS))
        else:
            given, given_facts = _given_weights(plan, weights)
            self.given = given
            facts = {**facts, **given_facts}
        # How the data was made that the weights were trained with.
        self.preparation: Preparation | None = facts.get(KEY) or bundle_preparation(read)
        # Whether values are given or trained, not drawn.
        self.has_learned = bool(self.given) or "seed" not in plan.weights or KEY in facts
        _check_complete(plan, self.constants, self._own, self.given)

    @property
    def unkept(self) -> frozenset[str]:
        """The tensors whose words are read from a large file each time."""
        sets = (words.names for words in (self._own, self.given) if isinstance(words, Unkept))
        return frozenset[str]().union(*sets)

    @property
    def names(self) -> Preparation | None:
        """Names of classes that the bundle was built with, for weights that come without."""
        own = self.preparation
        return own if own and is_only_names(own) else None

    def words(self, seed: int | None, own: bool = False) -> DrawnWords:
        """The words of all tensors. A seed draws the random ones anew; given weights are kept, also
        those that the bundle was built with.

        `own`: the values the bundle was built with, even if other weights were given, or its
        weights file was replaced since.
        """
        given = {} if own else self.given
        if own and not self._is_as_built():
            seed = self._built_seed()
        return DrawnWords(self._plan.persistent(), partial(self._word, seed, given))

    def _word(self, seed: int | None, given: Words, tensor: Tensor) -> Array:
        name = tensor.name
        is_kept = seed is None or (name != SEED_STATE and not self._can_be_drawn(tensor))
        for words in (given, self._own if is_kept else {}):
            if name in words:
                return words[name]
        if tensor.init["kind"] == "copy":
            return self._word(seed, given, self._plan.tensors[tensor.init["of"]])
        initial = _draw(tensor, self._seed() if seed is None else seed)
        if name == SEED_STATE and seed is not None:
            initial[...] = seed
        return initial

    def _can_be_drawn(self, tensor: Tensor) -> bool:
        """Whether the bundle's own value of a tensor came from a seed."""
        record = self._plan.weights
        is_given = bool(record) and "seed" not in record
        return not is_given and tensor.init["kind"] != "external"

    def _is_as_built(self) -> bool:
        """Reads the file again: only the self-test needs this."""
        if not self._plan.weights:
            return True
        wanted = self._plan.weights.get("sha256")
        data = self._read(WEIGHTS, _largest(self._plan.persistent().values()))
        return (data and hashlib.sha256(data).hexdigest()) == wanted

    def _built_seed(self) -> int:
        if "seed" not in self._plan.weights:
            raise WgccError(
                "weights",
                f"{WEIGHTS} was replaced after the bundle was built, but the self-test was made "
                "with the original weights: build with `wgcc build --weights` to record a new one",
                WEIGHTS,
            )
        return self._seed()

    def _seed(self) -> int:
        """The seed the model was written with, for bundles without weights."""
        if "seed" in self._plan.weights:
            return int(self._plan.weights["seed"])
        state = self._plan.tensors.get(SEED_STATE)
        values = state.init.get("values", ()) if state else ()
        return int(values[0]) if values else 0


def is_optimizer_state(name: str) -> bool:
    """Whether it belongs to an optimizer: a counter, or what it keeps for a parameter."""
    return name.startswith("opt/")


def is_gradient_sum(name: str) -> bool:
    """Whether an optimizer adds up gradients of several calls there."""
    return is_optimizer_state(name) and name.split("/")[2] == "acc"


def without_moments(values: Mapping[str, Any]) -> dict[str, Any]:
    """All but the tensors of optimizers."""
    return {name: v for name, v in values.items() if not is_optimizer_state(name)}


def words_of(values: Mapping[str, Any], plan: Plan, what: str) -> Words:
    """Arrays by tensor name as words; unknown names and shapes that do not fit are refused."""
    tensors = plan.persistent()
    for name in values:
        if name not in tensors:
            near = did_you_mean(name, tensors)
            raise WgccError("weights", f"{what}: the model has no `{name}`{near}", name)
    return _fit_all(values, tensors, what, plan)


def _fit_named(tensors: Mapping[str, Tensor], what: str, name: str, value: Any) -> Array:
    return _fit(value, tensors[name], what)


def _fit(value: Any, tensor: Tensor, what: str) -> Array:
    where = f"{what}: `{tensor.name}`"
    array = as_array(value, where)
    if array.shape != tensor.shape:
        shapes = f"{list(array.shape)}; the model has {list(tensor.shape)}"
        raise WgccError("weights", f"{where} has shape {shapes}", tensor.name)
    return convert(array, tensor.dtype, where)


def _file(plan: Plan, read: Read, name: str, roles: tuple[str, ...]) -> tuple[Words, Facts]:
    wanted = {n: t for n, t in plan.tensors.items() if t.role in roles}
    limit = _largest(wanted.values())
    path = read.path(name, limit) if isinstance(read, Folder) else None
    # A large file is read without a second copy, which needs its place.
    source = path if path and is_large(path) else read(name, limit)
    if source is None:
        return {}, {}
    arrays, facts = _load(source)
    for extra in arrays.keys() - wanted.keys():
        raise WgccError("weights", f"{name} holds `{extra}`, which plan.json does not know", extra)
    return _fit_all(arrays, wanted, name, plan), facts


def _load(source: str | Path | bytes) -> tuple[Mapping[str, Array], Facts]:
    if isinstance(source, bytes) or not is_large(Path(source)):
        return load_weights(source)
    file = LargeFile(Path(source))
    return file.without(lambda name: name == OUTER), file.facts()


def _fit_all(
    arrays: Mapping[str, Array], tensors: Mapping[str, Tensor], what: str, plan: Plan
) -> Words:
    fit = partial(_fit_named, tensors, what)
    if isinstance(arrays, LargeFile):
        return Unkept(arrays.without(is_optimizer_state), fixed_names(plan), fit)
    return {name: fit(name, array) for name, array in arrays.items()}


def _largest(tensors: Iterable[Tensor]) -> int:
    """The largest allowed size in bytes of a file of these tensors."""
    return WIDEST * sum(tensor.size for tensor in tensors) + FILE_EXTRA


def _given_weights(plan: Plan, weights: Any) -> tuple[Words, Facts]:
    if weights is None:
        return {}, {}
    if isinstance(weights, Mapping):
        return words_of(weights, plan, "weights"), {}
    if isinstance(weights, (str, Path, bytes)):
        what = "weights" if isinstance(weights, bytes) else str(weights)
        arrays, facts = _load(weights)
        if isinstance(arrays, LargeFile):
            return words_of(arrays.without(is_optimizer_state), plan, what), facts
        return words_of(without_moments(arrays), plan, what), facts
    kind = type(weights).__name__
    raise WgccError("weights", f"weights are a path, bytes or a dict of arrays, not {kind}")


def _check_complete(plan: Plan, constants: Words, own: Words, given: Words) -> None:
    for name, tensor in plan.tensors.items():
        if tensor.role == "constant" and name not in constants:
            raise WgccError("weights", f"constants.safetensors lacks `{name}`", name)
    outside = [n for n, t in plan.persistent().items() if t.init["kind"] == "external"]
    missing = [name for name in outside if name not in given and name not in own]
    if missing:
        text = f"{_names(missing)} is external and must be given: load(bundle, weights=...)"
        raise WgccError("weights", text, missing[0])
    params = [name for name, tensor in plan.tensors.items() if tensor.role == "param"]
    absent = [name for name in params if name not in given]
    if given and absent and not outside:
        raise WgccError("weights", f"the given weights lack {_names(absent)}", absent[0])


def _names(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _draw(tensor: Tensor, seed: int) -> Array:
    values = initial_values(tensor.init, tensor.shape, seed, tensor.name, tensor.dtype)
    return convert(values, tensor.dtype, f"initial values of `{tensor.name}`")


FILE = "data.safetensors"
MAX_BYTES = 256 << 20


def bundle_preparation(read: Read) -> Preparation | None:
    stored = _load_arrays(read)
    return stored[1] if stored else None


def bundle_data(read: Read, entry: EntryForm) -> Data | None:
    """The data for an entry; None if the bundle was built without."""
    stored = _load_arrays(read)
    if stored is None or not set(entry.inputs) <= set(stored[0]):
        return None
    arrays, preparation = stored
    inputs = {name: arrays[name] for name in entry.inputs}
    rows = len(inputs[entry.rows[0]]) if entry.rows else 1
    return Data(inputs, preparation, rows, entry.rows, own_scaling=preparation is not None)


def _load_arrays(read: Read) -> tuple[dict[str, Array], Preparation | None] | None:
    data = read(FILE, MAX_BYTES)
    if data is None:
        return None
    arrays, facts = load_weights(data)
    return arrays, facts.get(KEY)
