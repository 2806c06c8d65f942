"""Builds the page for one language model; its weights stay in the file, which a visitor gives.

python build_page.py MODEL.gguf -o page/     from a GGUF file, or a folder of Hugging Face
python build_page.py FOLDER -o page/         from what `wgcc import` wrote

Serve it with `wgcc serve page/`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from wgcc.bundle.folder import write_files
from wgcc.bundle.page import build_page
from wgcc.errors import WgError
from wgcc.from_gguf.folder import TEMPLATE, TOKENS, architecture_of, import_model
from wgcc.from_gguf.lora import LoraOptions, is_imported, prepare_lora

HERE = Path(__file__).parent
# A rate of 1e-3 learns a page of text by heart, but forgets how to chat: see README.md.
OPTIONS = LoraOptions(rank=8, rate=3e-4, length=64)
WEIGHTS = "weights.safetensors"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Builds the page.")
    parser.add_argument("model", type=Path, help="GGUF file or folder")
    parser.add_argument("-o", "--out", type=Path, default=Path("page"), help="folder")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = imported(options.model, Path(name) / "model")
            page = page_text(folder)
            plan = (folder / "lora" / "plan.json").read_bytes()
    except WgError as error:
        parser.error(str(error))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "index.html").write_text(page, encoding="utf-8")
    (options.out / "plan.json").write_bytes(plan)
    print(f"{options.out / 'index.html'}  {len(page.encode()) / 1e6:.1f} MB")
    return 0


def imported(model: Path, folder: Path) -> Path:
    """The folder of an imported model, which is made of a file."""
    if is_imported(model):
        return model
    folder.mkdir()
    write_files(import_model(model, {}, compares=False).files, folder)
    return folder


def page_text(folder: Path) -> str:
    for name in (TOKENS, TEMPLATE):
        if not (folder / name).is_file():
            raise WgError(f"{folder} has no {name}: this model cannot chat")
    bundle = prepare_lora(folder, OPTIONS)[0]
    files = {
        path.relative_to(bundle).as_posix(): path.read_bytes()
        for path in sorted(bundle.rglob("*"))
        if path.is_file() and path.name != WEIGHTS
    }
    facts = {
        "architecture": architecture_of(folder),
        "tokens": digest_of_tokens(folder / TOKENS),
        "template": (folder / TEMPLATE).read_text(encoding="utf-8"),
    }
    data = {"facts.json": json.dumps(facts).encode()}
    return build_page(HERE / "page.html", json.loads(files["plan.json"]), files, data)


def digest_of_tokens(path: Path) -> str:
    """That of all tokens by their ids, as a GGUF file lists them."""
    file = json.loads(path.read_text(encoding="utf-8"))
    ids = {token["id"]: token["content"] for token in file["added_tokens"]}
    vocabulary = file["model"]["vocab"]
    pairs = vocabulary.items() if isinstance(vocabulary, dict) else _numbered(vocabulary)
    ids |= {id_: token for token, id_ in pairs}
    return hashlib.sha256("\n".join(ids[id_] for id_ in sorted(ids)).encode()).hexdigest()


def _numbered(scored: Sequence[tuple[str, float]]) -> list[tuple[str, int]]:
    return [(token, id_) for id_, (token, _) in enumerate(scored)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
