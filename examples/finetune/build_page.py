"""Builds the page: one HTML file with the imported model, its weights, the samples and the runtime.

python build_page.py                     from the folder magika, as finetune.html
python build_page.py FOLDER -o FILE      from what fetch.py and `wgcc import` wrote elsewhere
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from wgcc.bundle.emit import read_weights
from wgcc.bundle.page import build_page
from wgcc.compiler import compile_file

HERE = Path(__file__).parent
DATA = ("kinds.json", "learned.safetensors", "held_out.safetensors")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Builds the page.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("magika"))
    parser.add_argument("-o", "--out", type=Path, default=Path("finetune.html"), help="file")
    options = parser.parse_args(arguments)
    needed = ("imported/model.wg", "imported/weights.safetensors", *DATA)
    missing = [name for name in needed if not (options.folder / name).is_file()]
    if missing:
        parser.error(f"{options.folder / missing[0]} is not there: see README.md for what makes it")
    options.out.write_text(page_text(options.folder), encoding="utf-8")
    print(f"{options.out}  {options.out.stat().st_size / 1e6:.1f} MB")
    return 0


def page_text(folder: Path) -> str:
    imported = folder / "imported"
    compiled = compile_file(imported / "model.wg")
    files = compiled.files(read_weights(imported / "weights.safetensors", compiled.program))
    data = {name: (folder / name).read_bytes() for name in DATA}
    return build_page(HERE / "page.html", compiled.planned.plan, files, data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
