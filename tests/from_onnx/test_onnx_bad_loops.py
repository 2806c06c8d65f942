"""`Loop` and `Scan` that cannot be imported: the node and the reason are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from test_onnx_loops import BOOL, FLOAT, INT, body_of, node, port, saved
from wgcc.from_onnx.convert import Wishes, convert_file
from wgcc.from_onnx.problems import NotImportable

ADDS = [node("Add", ["h", "a"], ["s"]), node("Mul", ["s", "b"], ["r"])]
SEQUENCES = {"h0": [3], "x1": [5, 3], "x2": [5, 3]}
BAD_SCANS: dict[str, tuple[dict[str, Any], dict[str, list[int]], str]] = {
    "no sequence": ({"num_scan_inputs": 0}, {}, "num_scan_inputs is 0, and it has 3 operands"),
    "too many": ({"num_scan_inputs": 9}, {}, "num_scan_inputs is 9"),
    "negative": ({"num_scan_inputs": -1}, {}, "num_scan_inputs is -1"),
    "few axes": ({"scan_input_axes": [0]}, {}, "scan_input_axes has 1 numbers for 2 sequences"),
    "few directions": ({"scan_input_directions": [1]}, {}, "scan_input_directions has 1 numbers"),
    "an output's": ({"scan_output_axes": [0, 1]}, {}, "scan_output_axes has 2 numbers for 1"),
    "direction 5": ({"scan_input_directions": [5, 5]}, {}, "directions are 0 and 1"),
    "axis 7": ({"scan_input_axes": [7, 0]}, {}, "along axis 7 of a tensor with 2 axes"),
    "axis -3": ({"scan_output_axes": [-3]}, {}, "along axis -3 of a tensor with 2 axes"),
    "lengths": ({}, {"x2": [4, 3]}, "its sequences have different lengths: [5, 4]"),
}


@pytest.mark.parametrize("case", BAD_SCANS)
def test_scans_that_make_no_sense(case: str, tmp_path: Path) -> None:
    options, shapes, message = BAD_SCANS[case]
    ports = {name: port(name, FLOAT, [3]) for name in "habsr"}
    body = helper.make_graph(ADDS, "b", [ports[n] for n in "hab"], [ports[n] for n in "sr"])
    scan = node("Scan", [*SEQUENCES], ["last", "all"], body=body,
                **{"num_scan_inputs": 2, **options})  # fmt: skip
    outputs = [port("last", FLOAT, [None]), port("all", FLOAT, [None, None])]
    with pytest.raises(NotImportable) as caught:
        convert_file(saved(tmp_path, [scan], {**SEQUENCES, **shapes}, outputs), Wishes())
    assert message in caught.value.problems[0].reason


@pytest.mark.parametrize("kind", ["Scan", "Loop"])
@pytest.mark.parametrize(("inputs", "outputs"), [(0, 0), (1, 1), (2, 2), (4, 2), (3, 0), (3, 1)])
def test_bodies_with_other_inputs_and_outputs_than_a_round_has(
    kind: str, inputs: int, outputs: int, tmp_path: Path
) -> None:
    given = [port("i", INT, []), port("go", BOOL, []), port("h", FLOAT, [3]), port("more", INT, [])]
    nodes = [node("Identity", ["t"], ["goes"]), node("Neg", ["x"], ["o"])]
    body = helper.make_graph(nodes, "b", given[:inputs],
                             [port("goes", BOOL, []), port("o", FLOAT, [3])][:outputs])  # fmt: skip
    options = {"num_scan_inputs": 1} if kind == "Scan" else {}
    loop = node(kind, ["n", "t", "x"], ["y"], body=body, **options)
    file = saved(tmp_path, [loop], {"x": [3]}, [port("y", FLOAT, [3])], n=np.array(3),
                 t=np.array(True))  # fmt: skip
    with pytest.raises(NotImportable, match=r"its body has \d (in|out)puts, and"):
        convert_file(file, Wishes())


@pytest.mark.parametrize("rounds", [1_000_001, 2**63 - 1])
def test_more_rounds_than_can_be_run(rounds: int, tmp_path: Path) -> None:
    body = body_of([node("Tanh", ["h"], ["h2"])], [port("h", FLOAT, [3])], [port("h2", FLOAT, [3])])
    loop = node("Loop", ["n", "", "x"], ["y"], body=body)
    file = saved(tmp_path, [loop], {"x": [3]}, [port("y", FLOAT, [3])], n=np.array(rounds))
    with pytest.raises(NotImportable, match=f"it has {rounds:,} rounds; at most 1,000,000 can be"):
        convert_file(file, Wishes())


def test_conditions_that_are_not_known_are_refused(tmp_path: Path) -> None:
    nodes = [
        node("Tanh", ["h"], ["h2"]),
        node("ReduceMax", ["h2"], ["top"], keepdims=0),
        node("Greater", ["top", "low"], ["goes"]),
    ]
    lead = [port("i", INT, []), port("go", BOOL, []), port("h", FLOAT, [3])]
    body = helper.make_graph(nodes, "b", lead, [port("goes", BOOL, []), port("h2", FLOAT, [3])])
    loop = node("Loop", ["n", "", "x"], ["y"], body=body)
    file = saved(tmp_path, [loop], {"x": [3]}, [port("y", FLOAT, [3])],
                 n=np.array(9), low=np.float32(0.1))  # fmt: skip
    with pytest.raises(NotImportable, match="its condition is computed at run time"):
        convert_file(file, Wishes())
    step = [node("Tanh", ["h"], ["h2"])]
    endless = body_of(step, [port("h", FLOAT, [3])], [port("h2", FLOAT, [3])])
    loop = node("Loop", ["", "", "x"], ["y"], body=endless)
    file = saved(tmp_path, [loop], {"x": [3]}, [port("y", FLOAT, [3])])
    with pytest.raises(NotImportable, match="it never ends"):
        convert_file(file, Wishes())
