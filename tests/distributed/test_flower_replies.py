"""What clients and server of a federation refuse, and that a bad reply spoils nothing."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from flower_models import make, rows_of
from wgcc_runtime import WgccError, flower
from wgcc_runtime.digests import bundle_digest
from wgcc_runtime.distributed import federated

if sys.version_info < (3, 11):
    pytest.skip("Flower needs Python 3.11", allow_module_level=True)

# Flower warns of what later versions will remove.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("waves"))


def ask(app: Any, arrays: Any, config: dict[str, Any], kind: str = "train") -> Any:
    from flwr.app import ConfigRecord, Context, Message, Metadata, RecordDict

    from wgcc_runtime.distributed.flower_strategy import record_of

    content = RecordDict({"arrays": record_of(arrays), "config": ConfigRecord(config)})
    # As the SuperLink makes it: of run 1, from node 2 to node 1, and valid for an hour.
    metadata = Metadata(1, "id", 2, 1, "", "", time.time(), 3600.0, kind, 1, 1)
    message = Message(content, metadata=metadata)
    context = Context(1, 1, {"partition-id": 0}, RecordDict(), {})
    return app(message, context)


def request_of(bundle: Path, **more: Any) -> dict[str, Any]:
    own = {"bundle": bundle_digest(bundle), "version": wgcc_runtime.__version__}
    return {**own, "epochs": 1, "server-round": 1, **more}


def values_of(bundle: Path) -> dict[str, Any]:
    with wgcc_runtime.load(bundle, device="wasm", threads=1) as model:
        tensors = federated.exchanged_tensors(model.plan)
        return {n: {**model.params(), **model.state()}[n] for n in tensors}


def test_a_client_refuses_what_does_not_fit(bundle: Path) -> None:
    app = flower.client(bundle, rows_of, eval=None, device="wasm", threads=1)
    good, arrays = request_of(bundle), values_of(bundle)
    assert not ask(app, arrays, good).has_error()
    without = {n: a for n, a in arrays.items() if n != "a.b"}
    cases = [
        (arrays, {**good, "bundle": "0" * 64}, "mismatch: the client has another bundle than"),
        (arrays, {**good, "version": "0.0.0"}, "version: the client has wgcc_runtime"),
        (arrays, {"epochs": 1}, "mismatch: the server has sent no hash of its bundle"),
        (without, good, "weights: the server has not sent `a.b`"),
        ({**arrays, "c": arrays["a.b"]}, good, "weights: the server has sent `c`, unknown"),
        ({**arrays, "a.b": arrays["a.w"]}, good, "weights: the server has sent `a.b` of shape"),
        (arrays, {**good, "steps": "many"}, "mismatch: the server has sent a wrong setting"),
        (arrays, {**good, "entry": "eval"}, "name: the entry `eval` does not train"),
    ]
    for sent, config, expected in cases:
        reply = ask(app, sent, config)
        assert reply.has_error() and reply.error.reason.startswith(expected), reply
    few = {n: a[:5] for n, a in rows_of({"partition-id": 0}).items()}
    assert (
        "5 rows are fewer than the batch of 8"
        in ask(flower.client(bundle, few, device="wasm"), arrays, good).error.reason
    )
    assert "`data` is a dict of arrays, not int" in ask(
        flower.client(bundle, 5, device="wasm"), arrays, good
    ).error.reason  # fmt: skip
    # Without held-out rows, a client has no part in the evaluation.
    reply = ask(app, arrays, good, "evaluate")
    assert dict(reply.content["metrics"]) == {"num-examples": 0}


class Observed:
    def __init__(self) -> None:
        self.rounds: list[int] = []

    def after_training(
        self, number: int, arrays: Any, metrics: dict[str, float], failed: int
    ) -> None:
        self.rounds.append(number)
        self.failed = failed

    def after_evaluation(self, number: int, metrics: dict[str, float]) -> dict[str, float]:
        self.rounds.append(-number)
        return metrics


def test_a_server_leaves_out_clients_that_fail(bundle: Path) -> None:
    from wgcc_runtime.distributed.flower_strategy import Averaging, received_arrays

    app = flower.client(bundle, rows_of, eval=rows_of, device="wasm", threads=1)
    arrays, observed = values_of(bundle), Observed()
    with wgcc_runtime.load(bundle, device="wasm", threads=1) as model:
        strategy = Averaging(model.plan, observed, proximal_mu=0.0)
    good = ask(app, arrays, request_of(bundle))
    bad = ask(app, arrays, {**request_of(bundle), "bundle": "0" * 64})
    record, metrics = strategy.aggregate_train(1, [bad, good])
    sent = next(iter(good.content.array_records.values()))
    assert all(np.array_equal(a, sent[n].numpy()) for n, a in received_arrays(record).items())
    assert metrics == {"loss": good.content["metrics"]["loss"]}
    for replies, expected in (([bad], "mismatch: round 2: client"), ([], "flower: round 2: no cl")):
        with pytest.raises(WgccError) as caught:
            strategy.aggregate_train(2, replies)
        assert str(caught.value).startswith(expected)
    replies = [ask(app, arrays, request_of(bundle), "evaluate"), bad]
    assert strategy.aggregate_evaluate(1, replies)["error"] > 0
    assert observed.rounds == [1, -1]


def reply_of(good: Any, arrays: Any = None, metrics: Any = None, record: Any = None) -> Any:
    """The reply with other contents."""
    from flwr.app import Message, MetricRecord, RecordDict

    from wgcc_runtime.distributed.flower_strategy import record_of

    parts = dict(good.content)
    if arrays is not None:
        parts["arrays"] = record_of(arrays)
    if record is not None:
        parts["arrays"] = record
    if metrics is not None:
        parts["metrics"] = MetricRecord(metrics)
    return Message(RecordDict({n: p for n, p in parts.items() if p}), metadata=good.metadata)


def test_a_reply_that_cannot_be_used_is_left_out(
    bundle: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither a NaN nor anything malformed spoils the mean or ends the run."""
    from flwr.app import Array, ArrayRecord

    from wgcc_runtime.distributed.flower_strategy import Averaging, received_arrays

    app = flower.client(bundle, rows_of, eval=rows_of, device="wasm", threads=1)
    arrays, observed = values_of(bundle), Observed()
    with wgcc_runtime.load(bundle, device="wasm", threads=1) as model:
        strategy = Averaging(model.plan, observed, proximal_mu=0.0)
    good = ask(app, arrays, request_of(bundle))
    bias = arrays["a.b"]
    nan, large = bias.copy(), bias.astype(np.float64)
    nan[3], large[0] = np.nan, 1e300
    broken = Array("float32", (12,), "numpy.ndarray", b"no array")
    text = np.full(bias.shape, "a")
    whole = {name: Array(array) for name, array in arrays.items()}
    numbers = dict(good.content["metrics"])
    cases = [
        ({"arrays": {**arrays, "a.b": nan}}, "nan: client 1 has sent a NaN or an infinity in `a.b"),
        ({"arrays": {**arrays, "a.b": large}}, "nan: client 1 has sent a NaN or an infinity in"),
        ({"arrays": {**arrays, "a.b": text}}, "flower: client 1 has sent a malformed reply (Value"),
        ({"arrays": {"a.b": bias}}, "weights: client 1 has not sent `a.w`"),
        ({"record": ArrayRecord({**whole, "a.b": broken})}, "flower: client 1 has sent a malform"),
        ({"arrays": {}}, "flower: client 1 has sent a malformed reply (ValueError"),
        ({"metrics": {}}, "flower: client 1 has sent a malformed reply (ValueError"),
        ({"metrics": {"loss": 1.0}}, "data: client 1 has sent None as `num-examples`"),
        ({"metrics": {**numbers, "num-examples": -4}}, "data: client 1 has sent -4 as"),
        ({"metrics": {**numbers, "num-examples": 2.5}}, "data: client 1 has sent 2.5 as"),
        ({"metrics": {**numbers, "num-examples": 0}}, "data: client 1 has trained with no rows"),
        ({"metrics": {**numbers, "loss": float("nan")}}, "nan: client 1 has sent nan as `loss`"),
        ({"metrics": {**numbers, "loss": [1.0, 2.0]}}, "flower: client 1 has sent a malformed"),
    ]
    bad = [reply_of(good, **change) for change, _ in cases]
    caplog.clear()
    record, metrics = strategy.aggregate_train(1, [*bad, good])
    said = [line.getMessage() for line in caplog.records]
    for line, (_, expected) in zip(said, cases, strict=True):
        assert line.startswith(f"round 1: {expected}"), line
    sent = good.content["arrays"]
    assert all(np.array_equal(a, sent[n].numpy()) for n, a in received_arrays(record).items())
    assert metrics == {"loss": numbers["loss"]} and observed.failed == len(cases)
    judged = ask(app, arrays, request_of(bundle), "evaluate")
    spoilt = reply_of(judged, metrics={"num-examples": 8, "error": float("inf")})
    results = strategy.aggregate_evaluate(1, [spoilt, reply_of(judged, metrics={}), judged])
    assert results == {"error": judged.content["metrics"]["error"]}


def test_data_that_one_client_prepared_is_refused(bundle: Path, tmp_path: Path) -> None:
    rows = [f"{i},{i * 2},{i % 3},{i % 5}" for i in range(16)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,c,y", *rows]), encoding="utf-8")
    with wgcc_runtime.load(bundle, device="wasm", threads=1) as model:
        data = wgcc_runtime.read_data(tmp_path / "rows.csv", model, target="y", scale=True)
        request = federated.Round("", "", 1, epochs=1)
        with pytest.raises(WgccError, match="give arrays that all clients made alike"):
            federated.train(model, values_of(bundle), data, request)
        # The prepared arrays themselves can be used.
        assert federated.train(model, values_of(bundle), data.arrays, request).rows == 16


def test_wrong_arguments(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, expected in (
        ({"epochs": 1, "steps": 2}, "`epochs` and `steps` exclude each other"),
        ({"rounds": 0}, "rounds"),
        ({"fraction": 1.5}, "`fraction` is above 0 and at most 1, not 1.5"),
        ({"proximal_mu": -1}, "`proximal_mu` is 0 or a positive number, not -1"),
        ({"entry": "eval"}, "the entry `eval` does not train"),
    ):
        with pytest.raises(WgccError, match=expected):
            flower.server_app(bundle, **options)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "flwr.app", None)
    with pytest.raises(WgccError, match=r"Flower cannot be imported.*wgcc\[flower\]") as caught:
        flower.client(bundle, rows_of)
    assert caught.value.code == "no-flower"
