"""A table with twelve columns of categories: trains tabular.wg."""

from made_data import table

import wgcc

columns, numbers, y = table(3000, seed=1)
model = wgcc.compile("tabular.wg")
model.fit({"columns": columns, "numbers": numbers, "y": y}, epochs=6, partial="fill")
columns, numbers, y = table(500, seed=2)
result = model.eval(columns=columns, numbers=numbers, y=y)["acc"]
