"""Records tests/onnx_models: small models as PyTorch exports them, and gradients of their heads.

    python tests/support/record_onnx.py      (needs torch==2.13.0, onnx and onnxscript)

Weights are random. `NAME.onnx` is of the exporter by tracing, `NAME_dynamo.onnx` of the newer one;
`recorded.json` holds inputs, targets, the loss and the gradients of the last layer.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import onnx
import torch
from torch import nn
from torch.nn import functional as f

from adapters import ROOT

FOLDER = ROOT / "tests" / "onnx_models"


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.downsample(x))


class ResNet(nn.Module):
    """ResNet-18 with narrow layers."""

    def __init__(self, width: int = 4, classes: int = 5) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1, self.maxpool = nn.BatchNorm2d(width), nn.MaxPool2d(3, 2, 1)
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.stages = nn.ModuleList(
            nn.Sequential(Residual(a, b, 1 if a == b else 2), Residual(b, b, 1))
            for a, b in pairwise(widths)
        )
        self.fc = nn.Linear(widths[-1], classes)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for stage in self.stages:
            x = stage(x)
        return self.fc(torch.flatten(f.adaptive_avg_pool2d(x, 1), 1))


class Squeeze(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        few = max(channels // 4, 2)
        self.fc1, self.fc2 = nn.Conv2d(channels, few, 1), nn.Conv2d(few, channels, 1)

    def forward(self, x: Any) -> Any:
        return x * f.hardsigmoid(self.fc2(torch.relu(self.fc1(f.adaptive_avg_pool2d(x, 1)))))


class Inverted(nn.Module):
    def __init__(self, i: int, wide: int, o: int, k: int, stride: int, act: Any) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(i, wide, 1, bias=False), nn.BatchNorm2d(wide), act(),
            nn.Conv2d(wide, wide, k, stride, k // 2, groups=wide, bias=False),
            nn.BatchNorm2d(wide), act(), Squeeze(wide),
            nn.Conv2d(wide, o, 1, bias=False), nn.BatchNorm2d(o),
        )  # fmt: skip
        self.keeps = stride == 1 and i == o

    def forward(self, x: Any) -> Any:
        return x + self.block(x) if self.keeps else self.block(x)


class MobileNet(nn.Module):
    """MobileNetV3's parts."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish()
        )
        self.features = nn.Sequential(
            stem, Inverted(8, 16, 8, 3, 1, nn.ReLU), Inverted(8, 24, 12, 5, 2, nn.Hardswish),
            Inverted(12, 24, 12, 5, 1, nn.Hardswish), Inverted(12, 32, 16, 3, 2, nn.Hardswish),
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Linear(16, 32), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(32, classes)
        )

    def forward(self, x: Any) -> Any:
        return self.classifier(torch.flatten(f.adaptive_avg_pool2d(self.features(x), 1), 1))


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.heads = nn.Linear(width, width), heads

    def split(self, x: Any) -> Any:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Any, mask: Any) -> Any:
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        shares = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask, -1)
        return (shares @ v).transpose(1, 2).reshape(x.shape)


class BertLayer(nn.Module):
    def __init__(self, width: int, heads: int, wide: int) -> None:
        super().__init__()
        self.attention, self.dense = SelfAttention(width, heads), nn.Linear(width, width)
        self.norm, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.intermediate, self.output = nn.Linear(width, wide), nn.Linear(wide, width)

    def forward(self, x: Any, mask: Any) -> Any:
        x = self.norm(x + self.dense(self.attention(x, mask)))
        return self.norm2(x + self.output(f.gelu(self.intermediate(x))))


class Bert(nn.Module):
    def __init__(self, vocab: int = 120, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.word, self.position = nn.Embedding(vocab, width), nn.Embedding(16, width)
        self.kind, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12)
        self.layer = nn.ModuleList(BertLayer(width, 2, 2 * width) for _ in range(layers))
        self.pooler, self.classifier = nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, ids: Any, attention_mask: Any, kinds: Any) -> Any:
        places = torch.arange(ids.shape[1])
        x = self.norm(self.word(ids) + self.position(places) + self.kind(kinds))
        least = torch.finfo(torch.float32).min
        mask = (1.0 - attention_mask[:, None, None, :].float()) * least
        for layer in self.layer:
            x = layer(x, mask)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


class GptAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Any) -> Any:
        b, t, d = x.shape
        parts = self.c_attn(x).split(d, 2)
        q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2) for y in parts)
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])
        hidden = torch.tril(torch.ones(t, t)) == 0
        shares = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return self.c_proj((shares @ v).transpose(1, 2).reshape(b, t, d))


class GptBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), GptAttention(width, heads)
        self.ln_2, self.c_fc = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(f.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocab: int = 97, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(16, width)
        self.h = nn.ModuleList(GptBlock(width, 2) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, ids: Any) -> Any:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class Lstm(nn.Module):
    def __init__(self, inputs: int = 6, hidden: int = 12) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0][:, -1])


def disturbed(model: nn.Module) -> nn.Module:
    """Norms that do something: with other numbers than ones and zeros."""
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d | nn.LayerNorm):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.uniform_(part.bias, -0.3, 0.3)
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.running_mean, -0.3, 0.3)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
    return model.eval()


def models() -> dict[str, tuple[nn.Module, dict[str, Any], str]]:
    """By name: the model, its inputs, and its last layer."""
    image, ids = torch.randn(2, 3, 32, 32), torch.randint(0, 97, (2, 16))
    text = {
        "ids": torch.randint(0, 120, (2, 16)),
        "attention_mask": torch.tensor([[1] * 16, [1] * 11 + [0] * 5]),
        "kinds": torch.randint(0, 2, (2, 16)),
    }
    return {
        "resnet": (ResNet(), {"image": image}, "fc"),
        "mobilenet": (MobileNet(), {"image": image}, "classifier.3"),
        "bert": (Bert(), text, "classifier"),
        "gpt": (Gpt(), {"ids": ids}, "lm_head"),
        "lstm": (Lstm(), {"x": torch.randn(2, 9, 6)}, "head"),
    }


def record(name: str, model: nn.Module, inputs: dict[str, Any], head: str) -> dict[str, Any]:
    options: dict[str, Any] = {"input_names": list(inputs), "output_names": ["logits"]}
    given = tuple(inputs.values())
    path = str(FOLDER / f"{name}.onnx")
    # Without folding, batch norm stays in the file.
    folds = name != "resnet"
    torch.onnx.export(
        model, given, path, dynamo=False, opset_version=16, do_constant_folding=folds, **options
    )
    if name in ("gpt", "lstm"):
        path = str(FOLDER / f"{name}_dynamo.onnx")
        torch.onnx.export(model, given, path, dynamo=True, external_data=False, **options)
        forget_places(path)
    logits = model(*given)
    target = torch.randint(0, logits.shape[-1], logits.shape[:-1])
    loss = f.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))
    layer = model.get_submodule(head)
    found = torch.autograd.grad(loss, list(layer.parameters()))
    gradients = {key: g for (key, _), g in zip(layer.named_parameters(), found, strict=True)}
    return {
        "inputs": {key: rounded(value) for key, value in inputs.items()},
        "target": target.tolist(),
        "logits": rounded(logits.detach()),
        "loss": loss.item(),
        "gradients": {key: rounded(value) for key, value in gradients.items()},
    }


def forget_places(path: str) -> None:
    """The newer exporter writes where on this machine each operation was called."""
    found = onnx.load(path)
    for node in found.graph.node:
        kept = [item for item in node.metadata_props if item.key.endswith("name_scopes")]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    for value in (*found.graph.value_info, *found.graph.input, *found.graph.output):
        del value.metadata_props[:]
    onnx.save(found, path)


def rounded(tensor: Any) -> Any:
    if tensor.dtype.is_floating_point:
        return [float(f"{number:.8g}") for number in tensor.reshape(-1).tolist()]
    return tensor.tolist()


def main() -> None:
    torch.manual_seed(3)
    FOLDER.mkdir(exist_ok=True)
    found = {
        name: record(name, disturbed(model), inputs, head)
        for name, (model, inputs, head) in models().items()
    }
    text = json.dumps(found, separators=(",", ":"))
    (FOLDER / "recorded.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
