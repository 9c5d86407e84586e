"""Parameter studies of the gallery, smaller than there: what they show is what a plain loop finds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from refusals import refused
from scipy.integrate import solve_ivp

from attnflow.core.inputs import Array
from attnflow.figures.gallery import Drawing, named, studies

pytestmark = pytest.mark.usefixtures("figures_closed")


def drawn(name: str, **smaller: Any) -> Drawing:
    """A figure of the gallery, smaller than there."""
    entry = named(name)
    assert set(smaller) <= set(entry.parameters)
    return replace(entry, parameters={**entry.parameters, **smaller}).draw()


def found(ax: Any, gid: str) -> list[Any]:
    return [child for child in ax.get_children() if child.get_gid() == gid]


def circle_clusters(n: int, beta: float, seed: int) -> int:
    """The number of clusters at time 40 of tokens on the circle, integrated as angles by SciPy, counted by gaps."""
    x = np.random.default_rng(seed).standard_normal((n, 2))

    def velocity(t: float, angles: Array) -> Array:
        apart = angles - angles[:, None]
        P = np.exp(beta * (np.cos(apart) - 1))
        return np.asarray((P * np.sin(apart)).sum(axis=1) / P.sum(axis=1))

    end = solve_ivp(velocity, (0.0, 40.0), np.arctan2(x[:, 1], x[:, 0]), "LSODA", rtol=1e-8, atol=1e-10).y[:, -1]
    places = np.sort(end % (2 * np.pi))
    gaps = np.diff(np.append(places, places[0] + 2 * np.pi))
    return max(1, int((2 * np.sin(np.minimum(gaps, np.pi) / 2) > 0.05).sum()))


def test_clusters_on_the_circle_are_those_of_another_integrator() -> None:
    small: dict[str, Any] = {"starts": 2, "sizes": (4, 10), "low": 2.0, "high": 128.0, "betas": 3, "until": 40.0}
    drawing = drawn("sphere/clusters", seed=5, **small)
    (image,) = found(drawing.figure.axes[0], "cells")
    means = np.asarray(image.get_array()).reshape(2, 3)
    expected = [
        [np.mean([circle_clusters(n, beta, seed) for seed in (5, 6)]) for beta in (2.0, 16.0, 128.0)] for n in (4, 10)
    ]
    np.testing.assert_array_equal(means, expected)
    assert means.max() > 3
    np.testing.assert_allclose(drawing.shows["clusters / beta^(1/2), n = 10"], means[1] / np.sqrt([2, 16, 128]))


def exact_median(k: int, beta: float) -> float:
    """The median of the first exit from the regular k-gon, from its definition: no token picks another."""
    x = np.array([[math.cos(2 * math.pi * i / k), math.sin(2 * math.pi * i / k)] for i in range(k)])
    P = np.exp(beta * (x @ x.T))
    others = P * (1 - np.eye(k))
    return math.ceil(math.log(2) / -float(np.log1p(-others.sum(axis=1) / P.sum(axis=1)).sum()))


def test_exits_of_polygons_are_near_their_exact_medians() -> None:
    betas, sides = (10.0, 14.0, 18.0, 22.0), (3, 4, 5)
    drawing = drawn("long-times/exits-of-polygons", betas=betas, sides=sides, runs=400)
    (image,) = found(drawing.figure.axes[0], "cells")
    medians = np.asarray(image.get_array()).reshape(len(sides), len(betas))
    exact = np.array([[exact_median(k, beta) for beta in betas] for k in sides])
    # The median of 400 geometric times has a relative standard error of 1 / (log 2 sqrt(400)), or 7 per cent.
    assert abs(medians / exact - 1).max() < 0.3
    np.testing.assert_allclose(drawing.shows["slopes"], drawing.shows["theory"], atol=0.06)
    held = int(drawing.shows["intervals that hold the exact median"].split()[0])
    assert held >= 9


def localmax_clusters(x: Array, delta: float, alpha: float) -> int:
    """The number of distinct places after many layers, from the definition of localmax."""
    for _ in range(300):
        scores = x @ x.T
        hears = scores >= scores.max(axis=1, keepdims=True) - delta
        x = (x + alpha * (hears @ x) / hears.sum(axis=1, keepdims=True)) / (1 + alpha)
    return len(np.unique(x.round(4), axis=0))


def test_localmax_clusters_are_those_of_a_plain_loop() -> None:
    drawing = drawn("localmax/clusters", seed=3, starts=3, sizes=(8, 20), deltas=3, low=0.05, high=20.0)
    lines = found(drawing.figure.axes[0], "values")
    for line, n in zip(lines, (8, 20), strict=True):
        clouds = [np.random.default_rng(seed).standard_normal((n, 2)) for seed in (3, 4, 5)]
        for delta, mean in line.get_xydata():
            assert mean == pytest.approx(np.mean([localmax_clusters(x, delta, 0.5) for x in clouds]))
        assert line.get_ydata()[-1] == 1.0
    assert "seeds 3 to 5" in drawing.caption


def test_what_has_no_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("no single pick leads farther than 1 for k = 3: give a smaller radius"):
        studies.first_exit(1.0, 3, np.random.default_rng(0), 0.1, 1.0, 1)
    monkeypatch.setattr(studies, "MOST_LAYERS", 1)
    with refused("tokens still move after 1 layers: their clusters are not counted"):
        studies.clusters_at_rest(0.1, 5, 0, 0.5)
