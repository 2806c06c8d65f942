"""Steps of a bundle in Python: its WebAssembly twin in wasmtime, or its kernels on lavapipe."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent.parent / "runtime_py"))

import blocks  # noqa: E402

import wgcc_runtime  # noqa: E402


def main() -> None:
    task = blocks.task()
    folder, name, backend = Path(task["folder"]), task["model"], task["backend"]
    options = {"threads": task["threads"]} if backend == "wasm" else {}
    from safetensors.numpy import load_file

    batch = load_file(folder / "batches" / f"{name}.safetensors")
    with wgcc_runtime.load(folder / "bundles" / name, device=backend, **options) as model:
        call = getattr(model, task["entry"])

        def step() -> float:
            try:
                return float(call(**batch).get("loss", 0.0))
            except wgcc_runtime.WgccError as error:
                if error.code != "range":
                    raise
                model.reset()  # the cache of a decoder is full
                return 0.0

        blocks.serve(step)


if __name__ == "__main__":
    main()
