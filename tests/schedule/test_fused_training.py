"""What a training step avoids: repeated products, elementwise kernels, copies of the logits."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def kinds(entry: EntrySchedule) -> list[str]:
    templates = (d.launches["gpu"].kernel.template for d in entry.dispatches)
    return [template.split(".")[0].split("_")[0] for template in templates]


@pytest.mark.parametrize("batch", ["40,", "5, 8,"])
@pytest.mark.parametrize("activation", ["", "relu", "gelu", "silu", "sigmoid", "tanh"])
def test_linear_layers_are_their_products(activation: str, batch: str, tmp_path: Path) -> None:
    """Bias, activation and its derivative are fused into products: 2 forward, 3 backward."""
    entry = training(tmp_path, TWO_LAYERS.format(hidden=f"{activation}(a(x))", batch=batch))
    assert kinds(entry) == ["matmul", "matmul", "rows", "matmul", "matmul", "matmul", "update"]


@pytest.mark.parametrize(
    "options", ["", ", ignore = 0", ", smoothing = 0.1", ", ignore = 3, smoothing = 0.1"]
)
def test_losses_keep_no_copy_of_the_logits(options: str, tmp_path: Path) -> None:
    entry = training(tmp_path, CLASSES.format(options=options))
    sizes = {name: place.count for name, (place, _, _) in entry.temporaries.items()}
    large = {name for name, count in sizes.items() if count >= 40 * 301}
    assert large == {"matmul", "d.matmul"}
    assert all(count == 40 for name, count in sizes.items() if name not in large)
