"""What one may ask of a picture: cells, coordinates, colours, a title; and the side from which planes are seen."""

from __future__ import annotations

import inspect
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from refusals import refused
from scipy.spatial import ConvexHull

import attnflow as af
from attnflow.core.inputs import Array
from attnflow.figures.cells import area
from attnflow.figures.marks import LEADER, START
from attnflow.figures.plot import inks as chosen_inks
from attnflow.figures.scene import history, scene
from attnflow.figures.stage import HULL
from attnflow.figures.style import colours
from attnflow.runs.trajectory import Trajectory

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("figures_closed")


@pytest.fixture(scope="module")
def hardmax() -> Trajectory:
    return af.simulate(af.tokens.gaussian(n=40, d=2, seed=0), af.Hardmax(), af.Layers(alpha=0.5), until=60)


def short(x: Any, law: af.Law | None = None) -> Trajectory:
    return af.simulate(x, law or af.Softmax(beta=3.0), af.Layers(gamma=0.3), until=6)


def dots(ax: Any) -> Any:
    """The dots that are tokens of the last state."""
    scattered = [c for c in ax.collections if type(c).__name__ in ("PathCollection", "Path3DCollection")]
    (found,) = [c for c in scattered if c.get_label() not in (START, LEADER) and c.get_gid() != "vertices"]
    return found


def inks(mark: Any) -> list[str]:
    return [to_hex(colour) for colour in mark.get_facecolors()]


def cells(ax: Any) -> Any:
    (found,) = [c for c in ax.collections if c.get_gid() == "cells"]
    return found


def polygons(ax: Any) -> list[Array]:
    return [np.asarray(path.vertices)[:-1] for path in cells(ax).get_paths()]


def test_options_have_names() -> None:
    assert list(inspect.signature(Trajectory.plot).parameters) == [
        "self", "ax", "t", "cells", "coords", "color", "title",
    ]  # fmt: skip
    for method in (Trajectory.plot, Trajectory.animate, Trajectory.dashboard):
        kinds = [parameter.kind for parameter in inspect.signature(method).parameters.values()]
        assert inspect.Parameter.VAR_KEYWORD not in kinds
        assert len(kinds) <= 9


def test_a_title_of_ones_own(hardmax: Trajectory) -> None:
    assert hardmax.plot(title="mine").get_title() == "mine"
    assert hardmax.plot(title="").get_title() == ""
    assert hardmax.plot().get_title().startswith("Hardmax\n")
    assert short(np.eye(2)).plot().get_title().startswith("Softmax, $\\beta = 3$\n")
    with refused("title is 3, expected a text"):
        hardmax.plot(title=3)  # type: ignore[arg-type]
    with refused("cells is 'all', expected True or False"):
        hardmax.plot(cells="all")  # type: ignore[arg-type]
    with refused("ax is 3, expected axes of Matplotlib"):
        hardmax.plot(ax=3)


class TestCoordinates:
    def test_two_of_three(self) -> None:
        run = short(af.tokens.gaussian(n=25, d=3, seed=1))
        ax = run.plot(coords=(0, 2))
        assert ax.name != "3d"
        np.testing.assert_array_equal(dots(ax).get_offsets(), run.final[:, [0, 2]])
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("$x_1$", "$x_3$")
        (line,) = [line for line in ax.lines if line.get_label() == HULL]
        start = run.tokens[0][:, [0, 2]]
        wanted = {tuple(corner) for corner in start[ConvexHull(start).vertices]}
        assert {tuple(corner) for corner in line.get_xydata()} == wanted

    def test_three_of_many(self) -> None:
        run = short(af.tokens.gaussian(n=9, d=12, seed=1))
        ax: Any = run.plot(coords=[11, 0, 4])
        assert ax.name == "3d"
        np.testing.assert_array_equal(np.stack(dots(ax)._offsets3d, axis=1), run.final[:, [11, 0, 4]])
        assert ax.get_xlabel() == "$x_{12}$"

    def test_tokens_on_a_sphere_are_seen_in_its_disc(self) -> None:
        run = af.simulate(af.tokens.sphere(n=6, d=3, seed=0), af.Softmax(), af.SphereLayers(dt=0.1), until=3)
        ax = run.plot(coords=(1, 2))
        assert ax.get_xlim()[0] < -1 < 1 < ax.get_xlim()[1]
        assert HULL not in [artist.get_label() for artist in ax.get_children()]

    @pytest.mark.parametrize("coords", [(0,), (0, 0), (0, 3), (-1, 0), (0, 1, 2, 0), (0.0, 1.0), (True, 0), "01", 1])
    def test_others_are_refused(self, coords: Any) -> None:
        with refused("expected two or three different numbers of coordinates, 0 to 2"):
            short(np.eye(3)).plot(coords=coords)

    @pytest.mark.parametrize("coords", [(0,), (0, 0), 0, (0, 1)])
    def test_there_is_nothing_to_choose_on_the_line(self, coords: Any) -> None:
        with refused("one coordinate, which is drawn over time: leave coords out"):
            short([[1.0], [0.0]]).plot(coords=coords)


class TestColours:
    def test_one_for_all(self, hardmax: Trajectory) -> None:
        for red in ("red", "#f00", (1, 0, 0), (1.0, 0.0, 0.0)):
            ax = hardmax.plot(color=red)
            assert set(inks(dots(ax))) == {"#ff0000"}
        (start,) = [mark for mark in ax.collections if mark.get_label() == START]
        assert {to_hex(colour) for colour in start.get_edgecolors()} == {"#ff0000"}

    def test_one_for_each_token(self) -> None:
        run = short(af.tokens.gaussian(n=3, d=2, seed=0))
        assert inks(dots(run.plot(color=["red", "lime", "blue"]))) == ["#ff0000", "#00ff00", "#0000ff"]
        assert inks(dots(run.plot(color=np.eye(3)))) == ["#ff0000", "#00ff00", "#0000ff"]
        assert inks(dots(run.plot(color=[1, 0, 0]))) == [c.lower() for c in colours([1, 0, 0])]
        assert inks(dots(run.plot(color=np.array([0, 9, 0])))) == [c.lower() for c in colours([0, 9, 0])]

    def test_a_real_number_for_each_token_is_a_shade_that_is_seen(self, hardmax: Trajectory) -> None:
        """Larger numbers have darker dots, all at least 3:1 on white, and the bar has the numbers' range."""
        values = hardmax.tokens[0][:, 0]
        ax = hardmax.plot(color=values)
        rgb = dots(ax).get_facecolors()[:, :3]
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        luminance = linear @ [0.2126, 0.7152, 0.0722]
        assert (1.05 / (luminance + 0.05)).min() > 2.99
        assert (np.diff(luminance[np.argsort(values)]) <= 0).all()
        bar = ax.figure.axes[1]
        assert bar.get_label() == "<colorbar>"
        np.testing.assert_allclose(bar.get_ylim(), [values.min(), values.max()])
        for alike in (values.tolist(), values * 1e-200, 7 * values):
            assert chosen_inks(alike, 40) == inks(dots(ax))
        assert len(set(chosen_inks([0.5] * 40, 40))) == 1
        own = matplotlib.figure.Figure().add_subplot()
        hardmax.plot(ax=own, color=values.astype(np.float32))
        assert len(own.figure.axes) == 1
        with refused("color has numbers that are not finite, expected one real number per"):
            hardmax.plot(color=np.where(values > 0, values, np.nan))

    def test_yes_and_no_are_two_colours(self, hardmax: Trajectory) -> None:
        right = hardmax.final[:, 0] > 0
        assert chosen_inks(right, 40) == chosen_inks(right.tolist(), 40) == colours(right.astype(int))

    def test_of_another_run_are_those_of_the_comparison(self, hardmax: Trajectory) -> None:
        soft = af.simulate(hardmax.tokens[0], af.Softmax(beta=9.0), af.Layers(gamma=0.1), until=200)
        compared = af.figures.compare([soft, hardmax]).axes
        assert inks(dots(hardmax.plot(color=soft, cells=True))) == inks(dots(compared[1]))
        # Otherwise this would be true of any colours.
        assert [colour.lower() for colour in scene(hardmax, *history(hardmax)).colours] != inks(dots(compared[1]))
        with refused("color is a run of 3 tokens, expected one of 40: give a run of these"):
            hardmax.plot(color=short(np.eye(3)))

    @pytest.mark.parametrize("color", ["rot", ["red"], [0.1] * 39, [0] * 39, ["red", 1] * 20, 7, {}, np.ones((40, 2))])
    def test_others_are_refused(self, color: Any, hardmax: Trajectory) -> None:
        with refused(r"expected one colour, or a list of 40, one per token"):
            hardmax.plot(color=color)

    @pytest.mark.parametrize(
        ("color", "sentence"),
        [
            (np.array(0.5), r"color is array\(0.5\), expected one colour, or a list of 40"),
            ([1e308, -1e308] + [0.5] * 38, "color has numbers that are too far apart for float64, expected one real"),
            ([10**400] * 39 + [0.5], "color has numbers that are beyond the range of float64, expected one real"),
        ],
        ids=["no list", "range", "overflow"],
    )
    def test_numbers_that_have_no_shade_are_refused(self, color: Any, sentence: str, hardmax: Trajectory) -> None:
        with refused(sentence):
            hardmax.plot(color=color)

    def test_a_density_has_none(self) -> None:
        with refused("color is for at most 3000 tokens"):
            short(af.tokens.gaussian(n=3001, d=1, seed=0)).plot(color="red")


ROTATED = np.array([[1.0, 0.8], [-0.3, 0.7]])


class TestCells:
    @pytest.mark.parametrize(
        ("law", "motion", "until"),
        [
            (af.Hardmax(), af.Layers(alpha=0.5), 3),
            (af.Hardmax(B=ROTATED), af.Layers(alpha=0.5), 40),
            (af.Softmax(beta=-4.0, B=ROTATED), af.Layers(gamma=0.2), 2),
            (af.Softmax(), af.RescaledFlow(V=ROTATED), 1.5),
            (af.Hardmax(), af.RescaledLayers(V=ROTATED, dt=0.5), 4),
            (af.Hardmax(b=[0.8, -0.5]), af.Layers(alpha=0.5), 3),
            (af.Softmax(beta=-4.0, B=ROTATED, b=[0.8, -0.5]), af.Layers(gamma=0.2), 2),
            (af.Softmax(b=[2.0, -1.0]), af.RescaledFlow(V=ROTATED), 1.5),
            (af.Hardmax(B=np.zeros((2, 2)), b=lambda t: [np.cos(t), np.sin(t)]), af.Layers(alpha=0.5), 3),
        ],
    )
    def test_are_where_a_token_would_follow_their_vertex(self, law: Any, motion: Any, until: float) -> None:
        """Points of each cell, and who has their top score among the tokens as the law sees them."""
        run = af.simulate(af.tokens.gaussian(n=25, d=2, seed=2), law, motion, until=until)
        ax = run.plot(cells=True)
        # Cells of different colours: where two of them share one, so do their vertices.
        faces = [to_hex(face[:3]) for face in cells(ax).get_facecolors()]
        drawn = np.array(inks(dots(ax)))
        heard = run.seen()
        rng = np.random.default_rng(0)
        for polygon, face in zip(polygons(ax), faces, strict=True):
            inside = rng.dirichlet(np.ones(len(polygon)), 40) @ polygon
            queries = motion.seen(inside, run.times[-1])
            leader = law.log_weights(queries, until, sources=heard).argmax(axis=1)
            assert set(drawn[leader]) == {face}
        both = np.concatenate([run.tokens[0], run.final])
        assert sum(map(area, polygons(ax))) == pytest.approx(ConvexHull(both).volume)

    def test_take_the_colours_of_the_user(self, hardmax: Trajectory) -> None:
        ax = hardmax.plot(cells=True, color=np.where(hardmax.final[:, 0] > 0, "red", "blue").tolist(), coords=(1, 0))
        for polygon, face in zip(polygons(ax), cells(ax).get_facecolors(), strict=True):
            # Coordinates are exchanged, and a vertex lies in its own cell.
            assert to_hex(face[:3]) == (
                "#ff0000" if polygon[np.linalg.norm(polygon, axis=1).argmax(), 1] > 0 else "#0000ff"
            )

    def test_are_refused_where_there_are_none(self, hardmax: Trajectory) -> None:
        x = af.tokens.gaussian(n=9, d=2, seed=0)
        without = {
            "cells are drawn in the plane, these tokens have dimension 3": short(np.eye(3)),
            "bounded confidence looks at distances": short(x, af.HegselmannKrause(eps=0.5)),
            "Sparsemax is no law such as Softmax or Hardmax": short(x, af.Sparsemax()),
            "Heads is no law such as Softmax or Hardmax": short(x, af.Heads([af.Softmax()])),
            "beta is 0": short(x, af.Softmax(beta=0.0)),
        }
        for sentence, run in without.items():
            with refused(sentence):
                run.plot(cells=True)
        lost = Trajectory(
            hardmax.times,
            hardmax.tokens,
            law=None,
            motion=None,
            masses=None,
            stopped="",
            about={"seed": None},
            report={},
        )
        with refused("loaded without its law or motion"):
            lost.plot(cells=True)

    def test_of_a_polygon_have_the_numbers_of_their_labels(self) -> None:
        v = np.array([[2.0, 0.0], [0.1, 0.1], [0.0, 2.0], [-2.0, -1.0]])
        parts = af.geometry.cells(v)
        ax = parts.plot(title="cells")
        assert ax.get_title() == "cells"
        for polygon, i in zip(polygons(ax), (0, 2, 3), strict=True):
            assert parts.label([polygon.mean(axis=0)]) == [i]
        numbers = {text.get_text(): text.get_position() for text in ax.texts}
        assert set(numbers) == {"0", "2", "3"}
        for number, place in numbers.items():
            assert np.linalg.norm(v - place, axis=1).argmin() == int(number)

    def test_are_drawn_on_given_axes_as_these_are(self, hardmax: Trajectory) -> None:
        ax = hardmax.plot()
        before = (ax.get_xlim(), ax.get_ylim(), ax.get_xlabel(), ax.get_title())
        assert af.geometry.cells(af.tokens.polygon(5)).plot(ax=ax) is ax
        assert (ax.get_xlim(), ax.get_ylim(), ax.get_xlabel(), ax.get_title()) == before
        assert len(polygons(ax)) == 5
        with refused("these are vertices in dimension 3"):
            af.geometry.cells(np.eye(3)).plot()
        with refused("these are vertices on a line"):
            af.geometry.cells([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]).plot()


SPREAD = [[0.2362413, 0.0599536, 0.40506019], [0.81321448, 0.49948705, 0.33754772], [0.2160645, 0.38505272, 0.14588075]]


@pytest.mark.parametrize(
    "V", [SPREAD, np.diag([0.2, 0.1, 1.0]), np.diag([1.0, 0.2, 0.1]), np.diag([0.1, 0.2, 1.0]) + 0.02]
)
def test_planes_that_attract_are_seen_from_their_edge(V: Any) -> None:
    from mpl_toolkits.mplot3d.proj3d import proj_transform  # type: ignore[import-untyped]

    x0 = af.tokens.uniform(n=12, d=3, seed=0, low=-5, high=5)
    ax: Any = af.simulate(x0, af.Softmax(), af.RescaledFlow(V=V), until=0.5).plot()
    values, vectors = np.linalg.eig(np.asarray(V).T)
    phi = vectors[:, np.abs(values).argmax()].real
    # The plane through 0 and one beside it, spanned by two orthogonal directions.
    along = np.linalg.svd(phi[None])[2][1:]
    rng = np.random.default_rng(0)
    ax.figure.draw_without_rendering()
    for height in (0.0, 1.5):
        points = height * phi + rng.uniform(-3, 3, (30, 2)) @ along
        flat = np.stack(proj_transform(*points.T, ax.get_proj())[:2], axis=1)
        long, wide = np.linalg.svd(flat - flat.mean(axis=0), compute_uv=False)
        assert wide < 1e-9 * long


def test_tokens_on_one_plane_have_one_colour() -> None:
    x0 = af.tokens.uniform(n=20, d=3, seed=0, low=-5, high=5)
    run = af.simulate(x0, af.Softmax(), af.RescaledFlow(V=SPREAD), until=13.0)
    values, vectors = np.linalg.eig(np.array(SPREAD).T)
    side = run.final @ vectors[:, np.abs(values).argmax()].real > 0
    drawn = scene(run, *history(run)).colours
    assert len(set(zip(side.tolist(), drawn, strict=True))) == len(set(drawn)) == 2
    ball: Any = af.simulate(x0, af.Softmax(), af.RescaledFlow(), until=0.5).plot()
    assert (ball.elev, ball.azim) == (30, -60)
