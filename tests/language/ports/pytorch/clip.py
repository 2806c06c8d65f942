"""Pictures and captions, told apart, in PyTorch."""

import math

import torch
import torch.nn.functional as F
from made_data import captions
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Clip(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(16, width, 3, stride=2, padding=1)
        self.embed = nn.Embedding(words, width)
        self.block = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def see(self, x):
        x = self.conv2(F.relu(self.conv1(x.permute(0, 3, 1, 2))))
        return F.normalize(x.mean((2, 3)), dim=-1)

    def read(self, words):
        return F.normalize(self.block(self.embed(words)).mean(1), dim=-1)

    def forward(self, image, words):
        return self.see(image) @ self.read(words).T


image, words = captions(1024, seed=1)
dataset = TensorDataset(torch.from_numpy(image), torch.from_numpy(words).long())
loader = DataLoader(dataset, batch_size=64, shuffle=True, drop_last=True)
model = Clip(words=13, width=32)
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for _ in range(10):
    for image, words in loader:
        scores = model.scale.exp() * model(image, words)
        labels = torch.arange(len(image))
        loss = (F.cross_entropy(scores, labels) + F.cross_entropy(scores.T, labels)) / 2
        opt.zero_grad()
        loss.backward()
        opt.step()
model.eval()
image, words = captions(64, seed=2)
words = torch.from_numpy(words).long()
with torch.no_grad():
    best = words[model(torch.from_numpy(image), words).argmax(1)]
result = (best[:, :2] == words[:, :2]).all(1).float().mean().item()
