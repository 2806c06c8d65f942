"""Receipts: what a training started from, and digests of its weights, for others to replay it.

On the WebAssembly twin a training gives the same bits on every machine: the bundle, the data and
the seed decide each weight. A receipt says which they were, so that a result can be checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wgcc_runtime.arrays import CALLER_TYPES, Array
from wgcc_runtime.bundle_files import open_bundle
from wgcc_runtime.digests import LARGEST, array_digest
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import FLOATS
from wgcc_runtime.regular_files import read_regular
from wgcc_runtime.replace_file import check_replaceable, replace_file
from wgcc_runtime.strict_json import KEY, parse_json, plan_digest
from wgcc_runtime.weights import cannot_write

if TYPE_CHECKING:
    from wgcc_runtime.history import Report
    from wgcc_runtime.model import Model

FORMAT, VERSION = "wgcc receipt", 1
MAX_BYTES = 16 << 20
# How many times in a training the weights are hashed, unless a period was given.
POINTS = 20
# How far losses of a GPU may be from those of another device: adapters round differently, and a
# training makes small differences larger.
LOSS_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Point:
    """After `step` steps: the loss of the last of them, and the digest of all that is trained."""

    step: int
    weights: str
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """All that decides a training. `data` has for each input its type, shape and digest.

    `reading` are the options with which a file was read, as on a command line.
    """

    model: str
    entry: str
    bundle: str
    data: Mapping[str, str]
    reading: Sequence[str] = ()
    held_out: float | None = None
    seed: int | None = None
    every: int = 10
    wgcc: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """`exact`: made by the twin, so that any machine gets the same bits."""

    run: Run
    device: str
    exact: bool
    points: tuple[Point, ...]


def run_of(
    model: Model, bundle: Path, entry: str, arrays: Mapping[str, Array], **options: Any
) -> Run:
    plan = model.plan
    inputs = plan.entries[entry].inputs
    data = {name: _numbers(arrays[name], inputs[name].dtype) for name in inputs if name in arrays}
    return Run(plan.model, entry, _bundle_digest(bundle), data, wgcc=plan.generator, **options)


def _bundle_digest(path: Path) -> str:
    """The digest of the plan, which has those of kernels and twin, and of the constants."""
    read = open_bundle(path)
    plan = parse_json(read("plan.json", LARGEST) or b"{}", "plan.json", LARGEST)
    constants = read("constants.safetensors", LARGEST)
    own = "-" if constants is None else hashlib.sha256(constants).hexdigest()
    text = f"{plan.get(KEY) or plan_digest(plan)} {own}\n"
    return hashlib.sha256(text.encode()).hexdigest()


def _numbers(array: Array, dtype: str) -> str:
    """As the model takes them, so that all languages agree: halves as floats."""
    kind = np.float32 if dtype in FLOATS else CALLER_TYPES[dtype]
    return f"{dtype} {array.size} {array_digest(array.astype(kind, copy=False))}"


def weights_digest(model: Model) -> str:
    """The digest of all that lasts: parameters, state, and what the optimizer keeps."""
    tensors, digest = model.plan.persistent(), hashlib.sha256()
    values = model._read(tensors.values(), copy=False)
    for name, tensor in sorted(tensors.items()):
        text = f"{name} {tensor.dtype} {list(tensor.shape)} {array_digest(values[name])}\n"
        digest.update(text.encode())
    return digest.hexdigest()


class ReceiptWriter:
    """A callback of `fit` that keeps the receipt of the training in a file.

    A training that continues another one continues its receipt, if that is in the file.
    """

    def __init__(self, path: Path, run: Run, period: int | None = None) -> None:
        self._path, self._run, self._period = path, run, period
        self._points: list[Point] = []
        self._last: Report | None = None
        self._model: Model | None = None
        try:
            check_replaceable(path)
        except (OSError, ValueError) as error:
            raise cannot_write("receipt", path, error) from None

    def begin(self, model: Model, steps: int | None) -> None:
        self._model = model
        done = model.progress.step(self._run.entry)
        if self._period is None:
            self._period = max(1, ((steps or 0) - done) // POINTS)
        self._points = self._earlier(Point(done, weights_digest(model)))

    def _earlier(self, start: Point) -> list[Point]:
        """The points of the training that this one continues, and where it starts."""
        points: Sequence[Point] = ()
        if start.step and self._path.exists():
            with contextlib.suppress(WgccError):
                earlier = read_receipt(self._path)
                points = earlier.points if earlier.run == self._run else ()
        same = next((p for p in points if p.step == start.step), start)
        if same.weights != start.weights:
            return [start]
        return [*(p for p in points if p.step < start.step), same]

    def __call__(self, report: Report) -> None:
        self._last = report
        # A device that was lost takes reports back.
        self._points = [point for point in self._points if point.step < report.step]
        assert self._period is not None
        if not self._points or report.step - self._points[-1].step >= self._period:
            self._add(report.step, report.loss)

    def _add(self, step: int, loss: float | None) -> None:
        assert self._model is not None
        finite = loss if loss is not None and math.isfinite(loss) else None
        self._points.append(Point(step, weights_digest(self._model), finite))

    def end(self, model: Model) -> None:
        """The weights that a training leaves count: of its last step, or of one to return to."""
        step, last = model.progress.step(self._run.entry), self._last
        if last and not any(point.step == step for point in self._points):
            self._add(step, last.loss if step == last.step else None)
            self._points.sort(key=lambda point: point.step)

    def close(self) -> None:
        if self._model is None:
            return
        model = self._model
        receipt = Receipt(
            self._run, model.device_name, model.is_twin and not model.is_fast, tuple(self._points)
        )
        try:
            replace_file(self._path, receipt_text(receipt).encode())
        except (OSError, ValueError) as error:
            raise cannot_write("receipt", self._path, error) from None


def receipt_text(receipt: Receipt) -> str:
    points = [{k: v for k, v in asdict(p).items() if v is not None} for p in receipt.points]
    content = {"format": FORMAT, "version": VERSION, "run": _plain(receipt.run)}
    content |= {"device": receipt.device, "exact": receipt.exact, "points": points}
    return json.dumps({**content, KEY: plan_digest(content)}, indent=1, ensure_ascii=False) + "\n"


def _plain(run: Run) -> dict[str, Any]:
    return {**asdict(run), "data": dict(run.data), "reading": list(run.reading)}


def read_receipt(path: Path) -> Receipt:
    """Refuses what is damaged or was edited."""
    try:
        content = parse_json(read_regular(path), path.name, MAX_BYTES, "receipt")
    except OSError as error:
        text = f"cannot read the receipt {path}: {error.strerror or error}"
        raise WgccError("receipt", text) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise WgccError("receipt", f"{path} is no receipt of `wgcc train --receipt`")
    if content.get("version") != VERSION:
        text = f"{path} is a receipt of version {content.get('version')!r}, not {VERSION}"
        raise WgccError("receipt", f"{text}: use the wgcc that made it")
    if content.get(KEY) != plan_digest(content):
        raise WgccError("receipt", f"{path} was changed after it was made (its SHA-256 differs)")
    try:
        return _receipt(content)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise WgccError("receipt", f"{path} lacks parts of a receipt, or has others") from None


def _receipt(content: Mapping[str, Any]) -> Receipt:
    given = content["run"]
    run = Run(**{field.name: given[field.name] for field in fields(Run)})
    words = [run.model, run.entry, run.bundle, run.wgcc, *run.data.values(), *run.reading]
    counts = [n for n in (run.every, run.seed) if n is not None]
    if not all(isinstance(w, str) for w in words) or not all(type(n) is int for n in counts):
        raise ValueError
    if run.held_out is not None:
        run = replace(run, held_out=float(run.held_out))
    points = tuple(Point(**point) for point in content["points"])
    steps = [point.step for point in points]
    if not points or any(type(step) is not int for step in steps) or steps != sorted(set(steps)):
        raise ValueError
    if run.every < 1 or steps[0] < 0:
        raise ValueError
    return Receipt(run, str(content["device"]), content["exact"] is True, points)


def refuse_other(receipt: Receipt, run: Run) -> None:
    """Refuses to replay a receipt with another bundle or other data; says what differs."""
    was = receipt.run
    for name in ("model", "entry"):
        if getattr(was, name) != getattr(run, name):
            text = (
                f"the receipt is of the {name} `{getattr(was, name)}`, not `{getattr(run, name)}`"
            )
            raise WgccError("receipt", text, name)
    if was.bundle != run.bundle:
        text = f"the receipt is of another bundle (SHA-256 {was.bundle[:12]}…, by {was.wgcc}"
        text = f"{text}) than this one ({run.bundle[:12]}…, by {run.wgcc})"
        raise WgccError("receipt", f"{text}: build the same text with the same wgcc and sizes")
    for name in sorted({*was.data, *run.data}):
        if was.data.get(name) != run.data.get(name):
            text = f"`{name}` is {run.data.get(name, 'missing')}, not {was.data.get(name, 'there')}"
            raise WgccError("receipt", f"the receipt is of other data: {text}", name)


@dataclass(slots=True)
class Replay:
    """A callback of `fit` that compares a training with a receipt, and stops where they part.

    `compared` are the points that were equal; `parted` the first that was not.
    """

    receipt: Receipt
    exact: bool
    model: Model
    compared: int = 0
    equal_until: int | None = None
    parted: Point | None = None

    def begin(self, _: Model, __: int | None) -> None:
        self._compare(self._step, None)

    def hold(self, step: int) -> int | None:
        """As many steps as there are to the next point."""
        later = (point.step for point in self.receipt.points if point.step > step)
        return 0 if self.parted else next(later, step + 1) - step

    def __call__(self, report: Report) -> str | None:
        self._compare(report.step, report.loss)
        return "stop" if self.parted else None

    @property
    def _step(self) -> int:
        return self.model.progress.step(self.receipt.run.entry)

    def _compare(self, step: int, loss: float | None) -> None:
        point = next((p for p in self.receipt.points if p.step == step), None)
        if point is None or self.parted or not (self.exact or _has_losses(point, loss)):
            return
        if self._is_equal(point, loss):
            self.compared, self.equal_until = self.compared + 1, step
        else:
            self.parted = point

    def _is_equal(self, point: Point, loss: float | None) -> bool:
        if self.exact:
            return weights_digest(self.model) == point.weights
        assert loss is not None and point.loss is not None
        return abs(loss - point.loss) <= LOSS_TOLERANCE * max(1.0, abs(point.loss))


def _has_losses(point: Point, loss: float | None) -> bool:
    return loss is not None and point.loss is not None
