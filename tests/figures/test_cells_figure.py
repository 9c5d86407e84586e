"""What drawn cells show: polygons that hold the points their vertex leads, hues that differ, numbers apart."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import matplotlib
import numpy as np
import pytest
from scipy.spatial import ConvexHull

from attnflow import tokens
from attnflow.core.inputs import Array
from attnflow.figures import look
from attnflow.figures.cells import _spread, area, cells_within, draw_cells, draw_vertices, make_room
from attnflow.figures.style import colours, sheet
from attnflow.geometry import cells, hull

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("figures_closed")


def axes(size: float = 3.4) -> Any:
    with look():
        return sheet(size, size).add_subplot()


def shapes(drawn: Any) -> list[Array]:
    """The corners of each polygon of a collection."""
    return [path.vertices[:-1] for path in drawn.get_paths()]


@pytest.mark.parametrize("seed", range(3))
def test_polygons_hold_the_points_that_follow_their_vertex(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v, B = rng.normal(size=(8, 2)), rng.normal(size=(2, 2))
    drawn = draw_cells(axes(), cells(v, B))
    assert drawn.get_gid() == "cells"
    points = rng.dirichlet(np.ones(len(v)), 4000) @ v
    scores = points @ B.T @ v.T
    inside = np.stack([path.contains_points(points) for path in drawn.get_paths()])
    clear = np.ptp(np.partition(scores, -2, axis=1)[:, -2:], axis=1) > 1e-9
    followed = [i for i in range(len(v)) if (scores.argmax(axis=1) == i).any()]
    assert len(inside) >= len(followed)
    owner = inside[:, clear].argmax(axis=0)
    assert (inside[:, clear].sum(axis=0) == 1).all()
    # One vertex for each polygon, and the other way round.
    assert len(set(zip(owner.tolist(), scores[clear].argmax(axis=1).tolist(), strict=True))) == len(followed)


def test_areas_add_up_to_the_hull() -> None:
    v = np.random.default_rng(5).normal(size=(12, 2))
    drawn = draw_cells(axes(), cells(v))
    np.testing.assert_allclose(sum(map(area, shapes(drawn))), ConvexHull(v).volume)
    np.testing.assert_allclose([area(s) for s in shapes(drawn)], [ConvexHull(s).volume for s in shapes(drawn)])


def test_the_cells_of_a_regular_polygon_are_congruent() -> None:
    drawn = draw_cells(axes(), cells(tokens.polygon(6)))
    np.testing.assert_allclose([area(shape) for shape in shapes(drawn)], [np.sqrt(3) / 4] * 6)


@pytest.mark.parametrize("dark", [False, True])
def test_many_cells_have_different_fills_and_those_of_their_tokens_hues(dark: bool) -> None:
    with look(dark=dark):
        drawn = draw_cells(axes(), cells(tokens.polygon(28)))
        assert len({tuple(colour) for colour in drawn.get_facecolors()}) == 28
        from matplotlib.colors import to_rgba

        np.testing.assert_allclose(drawn.get_facecolors()[:, :3], [to_rgba(hue)[:3] for hue in colours(range(28))])


def test_labels_choose_the_hues() -> None:
    square = cells(tokens.polygon(4))
    plain, turned = draw_cells(axes(), square), draw_cells(axes(), square, labels=[1, 2, 3, 0])
    np.testing.assert_array_equal(np.roll(plain.get_facecolors(), -1, axis=0), turned.get_facecolors())


def test_cells_in_another_polygon() -> None:
    rng = np.random.default_rng(2)
    v, window = rng.normal(size=(5, 2)), hull([[4.0, 5.0], [-1.0, 5.0], [-1.0, -2.0], [4.0, -2.0]])
    parts = cells_within(cells(v), window)
    np.testing.assert_allclose(sum(area(part) for part in parts), 35.0)
    points = rng.uniform([-1, -2], [4, 5], (20_000, 2))
    shares = np.bincount((points @ v.T).argmax(axis=1), minlength=5) / len(points)
    np.testing.assert_allclose([area(part) / 35 for part in parts], shares, atol=0.015)


@pytest.mark.parametrize("turns", [[0.0, 1.9, 4.1], [0.0, 0.01, 0.02, 0.03, 2.0, 2.01, 4.0], np.linspace(0, 6.1, 25)])
def test_numbers_do_not_cover_each_other_or_the_polygon(turns: Any) -> None:
    corners = hull(np.column_stack([np.cos(turns), np.sin(turns)]))
    ax = axes(2.3)
    make_room(ax, corners.vertices)
    rings = draw_vertices(ax, corners)
    np.testing.assert_array_equal(rings.get_offsets(), corners.vertices)
    ax.figure.draw_without_rendering()
    numbers = [text for text in ax.texts if text.get_gid() == "number"]
    assert [text.get_text() for text in numbers] == [str(i + 1) for i in range(len(corners.vertices))]
    boxes = [text.get_window_extent() for text in numbers]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    places = np.array([text.get_position() for text in numbers])
    assert not np.any(hull(corners.vertices).contains(places))
    # Around the polygon in its order.
    angles = np.unwrap(np.arctan2(*(places - corners.vertices.mean(axis=0)).T[::-1]))
    assert (np.diff(angles) > 0).all()


def test_numbers_that_need_the_whole_line_stand_evenly() -> None:
    """Four places at each end and one between: moved apart, both ends would meet over the gap where the line is cut."""
    places = np.array([0.0] * 4 + [2.9] + [5.8] * 4)
    found = _spread(places, 1.0, 9.0)
    np.testing.assert_allclose(np.diff(found), 1.0)
    assert found.mean() == pytest.approx(places.mean())
