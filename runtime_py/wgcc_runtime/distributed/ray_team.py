"""The driver's side of a Ray training: workers step together, however many there are.

Every step is computed from what is committed. If a worker dies, all others undo what they have done
since, a new one gets their values, and the step is made again: with as many workers, to the bit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from wgcc_runtime.arrays import from_words
from wgcc_runtime.checkpoint import save_checkpoint
from wgcc_runtime.distributed.agreement import Agreement, Outcome, Wants, agreement_of
from wgcc_runtime.distributed.ray_members import Member, Members, Shipped, Sizes, cause_of
from wgcc_runtime.distributed.ray_worker import Committed, Everything
from wgcc_runtime.distributed.rounds import ahead, allowed_seconds
from wgcc_runtime.distributed.worker import WorkerLine
from wgcc_runtime.flight import Progress
from wgcc_runtime.plan import Plan


class RayTeam:
    """See `training.Team`. `ray` is the module; `options` are those of an actor.

    `slack`: see `distributed.rounds`.
    """

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
        slack: float,
        notice: Callable[[str], Any],
        watch: Callable[[list[Member]], Any],
    ) -> None:
        self._ray, self._job, self._plan = ray, shipped.job, plan
        self._preparation, self._evaluation, self._slack = preparation, evaluation, slack
        self.progress: Progress = begin.values.progress.copy()
        self._agreement: Agreement | None = None
        self._round_number = 0
        self._all = Members(
            ray, options, shipped, sizes, begin, lambda: self._last_commit, notice, watch
        )
        try:
            self._all.fill()
        except BaseException:
            self.close()
            raise

    @property
    def _last_commit(self) -> Committed:
        step = self.progress.step(self._job.entry)
        return Committed(step, self.progress.position, self._agreement)

    # ---- steps

    def step(self, wants: Wants, count: int) -> Agreement:
        outcomes = self._run_with_repairs(lambda: self._attempt(wants, count))
        agreement = agreement_of(outcomes)
        if agreement.error:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._all.settle()
            raise agreement.error
        self.progress.add(self._job.entry, count if self._job.outer else 1, from_data=False)
        self.progress.position += len(outcomes) * count
        self._agreement = None if self._job.outer else agreement
        return agreement

    def _run_with_repairs(self, work: Callable[[], Any]) -> Any:
        """Does the work again after each death, which is repaired first."""
        while True:
            try:
                return work()
            except self._ray.exceptions.RayError as error:
                if not self._all.is_death(error):
                    raise cause_of(error) from None
                self._all.repair(error)

    def _attempt(self, wants: Wants, count: int) -> list[Outcome]:
        self._all.start_missing()
        self._all.admit(timeout=0.0)
        return self._round(wants, count) if self._job.outer else self._one(wants)

    def _one(self, wants: Wants) -> list[Outcome]:
        actors, committed = self._all.actors, self._last_commit
        count = len(actors)
        parts = [a.gradients.options(num_returns=count).remote(committed, count) for a in actors]
        means = self._reduce(actors, parts, None)
        return list(self._ray.get([a.apply.remote(wants, *means) for a in actors]))

    def _reduce(self, actors: list[Any], parts: list[Any], weights: Any) -> list[Any]:
        """Each worker adds up one part of all; the data goes from one to another, not here."""
        rows = parts if len(actors) > 1 else [[part] for part in parts]
        return [
            actor.reduce.remote(weights, *[row[i] for row in rows])
            for i, actor in enumerate(actors)
        ]

    def _round(self, wants: Wants, count: int) -> list[Outcome]:
        actors, committed = self._all.actors, self._last_commit
        size = len(actors)
        outcomes = self._local_steps(actors, committed, count, wants)
        if any(outcome.failure for outcome in outcomes):
            self._ray.get([a.undo_round.remote() for a in actors])
            return outcomes
        leader = ahead(outcomes)
        counters = None if leader is None else actors[leader].counters.remote()
        parts = [a.floats.options(num_returns=size).remote(size) for a in actors]
        means = self._reduce(actors, parts, [outcome.rows for outcome in outcomes])
        position = committed.position + size * count
        self._ray.get([a.finish_round.remote(position, counters, *means) for a in actors])
        return outcomes

    def _local_steps(
        self, actors: list[Any], committed: Committed, count: int, wants: Wants
    ) -> list[Outcome]:
        """The first that is ready says how long the others may take; see `rounds`."""
        self._round_number += 1
        number, started, size = self._round_number, time.monotonic(), len(actors)
        refs = [a.local_steps.remote(committed, size, count, wants, number) for a in actors]
        ready, _ = self._ray.wait(refs, num_returns=1)
        try:
            failed = self._ray.get(ready[0]).failure
        except self._ray.exceptions.RayError:
            failed = True
        first = time.monotonic() - started
        left = 0.0 if failed else allowed_seconds(first, self._slack) - first
        timeout = None if left == float("inf") else left
        _, late = self._ray.wait(refs, num_returns=size, timeout=timeout)
        for actor, ref in zip(actors, refs, strict=True):
            if ref in late:
                self._all.signal(actor, "end_round", number)
        return list(self._ray.get(refs))

    # ---- between steps

    def _again(self, work: Callable[[], Any]) -> Any:
        def settle_and_work() -> Any:
            self._all.settle()
            return work()

        return self._run_with_repairs(settle_and_work)

    def even_out(self) -> None:
        self._again(self._even_out)

    def _even_out(self) -> None:
        actors, committed = self._all.actors, self._last_commit
        digests = self._ray.get([actor.digest.remote() for actor in actors])
        if len(set(digests)) > 1:
            values = actors[0].everything.remote()
            calls = [a.start.remote(values, rank, committed) for rank, a in enumerate(actors)]
            self._ray.get(calls)

    def lead(self, work: Callable[[], bool]) -> bool:
        return work()

    def evaluate(self) -> dict[str, float]:
        metrics = self._again(
            lambda: self._ray.get(self._all.actors[0].evaluate.remote(self._evaluation))
        )
        return dict(metrics)

    def save(self, path: Path, keep_previous: bool) -> None:
        everything = self._again(lambda: self._ray.get(self._all.actors[0].everything.remote()))
        arrays = {
            name: from_words(memoryview(words.tobytes()), self._plan.tensors[name])
            for name, words in everything.values.words.items()
        }
        progress = replace(self.progress, steps=dict(self.progress.steps))
        save_checkpoint(
            path,
            self._plan,
            arrays,
            progress,
            keep_previous,
            self._preparation,
            everything.velocity,
        )

    def lines(self) -> list[WorkerLine]:
        return list(self._again(lambda: self._ray.get([a.line.remote() for a in self._all.actors])))

    def close(self) -> None:
        self._all.close()
