"""Trains the same steps as WebAssembly and on a WebGPU adapter, and compares the losses.

wgcc build examples/sin/model.wg -o bundle
python examples/sin/compare.py bundle
"""

from __future__ import annotations

import sys

from train import points

import wgcc_runtime as wg

STEPS, EVERY = 100, 10
# Rounding differs between drivers, and every step adds to it.
CLOSE = 1e-3


def main(bundle: str) -> int:
    names, losses = [], []
    for device in ("wasm", "webgpu"):
        with wg.load(bundle, device=device) as model:
            names.append(model.device_name)
            losses.append(model.fit(points, steps=STEPS, every=EVERY).losses)
    width = len(names[0])
    print(f"{'step':>4}  {names[0]}  {names[1]}")
    for number, (one, other) in enumerate(zip(*losses, strict=True), 1):
        print(f"{number * EVERY:4}  {one:<{width}.7f}  {other:.7f}")
    difference = max(abs(a - b) / abs(b) for a, b in zip(*losses, strict=True))
    print(f"largest difference: {difference:.1e} of the loss")
    return 0 if difference < CLOSE else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "bundle"))
