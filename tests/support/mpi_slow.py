"""Run by `mpiexec`: one round of local steps, in which rank 1 is slow."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import wgcc_runtime
from distributed_models import data_for
from wgcc_runtime import mpi
from wgcc_runtime.distributed.worker import Worker


def main(bundle: Path, out: Path) -> None:
    processes, take = mpi.Processes(), Worker._take

    def slowly(self: Worker, position: int) -> Any:
        time.sleep(0.3 if processes.rank == 1 else 0)
        return take(self, position)

    Worker._take = slowly  # type: ignore[method-assign]
    with wgcc_runtime.load(bundle, device="wasm", threads=1, seed=3) as model:
        options = {"steps": 20, "sync_every": 20, "seed": 3, "checkpoint": out}
        history = mpi.fit(model, bundle, data_for("noisy"), processes, **options)
    if processes.rank == 0:
        print("\n".join(history.workers))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
