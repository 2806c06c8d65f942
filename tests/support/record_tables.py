"""Records how well scikit-learn learns the tables of `public_tables`, as table_scores.json.

.venv/bin/python tests/support/record_tables.py
"""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor

import wgcc
from public_tables import TARGETS, folds, score
from wgcc.cli.commands.new.from_table import project_for
from wgcc.cli.data import reading_of

SCORES = Path(__file__).parent.parent / "data" / "table_scores.json"


def record(name: str, folder: Path) -> dict[str, float]:
    is_class = name != "diabetes"
    scores: dict[str, list[float]] = {}
    for train, held in folds(name, folder):
        project = project_for(train, name, TARGETS[name], None, None)
        model = wgcc.compile(project.files["model.wg"].decode(), device="wasm")
        reading = reading_of(project.reading)
        rows = reading.read(train, model)
        others = reading.read(held, model, preparation=rows.preparation)
        x, y = rows.arrays["x"], np.ravel(rows.arrays["y"])
        for kind, estimator in _estimators(is_class).items():
            fitted = estimator.fit(x, y)
            right = np.ravel(others.arrays["y"])
            own = score(fitted.predict(others.arrays["x"]), right, is_class)
            scores.setdefault(kind, []).append(own)
    return {kind: round(float(np.mean(values)), 4) for kind, values in scores.items()}


def _estimators(is_class: bool) -> dict[str, Any]:
    network = {"hidden_layer_sizes": (32,), "max_iter": 1000, "random_state": 0}
    if is_class:
        boosting = GradientBoostingClassifier(random_state=0)
        return {
            "linear": LogisticRegression(max_iter=2000),
            "network": MLPClassifier(**network),
            "boosting": boosting,
        }
    return {
        "linear": LinearRegression(),
        "network": MLPRegressor(**network),
        "boosting": GradientBoostingRegressor(random_state=0),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as place:
        found = {name: record(name, Path(place)) for name in TARGETS}
    SCORES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(SCORES.read_text(encoding="utf-8"))
