"""REINFORCE on a pole on a cart, in PyTorch."""

import numpy as np
import torch
from made_data import CartPole
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.fc1 = nn.Linear(4, width)
        self.fc2 = nn.Linear(width, 2)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x)))


model = Policy()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
env, lengths = CartPole(seed=1), []
for _ in range(150):
    x, fell = env.reset(), False
    log_probs, rewards = [], []
    while not fell and len(rewards) < 200:
        actions = Categorical(logits=model(torch.from_numpy(x)))
        action = actions.sample()
        log_probs.append(actions.log_prob(action))
        x, fell = env.step(action.item())
        rewards.append(1.0)
    lengths.append(len(rewards))
    gain, gains = 0.0, []
    for reward in reversed(rewards):
        gain = reward + 0.98 * gain
        gains.insert(0, gain)
    gains = torch.tensor(gains)
    gains = (gains - gains.mean()) / (gains.std() + 1e-6)
    loss = -(torch.stack(log_probs) * gains).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
result = np.mean(lengths[-20:])
