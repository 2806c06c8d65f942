"""A generator and its discriminator, in PyTorch."""

import torch
import torch.nn.functional as F
from made_data import ring
from torch import nn
from torch.utils.data import DataLoader


def net(inputs, outputs, width=64):
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, outputs),
    )


g, d = net(4, 2), net(2, 1)
opt_g = torch.optim.Adam(g.parameters(), lr=1e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(d.parameters(), lr=1e-3, betas=(0.5, 0.999))
loader = DataLoader(torch.from_numpy(ring(4096, seed=1)), 128, shuffle=True, drop_last=True)
for _ in range(40):
    for real in loader:
        fake = g(torch.randn(len(real), 4))
        loss = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
        opt_d.zero_grad()
        loss.backward()
        opt_d.step()
        fooled = F.softplus(-d(fake)).mean()
        opt_g.zero_grad()
        fooled.backward()
        opt_g.step()
with torch.no_grad():
    points = g(torch.randn(128, 4))
result = points.norm(dim=1).mean().item()
