"""What the figures of long times and of many tokens show."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from larger import larger

import attnflow as af
from attnflow.figures.gallery import Drawing, named

pytestmark = pytest.mark.usefixtures("figures_closed")


def drawn(name: str, **smaller: Any) -> Drawing:
    """A figure of the gallery, smaller than there."""
    entry = named(name)
    assert set(smaller) <= set(entry.parameters)
    return replace(entry, parameters={**entry.parameters, **smaller}).draw()


def first_exit(k: int, beta: float) -> float:
    """The median of the first exit from the regular k-gon, from its definition: no token picks another."""
    x = np.array([[math.cos(2 * math.pi * i / k), math.sin(2 * math.pi * i / k)] for i in range(k)])
    P = np.exp(beta * (x @ x.T))
    others = P * (1 - np.eye(k))
    return math.ceil(math.log(2) / -float(np.log1p(-others.sum(axis=1) / P.sum(axis=1)).sum()))


def test_exits_of_polygons_follow_the_exact_law() -> None:
    betas = (2.5, 5.0, 10.0, 20.0)
    drawing = drawn("long-times/exits", betas=betas, runs=200)
    (ax,) = drawing.figure.axes
    lines: dict[str, Any] = {str(line.get_gid()): line for line in ax.lines if line.get_gid()}
    for k, name in ((3, "triangle"), (4, "square"), (5, "pentagon")):
        exact = lines[f"exact {name}"].get_ydata()
        np.testing.assert_allclose(exact, [first_exit(k, beta) for beta in betas], rtol=1e-6)
        theory = np.log(np.asarray(lines[f"theory {name}"].get_ydata()))
        np.testing.assert_allclose(np.diff(theory) / np.diff(betas), 1 - math.cos(2 * math.pi / k))
    np.testing.assert_allclose(drawing.shows["theory"], [1.5, 1.0, 1 - math.cos(0.4 * math.pi)])
    assert all(
        abs(s - g) < e for s, g, e in zip(*(drawing.shows[w] for w in ("slopes", "theory", "errors")), strict=True)
    )
    held, total = map(int, drawing.shows["intervals that hold the exact median"].split(" of "))
    assert total == 12
    assert held >= 10


@larger
def test_phases_grow_with_the_gap() -> None:
    drawing = drawn("long-times/phases", betas=(8.0, 14.0), runs=6)
    assert drawing.shows["gap"] == pytest.approx(1.5)
    assert drawing.shows["slope of the layers"] == pytest.approx(1.5, abs=0.25)
    assert "gap = 1.5" in drawing.caption


def test_densities_and_distances_of_the_mean_field() -> None:
    pytest.importorskip("ot")
    drawing = drawn("many-tokens/mean-field", n=40_000, sizes=(16, 48), reference=4_000, runs=2, steps=(0, 10))
    figure: Any = drawing.figure
    images = [ax.images[0] for ax in figure.axes if ax.images]
    assert len(images) == 2
    start = np.ma.filled(images[0].get_array(), 0.0)
    # Uniform in the square [-1, 1]^2 up to its rim: also the bins at the rim are full.
    rim = np.concatenate([start[0], start[-1], start[:, 0], start[:, -1]])
    assert rim.mean() == pytest.approx(0.25, rel=0.1)
    assert len(drawing.shows["slopes"]) == 2
    assert all(-0.8 < slope < -0.1 for slope in drawing.shows["slopes"])


def test_rings_in_the_plane_are_where_the_tokens_are() -> None:
    drawing = drawn("many-tokens/plane", n=20_000)
    figure: Any = drawing.figure
    ax = figure.axes[0]
    entry = named("many-tokens/plane").parameters
    x0 = af.tokens.gaussian(n=20_000, d=2, seed=entry["seed"])
    run = af.simulate(x0, af.Softmax(beta=entry["beta"]), af.Layers(gamma=entry["gamma"]), until=entry["steps"])
    (density,) = [c for c in ax.collections if c.get_gid() == "density"]
    assert np.asarray(density.get_array()).sum() == 20_000
    for point, share in zip(drawing.shows["places"], drawing.shows["shares"], strict=True):
        near = np.linalg.norm(run.final - point, axis=1) < 0.02 * np.ptp(x0, axis=0).max()
        assert near.mean() == pytest.approx(share, rel=0.25)
