"""What a training step avoids: repeated products, elementwise kernels, copies of the logits."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel_families import family, is_product
from wgcc.compiler import compile_file
from wgcc.schedule.kernel import EntrySchedule

TWO_LAYERS = """
model M {{
  a: Linear[20, 36]
  b: Linear[36, 12]
  optimizer opt: sgd {{ lr = 0.1 }}
  entry train(x: f32[{batch} 20], y: f32[{batch} 12]) -> (loss: f32) {{
    loss = mse(b({hidden}), y)
    minimize loss with opt
    return loss
  }}
}}
"""
CLASSES = """
model M {{
  param w: f32[6, 301] ~ normal(0.0, 1.0)
  optimizer opt: sgd {{ lr = 0.1 }}
  entry train(x: f32[40, 6], label: i32[40]) -> (loss: f32) {{
    loss = cross_entropy(x @ w, label{options})
    minimize loss with opt
    return loss
  }}
}}
"""


def training(tmp_path: Path, text: str) -> EntrySchedule:
    path = tmp_path / "m.wg"
    path.write_text(text, encoding="utf-8")
    return compile_file(path).schedule.entries["train"]


@pytest.mark.parametrize("batch", ["40,", "5, 8,"])
@pytest.mark.parametrize("activation", ["", "relu", "gelu", "silu", "sigmoid", "tanh"])
def test_linear_layers_are_their_products(activation: str, batch: str, tmp_path: Path) -> None:
    """Bias, activation and its derivative are fused into products: 2 forward, 3 backward. The loss
    and the update of all parameters may have a kernel each, nothing else has one."""
    entry = training(tmp_path, TWO_LAYERS.format(hidden=f"{activation}(a(x))", batch=batch))
    launches = [dispatch.launches["gpu"] for dispatch in entry.dispatches]
    assert sum(map(is_product, launches)) == 5
    assert len(launches) <= 7, [family(launch) for launch in launches]


@pytest.mark.parametrize(
    "options", ["", ", ignore = 0", ", smoothing = 0.1", ", ignore = 3, smoothing = 0.1"]
)
def test_losses_keep_no_copy_of_the_logits(options: str, tmp_path: Path) -> None:
    """Beside the logits and their gradient, temporaries have at most an element per row."""
    entry = training(tmp_path, CLASSES.format(options=options))
    sizes = sorted(place.count for place, _, _ in entry.temporaries.values())
    assert sizes[-2:] == [40 * 301, 40 * 301]
    assert all(count <= 40 for count in sizes[:-2])
