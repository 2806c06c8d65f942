"""Chooses for each dispatch the fastest kernel that a bundle has, on the current adapter.

The choices are the launches of the bundle's profiles: gpu, and the candidates that
`wgcc build --candidates` adds. The result becomes a new profile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wgcc_runtime.device import DEFAULT_PROFILE, TUNED, tuned_name
from wgcc_runtime.errors import WgccError
from wgcc_runtime.gpu_machine import Command, GpuMachine
from wgcc_runtime.machine import Machine
from wgcc_runtime.plan import Dispatch, Plan, Replacement
from wgcc_runtime.plan_parts import times_run
from wgcc_runtime.timing import kernel_times

ROUNDS = 3
# A launch that took this many times as long as the best in a first run is not run again.
HOPELESS = 1.5
# A smaller gain is noise, and not worth another kernel.
WORTH = 0.95

Launch = tuple[int, tuple[int, int, int]]
Watch = Callable[[int, int, str], None]


@dataclass(slots=True)
class Case:
    """Dispatches with the same launches to choose from; the first is measured for all.

    `runs`: how often a call of each entry runs them, all rounds of loops counted.
    """

    dispatch: Dispatch
    options: tuple[Launch, ...]
    used: list[tuple[str, int]] = field(default_factory=list)
    ms: dict[Launch, float] = field(default_factory=dict)
    runs: int = 0

    @property
    def now(self) -> Launch:
        return self.options[0]

    @property
    def best(self) -> Launch:
        """The fastest launch, if the gain is worth it."""
        if self.now not in self.ms:
            return self.now
        best = min(self.ms, key=lambda option: self.ms[option])
        return best if self.ms[best] < WORTH * self.ms[self.now] else self.now


@dataclass(frozen=True, slots=True)
class Tuning:
    """The new profile, and the measurements. `complete`: there was time for all of them."""

    profile: str
    device: str
    replacements: dict[str, tuple[Replacement, ...]]
    cases: tuple[Case, ...]
    complete: bool

    @property
    def before_ms(self) -> float:
        return sum(case.runs * case.ms.get(case.now, 0.0) for case in self.cases)

    @property
    def after_ms(self) -> float:
        return sum(case.runs * case.ms.get(case.best, 0.0) for case in self.cases)


def tune(machine: Machine, seconds: float = 60.0, progress: Watch | None = None) -> Tuning:
    """Measures with buffers of zeros, on a separate device, the slowest kernels first."""
    if not isinstance(machine, GpuMachine):
        text = "the WebAssembly twin has one kernel for each dispatch, so nothing can be tuned"
        raise WgccError("tune", f'{text}; load(..., device="webgpu") runs on an adapter')
    ends = time.perf_counter() + seconds
    plan = machine.plan
    own = machine.on_new_device(extras=["timestamp-query"])
    try:
        cases = _cases(plan, machine.profile)
        _measure_current(own, cases)
        cases.sort(key=lambda case: -case.runs * case.ms[case.now])
        complete = _measure_others(own, cases, ends, progress)
    finally:
        own.close()
    replacements = {name: _replacements(plan, name, cases) for name in plan.entries}
    name = tuned_name(own.device.name)
    return Tuning(name, own.device.name, replacements, tuple(cases), complete)


def _cases(plan: Plan, profile: str) -> list[Case]:
    """The current launch is the first option of each case."""
    names = [profile, DEFAULT_PROFILE, *(n for n in plan.profiles if not n.startswith(TUNED))]
    cases: dict[tuple[Launch, ...], Case] = {}
    for entry in plan.entries:
        rows = [plan.dispatches(entry, name) for name in dict.fromkeys(names)]
        times = times_run(plan.entries[entry])
        for i, launches in enumerate(zip(*rows, strict=True)):
            options = tuple(dict.fromkeys((x.kernel, x.grid) for x in launches))
            case = cases.setdefault(options, Case(launches[0], options))
            case.used.append((entry, i))
            case.runs += times[i]
    if not cases:
        raise WgccError("tune", "the bundle has no dispatches to tune")
    return list(cases.values())


def _measure_current(machine: GpuMachine, cases: Sequence[Case]) -> None:
    commands = [machine.command(case.dispatch) for case in cases]
    for case, ms in zip(cases, kernel_times(machine, commands, 1), strict=True):
        case.ms[case.now] = ms


def _measure_others(
    machine: GpuMachine, cases: Sequence[Case], ends: float, progress: Watch | None
) -> bool:
    """Returns whether there was time for all. A case is measured completely or not at all."""
    total, done = sum(len(case.options) for case in cases), 0
    for case in cases:
        if progress:
            progress(done, total, case.dispatch.label)
        done += len(case.options)
        if len(case.options) == 1:
            continue
        if time.perf_counter() > ends:
            return False
        _measure(machine, case, ends)
    if progress:
        progress(total, total, "")
    return True


def _measure(machine: GpuMachine, case: Case, ends: float) -> None:
    """Times options in rounds, so that other load affects all; the best time of each counts."""
    commands: dict[Launch, Command] = {}
    for kernel, grid in case.options:
        # Compiling takes most of the time on some adapters.
        if commands and time.perf_counter() > ends:
            break
        old = case.dispatch
        launch = Dispatch(kernel, old.bindings, grid, old.at, old.label, old.flops)
        commands[kernel, grid] = machine.command(launch)
        case.ms[kernel, grid] = kernel_times(machine, [commands[kernel, grid]], 1)[0]
    limit = HOPELESS * min(case.ms.values())
    kept = {option: run for option, run in commands.items() if case.ms[option] <= limit}
    # The current launch is always kept: the others are compared with it.
    kept[case.now] = commands[case.now]
    for _ in range(ROUNDS):
        times = kernel_times(machine, list(kept.values()), 1)
        for option, ms in zip(kept, times, strict=True):
            case.ms[option] = min(ms, case.ms[option])


def _replacements(plan: Plan, entry: str, cases: Sequence[Case]) -> tuple[Replacement, ...]:
    default = plan.entries[entry].dispatches
    chosen = {i: case.best for case in cases for name, i in case.used if name == entry}
    return tuple(
        Replacement(i, kernel, grid)
        for i, (kernel, grid) in sorted(chosen.items())
        if (kernel, grid) != (default[i].kernel, default[i].grid)
    )
