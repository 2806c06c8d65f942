"""The workers of a Ray training: they join, are refused, die, and are replaced.

A worker may die at any moment, also while others are replaced. Every call that finds a worker dead
raises Ray's error; `repair` begins again until those that are left have settled.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wgcc_runtime.distributed.identity import Identity, check_equal
from wgcc_runtime.distributed.ray_worker import SIGNALS, Committed, Everything, Job, RayWorker
from wgcc_runtime.distributed.training import AllWorkersDied, WorkersMissing
from wgcc_runtime.errors import WgccError

# After so many deaths of workers that join, one after another, no more are started.
JOIN_DEATHS = 3
# So many repairs without a step in between end the training.
REPAIRS = 10


@dataclass(frozen=True, slots=True)
class Shipped:
    """The parts that every worker gets; bundle and data are references into the object store."""

    bundle: Any
    data: Any
    own: Identity
    job: Job


@dataclass(slots=True)
class Member:
    """A worker that has joined."""

    actor: Any
    identity: Identity
    pid: int

    @property
    def place(self) -> str:
        return f"{self.identity.adapter} on {self.identity.host}"


@dataclass(frozen=True, slots=True)
class Sizes:
    """The least and the most workers, and for how many seconds missing ones are waited for."""

    least: int
    most: int
    wait: float


class Members:
    """`ray` is the module; `options` are those of an actor; `committed` is what all have done."""

    def __init__(
        self,
        ray: Any,
        options: dict[str, Any],
        shipped: Shipped,
        sizes: Sizes,
        begin: Everything,
        committed: Callable[[], Committed],
        notice: Callable[[str], Any],
        watch: Callable[[list[Member]], Any],
    ) -> None:
        self._ray, self._options, self._shipped, self._sizes = ray, options, shipped, sizes
        self._begin, self._committed = begin, committed
        self._notice, self._watch = notice, watch
        self.members: list[Member] = []
        self._joining: list[tuple[Any, Any]] = []
        self._refused: WgccError | None = None
        self._join_deaths = 0
        self._repairs, self._repaired_at = 0, -1
        self._first = committed().step

    @property
    def actors(self) -> list[Any]:
        return [member.actor for member in self.members]

    # ---- joining

    def fill(self) -> None:
        """Starts workers until there are enough, and waits for the least number."""
        self.start_missing()
        until = time.monotonic() + self._sizes.wait
        while True:
            missing = self._sizes.least - len(self.members)
            try:
                self.admit(timeout=min(1.0, self._sizes.wait) if missing > 0 else 0.0)
            except self._ray.exceptions.RayError as error:
                self._bury(error)
            if len(self.members) >= self._sizes.least:
                return
            if time.monotonic() > until or not self._joining:
                raise self._too_few()

    def start_missing(self) -> None:
        while len(self.members) + len(self._joining) < self._sizes.most and not self._refused:
            actor = self._ray.remote(**self._options)(RayWorker).remote(self._shipped.job)
            self._joining.append(
                (actor, actor.join.remote(self._shipped.bundle, self._shipped.data))
            )

    def admit(self, timeout: float) -> None:
        """Takes in the workers that are ready."""
        if not self._joining:
            return
        refs = [ref for _, ref in self._joining]
        ready = set(self._ray.wait(refs, num_returns=len(refs) if timeout == 0 else 1,
                                   timeout=timeout)[0])  # fmt: skip
        for actor, ref in [pair for pair in self._joining if pair[1] in ready]:
            self._welcome(actor, ref)
            self._joining = [pair for pair in self._joining if pair[1] != ref]
        self.start_missing()

    def _welcome(self, actor: Any, ref: Any) -> None:
        """An error of this worker is handled; one of another worker is raised."""
        try:
            identity, pid = self._ray.get(ref)
            check_equal([self._shipped.own, identity])
            self._ray.get(actor.check_rows.remote(len(self.members) + 1))
        except self._ray.exceptions.RayError as error:
            # Before the next: what a worker raised is an error of Ray and of its own class.
            self._fail(actor, error)
        except WgccError as error:
            self._refuse(actor, error)
        else:
            self._introduce(actor, identity, pid)

    def _introduce(self, actor: Any, identity: Identity, pid: int) -> None:
        rank, values = len(self.members), self._everything()
        try:
            self._ray.get(actor.start.remote(values, rank, self._committed()))
        except self._ray.exceptions.RayError as error:
            if self.is_death(error) and self._is_alive(actor):
                raise  # of the worker that gave the values
            self._fail(actor, error)
        else:
            self._join_deaths = 0
            self.members.append(Member(actor, identity, pid))
            self._notice(f"worker {rank} joined: {self.members[-1].place}")
            self._watch(list(self.members))

    def _everything(self) -> Any:
        """The values of a worker that is there, or those at the start."""
        if not self.members and self._committed().step == self._first:
            return self._begin
        if not self.members:
            raise _all_died("while others were replaced")
        self.settle()
        return self.actors[0].everything.remote()

    def _fail(self, actor: Any, error: Any) -> None:
        """A worker that raised an error is refused; for one that died, another one starts."""
        if not self.is_death(error):
            self._refuse(actor, cause_of(error))
            return
        reason = reason_of(error)
        self._join_deaths += 1
        self._notice(f"a worker died while it joined: {reason}")
        self._ray.kill(actor)
        if self._join_deaths >= JOIN_DEATHS:
            count = f"{self._join_deaths} workers, one after another,"
            self._refused = WgccError("ray", f"{count} died while they joined: {reason}")

    def _refuse(self, actor: Any, error: WgccError) -> None:
        """A worker that cannot take part; the others continue."""
        self._refused = error
        self._notice(f"a worker was refused: {error.message}")
        self._ray.kill(actor)

    def _too_few(self) -> WgccError:
        if self._refused:
            return self._refused
        count, least = len(self.members), self._sizes.least
        return WgccError(
            "ray",
            f"{count} of {least} workers joined within {self._sizes.wait:.0f} s: the cluster has "
            f"no room for the others, each of which needs {_needs(self._options)}; start more "
            "machines, or use fewer workers",
        )

    # ---- dying

    def repair(self, error: Any) -> None:
        """Repairs a death: the others undo what is not committed, and the dead are replaced."""
        step = self._committed().step
        self._repairs = self._repairs + 1 if step == self._repaired_at else 1
        self._repaired_at = step
        self._bury(error)
        if not self.members:
            raise _all_died(reason_of(error))
        try:
            if self._repairs > REPAIRS:
                text = f"workers died {self._repairs} times in the step after {step}"
                raise WgccError("ray", f"{text}, at last: {reason_of(error)}")
            self._refused, self._join_deaths = None, 0
            self.fill()
        except WgccError as missing:
            # Those that are left go on alone for as long as it takes to save.
            self._sizes = Sizes(0, 0, 0.0)
            raise WorkersMissing(missing.code, missing.message) from None

    def _bury(self, error: Any) -> None:
        """Removes workers that do not answer; the others settle, and get the ranks from 0 on."""
        if not self.is_death(error):
            raise cause_of(error) from None
        while not self._have_settled():
            pass

    def _have_settled(self) -> bool:
        alive = [member for member in self.members if self._settles(member)]
        for rank, member in enumerate(self.members):
            if member not in alive:
                self._notice(f"worker {rank} died ({member.place})")
                self._ray.kill(member.actor)
        self.members = alive
        calls = [actor.assign.remote(rank) for rank, actor in enumerate(self.actors)]
        try:
            self._ray.get(calls)
        except self._ray.exceptions.RayError:
            return False
        return True

    def settle(self) -> None:
        committed = self._committed()
        self._ray.get([actor.settle.remote(committed) for actor in self.actors])

    def _settles(self, member: Member) -> bool:
        try:
            # Behind what it still computes, however long that takes; Ray notices a death.
            self._ray.get(member.actor.settle.remote(self._committed()))
        except self._ray.exceptions.RayError:
            return False
        return True

    def _is_alive(self, actor: Any) -> bool:
        try:
            self._ray.get(actor.is_there.remote())
        except self._ray.exceptions.RayError:
            return False
        return True

    def is_death(self, error: Any) -> bool:
        """Whether the error is the death of this worker, or of one whose result it needed."""
        errors = self._ray.exceptions
        is_task = isinstance(error, errors.RayTaskError)
        return not is_task or isinstance(getattr(error, "cause", None), errors.RayError)

    def signal(self, actor: Any, name: str, *arguments: Any) -> None:
        """Reaches a worker while it computes."""
        getattr(actor, name).options(concurrency_group=SIGNALS).remote(*arguments)

    def close(self) -> None:
        for actor in [*self.actors, *[actor for actor, _ in self._joining]]:
            self._ray.kill(actor)


def _all_died(reason: str) -> WgccError:
    return AllWorkersDied("ray", f"all workers died ({reason})")


def cause_of(error: Any) -> WgccError:
    """The error that a worker raised."""
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, WgccError):
        return cause
    return WgccError("ray", f"a worker failed: {type(cause).__name__}: {cause}")


def reason_of(error: BaseException) -> str:
    """Why a worker died, from Ray's text: an exception at its start, or how its process ended."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit)\b.*: ", line)]
    ended = [line for line in lines if "exit detail" in line]
    reason = (raised[-1:] or ended[:1] or lines[:1] or [type(error).__name__])[0]
    # What follows is the same for every death.
    return re.split("Some common causes|There are some potential", reason)[0].strip()


def _needs(options: dict[str, Any]) -> str:
    cores, gpus = options["num_cpus"], options["num_gpus"]
    return f"{cores:g} core{'s' * (cores != 1)}" + (f" and {gpus:g} GPU" if gpus else "")
