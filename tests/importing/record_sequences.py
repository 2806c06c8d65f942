"""Records PyTorch's layers for sequences: recurrent ones, and those of Transformers.

Run by hand (`python tests/importing/record_sequences.py`, needs PyTorch); tests read the files.
"""

from __future__ import annotations

import torch
from record import FOLDER, record
from safetensors.torch import save_file
from torch import Tensor, nn


class Recurrents(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 5, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(10, 5, batch_first=True)
        self.rnn = nn.RNN(5, 5, 2, nonlinearity="relu", batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(self.gru(self.lstm(x)[0])[0])[0]

    def padded(self, x: Tensor, h: Tensor, c: Tensor, lengths: list[int]) -> tuple[Tensor, ...]:
        rows = nn.utils.rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)
        found, (h, c) = self.lstm(rows, (h, c))
        return nn.utils.rnn.pad_packed_sequence(found, True, total_length=x.shape[1])[0], h, c


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = {"d_model": 8, "nhead": 2, "dim_feedforward": 12, "batch_first": True}
        self.encoder = nn.TransformerEncoderLayer(**sizes)
        self.decoder = nn.TransformerDecoderLayer(**sizes, activation="gelu", norm_first=True)

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.decoder(x, self.encoder(x), tgt_mask=mask, tgt_is_causal=True)


def main() -> None:
    torch.manual_seed(12)
    layers = Recurrents().eval()
    x = torch.randn(2, 4, 3)
    record("recurrent", layers, x)
    record_lengths(layers, x, torch.randn(4, 2, 5), torch.randn(4, 2, 5), [4, 2])
    torch.manual_seed(11)
    model = Transformer()
    for name, tensor in model.state_dict().items():
        if "norm" in name or tensor.ndim == 1:
            tensor.uniform_(0.5, 1.5)
    record("transformer", model.eval(), torch.randn(2, 5, 8))


def record_lengths(layers: Recurrents, x: Tensor, h: Tensor, c: Tensor, lengths: list[int]) -> None:
    with torch.no_grad():
        y, h_n, c_n = layers.padded(x, h, c, lengths)
    found = {"x": x, "h": h, "c": c, "y": y, "h_n": h_n, "c_n": c_n}
    found["lengths"] = torch.tensor(lengths, dtype=torch.int32)
    contiguous = {name: tensor.contiguous() for name, tensor in found.items()}
    save_file(contiguous, FOLDER / "recurrent_padded.safetensors")


if __name__ == "__main__":
    main()
