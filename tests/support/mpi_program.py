"""Run by `mpiexec`: trains each model of a folder twice and saves what it got."""

from __future__ import annotations

import sys
from pathlib import Path

from safetensors.numpy import load_file

import wgcc_runtime
from distributed_models import MODELS, STEPS
from wgcc_runtime import mpi


def main(folder: Path) -> None:
    processes = mpi.Processes()
    for name, (_, _, batch) in MODELS.items():
        bundle, data = folder / f"{name}{batch}", load_file(folder / f"{name}.safetensors")
        for run in ("first", "second"):
            with wgcc_runtime.load(bundle, device="wasm", threads=1) as model:
                out = folder / f"{name}-{run}.safetensors"
                log = out.with_suffix(".jsonl")
                options = {"steps": STEPS, "checkpoint": out, "log": log, "seed": 7}
                mpi.fit(model, bundle, data, processes, **options)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
