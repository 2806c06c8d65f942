"""plan.json as typed records. Reading one checks it completely, without a GPU or other files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan_parts import (
    Capture,
    Exchange,
    TokenRecord,
    characters,
    read_captures,
    read_exchange,
    token_record,
)
from wgcc_runtime.plan_parts import Twin as Twin
from wgcc_runtime.strict_json import check_form, check_plan_digest, parse_json, plan_schema

VERSION = 1
MAX_PLAN_BYTES = 8 << 20
WORD = 4
FLOATS, INTEGERS = ("f32", "f16"), ("i32", "u32", "i8", "u8")
# Types of one byte per element.
BYTES = ("i8", "u8", "bool")


@dataclass(frozen=True, slots=True)
class Buffer:
    name: str
    bytes: int
    role: str


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named region of a buffer: whole words, one for each element or for each four `BYTES`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    buffer: int
    offset: int
    role: str
    trainable: bool
    init: Mapping[str, Any]
    any_float: bool = False
    size: int = field(init=False, repr=False)
    bytes: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Both sizes are asked for in every step, so they are computed once."""
        size, width = prod(self.shape), 1 if self.dtype in BYTES else WORD
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "bytes", -(-size * width // WORD) * WORD)

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape else self.dtype


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    file: str
    sha256: str
    entry: str
    workgroup: tuple[int, int, int]
    access: tuple[str, ...]
    subgroups: str | None = None  # digest of its form for subgroups, unless it was edited


@dataclass(frozen=True, slots=True)
class Binding:
    buffer: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Dispatch:
    kernel: int
    bindings: tuple[Binding, ...]
    grid: tuple[int, int, int]
    at: str
    label: str
    flops: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """A loop: `count` dispatches of an entry, from number `first` on, run `rounds` times."""

    first: int
    count: int
    rounds: int

    @property
    def end(self) -> int:
        return self.first + self.count


@dataclass(frozen=True, slots=True)
class EntryGuard:
    """Dispatches that set `flag` if a value that the entry wrote is NaN or infinite."""

    flag: Tensor
    dispatches: tuple[Dispatch, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """The integers that an input may hold: `low` to `high`, and `ignore` if it is not None."""

    low: int
    high: int
    ignore: int | None

    def __str__(self) -> str:
        return f"{self.low} to {self.high}" + (
            "" if self.ignore is None else f" (or {self.ignore})"
        )


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """An index or label computed on the GPU: what it is, the line that uses it, its range."""

    what: str
    at: str
    allowed: Range


@dataclass(frozen=True, slots=True)
class RangeGuard:
    """Each call sets `flag`: 0, or n if `checks[-n]` failed.

    `restored` are the tensors that a failed call may have changed, if the entry does not train.
    """

    flag: Tensor
    checks: tuple[RangeCheck, ...]
    restored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """The leading axis of `count` rows that some inputs share.

    If each row is computed alone, `outputs` has for every output `rows`, `mean`, `sum` or `same`;
    otherwise `why` says what prevents that. `dim` is the name of `count` in the source, or "".
    """

    count: int
    inputs: tuple[str, ...]
    dim: str
    outputs: Mapping[str, str]
    why: str

    def advice(self, count: int) -> str:
        """How to build a bundle for another number of rows."""
        return f"wgcc build MODEL --set {self.dim}={count}" if self.dim else "change the model"


@dataclass(frozen=True, slots=True)
class Entry:
    """`inputs` and `outputs` map the names callers use to tensors of the plan.

    `repeats` are the loops among its dispatches: see `plan_parts.py`.
    """

    name: str
    doc: str
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    ranges: Mapping[str, Range]
    dispatches: tuple[Dispatch, ...]
    writes: tuple[str, ...]
    training: bool
    guard: EntryGuard | None
    range_guard: RangeGuard | None = None
    repeats: tuple[Repeat, ...] = ()
    rows: Rows | None = None
    exchange: Exchange | None = None
    captures: Mapping[str, Capture] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A launch that a profile runs instead of one dispatch of the default profile."""

    dispatch: int
    kernel: int
    grid: tuple[int, int, int]


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    generator: str
    model: str
    text: str  # SHA-256 of the source file
    vocab: str
    tokens: TokenRecord | None
    features: tuple[str, ...]
    limits: Mapping[str, int]
    buffers: tuple[Buffer, ...]
    tensors: Mapping[str, Tensor]
    kernels: tuple[Kernel, ...]
    entries: Mapping[str, Entry]
    profiles: Mapping[str, Mapping[str, tuple[Replacement, ...]]]
    optimizer: Mapping[str, Mapping[str, Any]]
    weights: Mapping[str, Any]
    selftest: Mapping[str, Any]
    memory: Mapping[str, int]
    twin: Twin | None = None
    copies: tuple[Dispatch, ...] = ()
    no_twin: str = ""
    edited: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Plan of {self.model}: {', '.join(self.entries)}; {len(self.kernels)} kernels>"

    def persistent(self) -> dict[str, Tensor]:
        """Parameters and state: the tensors that outlive a call and are saved in checkpoints."""
        return {n: t for n, t in self.tensors.items() if t.role in ("param", "state")}

    def dispatches(self, entry: str, profile: str) -> tuple[Dispatch, ...]:
        """The dispatches of an entry under a profile (`gpu`: as in the plan)."""
        dispatches = list(self.entries[entry].dispatches)
        for new in self.profiles.get(profile, {}).get(entry, ()):
            old = dispatches[new.dispatch]
            dispatches[new.dispatch] = Dispatch(
                new.kernel, old.bindings, new.grid, old.at, old.label, old.flops
            )
        return tuple(dispatches)


def read_plan(data: bytes) -> Plan:
    """The checked plan of a bundle. Every defect is a `WgccError` that names the field."""
    from wgcc_runtime.validate import validate

    raw = parse_json(data, "plan.json", MAX_PLAN_BYTES)
    _check_version(raw)
    check_form(raw, plan_schema(), plan_schema())
    plan = unchecked_plan(raw)
    validate(plan)
    check_plan_digest(raw)
    return plan


def _check_version(raw: Any) -> None:
    if not isinstance(raw, dict) or raw.get("format") != "wgcc-bundle":
        raise WgccError("plan", "plan.json: `format` is not wgcc-bundle", "format")
    version = raw.get("version")
    if type(version) is int and version != VERSION:
        writer = str(raw.get("generator"))[:64]
        raise WgccError(
            "version",
            f"plan.json is of version {version}, written by {writer}; this runtime reads version "
            f"{VERSION}: use the wgcc_runtime of that wgcc, or build the model again",
            "version",
        )


def unchecked_plan(raw: dict[str, Any]) -> Plan:
    """A plan whose form is right."""
    tensors = {name: _tensor(name, spec) for name, spec in raw["tensors"].items()}
    return Plan(
        generator=raw["generator"],
        model=raw["model"]["name"],
        text=raw["model"]["sha256"],
        vocab=characters(raw["model"]),
        tokens=token_record(raw["model"]),
        features=tuple(raw["requires"]["features"]),
        limits=raw["requires"]["limits"],
        buffers=tuple(Buffer(**spec) for spec in raw["buffers"]),
        tensors=tensors,
        kernels=tuple(_kernel(spec, raw.get("edited", {})) for spec in raw["kernels"]),
        entries={name: _entry(name, spec, tensors) for name, spec in raw["entries"].items()},
        profiles={
            name: {entry: tuple(map(_replacement, items)) for entry, items in spec.items()}
            for name, spec in raw.get("profiles", {}).items()
        },
        optimizer=raw.get("optimizer", {}),
        weights=raw.get("weights", {}),
        selftest=raw.get("selftest", {}),
        memory=raw["memory"],
        twin=Twin(**raw["twin"]) if "twin" in raw else None,
        no_twin=raw.get("no_twin", ""),
        edited=tuple(raw.get("edited", ())),
        copies=tuple(_dispatch(item) for item in raw.get("copies", ())),
    )


def _tensor(name: str, spec: Mapping[str, Any]) -> Tensor:
    place = spec["buffer"], spec["offset"], spec["role"]
    trainable, init = spec.get("trainable", False), spec.get("init", {"kind": "zeros"})
    any_float = spec.get("any_float", False)
    return Tensor(name, spec["dtype"], tuple(spec["shape"]), *place, trainable, init, any_float)


def _kernel(spec: Mapping[str, Any], edited: Mapping[str, str]) -> Kernel:
    x, y, z = spec["workgroup"]
    return Kernel(
        **{name: spec[name] for name in ("name", "file", "sha256", "entry")},
        workgroup=(x, y, z),
        access=tuple(spec["access"]),
        subgroups=None if f"kernels/{spec['file']}" in edited else spec.get("subgroups"),
    )


def _entry(name: str, spec: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Entry:
    return Entry(
        name=name,
        doc=spec.get("doc", ""),
        inputs=_ports(f"entries.{name}.inputs", spec["inputs"], tensors),
        outputs=_ports(f"entries.{name}.outputs", spec["outputs"], tensors),
        ranges={key: _range(value) for key, value in spec.get("ranges", {}).items()},
        dispatches=tuple(_dispatch(item) for item in spec["dispatches"]),
        writes=tuple(spec["writes"]),
        training=spec["training"],
        guard=_guard(f"entries.{name}.guard", spec["guard"], tensors) if "guard" in spec else None,
        range_guard=_range_guard(name, spec.get("range_guard"), tensors),
        captures=read_captures(name, spec.get("captures", {}), partial(_ports, tensors=tensors)),
        repeats=tuple(Repeat(**item) for item in spec.get("repeats", ())),
        rows=_rows(spec["rows"]) if "rows" in spec else None,
        exchange=read_exchange(spec["exchange"]) if "exchange" in spec else None,
    )


def _rows(spec: Mapping[str, Any]) -> Rows:
    return Rows(
        count=spec["count"],
        inputs=tuple(spec["inputs"]),
        dim=spec.get("dim", ""),
        outputs=spec.get("outputs", {}),
        why=spec.get("why", ""),
    )


def _guard(field: str, spec: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> EntryGuard:
    ports = _ports(field, {"flag": spec["flag"]}, tensors)
    return EntryGuard(ports["flag"], tuple(_dispatch(item) for item in spec["dispatches"]))


def _range_guard(
    entry: str, spec: Mapping[str, Any] | None, tensors: Mapping[str, Tensor]
) -> RangeGuard | None:
    if spec is None:
        return None
    ports = _ports(f"entries.{entry}.range_guard", {"flag": spec["flag"]}, tensors)
    checks = (RangeCheck(check["what"], check["at"], _range(check)) for check in spec["checks"])
    return RangeGuard(ports["flag"], tuple(checks), tuple(spec["restored"]))


def _ports(field: str, spec: Mapping[str, str], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    for name, tensor in spec.items():
        if tensor not in tensors:
            place = f"{field}.{name}"
            raise WgccError("plan", f"plan.json: `{place}` names no tensor: {tensor}", place)
    return {name: tensors[tensor] for name, tensor in spec.items()}


def _range(spec: Any) -> Range:
    if isinstance(spec, list):
        return Range(spec[0], spec[1], None)
    return Range(spec["low"], spec["high"], spec.get("ignore"))


def _dispatch(spec: Mapping[str, Any]) -> Dispatch:
    x, y, z = spec["grid"]
    return Dispatch(
        kernel=spec["kernel"],
        bindings=tuple(Binding(**binding) for binding in spec["bindings"]),
        grid=(x, y, z),
        at=spec.get("at", ""),
        label=spec.get("label", ""),
        flops=spec.get("flops", 0),
    )


def _replacement(spec: Mapping[str, Any]) -> Replacement:
    x, y, z = spec["grid"]
    return Replacement(spec["dispatch"], spec["kernel"], (x, y, z))
