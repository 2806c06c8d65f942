"""A notebook of marimo that trains: opened by the tests in a browser, and exported."""

import marimo

app = marimo.App()


@app.cell
def _():
    import numpy as np

    import wgcc
    from wgcc_runtime.notebook import train

    line = """
const rate = 0.1
dim B = 4
model Line {
  fc: Linear[1, 1]
  optimizer opt: sgd { lr = rate }
  entry train(x: f32[B, 1], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(capture(fc(x), "guess"), y)
    minimize loss with opt
    return loss
  }
}
"""
    x = np.arange(4.0)[:, None]
    data = {"x": x, "y": 2 * x}
    return data, line, train, wgcc


@app.cell
def _(data, line, wgcc):
    model = wgcc.compile(line, constants={"rate": 0.01})
    history = model.fit(data, steps=30, every=10)  # noqa: F841 (an expression would be shown)
    return


@app.cell
def _(data, line, train, wgcc):
    # Slow enough to be paused: a callback waits after each report.
    import time

    other = wgcc.compile(line, constants={"rate": 0.001})
    live = train(other, data, steps=10**9, callbacks=[lambda report: time.sleep(0.02)])
    live  # noqa: B018 (marimo shows it)
    return


if __name__ == "__main__":
    app.run()
