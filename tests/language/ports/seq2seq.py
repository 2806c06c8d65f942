"""A translator with attention: trains seq2seq.wg."""

from made_data import reversals

import wgcc

model = wgcc.compile("seq2seq.wg")
model.fit(*reversals(2000, seed=1), epochs=8)
source, target = reversals(200, seed=2)
words = model.translate(source=source)["words"]
result = (words == target)[target > 0].mean()
