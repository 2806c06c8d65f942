"""Records scores of transformers for tiny random models of every type that `wgcc import` reads.

    python tests/support/record_huggingface.py     # with torch and transformers installed

Writes `tests/from_gguf/huggingface.json`: for each case the model's `config.json`, and the scores
of a short text at a few places. Weights are drawn by `hf_folders.py`, here and in tests.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from hf_folders import CASES, IDS, write_folder


def main() -> None:
    recorded = {}
    for name, settings in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            config = AutoConfig.for_model(**settings)
            model = AutoModelForCausalLM.from_config(config)
            shapes = {key: list(v.shape) for key, v in model.state_dict().items()}
            model.config.save_pretrained(folder)
            saved = json.loads((Path(folder) / "config.json").read_text())
            write_folder(Path(folder), saved, shapes)
            model = AutoModelForCausalLM.from_pretrained(
                folder, attn_implementation="eager", dtype=torch.float64
            ).eval()
            with torch.no_grad():
                scores = model(torch.tensor([IDS])).logits[0, :, ::16].numpy()
        print(name, scores.shape)
        rows = [[float(f"{x:.8g}") for x in row] for row in scores]
        recorded[name] = {"config": saved, "shapes": shapes, "scores": rows}
    path = Path(__file__).parents[1] / "from_gguf" / "huggingface.json"
    lines = (f"{json.dumps(name)}: {json.dumps(case)}" for name, case in recorded.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
