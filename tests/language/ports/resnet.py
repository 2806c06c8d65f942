"""ResNet-18 on small pictures: trains resnet.wg."""

from made_data import pictures

import wgcc

x, y = pictures(512, seed=1)
sizes = {"S": 16, "W": 8, "C": 4, "Steps": 64}
model = wgcc.compile("resnet.wg", sizes=sizes)
model.fit(x, y, epochs=4)
x, y = pictures(200, seed=2)
result = model.eval(x=x, y=y)["acc"]
