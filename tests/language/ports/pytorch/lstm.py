"""A language model of characters, in PyTorch."""

import torch
import torch.nn.functional as F
from made_data import verse
from torch import nn


class CharLstm(nn.Module):
    def __init__(self, letters, width):
        super().__init__()
        self.embed = nn.Embedding(letters, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.out = nn.Linear(width, letters)

    def forward(self, x, state):
        y, state = self.lstm(self.embed(x), state)
        return self.out(y), state


ids, vocab = verse(16 * 16 * 16 + 1)
ids = torch.from_numpy(ids).long()
x, y = ids[:-1].reshape(16, -1, 16), ids[1:].reshape(16, -1, 16)
model = CharLstm(len(vocab), width=64)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for _ in range(8):
    state = None
    for i in range(16):
        scores, state = model(x[:, i], state)
        state = tuple(part.detach() for part in state)
        loss = F.cross_entropy(scores.transpose(1, 2), y[:, i])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
result = loss.item()
