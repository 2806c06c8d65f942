"""The driver of a training on a Ray cluster, to be killed: prints each step that it has made."""

from __future__ import annotations

import sys
from pathlib import Path

from safetensors.numpy import load_file

from wgcc_runtime import ray


def main(address: str, bundle: Path, data: Path, checkpoint: Path) -> None:
    ray.fit(
        bundle,
        load_file(data),
        2,
        address=address,
        device="wasm",
        steps=100_000,
        every=1,
        checkpoint=checkpoint,
        checkpoint_every=3,
        callbacks=[lambda report: print(report.step, flush=True)],
    )


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
