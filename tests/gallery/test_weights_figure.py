"""The figure of weights between softmax and hardmax shows what the laws say."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import attnflow as af
from attnflow.figures.gallery import named


def test_curves_are_the_weights_and_the_numbers_of_tokens_heard() -> None:
    entry = named("laws/support")
    drawing = entry.draw()
    left, right = drawing.figure.axes
    curves = {line.get_gid(): line for ax in (left, right) for line in ax.lines}
    s = np.linspace(-1.0, 0.0, 25)
    z = 4.0 * s
    tau = next(t for k in range(1, 26) if (t := (z[-k:].sum() - 1) / k) < z[-k] and (k == 25 or z[-k - 1] <= t))
    expected = [np.exp(z) / np.exp(z).sum(), None, np.maximum(z - tau, 0), (s >= -0.25) / (s >= -0.25).sum()]
    for k, row in enumerate(expected):
        if row is not None:
            np.testing.assert_allclose(np.asarray(curves[f"row {k}"].get_ydata()), row, atol=1e-12)
    entmax = np.asarray(curves["row 1"].get_ydata())
    np.testing.assert_allclose(entmax.sum(), 1)
    np.testing.assert_allclose(np.diff(np.sqrt(entmax[entmax > 0])), 2.0 * np.diff(s)[0], rtol=1e-9)
    x, betas = af.tokens.gaussian(n=200, d=2, seed=0), np.asarray(curves["heard 2"].get_xdata())
    near = (x @ x.T >= (x @ x.T).max(axis=1, keepdims=True) - 1 / betas[3]).sum(axis=1).mean()
    assert float(np.asarray(curves["heard 3"].get_ydata())[3]) == near
    assert (np.asarray(curves["heard 0"].get_ydata()) == 200).all()
    assert (np.diff(np.asarray(curves["heard 2"].get_ydata())) <= 0).all()
    plt.close(drawing.figure)
