"""Builds the example pages: each is one HTML file with model, kernels, data and runtime.

python examples/pages.py                    all of them: examples/NAME/NAME.html
python examples/pages.py sin -o folder      one, elsewhere

Open the file in a browser; no server is needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from wgcc.bundle.page import build_page
from wgcc.compiler import compile_file

HERE = Path(__file__).parent
# The data files that each page contains.
PAGES: dict[str, tuple[str, ...]] = {
    "sin": (),
    "digits": ("train.safetensors", "test.safetensors"),
    "playground": (),
    "chargpt": ("train.safetensors", "test.safetensors"),
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Builds the example pages.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PAGES)}; default: all")
    parser.add_argument("-o", "--out", type=Path, help="folder; default: the example's own")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(PAGES)
    if unknown:
        parser.error(
            f"there is no page {', '.join(sorted(unknown))}; there are: {', '.join(PAGES)}"
        )
    for name in options.names or PAGES:
        path = (options.out or HERE / name) / f"{name}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(name), encoding="utf-8")
        print(f"{path}  {path.stat().st_size / 1000:.0f} kB")
    return 0


def page(name: str) -> str:
    folder = HERE / name
    compiled = compile_file(folder / "model.wg")
    data = {file: (folder / file).read_bytes() for file in PAGES[name]}
    return build_page(folder / "page.html", compiled.planned.plan, compiled.files(), data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
