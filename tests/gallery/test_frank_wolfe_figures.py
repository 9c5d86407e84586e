"""What the figures of the Frank-Wolfe paper show, against brute force, closed forms and known values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import rgb_to_hsv, to_hex
from matplotlib.path import Path
from refusals import refused
from scipy.spatial import ConvexHull

from attnflow.core.inputs import Array
from attnflow.figures.gallery import Drawing, named
from attnflow.figures.gallery.frank_wolfe_polygons import TRIES, _until, corners, directions, scattered, uniform_in
from attnflow.figures.gallery.frank_wolfe_times import arrivals
from attnflow.figures.groups import groups
from attnflow.figures.marks import LEADER, START, TOKEN


@cache
def drawn(name: str) -> Drawing:
    return named(f"fw/{name}").draw()


def found(ax: Any, gid: str) -> Any:
    """The one artist of that kind."""
    (artist,) = every(ax, gid)
    return artist


def every(ax: Any, gid: str) -> list[Any]:
    return [artist for artist in ax.get_children() if artist.get_gid() == gid]


def rings(ax: Any) -> Array:
    return np.asarray(found(ax, "vertices").get_offsets())


def shapes(ax: Any) -> list[Array]:
    return [path.vertices[:-1] for path in found(ax, "cells").get_paths()]


def inside(polygons: Sequence[Array], points: Array) -> Array:
    """Which polygons hold which points, (k, n)."""
    return np.stack([Path(polygon).contains_points(points) for polygon in polygons])


def within(v: Array, n: int = 3000) -> Array:
    """Points that fill the hull of v."""
    return np.random.default_rng(0).dirichlet(np.full(len(v), 0.6), n) @ v


class TestPolygons:
    @pytest.mark.parametrize("k", [4, 9, 25])
    def test_kinds(self, k: int) -> None:
        rng = np.random.default_rng(k)
        equal, all_out, some_in = directions(k, rng), corners(k, rng), scattered(k, rng)
        np.testing.assert_allclose(np.linalg.norm(equal, axis=1), 1.0)
        assert len(ConvexHull(all_out).vertices) == len(all_out) == k
        assert len(ConvexHull(some_in).vertices) < len(some_in) == k
        for x in (all_out, some_in):
            assert 0.4 <= np.linalg.norm(x, axis=1).min() < np.linalg.norm(x, axis=1).max() <= 1.0

    def test_uniform_in_a_triangle(self) -> None:
        triangle = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
        x = uniform_in(triangle, 20_000, np.random.default_rng(0))
        assert len(x) == 20_000
        assert x.min() >= 0
        assert x.sum(axis=1).max() <= 3
        np.testing.assert_allclose(x.mean(axis=0), [1.0, 1.0], atol=0.02)
        np.testing.assert_allclose(np.cov(x.T), [[0.5, -0.25], [-0.25, 0.5]], atol=0.02)


class TestCells:
    def test_every_panel_shows_who_leads_where(self) -> None:
        drawing = drawn("cells")
        panels = drawing.figure.axes
        assert len(panels) == 9
        for k, ax in enumerate(panels):
            v = rings(ax)
            points = within(v)
            scores = points @ v.T
            clear = np.ptp(np.partition(scores, -2, axis=1)[:, -2:], axis=1) > 1e-9
            holds = inside(shapes(ax), points[clear])
            assert (holds.sum(axis=0) == 1).all()
            np.testing.assert_array_equal(holds.argmax(axis=0), scores[clear].argmax(axis=1))
            assert len(holds) == len(v) == drawing.shows["cells"][k // 3][k % 3]
            own = ((v @ v.T).argmax(axis=1) == np.arange(len(v))).sum()
            assert own == drawing.shows["vertices that own their cell"][k // 3][k % 3]
            np.testing.assert_allclose(drawing.shows["areas"][k // 3][k % 3], ConvexHull(v).volume, atol=1e-6)

    @pytest.mark.parametrize("name", ["cells", "cells-raw-and-directions"])
    def test_no_hue_comes_twice_in_a_polygon_and_neighbours_differ_in_lightness(self, name: str) -> None:
        for ax in drawn(name).figure.axes:
            fills = found(ax, "cells").get_facecolors()
            assert len({to_hex(fill) for fill in fills}) == len(fills)
            # On paper, as the eye sees it.
            light = 1 - (1 - fills[:, :3] @ [0.2126, 0.7152, 0.0722]) * fills[:, 3]
            assert np.abs(light - np.roll(light, 1)).min() > 0.03
            hues = np.sort([rgb_to_hsv(fill[:3])[0] for fill in fills])
            assert np.diff(hues, append=hues[0] + 1).min() > 0.2 / len(fills)

    @pytest.mark.parametrize("name", ["cells", "cells-raw-and-directions"])
    def test_the_key_names_every_mark(self, name: str) -> None:
        (key,) = drawn(name).figure.legends
        own = "point inside the hull" if name == "cells" else "cells of the left"
        said = {text.get_text() for text in key.get_texts()}
        assert said >= {own, "vertex in its own cell", "vertex in the cell of another", "origin"}
        assert len(said) == 6

    def test_the_three_kinds(self) -> None:
        panels = drawn("cells").figure.axes
        for k, ax in enumerate(panels):
            number = (5, 9, 25)[k % 3]
            inner = [len(dots.get_offsets()) for dots in every(ax, "inside")]
            assert len(rings(ax)) + sum(inner) == number
            assert bool(inner) == (k >= 6)
            norms = np.linalg.norm(rings(ax), axis=1)
            assert np.allclose(norms, 1) == (k < 3)
            assert norms.min() >= 0.4
            assert norms.max() <= 1 + 1e-12


class TestRawAndDirections:
    def test_each_panel_shows_its_own_argmax(self) -> None:
        left, right = drawn("cells-raw-and-directions").figure.axes
        v = rings(left)
        np.testing.assert_array_equal(rings(right), v)
        points = within(v)
        for ax, keys in ((left, v), (right, v / np.linalg.norm(v, axis=1, keepdims=True))):
            holds = inside(shapes(ax), points)
            kept = holds.sum(axis=0) == 1
            assert kept.mean() > 0.999
            np.testing.assert_array_equal(holds.argmax(axis=0)[kept], (points @ keys.T).argmax(axis=1)[kept])

    def test_where_they_differ(self) -> None:
        drawing = drawn("cells-raw-and-directions")
        v = rings(drawing.figure.axes[0])
        points = uniform_in(v, 100_000, np.random.default_rng(1))
        other = (points @ v.T).argmax(axis=1) != (points @ (v.T / np.linalg.norm(v, axis=1))).argmax(axis=1)
        share = drawing.shows["part of the polygon on which they differ"]
        assert share > 0.02
        assert abs(other.mean() - share) < 0.005


class TestContours:
    def test_vertices_are_on_one_level_and_ellipses_on_theirs(self) -> None:
        drawing = drawn("contours")
        B, levels = drawing.shows["B"], drawing.shows["levels"]
        for ax, k in zip(drawing.figure.axes, (5, 7, 10), strict=False):
            v = rings(ax)
            assert len(v) == k
            np.testing.assert_allclose(0.5 * np.einsum("ia,ab,ib->i", v, B, v), 0.5)
            ellipses = every(ax, "level")
            shown = []
            for ellipse in ellipses:
                on = ax.transData.inverted().transform(ellipse.get_verts())
                energy = 0.5 * np.einsum("ia,ab,ib->i", on, B, on)
                np.testing.assert_allclose(energy, energy.mean(), rtol=1e-3)
                shown.append(energy.mean())
                assert ellipse.get_clip_path() is not None
            np.testing.assert_allclose(sorted(shown), levels[1:], rtol=1e-3)

    def test_walls_are_those_of_voronoi_cells(self) -> None:
        drawing = drawn("contours")
        B = drawing.shows["B"]
        for ax in drawing.figure.axes[:3]:
            v, walls = rings(ax), found(ax, "walls").get_segments()
            assert len(walls) == len(v)
            for wall in walls:
                away = wall.mean(axis=0) - v
                square = np.sort(np.einsum("ia,ab,ib->i", away, B, away))
                np.testing.assert_allclose(square[0], square[1])


class TestDominance:
    def test_cone_and_erosion(self) -> None:
        drawing = drawn("dominance")
        left = drawing.figure.axes[0]
        v, i = rings(left), drawing.shows["vertex"] - 1
        assert len(v) == 7
        cell, cone, eroded = (found(left, gid).get_xy()[:-1] for gid in ("cell", "cone", "eroded"))
        np.testing.assert_allclose(
            drawing.shows["areas of cell, cone, eroded cone"], [ConvexHull(p).volume for p in (cell, cone, eroded)]
        )
        points = uniform_in(v, 20_000, np.random.default_rng(0))
        lead = np.delete(points @ (v[i] - v).T, i, axis=1).min(axis=1)
        clear = np.abs(lead - 0.05) > 1e-9
        np.testing.assert_array_equal(inside([cone], points)[0][clear], (lead >= 0.05)[clear])
        # The ball of a point stays inside when the point is farther than delta from every side.
        sides = ConvexHull(cone).equations
        depth = -(points @ sides[:, :2].T + sides[:, 2]).max(axis=1)
        clear = np.abs(depth - 0.03) > 1e-9
        np.testing.assert_array_equal(inside([eroded], points)[0][clear], (depth >= 0.03)[clear])

    def test_both_panels_show_the_same(self) -> None:
        left, right = drawn("dominance").figure.axes
        for gid in ("cell", "cone", "eroded"):
            np.testing.assert_array_equal(found(left, gid).get_xy(), found(right, gid).get_xy())
        assert np.ptp(right.get_xlim()) < np.ptp(left.get_xlim())


class TestRun:
    def test_tokens_are_on_their_lines_in_the_colour_of_their_cell(self) -> None:
        drawing = drawn("run")
        ax: Any = drawing.figure.axes[0]
        (start,) = [mark for mark in ax.collections if mark.get_label() == START]
        (stars,) = [mark for mark in ax.collections if mark.get_label() == LEADER]
        x0 = np.asarray(start.get_offsets())
        (dots,) = [mark for mark in ax.collections if mark.get_label() == TOKEN]
        v = rings(ax)
        goal = (x0 @ v.T).argmax(axis=1)
        np.testing.assert_allclose(dots.get_offsets(), v[goal] + 0.9**8 * (x0 - v[goal]), atol=1e-12)
        assert {tuple(p) for p in np.asarray(stars.get_offsets()).round(9)} == {tuple(p) for p in v.round(9)}
        cell = inside(shapes(ax), x0 + 1e-6 * (0.0 - x0)).argmax(axis=0)
        fills = found(ax, "cells").get_facecolors()[cell]
        assert [to_hex(c) for c in dots.get_facecolors()] == [to_hex(c[:3]) for c in fills]
        assert len({to_hex(c) for c in dots.get_facecolors()}) == len(v) == 7

    def test_the_movie_ends_at_the_vertices(self) -> None:
        drawing = drawn("run")
        assert drawing.film is not None
        assert drawing.shows["clusters at the end"] == 7
        np.testing.assert_array_equal(drawing.film.final[:7], drawing.film.tokens[0, :7])
        assert drawing.shows["largest distance from the formula"] < 1e-13
        # In the colours of the still picture.
        moment, end = (groups(drawing.film, drawing.film.at(t), t).labels for t in (8, 60))
        np.testing.assert_array_equal(moment, end)


class TestTimes:
    def test_slopes_of_contraction(self) -> None:
        drawing = drawn("rates")
        (ax,) = drawing.figure.axes
        np.testing.assert_allclose(drawing.shows["slopes"], [-0.105361, -0.430783, -1.203973], atol=2e-6)
        for marks, gamma in zip(every(ax, "distances"), (0.1, 0.35, 0.7), strict=True):
            t, far = marks.get_xdata(), marks.get_ydata()
            np.testing.assert_allclose(np.polyfit(t, np.log(far), 1)[0], np.log(1 - gamma), rtol=1e-6)
        for line, marks in zip(every(ax, "theory"), every(ax, "distances"), strict=True):
            np.testing.assert_allclose(
                np.interp(marks.get_xdata(), line.get_xdata(), line.get_ydata()), marks.get_ydata(), rtol=1e-6
            )

    @pytest.mark.parametrize("k", [3, 4, 5])
    def test_arrivals_at_known_values_of_beta(self, k: int) -> None:
        known = arrivals(k, np.array([4.0, 8.0, 16.0, 32.0, 64.0, 128.0]), 0.1, 0.35, 0.05, 2000)
        assert known.tolist() == [-1, -1, 31, 20, 19, 19]

    def test_arrivals_drawn(self) -> None:
        drawing = drawn("arrival")
        (ax,) = drawing.figure.axes
        assert drawing.shows["hardmax"] == 19
        assert set(found(ax, "hardmax").get_ydata()) == {19}
        curves = every(ax, "arrivals")
        assert len(curves) == 3
        for curve, least in zip(curves, drawing.shows["smallest beta with an arrival"], strict=True):
            beta, steps = curve.get_data()
            assert beta[np.isfinite(steps)].min() == least > 13
            assert (np.diff(steps[np.isfinite(steps)]) <= 0).all()
            assert steps[-1] == 19


@pytest.mark.parametrize("name", ["cells-raw-and-directions", "dominance"])
def test_another_seed_is_another_picture(name: str) -> None:
    one, other = (named(f"fw/{name}").seeded(seed).draw().figure.axes[0] for seed in (1, 2))
    assert not np.array_equal(rings(one), rings(other))


def test_too_few_points_for_a_polygon_around_the_disc_are_refused() -> None:
    tried = []

    def accepted(x: Array) -> bool:
        tried.append(x)
        return False

    with refused("no such polygon was found around the disc of radius 1/4: give more points"):
        _until(accepted, lambda: np.zeros((1, 2)))
    assert len(tried) == TRIES
