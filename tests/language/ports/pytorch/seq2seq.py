"""A translator with attention, in PyTorch."""

import torch
import torch.nn.functional as F
from made_data import reversals
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Seq2Seq(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.cell = nn.GRUCell(2 * width, width)
        self.out = nn.Linear(width, words)

    def forward(self, source, target=None):
        memory, h = self.encoder(self.embed(source))
        h = h[0]
        word = torch.ones(len(source), dtype=torch.long)
        outputs = []
        for t in range(source.shape[1]):
            scores = torch.einsum("btd,bd->bt", memory, h).masked_fill(source == 0, -1e9)
            context = torch.einsum("bt,btd->bd", scores.softmax(1), memory)
            h = self.cell(torch.cat([self.embed(word), context], 1), h)
            outputs.append(self.out(h))
            word = outputs[-1].argmax(1) if target is None else target[:, t]
        return torch.stack(outputs, 1)


source, target = map(lambda a: torch.from_numpy(a).long(), reversals(2000, seed=1))
loader = DataLoader(TensorDataset(source, target), batch_size=32, shuffle=True, drop_last=True)
model = Seq2Seq(words=10, width=48)
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(8):
    for source, target in loader:
        scores = model(source, target)
        loss = F.cross_entropy(scores.transpose(1, 2), target, ignore_index=0)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
model.eval()
source, target = map(lambda a: torch.from_numpy(a).long(), reversals(200, seed=2))
with torch.no_grad():
    words = model(source).argmax(2)
result = (words == target)[target > 0].float().mean().item()
