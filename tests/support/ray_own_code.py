"""A program that uses Ray itself, beside a model: prints what became of each error."""

from __future__ import annotations

import sys

import numpy as np
import ray as cluster

import line_twin
import wgcc_runtime
from line_training import batches
from wgcc_runtime import WgccError, ray


def other_version(address: str, bundle: str) -> None:
    own = cluster.__version__
    cluster.__version__ = "1.0.0"
    try:
        ray.fit(bundle, {"x": np.zeros((32, 6), "f4")}, 2, steps=2, address=address)
    except WgccError as error:
        print(error.code, error.message)
    cluster.__version__ = own


def trap_after_ray(address: str, twin: str) -> None:
    """Ray replaces the handlers of signals when it starts, and when it ends."""
    batch = {name: value.copy() for name, value in batches(1)[0].items()}
    for _ in range(2):
        model = wgcc_runtime.load(twin, device="wasm", threads=1)
        model.train(**batch)
        cluster.init(address, log_to_driver=False, logging_level=50)
        for ends in (False, True):
            if ends:
                cluster.shutdown()
            bad = {**batch, "x": np.full_like(batch["x"], line_twin.TRAP)}
            try:
                model.train(**bad)
            except WgccError as error:
                print(error.code)
            model = wgcc_runtime.load(twin, device="wasm", threads=1)


if __name__ == "__main__":
    other_version(sys.argv[1], sys.argv[2])
    trap_after_ray(sys.argv[1], sys.argv[3])
