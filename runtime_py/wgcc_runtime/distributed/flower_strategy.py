"""FedAvg and FedProx of Flower, with means that do not depend on the order of replies."""

from __future__ import annotations

from collections.abc import Iterable
from logging import WARNING
from typing import Any, Protocol

from flwr.app import Array, ArrayRecord, MetricRecord
from flwr.common import log
from flwr.serverapp.strategy import FedProx

from wgcc_runtime.distributed.federated import (
    Arrays,
    Update,
    average,
    average_metrics,
    checked_arrays,
)
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import Plan

ROWS = "num-examples"


class Observer(Protocol):
    """Is called after the training of each round, and after its evaluation by clients.

    `evaluated` returns all results of the evaluation.
    """

    def trained(self, number: int, arrays: Arrays, metrics: dict[str, float]) -> None: ...

    def evaluated(self, number: int, metrics: dict[str, float]) -> dict[str, float]: ...


def record_of(arrays: Arrays) -> Any:
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})


def received_arrays(record: Any) -> Arrays:
    return {name: array.numpy() for name, array in record.items()}


class Averaging(FedProx):
    """With a `proximal_mu` of 0, which is FedAvg, clients train on their loss alone.

    A client that fails is left out of the round; if all fail, the training ends.
    """

    def __init__(self, plan: Plan, observer: Observer, **options: Any) -> None:
        super().__init__(**options)
        self._plan, self._observer = plan, observer

    def aggregate_train(
        self, server_round: int, replies: Iterable[Any]
    ) -> tuple[Any | None, Any | None]:
        updates, reasons = [], []
        for reply in replies:
            try:
                updates.append(_update(self._plan, reply))
            except WgccError as error:
                reasons.append(error)
                log(WARNING, "round %d: %s", server_round, error)
        if not updates:
            first = reasons[0] if reasons else WgccError("flower", "no client has replied")
            raise WgccError(first.code, f"round {server_round}: {first.message}")
        arrays = average(updates)
        metrics = average_metrics([(update.rows, update.metrics) for update in updates])
        self._observer.trained(server_round, arrays, metrics)
        return record_of(arrays), MetricRecord(dict(metrics))

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> Any | None:
        found = []
        for reply in replies:
            if reply.has_error():
                log(WARNING, "round %d: evaluation: %s", server_round, reply.error.reason)
            else:
                found.append(_metrics(reply))
        metrics = self._observer.evaluated(server_round, average_metrics(found))
        return MetricRecord(dict(metrics)) if metrics else None


def _update(plan: Plan, reply: Any) -> Update:
    sender = f"client {reply.metadata.src_node_id}"
    if reply.has_error():
        # What `wgcc_runtime.flower.client` reports begins with the error's code.
        code, _, text = str(reply.error.reason).partition(": ")
        known = text and code.replace("-", "").isalpha()
        raise WgccError(code if known else "flower", f"{sender}: {text if known else code}")
    rows, metrics = _metrics(reply)
    if rows <= 0:
        raise WgccError("data", f"{sender} has trained with no rows")
    records = list(reply.content.array_records.values())
    return Update(checked_arrays(plan, received_arrays(records[0]), sender), rows, metrics)


def _metrics(reply: Any) -> tuple[int, dict[str, float]]:
    found = dict(next(iter(reply.content.metric_records.values())))
    rows = int(found.pop(ROWS))
    return rows, {str(name): float(value) for name, value in found.items()}
