"""FedAvg and FedProx of Flower, with means that do not depend on the order of replies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from logging import WARNING
from typing import Any, Protocol, TypeVar

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
# Above, a double could not count them one by one.
MOST_ROWS = 1 << 53
T = TypeVar("T")


class Observer(Protocol):
    """Is called after the training of each round, and after its evaluation by clients.

    `failed`: how many clients were left out. `after_evaluation` returns all results.
    """

    def after_training(
        self, number: int, arrays: Arrays, metrics: dict[str, float], failed: int
    ) -> None: ...

    def after_evaluation(self, number: int, metrics: dict[str, float]) -> dict[str, float]: ...


def record_of(arrays: Arrays) -> Any:
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})


def received_arrays(record: Any) -> Arrays:
    return {name: array.numpy() for name, array in record.items()}


class Averaging(FedProx):
    """FedProx; a `proximal_mu` of 0 makes it FedAvg, where clients train on their loss alone.

    A client that fails, or whose reply cannot be used, is left out of the round; if all fail, the
    training ends.
    """

    def __init__(self, plan: Plan, observer: Observer, **options: Any) -> None:
        super().__init__(**options)
        self._plan, self._observer = plan, observer

    def aggregate_train(
        self, server_round: int, replies: Iterable[Any]
    ) -> tuple[Any | None, Any | None]:
        updates, reasons = _read_replies(
            replies, f"round {server_round}", partial(_update, self._plan)
        )
        if not updates:
            first = reasons[0] if reasons else WgccError("flower", "no client has replied")
            raise WgccError(first.code, f"round {server_round}: {first.message}")
        arrays = average(updates)
        metrics = average_metrics([(update.rows, update.metrics) for update in updates])
        self._observer.after_training(server_round, arrays, metrics, len(reasons))
        return record_of(arrays), MetricRecord(dict(metrics))

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> Any | None:
        evaluations, _ = _read_replies(replies, f"round {server_round}: evaluation", _evaluation)
        metrics = self._observer.after_evaluation(server_round, average_metrics(evaluations))
        return MetricRecord(dict(metrics)) if metrics else None


def _read_replies(
    replies: Iterable[Any], where: str, read: Callable[[Any, str], T]
) -> tuple[list[T], list[WgccError]]:
    """The replies that can be used, and the errors of the others, which the server logs."""
    usable, reasons = [], []
    for reply in replies:
        sender = f"client {reply.metadata.src_node_id}"
        try:
            usable.append(read(reply, sender))
        except WgccError as error:
            reasons.append(error)
        except Exception as error:
            # Any program may send anything.
            text = f"{sender} has sent a malformed reply ({type(error).__name__}: {error})"
            reasons.append(WgccError("flower", text))
        else:
            continue
        log(WARNING, "%s: %s", where, reasons[-1])
    return usable, reasons


def _update(plan: Plan, reply: Any, sender: str) -> Update:
    _check_error(reply, sender)
    rows, metrics = _metrics(reply, sender)
    if rows == 0:
        raise WgccError("data", f"{sender} has trained with no rows")
    (record,) = reply.content.array_records.values()
    return Update(checked_arrays(plan, received_arrays(record), sender), rows, metrics)


def _evaluation(reply: Any, sender: str) -> tuple[int, dict[str, float]]:
    _check_error(reply, sender)
    return _metrics(reply, sender)


def _check_error(reply: Any, sender: str) -> None:
    if reply.has_error():
        # What `wgcc_runtime.flower.client` reports begins with the error's code.
        code, _, text = str(reply.error.reason).partition(": ")
        known = text and code.replace("-", "").isalpha()
        raise WgccError(code if known else "flower", f"{sender}: {text if known else code}")


def _metrics(reply: Any, sender: str) -> tuple[int, dict[str, float]]:
    (record,) = reply.content.metric_records.values()
    metrics = dict(record)
    rows = metrics.pop(ROWS, None)
    if not isinstance(rows, int) or not 0 <= rows <= MOST_ROWS:
        text = f"{sender} has sent {rows!r} as `{ROWS}`, not a number of rows"
        raise WgccError("data", text, ROWS)
    numbers = {str(name): float(value) for name, value in metrics.items()}
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise WgccError("nan", f"{sender} has sent {value} as `{name}`", name)
    return rows, numbers
