"""Hints for names of PyTorch that wgcc does not have: what they suggest works."""

from __future__ import annotations

import pytest

from elaborated import problems
from wgcc.elaborate.builtins import BUILTINS
from wgcc.elaborate.from_pytorch import FUNCTIONS, LAYERS

TENSORS = """
  x, y = f32(reshape(arange(24), [2, 3, 4])), ones(f32[2, 3, 4])
  m, ids, mask = ones(f32[3, 4]), arange(2), x > 1.0
"""


def test_code_for_functions_is_correct() -> None:
    codes = [known.code for known in FUNCTIONS.values() if known.code]
    lines = "".join(f"  _{i} = {code}\n" for i, code in enumerate(codes))
    found = problems(f'test "codes" {{{TENSORS}{lines}}}\n')
    assert [text for text in found if not text.startswith("WG09")] == []


def test_code_for_layers_is_correct() -> None:
    for name, known in LAYERS.items():
        if known.code:
            found = problems(f"layer L {{\n  {known.code}\n  fn forward(x: f32) -> f32 = x\n}}\n")
            assert [text for text in found if not text.startswith("WG09")] == [], name


def test_no_name_is_a_built_in() -> None:
    assert not FUNCTIONS.keys() & BUILTINS.keys()


@pytest.mark.parametrize("name", ["permute", "unique", "detach"])
def test_an_unknown_name_gets_the_hint(name: str) -> None:
    from wgcc.elaborate import check
    from wgcc.errors import Diagnostics, Source
    from wgcc.errors_text import render_run

    diagnostics = Diagnostics()
    check(Source("test.wg", f'test "t" {{ y = {name}(ones(f32[2])) }}'), diagnostics)
    text = render_run(diagnostics)
    assert f"coming from PyTorch: {FUNCTIONS[name].advice}" in text
    assert "did you mean" not in text
