"""Federated training without the network: what a client does in a round, and what a server does.

Parameters are exchanged by name, together with state of floats that the program keeps (running
means of a batch norm). Moments of optimizers stay where they are and start anew in each round.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import wgcc_runtime
from wgcc_runtime.arrays import Array
from wgcc_runtime.batches import ArraySource
from wgcc_runtime.data.preparation import Data
from wgcc_runtime.errors import WgccError
from wgcc_runtime.evaluation import make_evaluation
from wgcc_runtime.fit import training_entry
from wgcc_runtime.flight import exchange_of
from wgcc_runtime.model import Model
from wgcc_runtime.plan import WORD, Entry, Plan, Tensor
from wgcc_runtime.runner import is_scalar
from wgcc_runtime.values import is_optimizer_state

Arrays = dict[str, Array]
# Seeds are numbers below this.
SEEDS = 1 << 32


@dataclass(frozen=True, slots=True)
class Round:
    """A server's request to its clients; `mu` is the factor of FedProx's proximal term."""

    bundle: str
    version: str
    number: int
    entry: str = "train"
    epochs: int = 0
    steps: int = 0
    seed: int = 0
    mu: float = 0.0

    def check(self, digest: str) -> None:
        """Whether the client has what the server has."""
        own = wgcc_runtime.__version__
        if self.version != own:
            raise WgccError(
                "version",
                f"the client has wgcc_runtime {own}, the server {self.version}: install the same "
                "version everywhere",
            )
        if self.bundle != digest:
            raise WgccError(
                "mismatch",
                f"the client has another bundle than the server (SHA-256 {digest[:12]}… and "
                f"{self.bundle[:12]}…): copy one to all",
            )


def exchanged_tensors(plan: Plan) -> dict[str, Tensor]:
    """The tensors that clients and server send each other."""
    tensors = plan.persistent().items()
    return {name: t for name, t in tensors if t.is_float and not is_optimizer_state(name)}


def checked_arrays(plan: Plan, arrays: Mapping[str, Array], sender: str) -> Arrays:
    """All that is exchanged, finite and in the right shapes, and nothing else."""
    wanted = exchanged_tensors(plan)
    for name in [*wanted, *arrays]:
        if name not in arrays:
            raise WgccError("weights", f"{sender} has not sent `{name}`", name)
        if name not in wanted:
            raise WgccError("weights", f"{sender} has sent `{name}`, unknown to the model", name)
        shape = wanted[name].shape
        if arrays[name].shape != shape:
            text = f"of shape {list(arrays[name].shape)}; the model has {list(shape)}"
            raise WgccError("weights", f"{sender} has sent `{name}` {text}", name)
    with np.errstate(over="ignore"):
        floats = {name: np.asarray(arrays[name], np.float32) for name in wanted}
    for name, array in floats.items():
        if not np.isfinite(array).all():
            raise WgccError("nan", f"{sender} has sent a NaN or an infinity in `{name}`", name)
    return floats


@dataclass(frozen=True, slots=True)
class Update:
    """The result of a client's round: `rows` of its data are its weight."""

    arrays: Arrays
    rows: int
    metrics: dict[str, float]

    def digest(self) -> bytes:
        hasher = hashlib.sha256(str(self.rows).encode())
        for name, array in self.arrays.items():
            hasher.update(f" {name} ".encode() + array.tobytes())
        return hasher.digest()


def average(updates: Sequence[Update]) -> Arrays:
    """The mean, weighted by rows: summed in f64, rounded to f32 once.

    The order of the sum is that of the updates' digests, so that the same updates give the same
    bits, whichever client sent them and whichever came first.
    """
    ordered = sorted(updates, key=Update.digest)
    total = sum(update.rows for update in ordered)
    result: Arrays = {}
    for name, first in ordered[0].arrays.items():
        mean = np.zeros(first.shape, np.float64)
        for update in ordered:
            mean += update.arrays[name].astype(np.float64) * (update.rows / total)
        result[name] = mean.astype(np.float32)
    return result


def average_metrics(evaluations: Sequence[tuple[int, Mapping[str, float]]]) -> dict[str, float]:
    """The mean of those that all clients with rows have, weighted by rows."""
    counted = [(rows, metrics) for rows, metrics in evaluations if rows]
    total = sum(rows for rows, _ in counted)
    names = [n for n in counted[0][1] if all(n in m for _, m in counted)] if counted else []
    return {
        name: sum(rows * metrics[name] for rows, metrics in sorted(counted, key=_by_value(name)))
        / total
        for name in names
    }


def _by_value(name: str) -> Any:
    return lambda pair: (pair[0], pair[1][name])


def client_arrays(data: Any, what: str = "data") -> Mapping[str, Any]:
    if isinstance(data, Data):
        text = (
            "has columns that were scaled or numbered on this machine, which would mean something"
        )
        raise WgccError(
            "data", f"`{what}` {text} else on another: give arrays that all clients made alike"
        )
    if not isinstance(data, Mapping):
        kind = type(data).__name__
        raise WgccError("data", f"`{what}` is a dict of arrays, not {kind}", what)
    return data


def train(model: Model, arrays: Mapping[str, Array], data: Any, request: Round) -> Update:
    """One round of a client: from the server's values, with optimizers that start anew."""
    entry = training_entry(model, request.entry)
    seed = (request.seed + request.number) % SEEDS
    received = checked_arrays(model.plan, arrays, "the server")
    model.reset(seed)
    model.load_params(received, strict=False)
    source = ArraySource(client_arrays(data), entry, seed, 0)
    steps = request.steps or request.epochs * source.per_epoch
    if request.mu:
        numbers = _proximal_steps(model, entry, source, steps, request.mu)
    else:
        history = model.fit(
            data, steps=steps, every=steps, entry=entry.name, seed=seed, progress=False
        )
        numbers = dict(history.reports[-1].outputs)
    # Arrays that are just one batch have no rows to choose from.
    is_batch = source.count == 1 and entry.rows is not None
    rows = entry.rows.count if is_batch and entry.rows else source.count
    return Update(_values(model), rows, numbers)


def evaluate(
    model: Model, arrays: Mapping[str, Array], data: Any, request: Round
) -> tuple[int, dict[str, float]]:
    """Rows of the held-out data, and the float outputs of the entry `eval`; or no rows."""
    if data is None:
        return 0, {}
    model.reset(request.seed)
    model.load_params(checked_arrays(model.plan, arrays, "the server"), strict=False)
    held_out = client_arrays(data, "eval")
    numbers = make_evaluation(model, held_out)()
    entry = model.entry("eval")
    rows = len(held_out[entry.rows.inputs[0]]) if entry.rows else 1
    return rows, numbers


def _values(model: Model) -> Arrays:
    return {name: a.astype(np.float32) for name, a in model._read(_tensors(model)).items()}


def _tensors(model: Model) -> list[Tensor]:
    return list(exchanged_tensors(model.plan).values())


def _proximal_steps(
    model: Model, entry: Entry, source: ArraySource, steps: int, mu: float
) -> dict[str, float]:
    """Steps for the loss + mu/2 · |w − w₀|², w₀ being the parameters that the round began with.

    Its gradient, mu · (w − w₀), is added to that of the loss before clipping and update.
    """
    places = gradient_places(model.plan, entry)
    start = model.params()
    outputs: Mapping[str, Array] = {}
    for _ in range(steps):
        batch, now = source.take(), model.params()
        assert batch is not None
        flat = model._gradients(entry, batch).copy()
        for name, at in places.items():
            difference = (now[name] - start[name]).reshape(-1)
            flat[at : at + difference.size] += np.float32(mu) * difference
        outputs = model.apply(flat)
    return {n: float(outputs[n]) for n, t in entry.outputs.items() if is_scalar(t)}


def gradient_places(plan: Plan, entry: Entry) -> dict[str, int]:
    """The position of the gradient of each parameter in the flat gradients of an entry.

    Arenas have the same form: a gradient has its parameter's offset, in the buffer of gradients.
    """
    places, at = {}, 0
    parameters = [t for t in plan.tensors.values() if t.role == "param" and t.trainable]
    for _, offset, size in exchange_of(entry).gradients:
        for tensor in parameters:
            inside = offset <= tensor.offset and tensor.offset + tensor.bytes <= offset + size
            if inside and tensor.name in entry.writes:
                places[tensor.name] = at + (tensor.offset - offset) // WORD
        at += size // WORD
    for tensor in parameters:
        if tensor.name in entry.writes and tensor.name not in places:
            text = f"the gradient of `{tensor.name}` is not among those of `{entry.name}`"
            raise WgccError("exchange", text, tensor.name)
    return places
