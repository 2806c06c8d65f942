"""Builds the example pages: each is one HTML file with model, kernels, data and runtime.

python examples/pages.py                    all of them, beside their models
python examples/pages.py sin -o folder      one, elsewhere

Open the file in a browser; no server is needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wgcc.bundle.emit import read_weights
from wgcc.bundle.page import build_page
from wgcc.compiler import compile_file

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Page:
    """A page.html with what it contains, in `folder`; `weights` are in any folder of examples."""

    folder: str
    model: str = "model.wg"
    data: tuple[str, ...] = ()
    weights: str = ""


PAGES = {
    "sin": Page("sin"),
    "digits": Page("digits", data=("train.safetensors", "test.safetensors")),
    "playground": Page("playground"),
    "pictures": Page("pictures"),
    "chargpt": Page("chargpt", data=("train.safetensors", "test.safetensors")),
    "snake": Page("snake"),
    "cartpole": Page("cartpole", model="../snake/cartpole.wg"),
    "siren": Page("siren"),
    "diffusion": Page("diffusion", data=("../digits/train.safetensors",)),
    "plane": Page("plane", data=("../digits/train.safetensors",)),
    "inside": Page("inside", model="../chargpt/inside.wg", weights="lora/base.safetensors"),
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
        path = (options.out or HERE / PAGES[name].folder) / f"{name}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page_text(PAGES[name]), encoding="utf-8")
        print(f"{path}  {path.stat().st_size / 1000:.0f} kB")
    return 0


def page_text(page: Page) -> str:
    folder = HERE / page.folder
    compiled = compile_file(folder / page.model)
    weights = read_weights(HERE / page.weights, compiled.program) if page.weights else None
    # Without trained weights, the page draws its first values, which would only take bytes in it.
    files = compiled.files(weights, drawn=not weights)
    data = {file: (folder / file).read_bytes() for file in page.data}
    return build_page(folder / "page.html", compiled.planned.plan, files, data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
