"""Denoising diffusion and its sampler, in PyTorch."""

import torch
import torch.nn.functional as F
from made_data import ring
from torch import nn
from torch.utils.data import DataLoader


class Noise(nn.Module):
    def __init__(self, steps, width):
        super().__init__()
        self.time = nn.Embedding(steps, width)
        self.fc1 = nn.Linear(2, width)
        self.fc2 = nn.Linear(width, width)
        self.fc3 = nn.Linear(width, 2)

    def forward(self, x, t):
        x = F.silu(self.fc1(x) + self.time(t))
        return self.fc3(F.silu(self.fc2(x)))


T = 50
beta = 1e-4 + torch.arange(T) * (0.2 / T)
kept = torch.cumprod(1 - beta, 0)
noise = Noise(T, width=64)
opt = torch.optim.Adam(noise.parameters(), lr=3e-3)
loader = DataLoader(torch.from_numpy(ring(4096, seed=1)), 128, shuffle=True, drop_last=True)
for _ in range(40):
    for x in loader:
        t, eps = torch.randint(0, T, (len(x),)), torch.randn_like(x)
        a = kept[t][:, None]
        loss = F.mse_loss(noise(a.sqrt() * x + (1 - a).sqrt() * eps, t), eps)
        opt.zero_grad()
        loss.backward()
        opt.step()


@torch.no_grad()
def make(count):
    x = torch.randn(count, 2)
    for t in reversed(range(T)):
        eps = noise(x, torch.full((count,), t))
        x = (x - eps * beta[t] / (1 - kept[t]).sqrt()) / (1 - beta[t]).sqrt()
        if t > 0:
            x = x + beta[t].sqrt() * torch.randn_like(x)
    return x


result = make(128).norm(dim=1).mean().item()
