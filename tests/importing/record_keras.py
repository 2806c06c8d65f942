"""Records models of Keras with their outputs, as `model.save_weights` writes them.

Run by hand (`KERAS_BACKEND=torch python tests/importing/record_keras.py`, needs Keras and
safetensors); tests read the files. They were recorded with Keras 3.15.
"""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
from keras import layers as k
from safetensors.numpy import save_file

FOLDER = Path(__file__).parent / "keras"


def images() -> keras.Model:
    """Kernels whose axes have equal sizes: only knowing how Keras stores them is of help."""
    x = given = k.Input((6, 6, 3))
    x = k.Conv2D(3, 3, activation="relu", padding="same")(x)
    x = k.BatchNormalization()(x)
    x = k.DepthwiseConv2D(3, depth_multiplier=2)(x)
    x = k.SeparableConv2D(3, 3, padding="same")(x)
    x = k.Conv2DTranspose(3, 3)(x)
    x = k.Flatten()(k.MaxPooling2D()(x))
    x = k.Dense(27, activation="tanh")(x)
    x = k.Dense(27, activation="tanh")(x)
    return keras.Model(given, k.Dense(4, name="head")(x))


def sequences() -> keras.Model:
    x = given = k.Input((5,), dtype="int32")
    x = k.Embedding(7, 6)(x)
    x = k.LSTM(6, return_sequences=True)(x)
    x = k.Bidirectional(k.GRU(6, return_sequences=True))(x)
    x = k.SimpleRNN(6, return_sequences=True)(x)
    x = k.MultiHeadAttention(2, 3)(x, x)
    x = k.LayerNormalization()(x)
    return keras.Model(given, k.Dense(3)(x))


def record(name: str, model: keras.Model, x: np.ndarray) -> None:
    generator = np.random.default_rng(3)
    model.set_weights([
        generator.uniform(0.2, 0.9, w.shape) if w.ndim == 1 else generator.normal(0, 0.4, w.shape)
        for w in model.get_weights()
    ])  # fmt: skip
    y = keras.ops.convert_to_numpy(model(x, training=False))
    model.save_weights(FOLDER / f"{name}.weights.h5")
    save_file({"x": x, "y": np.ascontiguousarray(y)}, FOLDER / f"{name}_run.safetensors")
    if name == "images":
        model.save(FOLDER / "images_before.h5")  # as Keras 2 did


def main() -> None:
    generator = np.random.default_rng(4)
    record("images", images(), generator.normal(size=(2, 6, 6, 3)).astype(np.float32))
    record("sequences", sequences(), generator.integers(0, 7, (2, 5)).astype(np.int32))


if __name__ == "__main__":
    main()
