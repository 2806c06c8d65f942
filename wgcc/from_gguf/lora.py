"""Makes an imported folder able to learn: `lora.wg` is a program with corrections beside the
model's weights, `lora/` its bundle."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from wgcc.bundle.folder import write_files
from wgcc.compiler import compile_file
from wgcc.errors import Diagnostics, Source, WgError
from wgcc.files import read_text
from wgcc.from_gguf.folder import MODEL, TOKENS, WEIGHTS
from wgcc.from_gguf.weights import PLACES
from wgcc.from_gguf.write import float_text, render
from wgcc.lazy_numpy import Array, np
from wgcc.syntax.layout import format_source
from wgcc_runtime.replace_file import replace_file

PROGRAM, BUNDLE, ADAPTER = "lora.wg", "lora", "adapter.safetensors"
# What the parameters of the imported model are called in the program that corrects them.
BASE = "base."
# Names of layers as people say them: `q` is `attn.wq`.
TARGETS = {
    place.split(".")[1].removeprefix("w" if place.startswith("attn") else ""): place
    for place in PLACES.values()
}
LENGTH = re.compile(r"learns texts of (\d+) tokens")
MEMORY = re.compile(r"learns texts of \d+ tokens in (\d+) bytes")


@dataclass(frozen=True, slots=True)
class LoraOptions:
    """`None`: as `lora.wg` has it, or the default. `length`: tokens of a sequence. `memory`: bytes
    that training may need, for which activations are computed again.
    """

    rank: int | None = None
    alpha: float | None = None
    targets: tuple[str, ...] | None = None
    rate: float | None = None
    length: int | None = None
    batch: int | None = None
    memory: int | None = None

    @property
    def are_given(self) -> bool:
        return any(getattr(self, name) is not None for name in self.__slots__)


def is_imported(folder: Path) -> bool:
    """Whether it is a folder that `wgcc import` wrote for a language model."""
    return all((folder / name).is_file() for name in (MODEL, WEIGHTS))


def prepare_lora(folder: Path, options: LoraOptions) -> tuple[Path, bool]:
    """The bundle that trains, and whether it had to be built."""
    if not is_imported(folder):
        text = f"{folder} holds no imported language model ({MODEL} and {WEIGHTS})"
        raise WgError(f"{text}: wgcc import MODEL.gguf -o {folder}")
    program = folder / PROGRAM
    if options.are_given or not program.exists():
        text = lora_text(folder, options)
        if not program.exists() or read_text(program) != text:
            replace_file(program, text.encode())
    bundle = folder / BUNDLE
    if _is_current(folder, bundle / "plan.json"):
        return bundle, False
    _build(folder, bundle)
    return bundle, True


def lora_text(folder: Path, options: LoraOptions) -> str:
    names = options.targets or ("q", "v")
    model = read_text(folder / MODEL)
    rank = options.rank or 8
    text = render(
        "lora.wg.jinja",
        model=_model_name(folder, model),
        length=options.length or _size(model, "T"),
        batch=options.batch or 1,
        limit=f" in {options.memory} bytes" if options.memory else "",
        rank=rank,
        alpha=float_text(2.0 * rank if options.alpha is None else options.alpha),
        rate=float_text(options.rate or 3e-4),
        places=", ".join(f'"{BASE}blocks.*.{TARGETS[name]}"' for name in names),
        vocabulary=TOKENS if (folder / TOKENS).exists() else "",
    )
    return format_source(Source(PROGRAM, text), Diagnostics()) or text


def _model_name(folder: Path, text: str) -> str:
    match = re.search(r"^model (\w+)", text, re.MULTILINE)
    if match is None:
        raise WgError(f"{folder / MODEL} declares no model")
    return match[1]


def _size(text: str, name: str) -> int:
    match = re.search(rf"^dim {name} = (\d+)", text, re.MULTILINE)
    if match is None:
        raise WgError(f"{MODEL} declares no `dim {name}`, as imported language models do")
    return int(match[1])


def _is_current(folder: Path, plan: Path) -> bool:
    """Whether the bundle is newer than what it is built from."""
    if not plan.exists():
        return False
    sources = (folder / name for name in (PROGRAM, MODEL, WEIGHTS))
    return all(source.stat().st_mtime_ns <= plan.stat().st_mtime_ns for source in sources)


def _build(folder: Path, bundle: Path) -> None:
    weights, text = _BaseWeights(folder / WEIGHTS), read_text(folder / PROGRAM)
    length, memory = LENGTH.search(text), MEMORY.search(text)
    sizes = {"T": int(length[1])} if length else {}
    limit = int(memory[1]) if memory else None
    compiled = compile_file(folder / PROGRAM, sizes=sizes, memory=limit)
    files = compiled.files(weights)
    bundle.mkdir(exist_ok=True)
    write_files(files, bundle)


class _BaseWeights(Mapping[str, Array]):
    """The arrays of the imported model under their names in the program, each read when needed."""

    def __init__(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        try:
            self._file = safe_open(path, "numpy")
        except (SafetensorError, OSError) as error:
            raise WgError(f"cannot read {path}: {error}") from None
        names = self._file.keys()  # type: ignore[no-untyped-call]
        self._names = {f"{BASE}{name}": name for name in names}

    def __getitem__(self, name: str) -> Array:
        array: Array = self._file.get_tensor(self._names[name])  # type: ignore[no-untyped-call]
        # Files hold floats in two bytes where that is exact.
        return array.astype(np.float32) if array.dtype == np.float16 else array

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
