"""How far outputs are from ONNX's, and the sentences that say so, no more than was compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from wgcc.errors import WgError
from wgcc.from_onnx.convert import Converted
from wgcc.from_onnx.literals import LARGEST
from wgcc.from_onnx.values import Constant
from wgcc.lazy_numpy import Array, np

# Ten roundings of a float with so few bits; of bytes that onnxruntime chooses at run time.
ROUNDING = {"f16": 5e-3, "bf16": 4e-2, "bytes": 5e-2}


@dataclass(frozen=True, slots=True)
class Difference:
    """How far an output is from ONNX's: the largest difference, and the largest number there.

    `finite` is how many numbers there are that are neither infinite nor NaN. `tolerance` is a part
    of the largest number: files that compute with fewer bits are less exact themselves. `caveat`
    says why the comparison means little.
    """

    output: str
    largest: float
    scale: float
    finite: int
    tolerance: float = 1e-4
    caveat: str = ""

    @property
    def is_small(self) -> bool:
        return self.largest <= self.tolerance * max(1.0, self.scale)

    def sentence(self, runner: str, inputs: str) -> str:
        if not self.finite:
            return f"{self.output}: not compared: {self.caveat}"
        text = (
            f"{self.output}: differs by at most {self.largest:.3g} from {runner} on {inputs} "
            f"(largest number {self.scale:.3g})"
        )
        return f"{text}; {self.caveat}" if self.caveat else text

    def row(self) -> str:
        """A row of a table."""
        numbers = f"{self.largest:.3g} | {self.scale:.3g}" if self.finite else "– | –"
        return f"| `{self.output}` | {numbers} | {self.caveat} |"


def differences(
    converted: Converted, results: Mapping[str, Array], wanted: Mapping[str, Array]
) -> list[Difference]:
    """`results` by the names of the model file, `wanted` by ONNX's."""
    compared = []
    tolerance = max([1e-4, *(ROUNDING[kind] for kind in converted.traced.narrow)])
    for name, own in converted.written.outputs.items():
        right, got = (np.asarray(x).astype(np.float64) for x in (wanted[name], results[own]))
        if got.shape != right.shape:
            raise WgError(f"`{name}` is {list(got.shape)}, but {list(right.shape)} in the original")
        is_constant = isinstance(converted.traced.outputs[name], Constant)
        item = replace(_difference(name, got, right), tolerance=tolerance)
        compared.append(replace(item, caveat=_caveat(right, is_constant)))
    return compared


def _difference(name: str, got: Array, right: Array) -> Difference:
    """NaN must meet NaN, and infinity what stands for it here: the largest number."""
    finite = np.isfinite(right)
    is_endless = (np.abs(got) >= LARGEST) & (np.sign(got) == np.sign(right))
    same = np.where(np.isnan(right), np.isnan(got), is_endless)
    with np.errstate(invalid="ignore"):
        gap = np.where(finite, np.abs(got - right), np.where(same, 0.0, np.inf))
    gap = np.where(np.isnan(gap), np.inf, gap)
    scale = float(np.abs(right[finite]).max(initial=0.0))
    return Difference(name, float(gap.max(initial=0.0)), scale, int(finite.sum()))


def _caveat(right: Array, is_constant: bool) -> str:
    finite = right[np.isfinite(right)]
    if not finite.size:
        return "every number of the original is NaN or infinite for these inputs"
    if is_constant:
        return "it does not depend on the inputs"
    if right.size > 1 and finite.size == right.size and finite.min() == finite.max():
        return f"every number of it is {finite.min():.4g} for these inputs, which shows little"
    if finite.size < right.size:
        rest = right.size - finite.size
        return f"{rest:,} of {right.size:,} numbers are NaN or infinite in the original"
    return ""
