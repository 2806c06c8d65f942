"""Records small PyTorch models as users save them, with an input and what the model makes of it.

Run by hand (`python tests/importing/record.py`, needs PyTorch); tests read only the files.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

FOLDER = Path(__file__).parent
WIDTH, HEADS, VOCABULARY, LENGTH = 8, 2, 11, 5


class Images(nn.Module):
    """nn.Sequential numbers its layers; batch norm has running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 5, 3, 1, 1, bias=False), nn.BatchNorm2d(5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(5, 5, 3, 1, 1, bias=False), nn.BatchNorm2d(5), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Linear(20, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).flatten(1))


class Block(nn.Module):
    """Queries, keys and values share one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.self_attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[0])
        h = self.ln_1(x)
        x = x + self.self_attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.wpe = nn.Embedding(WIDTH, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(2))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(len(ids)))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def main() -> None:
    torch.manual_seed(3)
    images = Images()
    for tensor in images.state_dict().values():
        if tensor.dtype == torch.float32 and tensor.ndim == 1:
            tensor.uniform_(0.5, 1.5)  # statistics as after training, not 0 and 1
    record("cnn", images.eval(), torch.randn(2, 3, 8, 8))
    decoder = Decoder()
    for tensor in decoder.state_dict().values():
        if tensor.ndim == 1:
            tensor.uniform_(-0.5, 1.5)
    record("decoder", decoder.eval(), torch.randint(VOCABULARY, (LENGTH,)))


def record(name: str, model: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        y = model(x)
    save_file(model.state_dict(), FOLDER / f"{name}.safetensors")
    given = x.permute(0, 2, 3, 1) if x.ndim == 4 else x.int()
    save_file({"x": given.contiguous(), "y": y}, FOLDER / f"{name}_run.safetensors")


if __name__ == "__main__":
    main()
