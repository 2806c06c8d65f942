"""Runs in PyTorch what `wgcc export --to torch` writes, and records it if the numbers are right.

Run by hand after a change of the exported text, where both wgcc and PyTorch are installed
(`python tests/support/record_torch_export.py`). Tests compare the text with the recorded one.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

from op_samples import input_arrays, reference_of
from torch_exports import FOLDER, MODELS, RECORDED, Case, exported_ops, fingerprint, sample_text
from wgcc.ops import Op

# Gradients that use what attention saved: their samples are drawn without it.
OF_ANOTHER = ("attention_grad_q", "attention_grad_kv", "attention_grad_mask")

# Whole numbers divided by zero, and ids outside of tables.
ERRORS = ("ZeroDivision", "out of bounds", "out of range")


def module(text: str) -> Any:
    space: dict[str, Any] = {}
    exec(compile(text, "module.py", "exec"), space)
    kinds = [item for item in space.values() if isinstance(item, type)
             and issubclass(item, torch.nn.Module)]  # fmt: skip
    return kinds[-1]()


def difference(found: torch.Tensor, wanted: np.ndarray) -> float:
    """Relative to the largest number."""
    assert tuple(found.shape) == wanted.shape, (found.shape, wanted.shape)
    wide = found.detach().numpy().astype(np.float64)
    same = (wide == wanted) | (np.isnan(wide) & np.isnan(wanted))
    gap = np.where(same, 0, np.abs(np.where(same, 0, wide - wanted)))
    finite = wanted[np.isfinite(wanted)]
    return float(gap.max(initial=0) / (1 + np.abs(finite).max(initial=0)))


def run_model(case: Case) -> float:
    net = module(case.text())
    net.load_state_dict({n: torch.from_numpy(a.copy()) for n, a in case.state_dict().items()})
    given = [torch.from_numpy(np.array(array)) for array in case.inputs().values()]
    found, wanted = net(*given), case.outputs()
    assert list(found) == list(wanted)
    return max(difference(found[name], wanted[name]) for name in wanted)


def run_op(op: Op) -> int:
    """How many samples are right; none may be wrong."""
    right = 0
    for sample in op.samples:
        node, text = sample_text(op, sample)
        if not text or any(v.dtype == "f16" for v in (*node.inputs, *node.outputs)):
            continue
        arrays = [np.asarray(array) for array in input_arrays(op, sample, np.float32)]
        given = [torch.from_numpy(a.astype(np.int64) if a.dtype == np.uint32 else a.copy())
                 for a in arrays]  # fmt: skip
        with np.errstate(all="ignore"):
            wanted = reference_of(op, sample, arrays)[0].astype(np.float64)
        try:
            found = module(text)(*given)["y"]
        except (RuntimeError, IndexError) as error:
            assert any(text in str(error) for text in ERRORS), (op.name, sample, error)
            continue
        assert difference(found, wanted) < 1e-4, (op.name, sample, difference(found, wanted))
        right += 1
    return right


def main() -> None:
    models = {}
    for name, path in MODELS.items():
        case = Case(path)
        models[name] = run_model(case)
        assert models[name] < 1e-5, (name, models[name])
        (FOLDER / f"{name}.py.txt").write_text(case.text(), encoding="utf-8")
    ops = {}
    for op in exported_ops():
        count = 0 if op.name in OF_ANOTHER else run_op(op)
        ops[op.name] = {"text": fingerprint(op), "right": count}
    record = {"torch": torch.__version__, "differences": models, "ops": ops}
    RECORDED.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(models, sum(op["right"] for op in ops.values()))


if __name__ == "__main__":
    main()
