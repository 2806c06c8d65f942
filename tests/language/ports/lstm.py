"""A language model of characters: trains lstm.wg."""

from made_data import verse

import wgcc

ids, vocab = verse(16 * 16 * 16 + 1)
x, y = ids[:-1].reshape(16, -1, 16), ids[1:].reshape(16, -1, 16)
model = wgcc.compile("lstm.wg", sizes={"V": len(vocab)})
for _ in range(8):
    model.rewind()
    history = model.fit({"x": x[:, i], "y": y[:, i]} for i in range(16))
result = history.loss
