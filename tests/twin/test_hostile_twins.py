"""A twin that wgcc would not write is refused before it is compiled, and one that never returns can
be left, in both runtimes."""

from __future__ import annotations

import base64
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import hostile_twins
import wgcc_runtime
from hostile_twins import FLAG, SOUND
from trials.interrupts import python_path
from twin_modules import assemble
from web_stacks import run_node
from wgcc_runtime import wasm_engine
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import Plan
from wgcc_runtime.twin_form import check_twin_form

CASES = hostile_twins.cases()


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = hostile_twins.write_bundle(tmp_path_factory.mktemp("sound") / "b", SOUND)
    return wgcc_runtime.load_plan(folder)


def test_the_sound_module_is_accepted(plan: Plan) -> None:
    check_twin_form(SOUND, plan)
    assert len(CASES) > 45


@pytest.mark.parametrize("name", CASES)
def test_python_refuses_to_compile(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wasm_engine, "wasmtime", None)  # an attempt to compile it would fail
    folder = hostile_twins.write_bundle(tmp_path / "bundle", CASES[name])
    started = time.process_time()
    with pytest.raises(WgccError) as caught:
        wgcc_runtime.load(folder, device="wasm")
    assert caught.value.code == "bundle", caught.value
    assert "twin.wasm is not a module that wgcc writes: " in caught.value.message
    assert time.process_time() - started < 5


def _web(code: bytes, plan_text: str) -> dict[str, Any]:
    return {"plan": plan_text, "twin": base64.b64encode(code).decode()}


def test_javascript_refuses_alike(tmp_path: Path) -> None:
    """The same modules with the same words, except for numbers, which are written in other ways."""
    bundles, wanted = [], []
    for number, (name, code) in enumerate({"sound": SOUND, **CASES}.items()):
        folder = hostile_twins.write_bundle(tmp_path / str(number), code)
        bundles.append(_web(code, (folder / "plan.json").read_text()))
        wanted.append((name, _answer(code, folder)))
    answers = run_node("hostile_twins.mjs", data=bundles)
    assert [(name, answer.replace("`twin.wasm` ", "twin.wasm ")) for (name, _), answer in
            zip(wanted, answers, strict=True)] == wanted  # fmt: skip


def _answer(code: bytes, folder: Path) -> str:
    try:
        check_twin_form(code, wgcc_runtime.load_plan(folder))
        return "loaded"
    except WgccError as error:
        return str(error).replace("1,048,576", "1048576").replace("50,000", "50000")


def test_every_beginning_is_refused(plan: Plan) -> None:
    for end in range(len(SOUND)):
        with pytest.raises(WgccError, match="not a module that wgcc writes"):
            check_twin_form(SOUND[:end], plan)


def test_damaged_modules_end_in_one_error(plan: Plan) -> None:
    """Random bytes of the parts before the code: each is accepted or refused, quickly."""
    draw = random.Random(3)
    end = SOUND.index(hostile_twins.PARTS[hostile_twins.CODE])
    for _ in range(3000):
        code = bytearray(SOUND)
        for _ in range(draw.randint(1, 4)):
            byte = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
            code[draw.randrange(8, end)] = byte
        try:
            check_twin_form(bytes(code), plan)
        except WgccError as error:
            assert error.code == "bundle"


def test_a_flag_elsewhere_is_refused(tmp_path: Path) -> None:
    """A runtime writes to that byte: it must be the memory's, not an instruction's."""
    other = SOUND.index(b"\x01", FLAG + 1)
    folder = hostile_twins.write_bundle(tmp_path / "b", SOUND, other)
    with pytest.raises(WgccError, match="its memory is not the one"):
        wgcc_runtime.load(folder, device="wasm", threads=2)


# A module of the right form whose `train` is quick three times and then never ends. Words below
# 1024 belong to the module.
LATER = """
(func (export "train") (param i32 i32)
  (i32.store (i32.const 512) (i32.add (i32.load (i32.const 512)) (i32.const 1)))
  (if (i32.gt_u (i32.load (i32.const 512)) (i32.const 3)) (then (loop $again (br $again)))))
"""
OTHERS = " ".join(
    f'(func (export "{name}") (param i32 i32))'
    for name in ("train/guard", "predict", "pick", "forget")
)

# Limits of its own, so that a regression fails instead of keeping a machine busy.
LEFT = """
import os, resource, signal, sys, threading, time
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
import wgcc_runtime
from line_training import batches
from wgcc_runtime import interrupts
model = wgcc_runtime.load(sys.argv[1], device="wasm", threads=1)
for _ in range(3):
    model.train(**batches(1)[0])
def press():
    while not interrupts._signals.depth:
        time.sleep(0.01)
    while True:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
threading.Thread(target=press, daemon=True).start()
try:
    model.train(**batches(1)[0])
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("interrupted", flush=True)
os._exit(0)
"""


def test_a_later_call_that_does_not_end_can_be_left(tmp_path: Path) -> None:
    code, flag = assemble(LATER + OTHERS)
    folder = hostile_twins.write_bundle(tmp_path / "b", code, flag)
    done = subprocess.run(
        [sys.executable, "-c", LEFT, str(folder)],
        env={**os.environ, "PYTHONPATH": python_path()}, timeout=300,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "interrupted\n", done.stderr


def test_a_signal_ends_a_call_in_javascript(tmp_path: Path) -> None:
    code, flag = assemble(LATER + OTHERS)
    folder = hostile_twins.write_bundle(tmp_path / "b", code, flag)
    seen = run_node("endless_twin.mjs", data=_web(code, (folder / "plan.json").read_text()))
    assert seen["fit"] == "enough"
    assert seen["after"].startswith("device-lost: the WebAssembly twin failed: a call was not")
    assert seen["disposed"] == "closed"
    # Its workers are gone, or Node would not have ended.
    assert seen["recovered"] == "done"
