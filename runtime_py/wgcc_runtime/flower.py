"""Federated training on Flower, where data stays with its owners: `pip install 'wgcc[flower]'`.

A Flower app has a `ClientApp` and a `ServerApp`; here each is one call:

    app = client("bundle", {"x": x, "y": y}, eval={"x": held_out, "y": labels})
    app = server_app("bundle", rounds=10, out="trained.safetensors")
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import wgcc_runtime
from wgcc_runtime.arrays import from_words
from wgcc_runtime.bundle_files import open_bundle
from wgcc_runtime.checkpoint import save_checkpoint
from wgcc_runtime.digests import bundle_digest
from wgcc_runtime.distributed import federated
from wgcc_runtime.distributed.federated import Arrays, Round
from wgcc_runtime.drawn import checked_seed
from wgcc_runtime.errors import WgccError
from wgcc_runtime.evaluation import ENTRY
from wgcc_runtime.fit import check_places, check_training
from wgcc_runtime.flight import Progress
from wgcc_runtime.history import Log, Report
from wgcc_runtime.loader import load, load_plan
from wgcc_runtime.log_folder import log_at
from wgcc_runtime.model import Model
from wgcc_runtime.plan import Plan
from wgcc_runtime.schedule import checked_count
from wgcc_runtime.values import StartValues, without_moments

# Flower's number for "the ClientApp raised an exception".
RAISED = 2

Arguments = Mapping[str, Any]
Source = Arguments | Callable[[Mapping[str, Any]], Arguments]


def _flower() -> Any:
    """Flower's modules, imported when they are needed."""
    try:
        import flwr.app
        import flwr.clientapp
        import flwr.serverapp.strategy
    except ImportError as error:
        text = f"Flower cannot be imported ({error}): pip install 'wgcc[flower]' (Python 3.11 on)"
        more = ", and 'wgcc[flower-simulation]' for its simulation"
        raise WgccError("no-flower", text + more) from None
    return flwr


def client(
    bundle: str | Path,
    data: Source,
    *,
    eval: Source | None = None,
    device: str | None = None,
    threads: int | None = None,
) -> Any:
    """A Flower `ClientApp`, which trains and evaluates with data of this machine.

    `data`, `eval`: dicts of arrays for the entries that train and evaluate, or functions of the
    node's configuration (`partition-id`, …) that return such dicts.
    `device`, `threads`: as in `wgcc_runtime.load`. How long and what to train says the server.
    """
    flower = _flower()
    own = _Client(str(bundle), data, eval, device, threads)
    app = flower.clientapp.ClientApp()
    app.train()(own.train)
    app.evaluate()(own.evaluate)
    return app


@dataclass(frozen=True, slots=True)
class _Client:
    """Has no state between messages, each of which may reach another process."""

    bundle: str
    data: Any
    eval: Any
    device: str | None
    threads: int | None

    def train(self, message: Any, context: Any) -> Any:
        return self._answer(message, context, self._train)

    def evaluate(self, message: Any, context: Any) -> Any:
        return self._answer(message, context, self._evaluate)

    def _answer(self, message: Any, context: Any, work: Callable[..., Any]) -> Any:
        """An error of this client is a reply, which the server reports."""
        app = _flower().app
        try:
            request = _read_round(message.content)
            request.check(bundle_digest(self.bundle))
            with _BUSY:
                content = work(
                    _model(self.bundle, self.device, self.threads), request, message, context
                )
        except WgccError as error:
            return app.Message(app.Error(RAISED, str(error)), reply_to=message)
        return app.Message(content, reply_to=message)

    def _train(self, model: Model, request: Round, message: Any, context: Any) -> Any:
        from wgcc_runtime.distributed.flower_strategy import ROWS, record_of

        app = _flower().app
        update = federated.train(
            model, _read_arrays(message), _data_for(self.data, context), request
        )
        metrics = app.MetricRecord({ROWS: update.rows, **update.metrics})
        return app.RecordDict({"arrays": record_of(update.arrays), "metrics": metrics})

    def _evaluate(self, model: Model, request: Round, message: Any, context: Any) -> Any:
        from wgcc_runtime.distributed.flower_strategy import ROWS

        app, held_out = _flower().app, _data_for(self.eval, context)
        rows, numbers = federated.evaluate(model, _read_arrays(message), held_out, request)
        return app.RecordDict({"metrics": app.MetricRecord({ROWS: rows, **numbers})})


# A process may get several messages, for which it opens a bundle once.
_BUSY = threading.Lock()
_OPEN: dict[tuple[str, str | None, int | None], Model] = {}


def _model(*place: Any) -> Model:
    if place not in _OPEN:
        bundle, device, threads = place
        _OPEN[place] = load(bundle, device=device, threads=threads, verify=True)
    return _OPEN[place]


def _data_for(source: Any, context: Any) -> Any:
    return source(dict(context.node_config)) if callable(source) else source


def _read_arrays(message: Any) -> Arrays:
    from wgcc_runtime.distributed.flower_strategy import received_arrays

    records = list(message.content.array_records.values())
    if len(records) != 1:
        text = f"the server has sent {len(records)} records of arrays: expected is one"
        raise WgccError("weights", text)
    return received_arrays(records[0])


def _read_round(content: Any) -> Round:
    settings = {
        key: value for record in content.config_records.values() for key, value in record.items()
    }
    if "bundle" not in settings or "version" not in settings:
        text = "the server has sent no hash of its bundle: use wgcc_runtime.flower.server_app"
        raise WgccError("mismatch", text)
    try:
        return _round(settings)
    except (TypeError, ValueError) as error:
        raise WgccError("mismatch", f"the server has sent a wrong setting: {error}") from None


def _round(settings: Mapping[str, Any]) -> Round:
    return Round(
        bundle=str(settings["bundle"]),
        version=str(settings["version"]),
        number=int(settings.get("server-round", 0)),
        entry=str(settings.get("entry", "train")),
        epochs=int(settings.get("epochs", 0)),
        steps=int(settings.get("steps", 0)),
        seed=int(settings.get("seed", 0)),
        mu=float(settings.get("proximal-mu", 0)),
    )


def server_app(
    bundle: str | Path,
    *,
    rounds: int = 3,
    epochs: int | None = None,
    steps: int | None = None,
    proximal_mu: float = 0.0,
    clients: int = 2,
    fraction: float = 1.0,
    entry: str = "train",
    seed: int | None = None,
    weights: Any = None,
    out: str | Path | None = None,
    log: str | Path | None = None,
    eval: Arguments | None = None,
    device: str | None = None,
    timeout: float = 3600.0,
) -> Any:
    """A Flower `ServerApp` for clients that `client` made of the same bundle.

    In each of `rounds`, clients train for `epochs` of their data (1 by default), or for `steps`;
    the mean of their parameters, weighted by rows, is where the next round starts (FedAvg).
    `proximal_mu`: FedProx, with mu/2 · |w − w₀|² added to the loss of clients.
    `clients`: as many must be connected, and are the least in a round; `fraction`: of all that are.
    `weights`, `seed`: where to start, as in `load`; `seed` also decides the order of rows.
    `out`: gets the weights after each round. `log`: gets a line of JSON after each.
    `eval`: arrays that the server itself evaluates, on `device`; results are `server_NAME`.
    `timeout`: seconds that a round may take.
    """
    flower, plan = _flower(), load_plan(bundle)
    check_training(plan, entry)
    check_places(out, log, False)
    _check_numbers(rounds, epochs, steps, clients, fraction, proximal_mu)
    if proximal_mu:
        federated.gradient_places(plan, plan.entries[entry])
    number = checked_seed(seed)
    config = {
        "bundle": bundle_digest(bundle), "version": wgcc_runtime.__version__, "entry": entry,
        "steps": steps or 0, "epochs": 0 if steps else epochs or 1, "seed": number or 0,
    }  # fmt: skip
    run = _Run(plan, _start(plan, bundle, weights, number), out, log)
    run.evaluate = None if eval is None else _evaluation(bundle, eval, device, config)
    options = {**_sampling(plan, clients, fraction), "proximal_mu": proximal_mu}
    app = flower.serverapp.ServerApp()
    app.main()(lambda grid, _: run.start(grid, options, config, rounds, timeout))
    return app


def _sampling(plan: Plan, clients: int, fraction: float) -> dict[str, Any]:
    """Flower's settings of who takes part; a model without `eval` is not evaluated by clients."""
    evaluates = ENTRY in plan.entries
    return {
        "fraction_train": fraction,
        "fraction_evaluate": fraction if evaluates else 0.0,
        "min_train_nodes": clients,
        "min_evaluate_nodes": clients if evaluates else 0,
        "min_available_nodes": clients,
    }


def _check_numbers(
    rounds: Any, epochs: Any, steps: Any, clients: Any, fraction: Any, proximal_mu: Any
) -> None:
    if epochs is not None and steps is not None:
        raise WgccError("data", "server_app: `epochs` and `steps` exclude each other", "epochs")
    for name, value in {
        "rounds": rounds,
        "epochs": epochs,
        "steps": steps,
        "clients": clients,
    }.items():
        if value is not None:
            checked_count(name, value)
    if not 0 < fraction <= 1:
        raise WgccError("range", f"`fraction` is above 0 and at most 1, not {fraction}", "fraction")
    if not 0 <= proximal_mu < float("inf"):
        text = f"`proximal_mu` is 0 or a positive number, not {proximal_mu}"
        raise WgccError("range", text, "proximal_mu")


def _start(plan: Plan, bundle: str | Path, weights: Any, seed: int | None) -> Arrays:
    words = StartValues(plan, open_bundle(bundle), weights).words(seed)
    tensors = without_moments(plan.persistent())
    return {name: from_words(words[name].tobytes(), t) for name, t in tensors.items()}


class _Run:
    """A run of the server: a `flower_strategy.Observer` that writes checkpoints and log."""

    def __init__(self, plan: Plan, start: Arrays, out: Any, log: Any) -> None:
        self._plan, self._start, self._out, self._place = plan, start, out, log
        self._log: Log | None = None
        self.evaluate: Callable[[int, Arrays], dict[str, float]] | None = None
        self._arrays: Arrays = {}
        self._metrics: dict[str, float] = {}
        self._failed = 0
        self._began = time.monotonic()

    def start(self, grid: Any, options: Any, config: Any, rounds: int, timeout: float) -> None:
        from wgcc_runtime.distributed.flower_strategy import Averaging, record_of

        self._log = None if self._place is None else log_at(self._place, 0)
        self._began = time.monotonic()
        record = _flower().app.ConfigRecord
        sent = {name: self._start[name] for name in federated.exchanged_tensors(self._plan)}
        Averaging(self._plan, self, **options).start(
            grid=grid,
            initial_arrays=record_of(sent),
            num_rounds=rounds,
            timeout=timeout,
            train_config=record(dict(config)),
            evaluate_config=record(dict(config)),
        )

    def after_training(
        self, number: int, arrays: Arrays, metrics: dict[str, float], failed: int
    ) -> None:
        self._arrays, self._metrics, self._failed = arrays, metrics, failed
        if self._out is not None:
            values = {**self._start, **arrays}
            save_checkpoint(self._out, self._plan, values, Progress(), keep_previous=number > 1)

    def after_evaluation(self, number: int, metrics: dict[str, float]) -> dict[str, float]:
        own = self.evaluate(number, self._arrays) if self.evaluate else {}
        all_metrics = {**metrics, **{f"server_{name}": value for name, value in own.items()}}
        now = time.monotonic()
        ms, self._began = 1000 * (now - self._began), now
        if self._log is not None:
            loss = next(iter(self._metrics.values()), float("nan"))
            outputs = {**self._metrics, "failed": self._failed}
            self._log.write(Report(number, loss, outputs, all_metrics, ms))
        return all_metrics


def _evaluation(
    bundle: str | Path, data: Any, device: str | None, config: Mapping[str, Any]
) -> Callable[[int, Arrays], dict[str, float]]:
    """The mean of the clients, with data of the server."""

    def evaluate(number: int, arrays: Arrays) -> dict[str, float]:
        request = Round(config["bundle"], config["version"], number, seed=config["seed"])
        with _BUSY:
            model = _model(str(bundle), device, None)
            return federated.evaluate(model, arrays, data, request)[1]

    return evaluate
