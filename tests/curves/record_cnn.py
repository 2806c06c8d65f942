"""Records PyTorch training runs of a small convolutional network with batch norm.

Run by hand (`python tests/curves/record_cnn.py`, needs PyTorch) when cnn.wg changes. Kernels are
stored in wgcc's layout, [rows, columns, inputs of a group, outputs]; images are channels-last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from record import BATCHES, FOLDER, Arrays, Params, adamw, batch_at, record, train
from safetensors.numpy import load_file, save_file
from torch import Tensor
from torch.nn import functional

IMAGE = (8, 9, 7, 3)
CLASSES = 5


def main() -> None:
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    rng = np.random.default_rng(20240609)
    start, given = params(rng), batches(rng)
    record("cnn", start, given, Cnn(), OPTIMIZERS)
    path = FOLDER / "cnn.safetensors"
    found = load_file(path)
    for kind, dtype in (("f64", torch.float64), ("f32", torch.float32)):
        found |= {f"{name}.{kind}": value for name, value in after_training(start, given, dtype)}
    save_file({name: found[name] for name in sorted(found)}, path)


def params(rng: np.random.Generator) -> Arrays:
    def kernel(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape) * math.sqrt(3 / math.prod(shape[:3]))

    return {
        "conv1_w": kernel(3, 3, 3, 8),
        "norm.g": rng.uniform(0.8, 1.2, 8),
        "norm.b": rng.uniform(-0.3, 0.3, 8),
        "conv2_w": kernel(3, 3, 4, 12),
        "conv2_b": rng.uniform(-0.1, 0.3, 12),
        "conv3_w": kernel(2, 2, 1, 12),
        "head.w": rng.uniform(-1, 1, (12, CLASSES)) / math.sqrt(12),
        "head.b": rng.uniform(-0.1, 0.1, CLASSES),
    }


def batches(rng: np.random.Generator) -> Arrays:
    """Noise with a bright spot, whose position and colour give the class."""
    x = rng.normal(0, 0.7, (BATCHES, *IMAGE))
    labels = rng.integers(0, CLASSES, (BATCHES, IMAGE[0]))
    for at in np.ndindex(labels.shape):
        row, column = 1 + labels[at], 5 - labels[at]
        x[at][row : row + 3, column : column + 2, labels[at] % 3] += 2.0
    return {"x": x.astype(np.float32), "labels": labels.astype(np.int32)}


@dataclass
class Cnn:
    """Returns the loss of a batch; keeps PyTorch's running statistics of its batch norm."""

    mean: Tensor = field(default_factory=lambda: torch.zeros(8, dtype=torch.float64))
    var: Tensor = field(default_factory=lambda: torch.ones(8, dtype=torch.float64))

    def __call__(self, p: Params, batch: Params) -> Tensor:
        labels = batch["labels"].long()
        return functional.cross_entropy(self.logits(p, batch["x"], training=True), labels)

    def logits(self, p: Params, x: Tensor, training: bool) -> Tensor:
        self.mean, self.var = self.mean.to(x.dtype), self.var.to(x.dtype)
        h = convolve(x.permute(0, 3, 1, 2), p["conv1_w"], padding=1)
        stats = {"running_mean": self.mean, "running_var": self.var, "training": training}
        h = functional.batch_norm(h, weight=p["norm.g"], bias=p["norm.b"], **stats)
        h = functional.max_pool2d(functional.relu(h), 3, 2, padding=1)
        h = convolve(h, p["conv2_w"], bias=p["conv2_b"], padding=1, groups=2)
        h = functional.avg_pool2d(functional.relu(h), (3, 2), 2, padding=1)
        h = convolve(h, p["conv3_w"], stride=2, groups=12)
        return h.flatten(1) @ p["head.w"] + p["head.b"]


def convolve(x: Tensor, w: Tensor, **options: object) -> Tensor:
    return functional.conv2d(x, w.permute(3, 2, 0, 1), **options)


def sgd(params: Params) -> torch.optim.Optimizer:
    return torch.optim.SGD(params.values(), lr=0.01, momentum=0.9, weight_decay=1e-3)


OPTIMIZERS = {"train_sgd": (sgd, None, None), "train_adamw": (adamw(5e-3, 0.05), 1.0, None)}


def after_training(start: Arrays, given: Arrays, dtype: torch.dtype) -> list[tuple[str, object]]:
    """Running statistics after the run by SGD, and the scores that they give."""
    model = Cnn()
    rounded = {name: value.astype(np.float32) for name, value in start.items()}
    _, end = train(rounded, given, model, OPTIMIZERS["train_sgd"], dtype)
    params = {name: torch.tensor(value) for name, value in end.items()}
    scores = model.logits(params, batch_at(given, 0, dtype)["x"], training=False)
    found = {"run_mean": model.mean, "run_var": model.var, "scores": scores}
    return [(name, value.numpy()) for name, value in found.items()]


if __name__ == "__main__":
    main()
