"""What the figures of the hardmax transformer show, against exact layers, brute force and closed forms."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.spatial import ConvexHull

from attnflow.core.inputs import Array
from attnflow.figures.gallery import Drawing, named
from attnflow.figures.gallery.hardmax import BETWEEN, EMERGING, SQUARE
from attnflow.figures.marks import LEADER

LAYERS = (0, 1, 2, 5, 30)
ROWS = ("triangle", "emerging leader", "square", "non-leader clusters")


@cache
def drawn(name: str) -> Drawing:
    return named(f"hardmax/{name}").draw()


def found(ax: Any, gid: str) -> Any:
    """The one artist of that kind."""
    (artist,) = [artist for artist in ax.get_children() if artist.get_gid() == gid]
    return artist


def places(ax: Any, gid: str) -> Array:
    return np.asarray(found(ax, gid).get_offsets())


def stars(ax: Any) -> Array:
    (artist,) = [artist for artist in ax.get_children() if artist.get_label() == LEADER]
    return np.asarray(artist.get_offsets())


def panel(row: str, layer: int) -> Any:
    return drawn("layers").figure.axes[ROWS.index(row) * len(LAYERS) + LAYERS.index(layer)]


def followed(x: Any) -> list[list[int]]:
    """The set C_i of each token, from the definition."""
    scores = [[sum(a * b for a, b in zip(p, q, strict=True)) for q in x] for p in x]
    return [[j for j, s in enumerate(row) if s == max(row)] for row in scores]


def exact_layers(tokens: Any, steps: int) -> list[Any]:
    """Layers z_i <- (z_i + alpha mean z_j)/(1 + alpha) with alpha = 1/2, in fractions."""
    states = [[[Fraction(a).limit_denominator(1000) for a in p] for p in tokens]]
    for _ in range(steps):
        x = states[-1]
        means = [[sum((x[j][k] for j in who), Fraction(0)) / len(who) for k in (0, 1)] for who in followed(x)]
        states.append(
            [[(a + m / 2) / Fraction(3, 2) for a, m in zip(p, q, strict=True)] for p, q in zip(x, means, strict=True)]
        )
    return states


def as_set(points: Any) -> set[tuple[float, ...]]:
    return {tuple(point) for point in (np.asarray(points, dtype=np.float64) + 0.0).round(9).tolist()}


def test_the_dot_of_a_leader_is_seen_around_its_star() -> None:
    panels: Any = drawn("layers").figure.axes
    for ax in panels:
        dots, areas = places(ax, "tokens"), found(ax, "tokens").get_sizes()
        (star,) = [artist for artist in ax.get_children() if artist.get_label() == LEADER]
        for place in stars(ax):
            assert areas[np.linalg.norm(dots - place, axis=1).argmin()] > 1.2 * star.get_sizes()[0]


@pytest.mark.parametrize(("row", "tokens"), [("emerging leader", EMERGING), ("non-leader clusters", BETWEEN)])
def test_layers_are_exact_ones(row: str, tokens: Any) -> None:
    states = exact_layers(tokens, 5)
    for k in (0, 1, 2, 5):
        ax, x, who = panel(row, k), states[k], followed(states[k])
        np.testing.assert_allclose(places(ax, "tokens"), np.array(x, dtype=np.float64), atol=1e-12)
        leaders = [x[i] for i, heard in enumerate(who) if heard == [i]]
        assert as_set(stars(ax)) == as_set(leaders)
        links = [[x[i], x[j]] for i, heard in enumerate(who) for j in heard if j != i]
        np.testing.assert_allclose(found(ax, "links").get_segments(), np.array(links, dtype=np.float64), atol=1e-12)


def test_colours_are_whom_tokens_follow() -> None:
    for row in ROWS:
        seen: dict[tuple[int, ...], str] = {}
        for k in LAYERS[:4]:
            ax = panel(row, k)
            x = places(ax, "tokens")
            # Scores that tie on the axis are equal in floats too.
            colours = [to_hex(colour) for colour in found(ax, "tokens").get_facecolors()]
            for who, colour in zip(followed(x.tolist()), colours, strict=True):
                assert seen.setdefault(tuple(who), colour) == colour
        assert len(set(seen.values())) == len(seen)


def test_a_leader_emerges_where_it_should() -> None:
    shown = drawn("layers").shows["emerging leader: leaders"]
    assert shown == [[1, 3]] + [[1, 2, 3]] * 4
    for k in LAYERS[1:]:
        assert as_set(stars(panel("emerging leader", k))) == as_set([(1, 1 / 3), (-1 / 18, 5 / 36), (-1, -1)])
    assert "(-0.0556, 0.1389)" in drawn("layers").caption


def test_polygons_are_those_of_the_leaders() -> None:
    areas = {"triangle": 3 * 3**0.5 / 4, "square": 4.0, "non-leader clusters": 1.8 * (1.8 + 1.2) / 2}
    for row, size in areas.items():
        for k in LAYERS:
            corners = found(panel(row, k), "leader polygon").get_xy()
            assert ConvexHull(corners).volume == pytest.approx(size, rel=1e-12)
    assert as_set(found(panel("emerging leader", 0), "leader polygon").get_xy()) == as_set([(1, 1 / 3), (-1, -1)])


def test_clusters_without_a_leader_are_between_two() -> None:
    ax = panel("non-leader clusters", 30)
    middles, last = np.array([[1.0, 0.0], [-0.8, 0.0]]), places(ax, "tokens")
    away = np.linalg.norm(last[:, None] - middles, axis=2)
    assert ((away < 1e-4).sum(axis=0) == [3, 2]).all()
    assert np.linalg.norm(stars(ax)[:, None] - middles, axis=2).min() > 0.5
    assert drawn("layers").shows["non-leader clusters: clusters at layer 30"] == 6


def test_tokens_on_the_axis_tend_to_sides_and_lifted_ones_to_corners() -> None:
    axis, lifted, rate = drawn("limits-on-faces").figure.axes
    far = (2 / 3) ** 30
    np.testing.assert_allclose(places(axis, "tokens"), [[1 - far / 2, 0], [far / 2 - 1, 0]], atol=1e-15)
    np.testing.assert_allclose(places(lifted, "tokens"), [[1, 1], [-1, 1]], atol=2 * far)
    for ax in (axis, lifted):
        assert as_set(places(ax, "attractors")) == as_set(SQUARE)
        assert as_set(places(ax, "unstable")) == as_set([(1, 0), (-1, 0), (0, 1), (0, -1), (0, 0)])
        sizes = [ConvexHull(path.vertices).volume for path in found(ax, "cells").get_paths()]
        assert sizes == pytest.approx([1.0] * 4)
    lines = [np.asarray(line.get_ydata(), dtype=np.float64) for line in rate.lines if line.get_gid() == "distance"]
    np.testing.assert_allclose(lines[0], 0.5 * (2 / 3) ** np.arange(31), rtol=1e-9)
    np.testing.assert_allclose(lines[1], np.hypot(0.5, 0.98) * (2 / 3) ** np.arange(31), rtol=1e-9)
    shown = drawn("limits-on-faces").shows
    assert (shown["points of S"], shown["that attract"]) == (9, 4)
    assert shown["on the axis: slope of the logarithm"] == pytest.approx(-np.log(1.5), rel=1e-6)
