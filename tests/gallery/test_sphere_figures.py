"""Figures of the sphere: heights from counting pairs, merges where they are marked, fractions from brute force."""

from __future__ import annotations

import itertools

import numpy as np

import attnflow as af
from attnflow.figures.gallery.sphere import phase_diagram, staircase


def test_the_staircase_climbs_by_the_pairs_that_merge() -> None:
    """A merge of clusters of sizes a and b adds 2 a b / n^2; from n tokens to one cluster there are n - 1 merges."""
    n = 4
    drawing = staircase(seed=1, n=n, beta=8.0)
    heights, times = np.asarray(drawing.shows["heights"]), drawing.shows["merge times"]
    rises = {2 * a * b for a, b in itertools.combinations_with_replacement(range(1, n), 2) if a + b <= n}
    assert {round(rise * n * n) for rise in np.diff(heights)} <= rises
    assert (heights[0], heights[-1], len(times)) == (1 / n, 1.0, n - 1)
    (ax,) = drawing.figure.axes
    marked = [float(x) for line in ax.lines if line.get_marker() == "o" for x in np.asarray(line.get_xdata())]
    np.testing.assert_allclose(sorted(marked), times)


def test_the_phase_diagram_counts_pairs() -> None:
    drawing = phase_diagram(seed=2, n=6, d=40, systems=4, betas=3, times=5, until=20.0)
    shown = np.asarray(drawing.figure.axes[0].collections[0].get_array()).reshape(3, 5)
    x = np.random.default_rng(2).standard_normal((4, 6, 2))
    starts = x / np.linalg.norm(x, axis=2, keepdims=True)
    ends = [af.simulate(x0, af.Softmax(beta=9.0), af.SphereFlow(), until=20.0, record=[20.0]).final for x0 in starts]
    inner = np.stack([end @ end.T for end in ends])
    np.testing.assert_allclose(shown[-1, -1], np.mean(inner[:, ~np.eye(6, dtype=bool)] > 0.999), rtol=1e-12)
    assert 0 < shown[-1, -1] < 1
    # The curve is one for d >= n, and solid there alone.
    circle, sphere = drawing.figure.axes[:2]
    assert [ax.lines[0].get_linestyle() for ax in (circle, sphere)] == ["--", "-"]
    assert circle.get_ylim() == sphere.get_ylim()
    x = np.random.default_rng(2).standard_normal((2, 6, 40))
    starts = x / np.linalg.norm(x, axis=2, keepdims=True)
    cells = np.asarray(sphere.collections[0].get_array()).reshape(2, 5)
    ends = [af.simulate(x0, af.Softmax(beta=0.1), af.SphereFlow(), until=4.0, record=[4.0]).final for x0 in starts]
    inner = np.stack([end @ end.T for end in ends])
    np.testing.assert_allclose(cells[0, 0], np.mean(inner[:, ~np.eye(6, dtype=bool)] > 0.999), rtol=1e-12)
    assert cells[0].tolist()[1:] == [1.0] * 4
