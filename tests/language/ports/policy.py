"""REINFORCE on a pole on a cart: trains policy.wg."""

import numpy as np
from made_data import CartPole

import wgcc

model = wgcc.compile("policy.wg")
env, lengths = CartPole(seed=1), []
for _ in range(150):
    x, xs, action, fell = env.reset(), [], [], False
    while not fell and len(xs) < 200:
        xs.append(x)
        action.append(model.act(x=x[None])["action"][0])
        x, fell = env.step(action[-1])
    lengths.append(len(xs))
    gain = np.array([(1 - 0.98**t) / 0.02 for t in range(len(xs), 0, -1)])
    pad = (0, 200 - len(xs))
    gain = np.pad((gain - gain.mean()) / (gain.std() + 1e-6), pad)
    model.train(x=np.pad(xs, (pad, (0, 0))), action=np.pad(action, pad), gain=gain)
result = np.mean(lengths[-20:])
