"""Gets the model, and makes the data: the first of the commands in the README.

python fetch.py                     downloads magika's wheel with pip
python fetch.py WHEEL -o FOLDER     takes a wheel that is there already

FOLDER (magika) then has magika.onnx, kinds.json with the names of all kinds and samples, and
learned.safetensors and held_out.safetensors with the samples as the model takes them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from safetensors.numpy import save_file
from samples import HELD_OUT, LEARNED, NEW_KINDS, OWN_KIND, Sample, arrays, samples

WHEEL = "magika==1.0.3"
MODEL = "magika/models/standard_v3_3/model.onnx"
CONFIG = "magika/models/standard_v3_3/config.min.json"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Gets magika's model, and makes the data.")
    parser.add_argument("wheel", nargs="?", type=Path, help="default: downloaded with pip")
    parser.add_argument("-o", "--out", type=Path, default=Path("magika"), help="folder")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        wheel = options.wheel or download(Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            model, config = archive.read(MODEL), json.loads(archive.read(CONFIG))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "magika.onnx").write_bytes(model)
    write_data(options.out, config["target_labels_space"])
    return 0


def download(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "--no-deps", "--only-binary", ":all:", "--dest", str(folder), WHEEL], check=True
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def write_data(folder: Path, known: list[str]) -> None:
    kinds = [*known, *NEW_KINDS, OWN_KIND]
    parts = {"learned": samples(LEARNED), "held_out": samples(HELD_OUT)}
    for name, found in parts.items():
        save_file(arrays(found, kinds), folder / f"{name}.safetensors")
        count = len({sample.kind for sample in found})
        print(f"{folder / name}.safetensors  {len(found)} files of {count} kinds")
    listed = {name: list(map(described, found)) for name, found in parts.items()}
    text = json.dumps({"kinds": kinds, "known": len(known), **listed}, indent=1)
    (folder / "kinds.json").write_text(text, encoding="utf-8")


def described(sample: Sample) -> dict[str, str]:
    return {"path": sample.path, "kind": sample.kind}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
