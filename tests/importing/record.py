"""Records small PyTorch models as users save them, with an input and the model's output for it.

Run by hand (`python tests/importing/record.py`, needs PyTorch); tests read only the files.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812  as everybody calls it
from safetensors.torch import save_file
from torch import Tensor, nn

FOLDER = Path(__file__).parent
NORMS = (
    nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.InstanceNorm1d,
    nn.PReLU,
)  # fmt: skip
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


class Conv1D(nn.Module):
    """The linear layer of Hugging Face's GPT-2, stored [inputs, outputs]."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs))
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class GPT2Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict(
            {"c_attn": Conv1D(width, 3 * width), "c_proj": Conv1D(width, width)}
        )
        self.mlp = nn.ModuleDict(
            {"c_fc": Conv1D(width, 4 * width), "c_proj": Conv1D(4 * width, width)}
        )

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split_heads(part) for part in self.attn["c_attn"](self.ln_1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn["c_proj"](y.transpose(0, 1).flatten(1))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x))))


class GPT2(nn.Module):
    """Its output layer is the embedding."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(9, width),
                "wpe": nn.Embedding(width, width),
                "h": nn.ModuleList(GPT2Block(width) for _ in range(2)),
                "ln_f": nn.LayerNorm(width),
            }
        )

    def forward(self, ids: Tensor) -> Tensor:
        parts = self.transformer
        x = parts["wte"](ids) + parts["wpe"](torch.arange(len(ids)))
        for block in parts["h"]:
            x = block(x)
        return parts["ln_f"](x) @ parts["wte"].weight.T


class LlamaBlock(nn.Module):
    """With Hugging Face's names; grouped queries, rotary positions."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        size = width // heads

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False)

        self.self_attn = nn.ModuleDict(
            {
                "q_proj": linear(width, width),
                "k_proj": linear(width, size),
                "v_proj": linear(width, size),
                "o_proj": linear(width, width),
            }
        )
        self.mlp = nn.ModuleDict(
            {
                "gate_proj": linear(width, inner),
                "up_proj": linear(width, inner),
                "down_proj": linear(inner, width),
            }
        )
        self.input_layernorm = nn.RMSNorm(width, 1e-5)
        self.post_attention_layernorm = nn.RMSNorm(width, 1e-5)

    def forward(self, x: Tensor) -> Tensor:
        h, attn, mlp = self.input_layernorm(x), self.self_attn, self.mlp
        q = rotate(attn["q_proj"](h).unflatten(-1, (2, -1)).transpose(0, 1))
        k, v = rotate(attn["k_proj"](h)[None]), attn["v_proj"](h)[None]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + attn["o_proj"](y.transpose(0, 1).flatten(1))
        h = self.post_attention_layernorm(x)
        return x + mlp["down_proj"](F.silu(mlp["gate_proj"](h)) * mlp["up_proj"](h))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.ModuleDict(
            {
                "embed_tokens": nn.Embedding(9, 8),
                "layers": nn.ModuleList(LlamaBlock(8, 2, 12) for _ in range(5)),
                "norm": nn.RMSNorm(8, 1e-5),
            }
        )

    def forward(self, ids: Tensor) -> Tensor:
        x = self.model["embed_tokens"](ids[0])
        for block in self.model["layers"]:
            x = block(x)
        return (self.model["norm"](x) @ self.model["embed_tokens"].weight.T)[None]


class DeepImages(nn.Module):
    """Six convolutions with batch norm."""

    def __init__(self) -> None:
        super().__init__()

        def stage(inputs: int) -> nn.Module:
            conv = nn.Conv2d(inputs, 4, 3, 1, 1, bias=False)
            return nn.Sequential(OrderedDict(conv=conv, bn=nn.BatchNorm2d(4), relu=nn.ReLU()))

        self.stem = stage(3)
        self.stages = nn.ModuleList(stage(4) for _ in range(5))
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.fc(x.mean((2, 3)))


class Recurrent(nn.Module):
    """The last hidden state."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[1][0]


class Depthwise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Conv2d(4, 4, 3, groups=4)
        self.conv1d = nn.Conv1d(4, 4, 4, padding=3, groups=4)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv1d(self.image(x).flatten(2))[..., :9].transpose(1, 2)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.pos = nn.Embedding(9, 6), nn.Embedding(6, 6)

    def forward(self, ids: Tensor) -> Tensor:
        return (self.embed(ids) + self.pos(torch.arange(6))) @ self.embed.weight.T


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bn, self.ln, self.l = nn.BatchNorm1d(6), nn.LayerNorm(6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.l(self.ln(self.bn(x)))


def perceptron() -> nn.Module:
    """Its layers are numbered 0, 2 and 4."""
    first, second, third = (nn.Linear(6, 6) for _ in range(3))
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), third)


def split_heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (2, -1)).transpose(0, 1)


def rotate(x: Tensor) -> Tensor:
    length, size = x.shape[-2:]
    frequency = 10000 ** (-torch.arange(0, size, 2) / size)
    angle = torch.arange(length)[:, None] * torch.cat([frequency, frequency])
    turned = torch.cat([-x[..., size // 2 :], x[..., : size // 2]], -1)
    return x * angle.cos() + turned * angle.sin()


class Audio(nn.Module):
    """Layers of one and three dimensions, norms of groups and instances, a trained slope."""

    def __init__(self) -> None:
        super().__init__()
        self.inp = nn.Conv1d(3, 8, 3, padding=1)
        self.norm1 = nn.GroupNorm(4, 8)
        self.act = nn.PReLU(8)
        self.up = nn.ConvTranspose1d(8, 8, 4, stride=2, groups=2)
        self.norm2 = nn.InstanceNorm1d(8, affine=True)
        self.slope = nn.PReLU()
        self.grow = nn.ConvTranspose2d(8, 5, 3, stride=2, output_padding=1)
        self.cube = nn.Conv3d(5, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(self.act(self.norm1(self.inp(x))))
        x = self.grow(self.slope(self.norm2(x))[:, :, None])
        return self.cube(x[:, :, None])[:, :, 0]


class Reparametrised(nn.Module):
    """Weights that are computed from others; the vectors of spectral_norm are state."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(9, 6, mode="mean", padding_idx=2)
        self.first = nn.utils.parametrizations.weight_norm(nn.Linear(6, 8))
        self.second = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))

    def forward(self, ids: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(self.bag(ids))))


class ReparametrisedBefore(Reparametrised):
    """The same with the older functions, which name their parts differently."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.weight_norm(nn.Linear(6, 8))
        self.second = nn.utils.spectral_norm(nn.Linear(8, 8))


def run_cell(cell: nn.LSTMCell, x: Tensor) -> Tensor:
    state = None
    for row in x:
        state = cell(row, state)
    return state[0]


def channels_last(x: Tensor) -> Tensor:
    return x.movedim(1, -1)


def main() -> None:
    torch.manual_seed(3)
    images = Images()
    for tensor in images.state_dict().values():
        if tensor.dtype == torch.float32 and tensor.ndim == 1:
            tensor.uniform_(0.5, 1.5)  # statistics as after training, not the initial 0 and 1
    record("cnn", images.eval(), torch.randn(2, 3, 8, 8))
    decoder = Decoder()
    for tensor in decoder.state_dict().values():
        if tensor.ndim == 1:
            tensor.uniform_(-0.5, 1.5)
    record("decoder", decoder.eval(), torch.randint(VOCABULARY, (LENGTH,)))
    for name, model, x in layers():
        for module in model.modules():
            if isinstance(module, NORMS):
                for tensor in module.state_dict().values():
                    if tensor.is_floating_point():
                        tensor.uniform_(0.5, 1.5)
        record(name, model.eval(), x)


def layers() -> Iterator[tuple[str, nn.Module, Tensor]]:
    """Single layers, as PyTorch names them, then whole models."""
    rows = torch.randn(3, 8)
    yield "lstm_cell", nn.LSTMCell(6, 6), torch.randn(2, 2, 6)
    yield "gru", Recurrent(), torch.randn(4, 2, 6)
    yield "linear_square", nn.Linear(8, 8), rows
    yield "linear", nn.Linear(5, 8), rows[:, :5]
    yield "conv1d", nn.Conv1d(4, 6, 3), torch.randn(2, 4, 7)
    yield "conv1d_cube", nn.Conv1d(3, 3, 3), torch.randn(2, 3, 7)
    yield "conv2d", nn.Conv2d(3, 3, 3), torch.randn(1, 3, 5, 5)
    yield "depthwise", Depthwise(), torch.randn(1, 4, 5, 5)
    yield "conv_transpose", nn.ConvTranspose2d(3, 5, 3, stride=2), torch.randn(1, 3, 4, 4)
    yield "conv_transpose_patches", nn.ConvTranspose2d(2, 2, 2, stride=2), torch.randn(1, 2, 4, 4)
    yield "embedding", Tied(), torch.randint(9, (6,))
    yield "attention", nn.MultiheadAttention(6, 2), torch.randn(5, 6)
    yield "norms", Norms(), torch.randn(3, 6)
    yield "mlp", perceptron(), rows[:, :6]
    yield "gpt2", GPT2(), torch.randint(9, (5,))
    yield "llama", Llama(), torch.randint(9, (1, 5))
    yield "cnn_deep", DeepImages(), torch.randn(1, 3, 6, 6)
    yield "conv_transpose_cube", nn.ConvTranspose2d(3, 3, 3), torch.randn(1, 3, 4, 4)
    yield "audio", Audio(), torch.randn(2, 3, 6)
    yield "reparametrised", trained(Reparametrised()), torch.randint(9, (3, 5))
    yield "reparametrised_before", trained(ReparametrisedBefore()), torch.randint(9, (3, 5))


def trained(model: nn.Module) -> nn.Module:
    """With other norms than the initial ones, and vectors of some iterations."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        (model(torch.randint(9, (3, 5))) ** 2).sum().backward()
        optimizer.step()
    return model


def record(name: str, model: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        if isinstance(model, nn.LSTMCell):
            y = run_cell(model, x)
        else:
            y = model(x, x, x)[0] if isinstance(model, nn.MultiheadAttention) else model(x)
    if isinstance(model, (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d, Audio)):
        y = channels_last(y)
    save_file(model.state_dict(), FOLDER / f"{name}.safetensors")
    is_image = x.ndim == 4 or isinstance(model, (nn.Conv1d, Audio))
    given = channels_last(x) if is_image else x.float() if x.is_floating_point() else x.int()
    run = {"x": given.contiguous(), "y": y.contiguous()}
    save_file(run, FOLDER / f"{name}_run.safetensors")


if __name__ == "__main__":
    main()
