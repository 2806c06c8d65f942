"""Makes base.safetensors, the GPT to start from, from the result of examples/chargpt/train.py.

python examples/lora/make_weights.py trained.safetensors
"""

from __future__ import annotations

import sys
from pathlib import Path

from safetensors.numpy import load_file, save_file

FOLDER = Path(__file__).parent


def main(trained: str) -> int:
    # Parameters only: no moments of the optimizer, no cache of keys and values.
    kept = {name: w for name, w in load_file(trained).items() if is_parameter(name)}
    save_file({f"base.{name}": w for name, w in kept.items()}, FOLDER / "base.safetensors")
    print(f"{sum(w.size for w in kept.values()):,} numbers")
    return 0


def is_parameter(name: str) -> bool:
    return name.endswith((".w", ".g")) and not name.startswith("opt/")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
