"""What the figures on the emergence of clusters show, against other ways to find it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import matplotlib
import numpy as np
import pytest
from larger import larger
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Line3DCollection  # type: ignore[import-untyped]
from mpl_toolkits.mplot3d.proj3d import proj_transform  # type: ignore[import-untyped]
from scipy.integrate import solve_ivp
from scipy.linalg import eig, expm
from scipy.spatial import ConvexHull

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.gallery import Drawing, named
from attnflow.figures.gallery.emergence import vertices, volume
from attnflow.figures.gallery.emergence_attention import FAINTEST
from attnflow.figures.gallery.emergence_hyperplanes import _levels, _plane, section
from attnflow.figures.style import DARK, look


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    drawn.cache_clear()


@cache
def drawn(name: str) -> Drawing:
    """Each figure is drawn once."""
    return named(f"emergence/{name}").draw()


def marks(ax: Any, gid: str) -> list[Any]:
    """The artists of that name on some axes."""
    return [artist for artist in ax.get_children() if artist.get_gid() == gid]


def start(name: str, d: int) -> Array:
    """Where the tokens of a figure start."""
    given = named(f"emergence/{name}").parameters
    return np.random.default_rng(given["seed"]).uniform(-5, 5, (given["n"], d))


def flowed(x0: Array, V: Array, until: float) -> Array:
    """The rescaled tokens at a time, by another integrator, written out as in the paper."""

    values, vectors = np.linalg.eig(V)
    back = np.linalg.inv(vectors)

    def velocity(t: float, flat: Array) -> Array:
        z = flat.reshape(x0.shape)
        x = z @ ((vectors * np.exp(t * values)) @ back).real.T
        s = x @ x.T
        P = np.exp(s - s.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        return ((P @ z - z) @ V.T).ravel()

    found = solve_ivp(velocity, (0.0, until), x0.ravel(), method="LSODA", rtol=1e-7, atol=1e-9)
    end: Array = found.y[:, -1].reshape(x0.shape)
    return end


def distinct(z: Array) -> Array:
    """One of each set of tokens that are within 0.05 of each other."""
    kept: list[Array] = []
    for one in z:
        if all(np.linalg.norm(one - other) > 0.05 for other in kept):
            kept.append(one)
    return np.array(kept)


def in_S(v: Array) -> Array:
    """The points of S of a polygon around or beside the origin, edge by edge."""
    corners = ConvexHull(v).vertices
    found = [v[i] for i in corners if (v @ v[i]).max() <= v[i] @ v[i] + 1e-9]
    for i, j in zip(corners, np.roll(corners, -1), strict=True):
        edge = v[j] - v[i]
        part = -v[i] @ edge / (edge @ edge)
        foot = v[i] + part * edge
        if 0 < part < 1 and (v @ foot).max() <= foot @ foot + 1e-9:
            found.append(foot)
    if (ConvexHull(v).equations[:, -1] <= 0).all():
        found.append(np.zeros(2))
    return np.array(found)


def test_the_limit_polygon_is_the_hull_of_where_tokens_go() -> None:
    drawing = drawn("polytope-2d")
    z = distinct(flowed(start("polytope-2d", 2), np.eye(2), 9.0))
    body = ConvexHull(z)
    ax = drawing.figure.axes[0]
    (polygon,) = marks(ax, "polytope")
    corners = polygon.get_xy()[:-1]
    assert len(corners) == len(body.vertices) == drawing.shows["vertices"]
    assert np.abs(corners[:, None] - z[body.vertices][None]).max(axis=2).min(axis=1).max() < 0.02
    assert drawing.shows["area of the limit polytope"] == pytest.approx(body.volume, rel=5e-3)
    (rings,) = marks(ax, "vertices")
    ringed = np.asarray(rings.get_offsets())
    np.testing.assert_allclose(ringed[np.lexsort(ringed.T)], corners[np.lexsort(corners.T)])
    assert [text.get_text() for text in ax.texts] == [str(k + 1) for k in range(len(corners))]


def test_the_movie_ends_as_the_picture_says() -> None:
    drawing = drawn("polytope-2d")
    assert drawing.film is not None
    title = drawing.film.plot().get_title()
    assert f"\n{drawing.shows['limits taken']} clusters, {drawing.shows['leaders']} leaders" in title


def test_the_other_points_of_S_are_feet_on_edges_and_the_origin() -> None:
    drawing = drawn("polytope-2d")
    ax = drawing.figure.axes[0]
    corners = marks(ax, "polytope")[0].get_xy()[:-1]
    expected = in_S(corners)
    assert drawing.shows["points of S"] == len(expected)
    (feet,) = marks(ax, "feet")
    points = np.vstack([marks(ax, "vertices")[0].get_offsets(), feet.get_offsets()])
    np.testing.assert_allclose(points[np.lexsort(points.T)], expected[np.lexsort(expected.T)], atol=1e-9)


@pytest.mark.parametrize("name", ["polytope-2d", "polytope-3d"])
def test_tokens_approach_S_like_e_to_the_minus_t(name: str) -> None:
    drawing = drawn(name)
    assert drawing.shows["slope of the distance"] == pytest.approx(-1, abs=0.05)
    lines = marks(drawing.figure.axes[1], "distance")
    assert len(lines) >= named(f"emergence/{name}").parameters["n"] - drawing.shows["vertices"]
    for line in lines:
        times, away = line.get_data()
        assert np.log(away[-1] / away[-21]) / (times[-1] - times[-21]) == pytest.approx(-1, abs=0.02)


def test_the_limit_polytope_in_space_is_the_hull_of_where_tokens_go() -> None:
    drawing = drawn("polytope-3d")
    body = ConvexHull(distinct(flowed(start("polytope-3d", 3), np.eye(3), 9.0)))
    assert drawing.shows["vertices"] == len(body.vertices)
    assert drawing.shows["volume of the limit polytope"] == pytest.approx(body.volume, rel=5e-3)
    (faces,) = marks(drawing.figure.axes[0], "polytope")
    # Euler: a simplicial polytope with k vertices has 2k - 4 faces.
    assert len(faces.get_facecolor()) in (1, 2 * len(body.vertices) - 4)


def test_a_prism_stands_on_the_hull_of_the_projected_tokens() -> None:
    drawing = drawn("polytope-hyperplane")
    z = flowed(start("polytope-hyperplane", 3), np.diag([1.0, 1.0, -0.5]), 9.0)
    body = ConvexHull(distinct(z[:, :2]))
    space, plane = drawing.figure.axes
    (polygon,) = marks(plane, "polytope")
    assert len(polygon.get_xy()) - 1 == len(body.vertices) == drawing.shows["vertices"]
    assert drawing.shows["area of K"] == pytest.approx(body.volume, rel=5e-3)
    assert len(marks(space, "walls")) == 1
    assert drawing.shows["points of S"] == len(in_S(polygon.get_xy()[:-1]))


def left_eigenvector(V: Array) -> Array:
    """The one of the eigenvalue of largest modulus, of length 1, by scipy."""
    values, left, _ = eig(V, left=True)
    phi: Array = left[:, np.abs(values).argmax()].real
    return phi / np.linalg.norm(phi)


HYPERPLANES = ["hyperplanes-2d", "hyperplanes-3d-contracting", "hyperplanes-3d-expanding"]


@pytest.mark.parametrize("name", HYPERPLANES)
def test_tokens_end_on_level_sets_of_the_left_eigenvector(name: str) -> None:
    drawing, given = drawn(name), named(f"emergence/{name}").parameters
    V = np.array(given["V"])
    phi = left_eigenvector(V)
    phi *= np.sign(phi @ drawing.shows["left eigenvector"])
    z = flowed(start(name, len(V)), V, given["until"])
    away = np.abs((z @ phi)[:, None] - drawing.shows["levels"]).min(axis=1)
    assert away.max() < 1e-3
    assert drawing.shows["largest distance from a hyperplane"] < 1e-3
    assert drawing.shows["tokens on each"].sum() == given["n"]


@pytest.mark.parametrize("name", HYPERPLANES)
def test_hyperplanes_are_drawn_where_the_eigenvector_says(name: str) -> None:
    drawing = drawn(name)
    phi = left_eigenvector(np.array(named(f"emergence/{name}").parameters["V"]))
    phi *= np.sign(phi @ drawing.shows["left eigenvector"])
    ax = drawing.figure.axes[0]
    drawing.figure.draw_without_rendering()
    planes = marks(ax, "hyperplane")
    assert len(planes) == len(drawing.shows["levels"])
    for plane, level in zip(planes, drawing.shows["levels"], strict=True):
        points = np.array([plane.get_xy1(), plane.get_xy2()]) if len(phi) == 2 else np.array(plane.get_data_3d()).T
        assert np.abs(points @ phi - level).max() < 1e-6
    levels = [line.get_ydata()[0] for line in marks(drawing.figure.axes[1], "level")]
    np.testing.assert_allclose(levels, drawing.shows["levels"])


@pytest.mark.parametrize("name", HYPERPLANES[1:])
def test_the_way_to_planes_in_space_fills_its_panel(name: str) -> None:
    """Tokens are looked at until they are on the planes; their box touches their extent, and fills the panel."""
    drawing = drawn(name)
    drawing.figure.draw_without_rendering()
    ax: Any = drawing.figure.axes[0]
    box = np.array([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()]).T
    (trails,) = [mark for mark in ax.collections if isinstance(mark, Line3DCollection) and len(mark._segments3d) > 100]
    points = np.concatenate(np.asarray(trails._segments3d))
    assert (points >= box[0]).all()
    assert (points <= box[1]).all()
    np.testing.assert_allclose(np.ptp(points, axis=0), np.ptp(box, axis=0) / 1.12, rtol=1e-6)
    last = np.array([segment[-1] for segment in trails._segments3d[-named(f"emergence/{name}").parameters["n"] :]])
    away = np.abs(last @ drawing.shows["left eigenvector"][:, None] - drawing.shows["levels"]).min(axis=1)
    assert away.max() < 0.01 * np.ptp(drawing.shows["levels"])
    corners = np.array([[x, y, z] for x in box[:, 0] for y in box[:, 1] for z in box[:, 2]])
    flat = ax.transData.transform(np.column_stack(proj_transform(*corners.T, ax.get_proj())[:2]))
    parts = np.ptp(flat, axis=0) / [ax.bbox.width, ax.bbox.height]
    assert 0.85 < parts.max() <= 1.0


def test_complex_pairs_have_the_sign_that_names_the_figure() -> None:
    for name, sign in (("contracting", -1), ("expanding", 1)):
        V = np.array(named(f"emergence/hyperplanes-3d-{name}").parameters["V"])
        pair = sorted(np.linalg.eigvals(V), key=abs)[:2]
        assert all(sign * value.real > 0 and abs(value.imag) > 1e-3 for value in pair)


def test_lines_are_parallel_to_the_last_eigenvector_and_hold_the_tokens() -> None:
    drawing, given = drawn("codimension"), named("emergence/codimension").parameters
    V = np.array(given["V"])
    values, vectors = np.linalg.eigh(V)
    assert drawing.shows["positive eigenvalues"] == (values > 0).sum() == 2
    lines = marks(drawing.figure.axes[0], "line")
    assert len(lines) == drawing.shows["lines"]
    # The picture is in the basis of the eigenvectors, largest eigenvalue first, up to their signs.
    ends = np.array([np.array(line.get_data_3d()) for line in lines])
    assert (ends[:, :2, 0] == ends[:, :2, 1]).all()
    z = np.abs(flowed(start("codimension", 3), V, given["until"]) @ vectors[:, :0:-1])
    away = np.linalg.norm(z[:, None] - np.abs(ends[None, :, :2, 0]), axis=2).min(axis=1)
    assert away.max() == pytest.approx(drawing.shows["largest distance from a line"], abs=2e-3)
    assert away.max() < 0.05 * np.ptp(start("codimension", 3) @ vectors[:, 1])


def test_lines_of_attention_join_queries_and_tokens_above_the_threshold() -> None:
    drawing, given = drawn("leaders"), named("emergence/leaders").parameters
    V, B = drawing.shows["V"], drawing.shows["B"]
    rng = np.random.default_rng(given["seed"])
    rng.uniform(size=(2, 2, 2))
    x0 = rng.uniform(-1, 1, (given["n"], 2))
    run = af.simulate(x0, af.Softmax(B=B), af.RescaledFlow(V=V), until=drawing.shows["times"][-1])
    for ax, t, lines, led in zip(
        drawing.figure.axes, *(drawing.shows[k] for k in ("times", "lines", "leaders")), strict=True
    ):
        x = run.at(t) @ expm(t * V).T
        s = x @ B.T @ x.T
        P = np.exp(s - s.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        assert led == len(set(P.argmax(axis=1))) == len(marks(ax, "leaders")[0].get_offsets())
        i, j = np.nonzero((given["threshold"] < P) & ~np.eye(len(P), dtype=bool))
        assert len(i) == lines
        size = np.linalg.norm(np.vstack([x, x @ B.T]), axis=1).max()
        segments = np.array(marks(ax, "lines")[0].get_segments())
        np.testing.assert_allclose(segments, np.stack([(x @ B.T)[i], x[j]], axis=1) / size, atol=1e-6)
        # A line is as strong as its weight.
        seen = np.maximum(np.sqrt(P[i, j]), FAINTEST)
        np.testing.assert_allclose(marks(ax, "lines")[0].get_colors()[:, 3], seen, atol=1e-6)
        assert (np.diff(np.array(marks(ax, "lines")[0].get_linewidths())[np.argsort(seen)]) >= -1e-9).all()


def test_the_key_of_the_leaders_shows_lines_as_strong_as_those_of_the_picture() -> None:
    (key,) = drawn("leaders").figure.legends
    shown: Any = dict(zip([text.get_text() for text in key.get_texts()], key.legend_handles, strict=True))
    for weight in (1.0, 0.1, 0.01):
        assert to_rgba(shown[f"$P_{{ij}} = {weight:g}$"].get_color())[3] == pytest.approx(weight**0.5)
    assert {"leader", "token $x_j$", "query $Bx_i$"} <= set(shown)


@larger
def test_ranks_are_those_of_the_matrices_shown() -> None:
    drawing = drawn("low-rank")
    shown = [np.asarray(ax.images[0].get_array()) for ax in drawing.figure.axes if ax.images][
        : len(drawing.shows["ranks"])
    ]
    for P, r in zip(shown, drawing.shows["ranks"], strict=True):
        np.testing.assert_allclose(P.sum(axis=1), 1)
        assert r == np.linalg.matrix_rank(P, tol=drawing.shows["tolerance"] * np.linalg.norm(P, 2))
    assert drawing.shows["ranks"][0] == 40
    assert drawing.shows["ranks"][-1] == drawing.shows["leaders"]


def test_coordinates_of_negative_eigenvalues_diverge_and_others_cluster() -> None:
    drawing, given = drawn("coordinates"), named("emergence/coordinates").parameters
    spreads = np.concatenate([np.array(line.get_data()) for line in marks(drawing.figure.axes[1], "spread")], axis=1)
    values, spread = spreads
    assert spreads.shape == (2, given["d"])
    assert values.max() == pytest.approx(1)
    assert drawing.shows["positive"] == (values > 0).sum()
    assert (spread[values < -0.1] > 1).all()
    assert (spread[values > 0.3] < 1).all()
    # Once there are leaders, z_k - leader's z_k grows like e^{-lambda_k t}.
    assert drawing.shows["slope"] == pytest.approx(-given["until"], rel=0.2)


def test_the_coordinates_have_a_key_and_names_on_all_axes() -> None:
    drawing = drawn("coordinates")
    (key,) = drawing.figure.legends
    named_marks = [text.get_text() for text in key.get_texts()]
    assert named_marks == [
        r"$\lambda_k > 0$",
        r"$\lambda_k \leq 0$",
        r"$e^{-t\lambda}$",
        r"mean $\pm$ standard deviation",
    ]
    left, right = drawing.figure.axes
    assert all([left.get_ylabel(), right.get_ylabel(), left.get_xlabel(), right.get_xlabel()])
    # Bars are as long as two standard deviations, around the means.
    for bars, dots in zip(marks(left, "deviation"), marks(left, "mean"), strict=True):
        ends = np.array(bars.get_segments())[:, :, 1]
        np.testing.assert_allclose(ends.mean(axis=1), dots.get_ydata(), rtol=1e-9, atol=1e-9)
    handle: Any = key.legend_handles[0]
    assert handle.get_color() == marks(left, "mean")[0].get_color()


def test_attention_on_the_line_is_boolean() -> None:
    drawing = drawn("one-dimension")
    P = np.asarray(drawing.figure.axes[2].images[0].get_array())
    assert drawing.shows["distance from a Boolean matrix"] < 1e-8
    # In sorted labels every row is the first or the last unit vector.
    assert set(P.argmax(axis=1)) <= {0, len(P) - 1}
    assert drawing.shows["rank at the end"] == np.linalg.matrix_rank(P, tol=1e-8) <= 2
    ends = {float(line.get_ydata()[-1].round(2)) for line in marks(drawing.figure.axes[0], "trajectory")}
    assert ends == set(drawing.shows["limits"].round(2))


def test_vertices_are_counted_as_scipy_counts_them() -> None:
    sizes, starts = (6, 12), 2
    with look():
        shows = vertices(seed=1, sizes=sizes, dimensions=(2, 3), starts=starts).shows
    for d in (2, 3):
        for k, n in enumerate(sizes):
            clouds = [np.random.default_rng(seed).uniform(-5, 5, (n, d)) for seed in range(1, 1 + starts)]
            first = [len(ConvexHull(x).vertices) for x in clouds]
            ends = [distinct(flowed(x, np.eye(d), 9.0)) for x in clouds]
            # Up to d + 1 points, all of them are vertices.
            last = [len(z) if len(z) <= d + 1 else len(ConvexHull(z).vertices) for z in ends]
            assert shows[f"mean vertices of the start, d = {d}"][k] == pytest.approx(np.mean(first))
            assert shows[f"mean vertices, d = {d}"][k] == pytest.approx(np.mean(last))


@larger
def test_rank_over_time_ends_at_the_number_of_leaders() -> None:
    drawing, given = drawn("rank"), named("emergence/rank").parameters
    ax = drawing.figure.axes[0]
    x0 = np.random.default_rng(given["seed"]).uniform(-1, 1, (given["n"], 2))
    law = af.Softmax()
    run = af.simulate(x0, law, af.RescaledFlow(), until=given["until"])
    P = law.weights(run.seen(), given["until"])
    for tol in given["tolerances"]:
        (line,) = marks(ax, f"rank {tol:g}")
        first, last = line.get_ydata()[[0, -1]]
        assert last == np.linalg.matrix_rank(P, tol=tol * np.linalg.norm(P, 2))
        assert first == np.linalg.matrix_rank(law.weights(x0), tol=tol * np.linalg.norm(law.weights(x0), 2))
        assert last == len(set(P.argmax(axis=1)))


def test_dark_paper_has_no_light_marks() -> None:
    with look(dark=True):
        drawing = named("emergence/one-dimension").draw()
    assert matplotlib.colors.to_hex(drawing.figure.get_facecolor()).upper() == DARK.paper
    trajectories = marks(drawing.figure.axes[0], "trajectory")
    assert {line.get_color() for line in trajectories} <= set(DARK.palette)


def test_flat_hulls_have_no_volume_and_planes_beside_a_box_no_section() -> None:
    assert volume(af.geometry.hull([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])) == 0.0
    box, up = np.array([[0.0] * 3, [1.0] * 3]), np.array([0.0, 0.0, 1.0])
    assert section(up, 2.0, box).shape == (0, 3)
    corner = section(np.ones(3) / np.sqrt(3), np.sqrt(3), box)
    np.testing.assert_allclose(corner, 1.0)


def test_levels_of_one_sign_are_one_or_two() -> None:
    start = np.array([0.5, 2.0])
    np.testing.assert_array_equal(_levels(np.stack([start, [1.0, 1.0]])), [1.0])
    np.testing.assert_array_equal(_levels(np.stack([start, [1.0, 1.5]])), [1.5, 1.0])
    np.testing.assert_array_equal(_levels(np.stack([start, [-1.0, 1.5]])), [1.5, -1.0, 0.0])


def test_a_plane_beside_the_picture_is_not_drawn() -> None:
    ax: Any = Figure().add_subplot(projection="3d")
    ax.set(xlim=(0, 1), ylim=(0, 1), zlim=(0, 1))
    _plane(ax, np.array([0.0, 0.0, 1.0]), 5.0)
    assert not ax.lines
    _plane(ax, np.array([0.0, 0.0, 1.0]), 0.5)
    assert len(ax.lines) == 1
