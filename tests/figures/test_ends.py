"""What pictures show of the end of a run, and of time: the hull of the end, leaps, chains, ticks that keep apart."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import matplotlib
import numpy as np
import pytest
from scipy.spatial import ConvexHull

import attnflow as af
from attnflow import figures
from attnflow.figures.clock import Clock
from attnflow.figures.marks import END
from attnflow.figures.scene import filled
from attnflow.figures.stage import HULL
from attnflow.figures.style import sheet
from attnflow.runs.trajectory import Trajectory

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("figures_closed")


def ended(ax: Any) -> list[Any]:
    return [patch for patch in ax.patches if patch.get_label() == END]


def test_the_hull_of_the_end_has_the_clusters_as_vertices() -> None:
    run = af.simulate(af.tokens.gaussian(n=60, d=2, seed=0), af.Softmax(beta=9.0), af.Layers(alpha=0.5), until=100)
    ax: Any = figures.plot(run)
    (patch,) = ended(ax)
    drawn = np.unique(patch.get_xy(), axis=0)
    centres = af.measure.clusters(run.final, 1e-3).centres
    # All clusters of this run are in convex position: each is a vertex, and each vertex a cluster.
    assert len(drawn) == len(centres) == 5
    distances = np.linalg.norm(drawn[:, None] - centres[None], axis=2)
    assert distances.min(axis=1).max() < 1e-2
    assert sorted(distances.argmin(axis=1)) == [0, 1, 2, 3, 4]
    x, y = patch.get_xy()[:-1].T
    assert abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2 == pytest.approx(ConvexHull(run.final).volume, rel=1e-2)
    (rings,) = [c for c in ax.collections if c.get_gid() == "vertices"]
    assert {tuple(p) for p in rings.get_offsets()} == {tuple(p) for p in drawn}
    assert END in [text.get_text() for text in ax.figure.legends[0].get_texts()]


def test_in_space_the_edges_of_the_hull_of_the_end_are_drawn() -> None:
    cube = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
    run = af.simulate(np.concatenate([1.5 * cube[:1], cube]), af.Softmax(beta=6.0), af.Layers(gamma=0.5), until=30)
    ax: Any = figures.plot(run)
    (edges,) = [c for c in ax.collections if c.get_gid() == "end"]
    # Eight places, one in from its corner: the cube, cut a little, has its twelve edges and those that bend its faces.
    ends = np.concatenate([np.asarray(segment) for segment in edges._segments3d])
    near = np.linalg.norm(ends[:, None] - run.final[None], axis=2).min(axis=1)
    assert near.max() < 1e-9
    assert 12 <= len(edges._segments3d) <= 18
    (rings,) = [c for c in ax.collections if c.get_gid() == "vertices"]
    ringed = np.column_stack(rings._offsets3d)
    assert len(ringed) == 8
    assert {tuple(p) for p in ringed.round(9)} == {tuple(p) for p in ends.round(9)}


def test_in_space_the_hull_of_the_start_is_dashed() -> None:
    cube = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
    inside = 0.8 * af.tokens.sphere(n=20, d=3, seed=0)
    run = af.simulate(np.concatenate([cube, inside]), af.Softmax(), af.Layers(gamma=0.5), until=3)
    ax: Any = figures.plot(run)
    (start,) = [c for c in ax.collections if c.get_label() == HULL]
    # The twelve edges of a cube: between corners that differ in one coordinate.
    drawn = {frozenset(tuple(end) for end in segment) for segment in np.asarray(start._segments3d)}
    corners = [tuple(corner) for corner in cube.tolist()]
    wanted = {frozenset(pair) for pair in combinations(corners, 2) if np.abs(np.subtract(*pair)).sum() == 2}
    assert drawn == wanted
    assert start.get_linestyle()[0][1] is not None
    assert HULL in [text.get_text() for text in ax.figure.legends[0].get_texts()]


def test_no_hull_of_the_end_where_it_is_that_of_the_start_or_a_point() -> None:
    square = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.2, 0.3]])
    stays = af.simulate(square, af.Hardmax(), af.Layers(gamma=0.5), until=50)
    point = af.simulate(square, af.Softmax(beta=0.1), af.Layers(gamma=0.5), until=90)
    apart = af.simulate(af.tokens.gaussian(n=60, d=2, seed=0), af.Softmax(), af.Layers(gamma=0.1), until=2)
    for run in (stays, point, apart):
        assert ended(figures.plot(run)) == []


@pytest.fixture(scope="module")
def leaps() -> Trajectory:
    return af.simulate(af.tokens.polygon(4), af.Softmax(beta=40.0), af.Leaps(gamma=0.1), until=10**20)


def test_dashboards_follow_leaps_on_their_way(leaps: Trajectory) -> None:
    axes = {ax.get_title(): ax for ax in figures.dashboard(leaps).axes}
    curve: Any = axes["diameter"].lines[0]
    times, values = curve.get_xdata(), curve.get_ydata()
    assert np.diff(np.log1p(times)).max() < np.log(1e20) / 20
    added = [t for t in times if t not in leaps.times.astype(np.float64)]
    assert added
    for t in added[:: len(added) // 3]:
        at = np.flatnonzero(times == t)[0]
        # What is 0 has no place on a logarithmic axis.
        assert np.nan_to_num(values[at]) == pytest.approx(af.measure.diameter(leaps.at(int(t))), rel=1e-6)


def test_nothing_is_added_to_leaps_where_each_step_is_known(leaps: Trajectory) -> None:
    times = leaps.times.astype(np.float64)
    known, states = filled(leaps, times, leaps.tokens, 40)
    assert len(known) > len(times)
    again = filled(leaps, known, states, 40)
    assert again == (known, states)


def test_chains_on_the_line_rest_between_their_moves() -> None:
    chain = af.simulate([[1.0], [-0.5], [0.2]], af.Softmax(beta=8.0), af.Jumps(gamma=0.3), until=10**6, seed=0)
    ax: Any = figures.plot(chain)
    (ways,) = [c for c in ax.collections if type(c).__name__ == "LineCollection"]
    for (t, x), (later, y) in ways.get_segments():
        assert t == later or x == y


@pytest.mark.parametrize("until", [300, 10**3, 10**6, 10**14, 10**25])
def test_numbers_on_the_axis_of_time_keep_apart(until: int) -> None:
    """In panels as wide as those of a dashboard."""
    with figures.look():
        figure: Any = sheet(11.0, 6.8)
        ax = figure.subplots(2, 3)[1, 2]
        Clock(0, float(until), discrete=True).axis(ax)
        figure.canvas.draw()
    left, right = ax.get_xlim()
    shown = [tick.label1 for tick in ax.xaxis.get_major_ticks() if left <= tick.get_loc() <= right]
    boxes = [label.get_window_extent() for label in shown]
    assert len(boxes) > 3
    assert all(one.x1 + 2 < other.x0 for one, other in pairwise(boxes))
