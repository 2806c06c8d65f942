"""Which values patterns name, what is refused, and what captures leave as it is."""

from __future__ import annotations

import numpy as np
import pytest

import wgcc
from test_captured_values import BLOCKS, IDS
from wgcc.bundle.content import captured_patterns
from wgcc.compiler import compile_file
from wgcc.errors import Source, WgError
from wgcc.ir.program import patterns_of
from wgcc_runtime import WgccError

PLAIN = BLOCKS.replace('capture(tanh(h), "squashed")', "tanh(h)")

WRONG = {
    "blocks.*.atn.weights": "did you mean blocks.0.attn.weights, blocks.1.attn.weights",
    "zork": "there are x, ",
    "zork*": "there are x, ",
    "predict:d.tok.w": "no entry trains, so nothing has a gradient",
    "opt/opt/exp": "no optimizer has such a tensor; there are opt/opt/",
    "test:x": r"there is no entry test \(train, predict\)",
    "": "a pattern is empty",
    "d.ids": "no value has such a name",
}


@pytest.mark.parametrize("glob", WRONG)
def test_a_pattern_that_matches_nothing_says_what_there_is(glob: str) -> None:
    with pytest.raises(WgError, match=WRONG[glob]):
        compile_file(Source("m.wg", PLAIN), capture=patterns_of([glob]), twin=False)


def test_a_pattern_can_be_for_one_entry() -> None:
    patterns = patterns_of(["train:d.*.h", "predict:*.norm"])
    plan = compile_file(Source("m.wg", PLAIN), capture=patterns, twin=False).planned.plan
    assert plan["entries"]["train"]["captures"].keys() == {"d.blocks.0.h", "d.blocks.1.h"}
    assert plan["entries"]["predict"]["captures"].keys() == {"blocks.0.norm", "blocks.1.norm"}
    assert {p.text for p in captured_patterns(plan)} >= {"train:d.blocks.0.h"}


def test_values_named_by_ops_match_only_where_the_source_names_none() -> None:
    plan = compile_file(Source("m.wg", PLAIN), capture=patterns_of(["*.qkv.*"]), twin=False)
    names = plan.planned.plan["entries"]["predict"]["captures"].keys()
    assert "blocks.0.attn.qkv.w" in names and not any("matmul" in name for name in names)
    plan = compile_file(Source("m.wg", PLAIN), capture=patterns_of(["*.matmul"]), twin=False)
    names = plan.planned.plan["entries"]["predict"]["captures"].keys()
    assert names == {"blocks.0.attn.qkv.matmul", "blocks.1.attn.qkv.matmul"}


def test_statistics_take_one_kernel_for_each_value() -> None:
    plain, shown = (
        compile_file(Source("m.wg", PLAIN), capture=patterns_of([], stats), twin=False)
        for stats in ([], ["*.norm", "x", "tok.w"])
    )
    counts = [len(x.planned.plan["entries"]["train"]["dispatches"]) for x in (plain, shown)]
    assert counts[1] - counts[0] == 4


def test_a_cached_program_without_captures_is_another_one() -> None:
    seen = wgcc.compile(PLAIN, capture=["blocks.0"], device="wasm")
    plain = wgcc.compile(PLAIN, device="wasm")
    for model in (seen, plain):
        model.train(ids=IDS)
    assert seen.captured["blocks.0"].shape == (3, 5, 8)
    with pytest.raises(WgccError, match="build with --capture"):
        plain.captured["blocks.0"]
    for name, array in plain.params().items():
        np.testing.assert_allclose(array, seen.parameters[name], rtol=1e-5, atol=1e-6)


def test_a_failed_call_shows_nothing() -> None:
    model = wgcc.compile(PLAIN, device="wasm", capture=["blocks.0"])
    model.train(ids=IDS)
    assert len(model.captured) == 1
    model.parameters["tok.w"] = np.full((7, 8), 3e38, np.float32)
    with pytest.raises(WgccError, match="nan"):
        model.train(ids=IDS)
    assert len(model.captured) == 0


def test_captures_with_f16_and_with_little_memory() -> None:
    half = PLAIN.replace("model Net {", "model Net {\n  precision = f16")
    patterns = patterns_of(["blocks.0", "d.*.h"], ["*.norm"])
    for text, memory in ((half, None), (PLAIN, 60_000)):
        done = compile_file(Source("m.wg", text), capture=patterns, memory=memory, twin=False)
        assert "blocks.0" in done.planned.plan["entries"]["train"]["captures"]


SCALED = """
model Net {
  fc: Linear[4, 4]
  optimizer opt: sgd { lr = 0.1 }
  fn body(h: f32[2, 4], x: f32[2, 4]) -> (f32[2, 4], f32[2, 4]) {
    next = tanh(fc(h) + x)
    return next, next
  }
  entry train(x: f32[3, 2, 4]) -> (loss: f32) {
    last, _ = scan(body, zeros(f32[2, 4]), x)
    loss = mean(last ** 2)
    minimize loss with opt
    return loss
  }
}
"""


@pytest.mark.parametrize(
    "scale", ["precision = f16", "loss_scale = 64.0", "loss_scale = 64.0 * step"]
)
def test_captured_gradients_are_those_of_the_loss_whatever_its_scale(
    scale: str, machine: object
) -> None:
    x = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
    captured = []
    is_half = scale == "precision = f16"
    place = "model Net {" if is_half else "sgd {"
    for text in (SCALED, SCALED.replace(place, f"{place} {scale};")):
        device = "wasm" if is_half else machine  # the software adapters have no f16
        model = wgcc.compile(text, device=device, capture=["d.fc.w", "d.next"], seed=1)
        for _ in range(2):
            model.train(x=x)
        captured.append(model.captured.of("train"))
    plain, scaled = captured
    for name in ("d.fc.w", "d.next"):
        close = 2e-3 * abs(plain[name]).max()
        np.testing.assert_allclose(scaled[name], plain[name], rtol=0, atol=close)
