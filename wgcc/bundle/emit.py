"""The files of a bundle by name: plan, kernels, weights, source, and those for the web."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from wgcc.bundle.content import Content, Pieces, digest_of
from wgcc.bundle.data_file import FILE as DATA
from wgcc.bundle.initial_weights import InitialValues, tensors_of
from wgcc.bundle.owned import WEIGHTS
from wgcc.bundle.plan import TOKENIZER, TWIN, Plan, Planned, plan_text
from wgcc.bundle.safetensors import safetensors_content
from wgcc.bundle.selftest import make_selftest
from wgcc.bundle.web import web_files
from wgcc.ir.dtypes import DTYPE_TABLE
from wgcc.ir.program import Program
from wgcc.lazy_numpy import Array, np
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
) -> dict[str, Content]:
    """Every file of the bundle, in a fixed order. `given` replaces initial values, by name.

    `data` is the content of data.safetensors, if the bundle gets one.
    """
    plan, weights = complete_plan(planned, program, given)
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
    plan = {**planned.plan, "weights": {"seed": program.seed}, "selftest": {"entries": {}}}
    text = json.dumps(plan, ensure_ascii=False).encode("utf-8")
    others = {**_files_beside_plan(planned, None), **_token_files(program)}
    return {"plan.json": text, **_kernel_files(planned), **others}


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
    values = dict(lazy) if is_stored else lazy
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
    """What a runtime needs of a bundle beside plan and kernels: values and the twin."""
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
    tensors = {}
    for name, constant in planned.constants.items():
        dtype = constant.value.dtype
        array = np.frombuffer(constant.words, DTYPE_TABLE[dtype].memory)
        tensors[name] = (dtype, array.reshape(constant.value.shape))
    return bytes(safetensors_content(tensors))
