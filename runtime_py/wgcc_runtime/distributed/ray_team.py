"""The driver's side of a Ray training: workers that join, die, are replaced, and step together.

Every step is computed from what is committed. If a worker dies, all others undo what they have done
since, a new one gets their values, and the step is made again: with as many workers, to the bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wgcc_runtime.arrays import from_words
from wgcc_runtime.checkpoint import Progress, save_checkpoint
from wgcc_runtime.distributed.agreement import Agreement, Outcome, Wants, agreed
from wgcc_runtime.distributed.identity import Identity, check_equal
from wgcc_runtime.distributed.ray_worker import Committed, Everything, Job, RayWorker
from wgcc_runtime.distributed.rounds import write_velocity
from wgcc_runtime.distributed.training import WorkerLine
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import Plan

# How long to wait for workers that are missing.
JOIN_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Shipped:
    """What every worker gets: references to the bundle and the data in the object store."""

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


@dataclass(frozen=True, slots=True)
class Sizes:
    least: int
    most: int


class RayTeam:
    """See `training.Team`. `ray` is the module; `options` are those of an actor."""

    is_leader = True

    def __init__(
        self,
        ray: Any,
        options: dict[str, Any],
        shipped: Shipped,
        sizes: Sizes,
        begin: Everything,
        plan: Plan,
        preparation: Any,
        evaluation: Any,
        notice: Callable[[str], Any],
        watch: Callable[[list[Member]], Any],
    ) -> None:
        self._ray, self._options, self._shipped, self._sizes = ray, options, shipped, sizes
        self._plan, self._preparation, self._evaluation = plan, preparation, evaluation
        self._notice, self._watch = notice, watch
        self._begin = begin
        self.progress: Progress = begin.values.progress.copy()
        self._agreement: Agreement | None = None
        self._members: list[Member] = []
        self._joining: list[tuple[Any, Any]] = []
        self._refused: WgccError | None = None
        self._fill()

    # ---- who is there

    def _fill(self) -> None:
        """Starts workers until there are enough, and waits for the least number."""
        self._start_missing()
        until = time.monotonic() + JOIN_SECONDS
        while len(self._members) < self._sizes.least:
            if time.monotonic() > until or not self._joining:
                raise self._too_few()
            self._admit(timeout=1.0)
        self._admit(timeout=0.0)

    def _start_missing(self) -> None:
        while len(self._members) + len(self._joining) < self._sizes.most:
            if self._refused:
                return
            actor = self._ray.remote(**self._options)(RayWorker).remote(self._shipped.job)
            self._joining.append(
                (actor, actor.join.remote(self._shipped.bundle, self._shipped.data))
            )

    def _too_few(self) -> WgccError:
        if self._refused:
            return self._refused
        found, least = len(self._members), self._sizes.least
        return WgccError(
            "ray",
            f"{found} of {least} workers joined within {JOIN_SECONDS:.0f} s: the cluster has no "
            "room for the others; start more machines, or use fewer workers",
        )

    def _admit(self, timeout: float) -> None:
        """Takes in the workers that are ready."""
        if not self._joining:
            return
        refs = [ref for _, ref in self._joining]
        ready = set(self._ray.wait(refs, num_returns=len(refs) if timeout == 0 else 1,
                                   timeout=timeout)[0])  # fmt: skip
        arrived = [(actor, ref) for actor, ref in self._joining if ref in ready]
        self._joining = [(actor, ref) for actor, ref in self._joining if ref not in ready]
        for actor, ref in arrived:
            self._welcome(actor, ref)

    def _welcome(self, actor: Any, ref: Any) -> None:
        try:
            found, pid = self._ray.get(ref)
            check_equal([self._shipped.own, found])
            rank = len(self._members)
            self._ray.get(actor.check_rows.remote(rank + 1))
            self._ray.get(actor.start.remote(self._everything(), rank, self._committed))
        except self._ray.exceptions.RayTaskError as error:
            self._refuse(actor, _cause(error))
        except WgccError as error:
            self._refuse(actor, error)
        except self._ray.exceptions.RayError as error:
            self._notice(f"a worker died while it joined: {_first_line(error)}")
            self._start_missing()
        else:
            self._members.append(Member(actor, found, pid))
            self._notice(f"worker {rank} joined: {found.adapter} on {found.host}")
            self._watch(list(self._members))

    def _refuse(self, actor: Any, error: WgccError) -> None:
        """A worker that cannot take part; the others continue."""
        self._refused = error
        self._notice(f"a worker was refused: {error.message}")
        self._ray.kill(actor)

    def _everything(self) -> Any:
        """The values of a worker that is there, or those at the start."""
        if not self._members:
            return self._begin
        self._settle()
        return self._members[0].actor.everything.remote()

    @property
    def _committed(self) -> Committed:
        step = self.progress.step(self._shipped.job.entry)
        return Committed(step, self.progress.position, self._agreement)

    def _settle(self) -> None:
        self._ray.get([m.actor.settle.remote(self._committed) for m in self._members])

    def _repair(self) -> None:
        """After a death: the others undo what is not committed, and the dead are replaced."""
        alive = [member for member in self._members if self._answers(member)]
        for rank, member in enumerate(self._members):
            if member not in alive:
                place = f"{member.identity.adapter} on {member.identity.host}"
                self._notice(f"worker {rank} died ({place})")
                self._ray.kill(member.actor)
        self._members = alive
        if not alive:
            raise WgccError("ray", "all workers died; the last checkpoint is there: resume from it")
        for rank, member in enumerate(alive):
            self._ray.get(member.actor.assign.remote(rank))
        self._refused = None
        self._fill()

    def _is_death(self, error: Exception) -> bool:
        """Of a worker, or of one whose result another should have used."""
        errors = self._ray.exceptions
        is_task = isinstance(error, errors.RayTaskError)
        return not is_task or isinstance(getattr(error, "cause", None), errors.RayError)

    def _answers(self, member: Member) -> bool:
        try:
            # Behind what it still computes, however long that takes; Ray notices a death.
            self._ray.get(member.actor.settle.remote(self._committed))
        except self._ray.exceptions.RayError:
            return False
        return True

    # ---- steps

    def step(self, wants: Wants, count: int) -> Agreement:
        while True:
            self._admit(timeout=0.0)
            self._start_missing()
            try:
                outcomes = (
                    self._round(wants, count) if self._shipped.job.outer else self._one(wants)
                )
                break
            except self._ray.exceptions.RayError as error:
                if not self._is_death(error):
                    raise _cause(error) from None
                self._repair()
        agreement = agreed(outcomes)
        if agreement.error:
            self._settle()
            raise agreement.error
        entry = self._shipped.job.entry
        self.progress.add(entry, count if self._shipped.job.outer else 1, from_data=False)
        self.progress.position += len(outcomes) * count
        self._agreement = None if self._shipped.job.outer else agreement
        return agreement

    def _one(self, wants: Wants) -> list[Outcome]:
        actors, committed = [m.actor for m in self._members], self._committed
        count = len(actors)
        parts = [a.gradients.options(num_returns=count).remote(committed, count) for a in actors]
        means = self._reduced(actors, parts, None)
        return list(self._ray.get([a.apply.remote(wants, *means) for a in actors]))

    def _reduced(self, actors: list[Any], parts: list[Any], weights: Any) -> list[Any]:
        """Each worker adds up one part of all; the data goes from one to another, not here."""
        rows = parts if len(actors) > 1 else [[part] for part in parts]
        return [
            actor.reduce.remote(weights, *[row[i] for row in rows])
            for i, actor in enumerate(actors)
        ]

    def _round(self, wants: Wants, count: int) -> list[Outcome]:
        actors, committed = [m.actor for m in self._members], self._committed
        size = len(actors)
        outcomes = self._ray.get(
            [a.local_steps.remote(committed, size, count, wants) for a in actors]
        )
        if any(outcome.failure for outcome in outcomes):
            self._ray.get([a.undo_round.remote() for a in actors])
            return list(outcomes)
        parts = [a.floats.options(num_returns=size).remote(size) for a in actors]
        means = self._reduced(actors, parts, [outcome.rows for outcome in outcomes])
        position = committed.position + size * count
        self._ray.get([a.finish_round.remote(position, *means) for a in actors])
        return list(outcomes)

    # ---- between steps; a death there is repaired, and the call made again

    def _again(self, work: Callable[[], Any]) -> Any:
        while True:
            try:
                self._settle()
                return work()
            except self._ray.exceptions.RayError as error:
                if not self._is_death(error):
                    raise _cause(error) from None
                self._repair()

    def even_out(self) -> None:
        self._again(self._even_out)

    def _even_out(self) -> None:
        digests = self._ray.get([m.actor.digest.remote() for m in self._members])
        if len(set(digests)) > 1:
            values, committed = self._everything(), self._committed
            calls = [
                member.actor.start.remote(values, rank, committed)
                for rank, member in enumerate(self._members)
            ]
            self._ray.get(calls)

    def lead(self, work: Callable[[], bool]) -> bool:
        return work()

    def evaluate(self) -> dict[str, float]:
        return dict(
            self._again(
                lambda: self._ray.get(self._members[0].actor.evaluate.remote(self._evaluation))
            )
        )

    def save(self, path: Path, keep_previous: bool) -> None:
        found = self._again(lambda: self._ray.get(self._members[0].actor.everything.remote()))
        arrays = {
            name: from_words(memoryview(words.tobytes()), self._plan.tensors[name])
            for name, words in found.values.words.items()
        }
        if self._shipped.job.outer:
            write_velocity(path, self._shipped.job.outer, found.velocity, self.progress.steps)
        progress = replace(self.progress, steps=dict(self.progress.steps))
        save_checkpoint(path, self._plan, arrays, progress, keep_previous, self._preparation)

    def lines(self) -> list[WorkerLine]:
        return list(
            self._again(lambda: self._ray.get([m.actor.line.remote() for m in self._members]))
        )

    def close(self) -> None:
        for actor in [m.actor for m in self._members] + [actor for actor, _ in self._joining]:
            self._ray.kill(actor)


def _cause(error: Any) -> WgccError:
    """What a worker raised."""
    cause = error.cause
    if isinstance(cause, WgccError):
        return cause
    return WgccError("ray", f"a worker failed: {type(cause).__name__}: {cause}")


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]
