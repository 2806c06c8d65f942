"""ONNX's own tests of single operators: each is imported, and its numbers are compared.

    python tests/from_onnx/onnx_suite.py [PART OF A NAME] [--on numpy|wasm] [--all]

Prints how many are right, and every other one with the reason: on the twin, or with --on numpy by
the references of the ops. Without --all, those with only f32, i32, i64 and bool tensors. A user has
the same means: an input that a rule needs as a constant, such as the shape of a Reshape, is given
by `wgcc import --input NAME=VALUE`, and one that holds NaN or infinity by `--any-float NAME`.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
for place in (ROOT, ROOT / "runtime_py"):
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))

import wgcc  # noqa: E402
from wgcc.compiler import read_program  # noqa: E402
from wgcc.evaluate import Session  # noqa: E402
from wgcc.from_onnx.convert import Converted, Wishes, convert_model  # noqa: E402
from wgcc.from_onnx.problems import NotImportable  # noqa: E402

USUAL = (1, 6, 7, 9)
LARGEST = 3.4e38
Array = np.ndarray[Any, Any]


def cases(part: str = "", every: bool = False) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        every_case = load_model_tests(kind="node")
    for case in every_case:
        if part in case.name and (every or _is_usual(case.model)):
            yield case


def _is_usual(model: Any) -> bool:
    """One node, and floats of 32 bits."""
    ports = [port.type for port in (*model.graph.input, *model.graph.output)]
    if len(model.graph.node) != 1 or any(not port.HasField("tensor_type") for port in ports):
        return False
    kinds = [port.tensor_type.elem_type for port in ports]
    return 1 in kinds and all(kind in USUAL for kind in kinds)


def as_array(item: Any) -> Array:
    from onnx import TensorProto
    from onnx.numpy_helper import to_array

    return to_array(item) if isinstance(item, TensorProto) else np.asarray(item)


def judge(case: Any, on: str = "wasm") -> str:
    """ "" if it is right, "wrong: …", or why it is refused."""
    inputs, wanted = case.data_sets[0]
    model = type(case.model).FromString(case.model.SerializeToString())
    # A few models declare optional inputs last that their data leaves out.
    ports = list(model.graph.input)[: len(inputs)]
    given = {}
    for port, array in zip(ports, inputs, strict=True):
        if not port.type.HasField("tensor_type"):
            continue
        given[port.name] = held = as_array(array)
        dims = port.type.tensor_type.shape.dim
        assert len(dims) in (0, held.ndim), f"{case.name}: {port.name} has another rank"
        for dim, size in zip(dims, held.shape[: len(dims)], strict=True):
            dim.dim_value = size
    try:
        converted = _converted(model, given)
    except NotImportable as error:
        return error.problems[0].reason
    if converted.traced.noise or converted.traced.hidden_noise:
        return "it draws random numbers"
    results = (_by_numpy if on == "numpy" else _by_twin)(converted, given)
    return _compared(model, converted, results, wanted)


def _converted(model: Any, given: Mapping[str, Array]) -> Converted:
    fixed = {name: array for name, array in given.items() if 0 in array.shape}
    special = [name for name, array in given.items() if not _is_finite(array)]
    while True:
        copy = type(model).FromString(model.SerializeToString())
        try:
            return convert_model(copy, "case.onnx", Wishes(fixed=fixed, any_floats=special))
        except NotImportable as error:
            more = _asked_for(error, given, fixed)
            if not more:
                raise
            fixed |= more


def _is_finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _asked_for(
    error: NotImportable, given: Mapping[str, Array], fixed: Mapping[str, Array]
) -> dict[str, Array]:
    """Inputs that a rule needs as constants."""
    reasons = [problem.reason for problem in error.problems]
    names = {name for reason in reasons for name in re.findall(r"`(\w+)`", reason)}
    free = {name: array for name, array in given.items() if name not in fixed}
    wanted = {name: array for name, array in free.items() if name in names}
    if not wanted and any("depends on data" in reason for reason in reasons):
        first = next(iter(given))
        wanted = {name: array for name, array in free.items() if name != first}
        is_whole = first in free and (free[first].size == 1 or free[first].dtype.kind == "i")
        if not wanted and is_whole:
            wanted = {first: free[first]}
    if not wanted and any("no rule" in reason for reason in reasons):
        wanted = {name: array for name, array in free.items() if array.size == 1}
    return wanted


def _by_numpy(converted: Converted, given: Mapping[str, Array]) -> Mapping[str, Array]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.wg"
        path.write_text(converted.written.text, encoding="utf-8")
        program = read_program(path)[1]
    inputs = {own: given[name] for name, own in converted.written.inputs.items()}
    return Session(program, converted.written.weights).call("predict", inputs)


def _by_twin(converted: Converted, given: Mapping[str, Array]) -> Mapping[str, Array]:
    """In memory: the files of a bundle for each of 900 operators would take most of the time."""
    inputs = {own: given[name] for name, own in converted.written.inputs.items()}
    weights = converted.written.weights
    with wgcc.compile(converted.written.text, weights=weights, device="wasm") as model:
        return dict(model.predict(**inputs))


def _compared(
    model: Any, converted: Converted, results: Mapping[str, Array], wanted: Sequence[Any]
) -> str:
    """Every output that the model declares is compared."""
    ports = [port.name for port in model.graph.output]
    for port, item in zip(ports, wanted, strict=True):
        right = as_array(item)
        got = np.asarray(results[converted.written.outputs[port]]).astype(np.float64)
        if got.shape != right.shape:
            return f"wrong: shape {got.shape}, not {right.shape}"
        got = np.where(np.abs(got) >= LARGEST, np.copysign(np.inf, got), got)
        if not np.allclose(got, right.astype(np.float64), rtol=1e-3, atol=1e-5, equal_nan=True):
            return "wrong: other numbers"
    return ""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--on", choices=("numpy", "wasm"), default="wasm")
    parser.add_argument("--all", action="store_true", dest="every")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for case in cases(options.part, options.every):
        try:
            verdict = judge(case, options.on)
        except Exception as error:
            verdict = f"wrong: {type(error).__name__}: {error}".splitlines()[0]
        kind = verdict.partition(":")[0] if verdict.startswith("wrong") else "refused"
        counts[kind if verdict else "right"] += 1
        if verdict:
            print(f"{case.name}: {verdict}")
    print(", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
