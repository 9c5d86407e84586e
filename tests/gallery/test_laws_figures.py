"""What the figures of localmax and of several laws show, against exact layers, brute force and theorems."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from larger import larger
from matplotlib.colors import to_hex
from matplotlib.path import Path
from scipy.optimize import root
from scipy.spatial import ConvexHull

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.gallery import Drawing, named
from attnflow.figures.marks import LEADER
from attnflow.figures.style import colours as colours_of

B = np.array([[1.5, 0.5], [0.5, 0.8]])


@cache
def drawn(name: str) -> Drawing:
    return named(name).draw()


def panels(name: str) -> list[Any]:
    return list(drawn(name).figure.axes)


def every(ax: Any, gid: str) -> list[Any]:
    return [artist for artist in ax.get_children() if artist.get_gid() == gid]


def places(ax: Any, gid: str) -> Array:
    (artist,) = every(ax, gid)
    return np.asarray(artist.get_offsets())


def labelled(ax: Any, label: str) -> Any:
    (artist,) = [artist for artist in ax.get_children() if artist.get_label() == label]
    return artist


def cells(ax: Any) -> tuple[list[Array], list[str]]:
    """The polygons on some axes, and their hues."""
    (artist,) = every(ax, "cells")
    hues = [to_hex(colour[:3]) for colour in artist.get_facecolors()]
    return [path.vertices[:-1] for path in artist.get_paths()], hues


def size(polygon: Array) -> float:
    return float(ConvexHull(polygon).volume)


def heard(x: Array, delta: float) -> Array:
    """Who hears whom under localmax, from the definition."""
    scores = x @ x.T
    return np.asarray(scores >= scores.max(axis=1, keepdims=True) - delta)


# Localmax


def closed_sets(near: Array) -> set[frozenset[int]]:
    """The smallest sets that hear nobody else: what each token reaches, if all of it reaches the token."""
    reach = near | np.eye(len(near), dtype=bool)
    for _ in range(len(near).bit_length()):
        reach = (reach.astype(int) @ reach.astype(int)) > 0
    return {
        frozenset(np.flatnonzero(row).tolist()) for i, row in enumerate(reach) if reach[np.flatnonzero(row), i].all()
    }


def test_outlines_hold_the_quiescent_sets() -> None:
    figure = panels("localmax/quiescent-sets")
    for ax, delta in zip(figure, (0.05, 0.6, 1.0) * 2, strict=True):
        x = places(ax, "tokens")
        wanted = closed_sets(heard(x, delta))
        outlines = [Path(patch.get_xy()) for patch in every(ax, "quiescent")]
        held = {frozenset(np.flatnonzero(ring.contains_points(x)).tolist()) for ring in outlines}
        # An outline may go around other tokens too, that hear somebody else.
        assert len(outlines) == len(wanted)
        assert all(any(one <= ring for ring in held) for one in wanted)
        assert ax.get_xlabel() == f"{len(wanted)} quiescent sets"
        inks = [to_hex(colour) for colour in every(ax, "tokens")[0].get_facecolors()]
        for one in wanted:
            assert len({inks[i] for i in one}) == 1
        assert len({inks[min(one)] for one in wanted}) == len(wanted)
        rest = set(range(len(x))) - set().union(*wanted)
        assert not {inks[i] for i in rest} & {inks[i] for one in wanted for i in one}
    assert [ax.get_title() for ax in figure[:3]] == [rf"$\delta={d:g}$" for d in (0.05, 0.6, 1.0)]


def test_a_solid_outline_is_a_proof() -> None:
    for ax, delta in zip(panels("localmax/quiescent-sets"), (0.05, 0.6, 1.0) * 2, strict=True):
        x = places(ax, "tokens")
        largest = np.linalg.norm(x, axis=1).max()
        for patch in every(ax, "quiescent"):
            ring = Path(patch.get_xy()).contains_points(x)
            (members,) = [one for one in closed_sets(heard(x, delta)) if one <= set(np.flatnonzero(ring).tolist())]
            group, others = x[sorted(members)], np.delete(x, sorted(members), axis=0)
            margins = []
            for v in (*group, group.mean(axis=0)):
                mu = v @ v - (others @ v).max(initial=-np.inf)
                margins.append(mu - delta - 3 * np.linalg.norm(group - v, axis=1).max() * largest)
            assert (patch.get_linestyle() in ("-", "solid")) == (max(margins) > 0)


def test_leaders_move_to_the_exact_limit() -> None:
    x = [Fraction(1), Fraction(-1), Fraction(1, 10), Fraction(-1, 10)]
    states = [x]
    for _ in range(16):
        near = [[z for z in x if y * z >= max(y * w for w in x) - Fraction(1, 20)] for y in x]
        x = [(y + sum(group, Fraction(0)) / len(group)) / 2 for y, group in zip(x, near, strict=True)]
        states.append(x)
    wide, near_one = panels("localmax/leaders-move")
    paths = np.array([line.get_ydata() for line in every(wide, "localmax")])
    np.testing.assert_allclose(paths, np.array(states, dtype=np.float64).T, atol=1e-15)
    hard = np.array([line.get_ydata() for line in every(wide, "hardmax")])
    np.testing.assert_allclose(hard[2], 1 - 0.9 * 0.5 ** np.arange(17), atol=1e-15)
    assert (hard[0] == 1).all()
    # From layer 5 on the pair keeps its mean and halves its distance.
    mean = (states[5][0] + states[5][2]) / 2
    assert mean == Fraction("0.9859375")
    shown = drawn("localmax/leaders-move").shows
    np.testing.assert_allclose(shown["limits, localmax"], float(mean) * np.array([1, -1, 1, -1]), atol=1e-15)
    np.testing.assert_array_equal(np.abs(shown["limits, hardmax"]), 1.0)
    assert shown["leader hears its follower from layer"] == 5
    (limit,) = every(near_one, "limit of localmax")
    assert limit.get_ydata()[0] == pytest.approx(0.9859375, abs=1e-15)
    assert "0.9859375" in [text.get_text() for text in near_one.texts]


def pair_energy(x: Array, cut: float) -> float:
    return sum(min((a - b) ** 2, cut) for a in x for b in x)


def test_energy_falls_on_a_symmetric_graph_and_rises_on_a_directed_one() -> None:
    _, _, falling, rising = panels("localmax/lyapunov")
    x = af.tokens.uniform(n=40, d=1, seed=0, low=0.0, high=6.0)[:, 0]
    energies, bound = [pair_energy(x, 1.0)], [0.0]
    for _ in range(14):
        y = np.array([x[np.abs(x - a) <= 1.0].mean() for a in x])
        bound.append(bound[-1] + 4 * ((y - x) ** 2).sum())
        energies.append(pair_energy(y, 1.0))
        x = y
    (line,), (guide,) = every(falling, "energy"), every(falling, "bound")
    np.testing.assert_allclose(line.get_ydata(), energies, rtol=1e-10)
    np.testing.assert_allclose(guide.get_ydata(), energies[0] - np.array(bound), rtol=1e-10)
    assert (line.get_ydata() <= guide.get_ydata() + 1e-9).all()
    shown = drawn("localmax/lyapunov").shows
    rest = shown["at rest from layer"]
    np.testing.assert_allclose(energies[rest:], energies[rest], rtol=1e-13)
    assert energies[rest - 1] > energies[rest] + 1e-9
    # From 4, 0, -1: the pair (0, -1) alone is closer than 1.5, and opens to (1/5, -9/10).
    (line,) = every(rising, "energy")
    np.testing.assert_allclose(line.get_ydata()[:2], [2 * (1 + 2 * 2.25), 2 * (1.1**2 + 2 * 2.25)], rtol=1e-12)
    steps = [(int(rise.get_xdata()[0]), int(rise.get_xdata()[1])) for rise in every(rising, "rise")]
    up = np.flatnonzero(np.diff(line.get_ydata()) > 0)
    assert steps == [(k, k + 1) for k in up.tolist()]
    assert (shown["the claim that it never rises"], shown["certified"]) == ("violated", "exact")


# Several laws


def test_cells_side_by_side_are_those_of_what_is_left() -> None:
    x0 = af.tokens.gaussian(n=40, d=2, seed=0)
    rng = np.random.default_rng(1)
    for ax, name in zip(panels("laws/side-by-side"), ("softmax", "localmax", "hardmax"), strict=True):
        last, (shapes, hues) = places(ax, "tokens"), cells(ax)
        corners = last[ConvexHull(last).vertices]
        shown = drawn("laws/side-by-side").shows
        assert sum(map(size, shapes)) == pytest.approx(size(last), rel=1e-3)
        assert shown[f"{name}: area"] == pytest.approx(size(last), rel=1e-3)
        assert shown[f"{name}: areas of cells"] == pytest.approx([size(shape) for shape in shapes])
        points = rng.dirichlet(np.ones(len(corners)), 2000) @ corners
        best = points @ corners.T
        clear = np.diff(np.partition(best, -2, axis=1)[:, -2:], axis=1)[:, 0] > 0.02
        # Each polygon belongs to the corner that is highest in it, and it has the colour of the tokens there.
        inks = [to_hex(colour) for colour in every(ax, "tokens")[0].get_facecolors()]
        for p, v in zip(points[clear], corners[best[clear].argmax(axis=1)], strict=True):
            (k,) = [k for k, shape in enumerate(shapes) if Path(shape).contains_point(p)]
            assert hues[k] == inks[np.linalg.norm(last - v, axis=1).argmin()]
        np.testing.assert_array_equal(labelled(ax, "start").get_offsets(), x0)
        assert ax.get_xlabel().startswith(f"{len(np.unique(last.round(2), axis=0))} clusters")
    # Hardmax alone leaves its leaders where they were.
    stars = np.asarray(labelled(panels("laws/side-by-side")[2], LEADER).get_offsets())
    assert np.abs(stars[:, None] - x0).max(axis=2).min(axis=1).max() < 1e-12


def test_the_strip_goes_from_the_mean_to_the_leaders() -> None:
    x0, figure = af.tokens.gaussian(n=40, d=2, seed=0), panels("laws/strip")
    np.testing.assert_allclose(places(figure[0], "tokens"), np.broadcast_to(x0.mean(axis=0), x0.shape), atol=1e-9)
    for ax, clusters, leaders in zip(
        figure, *(drawn("laws/strip").shows[k] for k in ("clusters", "leaders")), strict=True
    ):
        last = places(ax, "tokens")
        assert len(np.unique(last.round(2), axis=0)) == clusters
        assert len(labelled(ax, LEADER).get_offsets()) == leaders
    # Softmax at beta = 8, layer by layer, from its definition.
    x = x0
    for _ in range(60):
        weights = np.exp(8 * (x @ x.T - (x @ x.T).max(axis=1, keepdims=True)))
        x = (x + 0.5 * weights @ x / weights.sum(axis=1, keepdims=True)) / 1.5
    np.testing.assert_allclose(places(figure[5], "tokens"), x, atol=1e-6)
    (shape,) = every(figure[5], "polytope")
    assert size(shape.get_xy()) == pytest.approx(size(x), rel=1e-9)
    last = places(figure[7], "tokens")
    leaders = x0[(x0 @ x0.T).argmax(axis=1) == np.arange(len(x0))]
    assert np.linalg.norm(last[:, None] - leaders, axis=2).min(axis=0).max() == 0


def ends(vertices: Array, form: Array, x: Array) -> Array:
    """Where tokens end that take small steps to the vertex that they score highest."""
    for _ in range(1500):
        x = x + 0.01 * (vertices[(x @ form.T @ vertices.T).argmax(axis=1)] - x)
    near = np.linalg.norm(x[:, None] - vertices, axis=2)
    assert near.min(axis=1).max() < 1e-3
    return near.argmin(axis=1)


@larger
@pytest.mark.parametrize(("panel", "form"), [(0, np.eye(2)), (1, B), (2, np.eye(2))])
def test_basins_are_where_tokens_end(panel: int, form: Array) -> None:
    ax = panels("laws/basins")[panel]
    vertices, (shapes, hues) = places(ax, "vertices"), cells(ax)
    points = np.random.default_rng(2).dirichlet(np.ones(len(vertices)), 600) @ vertices
    scores = np.partition(points @ form.T @ vertices.T, -2, axis=1)
    points = points[scores[:, -1] - scores[:, -2] > 0.05]
    last = ends(vertices, form, points)
    seen: dict[int, str] = {}
    for p, end in zip(points, last.tolist(), strict=True):
        (k,) = [k for k, shape in enumerate(shapes) if Path(shape).contains_point(p)]
        assert seen.setdefault(end, hues[k]) == hues[k]
    assert len(set(seen.values())) == len(seen) == len(places(ax, "attractors")) == len(set(hues))
    assert sum(map(size, shapes)) == pytest.approx(size(vertices))
    # The points of S by their definition: vertices that attract, and the others.
    values = places(ax, "unstable") @ form
    own = np.einsum("ia,ia->i", values, places(ax, "unstable"))
    np.testing.assert_allclose((values @ vertices.T).max(axis=1), own, atol=1e-9)
    owners = np.array([(v @ form @ (v - np.delete(vertices, i, axis=0)).T).min() > 0 for i, v in enumerate(vertices)])
    assert {tuple(v) for v in places(ax, "attractors")} == {tuple(v) for v in vertices[owners]}
    assert bool(owners.all()) == (panel < 2)


def test_softmax_basins() -> None:
    ax = panels("laws/basins")[3]
    vertices = places(ax, "vertices")

    def pull(x: Array) -> Array:
        weights = np.exp(4.0 * (vertices @ x - (vertices @ x).max()))
        return weights @ vertices / weights.sum() - x

    # What attracts is a zero of the pull, at which its derivative has negative eigenvalues.
    for point in places(ax, "attractors"):
        found = root(pull, point)
        assert found.success
        np.testing.assert_allclose(found.x, point, atol=1e-6)
        jacobian = np.array([(pull(point + h) - pull(point - h)) / 2e-6 for h in 1e-6 * np.eye(2)])
        assert np.linalg.eigvals(jacobian).real.max() < 0
    points = np.random.default_rng(3).uniform(vertices.min(axis=0), vertices.max(axis=0), (800, 2))
    points = points[Path(vertices).contains_points(points)]
    elsewhere, arrived = 0, 0
    for start in points:
        x = start
        for _ in range(60):
            x = x + 0.5 * pull(x)
        elsewhere += int((vertices @ x).argmax() != (vertices @ start).argmax())
        arrived += int(np.linalg.norm(places(ax, "attractors") - x, axis=1).min() < 0.01)
    # Nothing else attracts: all but a few, near the boundaries, have arrived.
    assert arrived > 0.98 * len(points)
    part = drawn("laws/basins").shows["softmax: part that ends elsewhere than in its cell"]
    assert elsewhere / len(points) == pytest.approx(part, abs=4 * (part / len(points)) ** 0.5)
    assert len(every(ax, "cell")) == len(vertices)


# The outlines of softmax basins: smooth curves that hold the points that end there, and leave nothing out.


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


def test_each_point_is_in_the_basin_of_its_end() -> None:
    panel = panels("laws/basins")[3]
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


def test_outlines_bend_gently() -> None:
    """A staircase turns by right angles; a smooth outline turns a little at each point, where basins do not meet."""
    panel = panels("laws/basins")[3]
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


def test_a_strip_of_three_betas_has_one_empty_place() -> None:
    drawn = named("laws/strip").function(n=4, betas=(0.0, 1.0, np.inf), layers=2)
    assert [ax.get_visible() for ax in drawn.figure.axes[:4]] == [True, True, True, False]
