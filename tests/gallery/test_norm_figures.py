"""Figures of normalisation: cosines from brute force, bands that hold the draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.figures.gallery.normalisation import mean_cosine
from attnflow.motions.normalisation import SCHEMES


@pytest.mark.usefixtures("figures_closed")
def test_medians_are_means_over_pairs() -> None:
    n, d, layers, dt = 4, 3, 12, 0.5
    drawing = mean_cosine(seed=1, draws=1, n=n, d=d, layers=layers, dt=dt, tau=2.0)
    rng = np.random.default_rng([1, 0])
    Q, K, V = rng.standard_normal((3, layers, d, d))
    x0 = rng.standard_normal((n, d))
    x0 /= np.linalg.norm(x0, axis=1, keepdims=True)
    shown = {line.get_gid(): line.get_ydata() for ax in drawing.figure.axes for line in ax.lines}
    for norm in SCHEMES:
        # Layer by layer, with Q and K in the place of B.
        law = af.Softmax(Q=list(Q / np.sqrt(d)), K=list(K))
        own: Any = {"tau": 2.0} if norm == "mix" else {}
        run = af.simulate(x0, law, af.SphereLayers(V=list(V / np.sqrt(d)), dt=dt, norm=norm, **own), until=layers)
        inner = run.tokens @ np.swapaxes(run.tokens, 1, 2)
        expected = inner[:, ~np.eye(n, dtype=bool)].mean(axis=1)
        np.testing.assert_allclose(np.asarray(shown[f"median {norm}"]), expected[1:], atol=1e-10)
