"""Pictures and captions, told apart: trains clip.wg."""

from made_data import captions

import wgcc

image, words = captions(1024, seed=1)
model = wgcc.compile("clip.wg")
model.fit(image, words, epochs=10)
image, words = captions(64, seed=2)
best = words[model.compare(image=image, words=words)["scores"].argmax(1)]
result = (best[:, :2] == words[:, :2]).all(1).mean()
