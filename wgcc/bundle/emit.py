"""The files of a bundle by name: plan, kernels, weights, source, and those for the web.

Initial values of parameters and state are drawn from the seed, or read from a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wgcc.bundle.content import (
    DATA,
    LARGE_BYTES,
    Content,
    Pieces,
    digest_of,
    safetensors_content,
    words_content,
)
from wgcc.bundle.owned import WEIGHTS
from wgcc.bundle.plan import TOKENIZER, TWIN, Plan, Planned, plan_text
from wgcc.bundle.selftest import SEED, make_selftest
from wgcc.bundle.web import web_files
from wgcc.errors import WgError
from wgcc.evaluate import from_words
from wgcc.ir.dtypes import DTYPE_TABLE
from wgcc.ir.places import is_optimizer_state
from wgcc.ir.program import ModelTensor, Program
from wgcc.lazy_numpy import Array, has_numpy
from wgcc.spelling import did_you_mean
from wgcc.tokens.token_file import TokenFile

# Bytes of drawn values up to which a bundle holds them.
MOST_STORED = 8_000_000
# A twin with more memory is not run during a build, which would hold its weights three times.
MOST_TWIN_BYTES = 1 << 27


def bundle_files(
    planned: Planned,
    program: Program,
    source: str,
    text: str,
    given: Mapping[str, Array] | None = None,
    data: bytes | None = None,
    drawn: bool = False,
) -> dict[str, Content]:
    """Every file of the bundle, in a fixed order. `given` replaces initial values, by name.

    `data` is the content of data.safetensors, if the bundle gets one. `drawn`: no values are
    stored and there is no self-test, as always where numpy is missing.
    """
    is_drawn = not given and (drawn or not has_numpy())
    plan, weights = (
        (_drawn_plan(planned, program), None)
        if is_drawn
        else complete_plan(planned, program, given)
    )
    large = {WEIGHTS: weights} if isinstance(weights, Pieces) else {}
    inside = None if isinstance(weights, Pieces) else weights
    others = _files_beside_plan(planned, inside)
    plan_file = {"plan.json": plan_text(plan).encode("utf-8")}
    files = {**plan_file, **_kernel_files(planned), **others, source: text.encode("utf-8")}
    files |= _token_files(program)
    if data is not None:
        files[DATA] = data
    sizes = {name: len(content) for name, content in large.items()}
    return {**files, **large, **web_files(plan, files, sizes)}


def runtime_files(planned: Planned, program: Program) -> dict[str, bytes]:
    """The files that a runtime needs, without a self-test; initial values are drawn by seed."""
    text = json.dumps(_drawn_plan(planned, program), ensure_ascii=False).encode("utf-8")
    others = {**_files_beside_plan(planned, None), **_token_files(program)}
    return {"plan.json": text, **_kernel_files(planned), **others}


def _drawn_plan(planned: Planned, program: Program) -> Plan:
    """The plan of a bundle whose runtime draws all initial values by seed."""
    selftest = {"seed": SEED, "entries": {}}
    return {**planned.plan, "weights": {"seed": program.seed}, "selftest": selftest}


def _kernel_files(planned: Planned) -> dict[str, bytes]:
    texts = (item for kernel in planned.kernels for item in kernel.contents.items())
    return {path: text.encode("utf-8") for path, text in texts}


def _token_files(program: Program) -> dict[str, bytes]:
    vocab = program.vocab
    return {TOKENIZER: vocab.text.encode("utf-8")} if isinstance(vocab, TokenFile) else {}


def complete_plan(
    planned: Planned, program: Program, given: Mapping[str, Array] | None = None
) -> tuple[Plan, Content | None]:
    """The plan with the parts that depend on initial values, and the weights file, if there is one.

    The plan records the digest of the file and the seed that its values were drawn from. Many
    values that anybody can draw again are not stored.
    """
    lazy = InitialValues(program, given or {})
    is_stored = bool(given) or lazy.bytes <= MOST_STORED
    values = lazy.to_store() if is_stored else lazy
    weights = _weights_content(program, values) if is_stored else None
    record: dict[str, Any] = {}
    if weights is not None:
        record["sha256"] = digest_of(weights)
    if not given:
        record["seed"] = program.seed
    selftest = make_selftest(program, planned.plan, values)
    plan = {**planned.plan, "weights": record, "selftest": selftest}
    return _with_twin_digests(plan, lambda: _files_beside_plan(planned, weights)), weights


def _with_twin_digests(plan: Plan, make_files: Callable[[], Mapping[str, bytes]]) -> Plan:
    """The plan with the exact bits of the twin's outputs, which are the same on every machine.

    `make_files` gives what the twin needs. The plan is checked when it is complete, by the seal.
    Without wasmtime, or values, nothing is recorded.
    An entry whose steps overflow in f32, though not in the float64 of the expected outputs, is left
    without a test.
    """
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.loader import open_twin
    from wgcc_runtime.selftest import twin_digests

    entries = plan["selftest"]["entries"]
    if "twin" not in plan or not entries or plan["twin"]["bytes"] > MOST_TWIN_BYTES:
        return plan
    files = make_files()
    try:
        with open_twin(plan, lambda name, most: files.get(name)) as model:
            digests = twin_digests(model)
    except WgccError as error:
        if error.code not in ("no-wasmtime", "weights"):
            raise
        return plan
    recorded = {
        name: {**test, "twin": digests[name]} for name, test in entries.items() if name in digests
    }
    return {**plan, "selftest": {**plan["selftest"], "entries": recorded}}


def _files_beside_plan(planned: Planned, weights: Content | None) -> dict[str, bytes]:
    """The files that a runtime needs beside plan and kernels: values and the twin."""
    files: dict[str, bytes] = {}
    if weights is not None:
        files[WEIGHTS] = bytes(weights)
    if planned.constants:
        files["constants.safetensors"] = _constants_bytes(planned)
    if planned.twin:
        files[TWIN] = planned.twin
    return files


def _weights_content(program: Program, values: Mapping[str, Array]) -> Content:
    tensors = tensors_of(program, values)
    return safetensors_content(
        {name: (tensors[name].type.dtype, array) for name, array in values.items()}
    )


def _constants_bytes(planned: Planned) -> bytes:
    if sum(len(constant.words) for constant in planned.constants.values()) > LARGE_BYTES:
        arrays = {name: (c.value.dtype, from_words(c)) for name, c in planned.constants.items()}
        return bytes(safetensors_content(arrays))
    return words_content(
        {
            name: (constant.value.dtype, constant.value.shape, constant.words)
            for name, constant in planned.constants.items()
        }
    )


Facts = dict[str, Any]


class InitialValues(Mapping[str, Array]):
    """Parameters and state by name: given, or drawn when they are asked for.

    Moments of optimizers start at zero and are not among them; an `external` tensor has no values
    until the caller gives them.
    """

    def __init__(self, program: Program, given: Mapping[str, Array] = {}) -> None:
        self._seed, self._given = program.seed, given
        self._tensors = {
            name: tensor
            for name, tensor in {**program.params, **program.state}.items()
            if not is_optimizer_state(name) and tensor.init.kind not in ("copy", "external")
        }

    @property
    def bytes(self) -> int:
        return sum(DTYPE_TABLE[t.type.dtype].bytes * t.type.size for t in self._tensors.values())

    def to_store(self) -> dict[str, Array]:
        """Those that a file holds: beside many given ones, runtimes fill one number in."""
        is_small = self.bytes <= MOST_STORED
        return {name: self[name] for name in self if is_small or not self._is_filled(name)}

    def _is_filled(self, name: str) -> bool:
        if name in self._given:
            return False
        init = self._tensors[name].init
        return init.kind == "value" and len(init.values) == 1

    def __getitem__(self, name: str) -> Array:
        from wgcc_runtime.drawn import initial_values

        if name in self._given:
            return self._given[name]
        tensor = self._tensors[name]
        record = {"kind": tensor.init.kind, "args": tensor.init.args, "values": tensor.init.values}
        return initial_values(record, tensor.type.shape, self._seed, name, tensor.type.dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._tensors, *self._given)))

    def __len__(self) -> int:
        return len({*self._tensors, *self._given})


def read_weights(path: Path, program: Program) -> dict[str, Array]:
    return read_checkpoint(path, program)[0]


def read_checkpoint(path: Path, program: Program) -> tuple[dict[str, Array], Facts]:
    """Arrays by the names of parameters and state, and the facts that a checkpoint has.

    Moments of optimizers are left out. Arrays are converted to what the GPU has in memory, with the
    same checks as in the runtimes. Large files are read once: nobody else needs to open them.
    """
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.weights import load_weights

    try:
        loaded, facts = load_weights(path)
        values = {
            name: _convert(path, array, _tensor(path, name, program))
            for name, array in loaded.items()
            if not is_optimizer_state(name)
        }
        return values, facts
    except WgccError as error:
        raise WgError(error.message) from None


def tensors_of(program: Program, names: Iterable[str]) -> dict[str, ModelTensor]:
    return {name: program.params.get(name) or program.state[name] for name in names}


def _tensor(path: Path, name: str, program: Program) -> ModelTensor:
    tensor = program.params.get(name) or program.state.get(name)
    if tensor is None:
        near = did_you_mean(name, [*program.params, *program.state])
        advice = f"; did you mean {near[0]}?" if near else ""
        raise WgError(f"{path} holds {name}, which is not a parameter of {program.name}{advice}")
    return tensor


def _convert(path: Path, array: Array, tensor: ModelTensor) -> Array:
    from wgcc_runtime.arrays import convert

    if tuple(array.shape) != tensor.type.shape:
        raise WgError(
            f"{path}: {tensor.name} has shape {list(array.shape)}, the model needs {tensor.type}"
        )
    return convert(array, tensor.type.dtype, f"{path}: {tensor.name}")
