"""The outlines of softmax basins: smooth curves that hold the points that end there, and leave nothing out."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.path import Path

from attnflow.core.inputs import Array
from attnflow.figures.gallery import named
from attnflow.figures.style import colours as colours_of

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def panel() -> Any:
    return named("laws/basins").draw().figure.axes[3]


def filled(ax: Any) -> dict[str, list[Path]]:
    """The curves of each colour; a filled contour has one path, of closed curves."""
    found = {}
    for mark in ax.collections:
        if mark.get_gid() == "basins" and mark.get_fill():
            (face,) = mark.get_facecolors()
            found[to_hex(face[:3])] = [Path(curve) for path in mark.get_paths() for curve in curves(path)]
    return found


def curves(path: Path) -> list[Array]:
    """The corners of each curve of a path, all of them: Matplotlib would leave out some."""
    assert path.codes is not None
    starts = np.flatnonzero(path.codes == Path.MOVETO)
    return [np.asarray(part) for part in np.split(path.vertices, starts[1:])]


def settled(vertices: Array, x: Array) -> Array:
    for _ in range(80):
        weights = np.exp(4.0 * (x @ vertices.T - (x @ vertices.T).max(axis=1, keepdims=True)))
        x = x + 0.5 * (weights @ vertices / weights.sum(axis=1, keepdims=True) - x)
    return x


def test_each_point_is_in_the_basin_of_its_end(panel: Any) -> None:
    (rings,) = [mark for mark in panel.collections if mark.get_gid() == "vertices"]
    vertices = np.asarray(rings.get_offsets())
    basins = filled(panel)
    points = np.random.default_rng(0).dirichlet(np.ones(len(vertices)), 1200) @ vertices
    ends = (settled(vertices, points) @ vertices.T).argmax(axis=1)
    inside = {hue: np.sum([one.contains_points(points) for one in parts], axis=0) for hue, parts in basins.items()}
    # Rings go around the hull from vertex 1 on, as numbers and colours do.
    hues = colours_of(range(len(vertices)))
    wanted = {hues[k].lower(): ends == k for k in np.unique(ends).tolist()}
    assert set(wanted) == set(basins)
    for hue, members in wanted.items():
        assert ((inside[hue] > 0) == members).mean() > 0.995
    # Each point is in one basin; in none or two only next to an outline.
    assert (np.sum(list(inside.values()), axis=0) == 1).mean() > 0.995


def test_outlines_bend_gently(panel: Any) -> None:
    """A staircase turns by right angles; a smooth outline turns a little at each point, where basins do not meet."""
    lines = [mark for mark in panel.collections if mark.get_gid() == "basins" and not mark.get_fill()]
    turns = []
    for mark in lines:
        for path in mark.get_paths():
            for curve in curves(path):
                way = np.diff(curve, axis=0)
                way = way[np.linalg.norm(way, axis=1) > 1e-9]
                cosine = (way[1:] * way[:-1]).sum(axis=1)
                cosine /= np.linalg.norm(way[1:], axis=1) * np.linalg.norm(way[:-1], axis=1)
                turns.append(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
    assert len(np.concatenate(turns)) > 500
    assert np.quantile(np.concatenate(turns), 0.95) < 3
