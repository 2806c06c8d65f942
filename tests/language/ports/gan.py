"""A generator and its discriminator: trains gan.wg."""

import numpy as np
from made_data import ring

import wgcc

model = wgcc.compile("gan.wg")
model.fit({"real": ring(4096, seed=1)}, epochs=40)
result = np.linalg.norm(model.make()["points"], axis=1).mean()
