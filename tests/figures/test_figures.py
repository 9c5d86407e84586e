"""What figures show: panels, marks, places and colours, not pixels."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from larger import larger
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from refusals import refused

import attnflow as af
from attnflow import figures
from attnflow.core.inputs import Array
from attnflow.figures.groups import groups, heard
from attnflow.figures.marks import LEADER, START, TOKEN
from attnflow.figures.polytope import in_front
from attnflow.figures.scene import Between, history, outline, projection
from attnflow.figures.stage import HULL
from attnflow.figures.style import DARK, LIGHT, Tone, colours, look, tone
from attnflow.runs.trajectory import Trajectory

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("figures_closed")


@pytest.fixture(scope="module")
def hardmax() -> Trajectory:
    return af.simulate(af.tokens.gaussian(n=60, d=2, seed=0), af.Hardmax(), af.Layers(alpha=0.5), until=80)


def short(x: Any, law: af.Law | None = None, until: int = 12) -> Trajectory:
    return af.simulate(x, law or af.Softmax(beta=3.0), af.Layers(gamma=0.3), until=until)


def unsaid(times: Any, tokens: Array, law: af.Law | None = None) -> Trajectory:
    """A run of which only the states are known, as when its functions of time were not stored; or the law too."""
    parts: dict[str, Any] = {"law": law, "motion": None, "masses": None, "about": {"seed": None}, "report": {}}
    return Trajectory(np.asarray(times), tokens, stopped="given", **parts)


def marks(ax: Any, label: str) -> Any:
    """The one artist of that name."""
    (found,) = [artist for artist in ax.get_children() if artist.get_label() == label]
    return found


def kind(ax: Any, name: str) -> Any:
    """The one collection of that kind."""
    (found,) = [collection for collection in ax.collections if type(collection).__name__ == name]
    return found


def tokens_drawn(ax: Any) -> tuple[Array, list[str]]:
    """Places and colours of the dots that are tokens of the last state."""
    drawn = dots(ax)
    return np.asarray(drawn.get_offsets()), [to_hex(colour) for colour in drawn.get_facecolors()]


def dots(ax: Any) -> Any:
    """The dots that are tokens of the last state."""
    scattered = [c for c in ax.collections if type(c).__name__ == "PathCollection"]
    (found,) = [c for c in scattered if c.get_label() not in (START, LEADER) and c.get_gid() != "vertices"]
    return found


def as_set(points: Array) -> set[tuple[float, ...]]:
    return {tuple(point) for point in np.asarray(points).round(9) + 0.0}


class TestPlane:
    def test_shows_start_and_end(self, hardmax: Trajectory) -> None:
        ax = figures.plot(hardmax)
        np.testing.assert_array_equal(marks(ax, START).get_offsets(), hardmax.tokens[0])
        np.testing.assert_array_equal(tokens_drawn(ax)[0], hardmax.final)
        assert ax.get_aspect() == 1.0

    def test_stars_are_the_leaders(self, hardmax: Trajectory) -> None:
        assert hardmax.law is not None
        for t in (0, 2, 80):
            state = hardmax.at(t)
            leaders = af.measure.leaders(hardmax.law, state, t).distinct
            ax = figures.plot(hardmax, t=t)
            stars = as_set(marks(ax, LEADER).get_offsets())
            assert stars == as_set(state[leaders])
            assert ax.get_title().endswith(f"{len(stars)} leaders at step {t}")

    def test_leaders_at_one_place_wear_one_star(self) -> None:
        run = short([[2.0, 0.0], [2.0, 0.0], [-1.0, 0.0], [0.5, 0.0]], af.Hardmax(ties="first"))
        assert len(marks(figures.plot(run), LEADER).get_offsets()) == 2

    def test_colours_are_clusters(self, hardmax: Trajectory) -> None:
        drawn = tokens_drawn(figures.plot(hardmax))[1]
        labels = af.measure.clusters(hardmax.final, 1e-3).labels
        assert len(set(zip(labels.tolist(), drawn, strict=True))) == len(set(labels)) == len(set(drawn)) > 2
        assert drawn == [to_hex(c) for c in marks(figures.plot(hardmax), START).get_edgecolors()]

    def test_colours_are_leaders_before_there_are_clusters(self, hardmax: Trajectory) -> None:
        assert hardmax.law is not None
        drawn = tokens_drawn(figures.plot(hardmax, t=2))[1]
        leaders = af.measure.leaders(hardmax.law, hardmax.at(2), 2).index
        assert len(set(zip(leaders.tolist(), drawn, strict=True))) == len(set(leaders)) == len(set(drawn))

    def test_larger_clusters_have_larger_dots(self) -> None:
        run = short([[3.0, 0.0]] * 6 + [[-3.0, 0.0]] * 2 + [[0.0, 9.0]])
        sizes = dots(figures.plot(run)).get_sizes()
        assert sizes[0] > sizes[6] > sizes[8]

    def test_hull_is_that_of_the_start(self) -> None:
        run = short([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.2, 0.3]])
        hull = marks(figures.plot(run), HULL)
        assert hull.get_linestyle() == "--"
        assert as_set(np.column_stack(hull.get_data())) == as_set(run.tokens[0][:4])

    def test_the_key_shows_starts_in_ink(self, hardmax: Trajectory) -> None:
        (key,) = figures.plot(hardmax).figure.legends
        marks = dict(zip([text.get_text() for text in key.get_texts()], key.legend_handles, strict=True))
        start: Any = marks[START]
        assert start.get_markeredgecolor() == LIGHT.ink
        assert start.get_markerfacecolor() == "none"

    def test_the_key_says_what_a_filled_dot_is(self, hardmax: Trajectory) -> None:
        for figure in (figures.plot(hardmax, t=3).figure, figures.compare([hardmax, hardmax]), hardmax.dashboard()):
            (key,) = figure.legends
            shown: Any = dict(zip([text.get_text() for text in key.get_texts()], key.legend_handles, strict=True))
            assert list(shown)[:2] == [START, TOKEN]
            assert shown[TOKEN].get_markerfacecolor() == LIGHT.ink

    def test_the_key_fits_under_the_picture(self, hardmax: Trajectory) -> None:
        figure: Any = figures.plot(hardmax).figure
        figure.draw_without_rendering()
        (key,) = figure.legends
        assert len(key.get_texts()) == 5
        assert figure.bbox.x0 + 20 < key.get_window_extent().x0 < key.get_window_extent().x1 < figure.bbox.x1 - 20

    def test_before_tokens_gather_the_title_counts_them(self, hardmax: Trajectory) -> None:
        assert figures.plot(hardmax, t=2).get_title().splitlines()[1].startswith("60 tokens, ")

    def test_draws_on_given_axes(self, hardmax: Trajectory) -> None:
        import matplotlib.pyplot as plt

        figure, ax = plt.subplots()
        assert hardmax.plot(ax=ax) is ax
        assert figure.axes == [ax]

    def test_without_a_law_there_are_no_stars(self, hardmax: Trajectory) -> None:
        ax = figures.plot(unsaid(hardmax.times, hardmax.tokens))
        assert LEADER not in [artist.get_label() for artist in ax.get_children()]
        assert ax.get_title().splitlines()[-1] == "8 clusters at step 80"

    def test_refuses_times_outside_the_run(self, hardmax: Trajectory) -> None:
        with refused("expected a time of the run, 0 to 80"):
            figures.plot(hardmax, t=81)


class TestOtherDimensions:
    def test_line_is_time_and_space(self) -> None:
        run = short(np.linspace(-2.0, 3.0, 9)[:, None], until=20)
        ax = figures.plot(run)
        (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
        assert left <= 0 < 20 <= right < 22
        assert -3 < low < -2 < 3 < high < 4
        assert ax.get_xscale() == "linear"
        np.testing.assert_array_equal(tokens_drawn(ax)[0], np.column_stack([np.full(9, 20.0), run.final]))

    def test_long_runs_have_logarithmic_time(self) -> None:
        ax = figures.plot(short([[1.0], [-1.0]], until=3000))
        assert ax.get_xscale() == "symlog"
        assert ax.get_xlim()[1] >= 3000
        assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1", "10", "100", "1000"]

    def test_times_of_a_chain_are_python_integers(self) -> None:
        tokens = np.random.default_rng(0).normal(size=(3, 4, 1))
        run = unsaid(np.array([0, 10**12, 10**25], dtype=object), tokens)
        ax = figures.plot(run)
        assert "step 1e+25" in ax.get_title()
        assert len(ax.get_xticks()) <= 9

    def test_space(self) -> None:
        assert figures.plot(short(af.tokens.gaussian(n=9, d=3, seed=0))).name == "3d"

    def test_the_sphere_is_drawn_by_its_meridians_and_parallels(self) -> None:
        run = af.simulate(af.tokens.sphere(n=4, d=3, seed=0), af.Softmax(), af.SphereFlow(), until=1.0)
        drawn: list[Any] = list(figures.plot(run).lines)
        lines = [np.array(line.get_data_3d()) for line in drawn if line.get_linewidth() == 0.4]
        assert len(lines) == 6 + 5
        for line in lines:
            np.testing.assert_allclose(np.linalg.norm(line, axis=0), 1.0, rtol=1e-12)

    def test_flat_axes_are_refused_for_space_and_the_other_way_round(self, hardmax: Trajectory) -> None:
        import matplotlib.pyplot as plt

        with refused("ax is flat, but tokens in dimension 3 need 3-D axes"):
            figures.plot(short(np.eye(3)), ax=plt.figure().add_subplot())
        with refused("ax is 3-D, but tokens in dimension 2 need flat axes"):
            figures.plot(hardmax, ax=plt.figure().add_subplot(projection="3d"))

    def test_sphere_is_whole(self) -> None:
        x0 = af.tokens.sphere(n=6, d=2, seed=0)
        run = af.simulate(x0, af.Softmax(), af.SphereFlow(), until=1.0)
        ax = figures.plot(run)
        assert ax.get_xlim()[0] < -1 < 1 < ax.get_xlim()[1]
        assert HULL not in [artist.get_label() for artist in ax.get_children()]

    def test_principal_components(self) -> None:
        rng = np.random.default_rng(0)
        run = short(rng.normal(size=(30, 5)) * [1.0, 9.0, 1.0, 4.0, 1.0], af.Softmax(beta=0.0), until=2)
        onto = projection([run.tokens])
        assert np.abs(onto.matrix).argmax(axis=0).tolist() == [1, 3]
        ax = figures.plot(run)
        assert ax.get_xlabel().startswith("1st principal component (")
        np.testing.assert_allclose(tokens_drawn(ax)[0], run.final @ onto.matrix)

    def test_crowds_are_densities(self) -> None:
        run = short(af.tokens.gaussian(n=3500, d=2, seed=0), until=2)
        ax = figures.plot(run)
        kinds = [type(c).__name__ for c in ax.collections]
        assert "PathCollection" not in kinds
        assert kind(ax, "PolyCollection").get_array().sum() == 3500
        line = figures.plot(short(af.tokens.gaussian(n=3500, d=1, seed=0), until=2))
        np.testing.assert_array_equal(kind(line, "QuadMesh").get_array().sum(axis=0), [3500] * 3)


@pytest.mark.parametrize(
    "start",
    [
        np.array([[1.0, 2.0]]),
        np.linspace(-1, 1, 7)[:, None] * [1.0, 2.0],
        np.ones((3, 1)),
        np.ones((3, 3)),
        np.ones((3, 5)),
        1e9 + np.eye(2),
        *(
            pytest.param(np.array(start), marks=larger)
            for start in ([[1.0, 1.0]] * 4, [[0.0, 0.0], [1.0, 0.0]], [[4.0]], [[1.0, 2.0, 3.0, 4.0, 5.0]])
        ),
    ],
)
def test_degenerate_clouds_are_drawn(start: Array) -> None:
    run = short(start, until=3)
    for t in (0, None):
        figures.plot(run, t=t).figure.canvas.draw()
    run.dashboard().canvas.draw()


def test_too_large_tokens_are_refused() -> None:
    run = af.simulate([[1.0, 0.0]], af.Softmax(), af.Residual(dt=9.0), until=140)
    with refused("too large to draw"):
        figures.plot(run)
    figures.plot(run, t=20)


@pytest.fixture(scope="module")
def runs() -> dict[str, Trajectory]:
    x0 = af.tokens.gaussian(n=60, d=2, seed=0)
    laws = {"softmax": af.Softmax(beta=9.0), "localmax": af.Localmax(delta=0.5), "hardmax": af.Hardmax()}
    return {name: af.simulate(x0, law, af.Layers(alpha=0.5), until=100) for name, law in laws.items()}


class TestCompare:
    def test_one_panel_each_on_one_scale(self, runs: dict[str, Trajectory]) -> None:
        figure = figures.compare(runs)
        assert [ax.get_title() for ax in figure.axes] == list(runs)
        assert {ax.title.get_linespacing() for ax in figure.axes} == {"normal"}
        assert len({(ax.get_xlim(), ax.get_ylim()) for ax in figure.axes}) == 1
        width, height = figure.get_size_inches() * figure.dpi
        assert (round(width), round(height)) == (1500, 520)

    def test_says_what_happened(self, runs: dict[str, Trajectory]) -> None:
        said = [ax.get_xlabel() for ax in figures.compare(runs).axes]
        counts = [af.measure.clusters(run.final, 1e-2).count for run in runs.values()]
        assert [text.split()[0] for text in said] == [str(count) for count in counts]
        assert all(text.endswith("leaders") for text in said)

    def test_clusters_with_the_same_tokens_have_the_same_colour(self, runs: dict[str, Trajectory]) -> None:
        """No other pairing of the clusters of two runs would let more tokens keep their colour."""
        soft, _, hard = (np.array(tokens_drawn(ax)[1]) for ax in figures.compare(runs).axes)
        shared = np.array([[((soft == a) & (hard == b)).sum() for b in np.unique(hard)] for a in np.unique(soft)])
        rows = np.arange(len(shared))
        best = max(shared[rows, list(chosen)].sum() for chosen in permutations(range(shared.shape[1]), len(shared)))
        assert (soft == hard).sum() == best

    def test_runs_in_a_list_are_named_by_what_tells_them_apart(self, runs: dict[str, Trajectory]) -> None:
        def titles(given: Any) -> list[str]:
            return [ax.get_title() for ax in figures.compare(given).axes]

        assert titles(list(runs.values())) == ["Softmax, $\\beta = 9$", "Localmax, $\\delta = 0.5$", "Hardmax"]
        x0, law = runs["hardmax"].tokens[0], af.Softmax(beta=2e-5)
        slow, fast = (af.simulate(x0, law, af.Layers(gamma=gamma), until=3) for gamma in (0.1, 0.5))
        beta = "Softmax, $\\beta = 2\\times 10^{-5}$"
        assert titles((slow, fast)) == [f"{beta}\nLayers, $\\gamma = 0.1$", f"{beta}\nLayers, $\\gamma = 0.5$"]
        assert [name[:3] for name in titles([slow, slow])] == ["1: ", "2: "]

    def test_runs_of_different_lengths_share_their_time(self) -> None:
        axes = figures.compare({"a": short([[1.0], [0.0]], until=5), "b": short([[1.0], [0.0]], until=9)}).axes
        assert axes[0].get_xlim() == axes[1].get_xlim()

    def test_fourth_panel_starts_a_row(self) -> None:
        run = short(np.eye(3))
        place: Any = figures.compare(dict.fromkeys("abcd", run)).axes[3].get_subplotspec()
        assert place.rowspan.start == 1

    def test_refusals(self, runs: dict[str, Trajectory]) -> None:
        nothing: list[Any] = [{}, [], ()]
        for none in nothing:
            with refused("no runs were given: give a list of runs, or a dictionary"):
                figures.compare(none)
        for other in (runs["hardmax"], 3, "softmax", None):
            with refused("expected several: give a list of runs, or a dictionary such as"):
                figures.compare(other)  # type: ignore[arg-type]
        with refused("is of type int, expected what simulate returned"):
            figures.compare([runs["hardmax"], 3])  # type: ignore[list-item]
        with refused(r"dimensions \[1, 2\]"):
            figures.compare({"plane": runs["hardmax"], "line": short([[1.0]])})


class TestAnimate:
    def test_mp4(self, hardmax: Trajectory, tmp_path: Path) -> None:
        hardmax.animate(tmp_path / "run.mp4", seconds=0.1)
        assert (tmp_path / "run.mp4").read_bytes()[4:8] == b"ftyp"

    @pytest.mark.parametrize("d", [1, 2, 3, 4])
    def test_gif_of_as_many_frames_as_asked(self, d: int, tmp_path: Path) -> None:
        from PIL import Image

        path = tmp_path / "run.gif"
        path.write_bytes(b"an older movie")
        short(af.tokens.gaussian(n=8, d=d, seed=0)).animate(path, seconds=0.2)
        with Image.open(path) as movie:
            # Equal frames are stored once, for longer: those that hold the end.
            assert 3 <= getattr(movie, "n_frames", 1) <= 5

    def test_movies_are_reproducible(self, tmp_path: Path) -> None:
        run = short([[1.0, 0.0], [0.0, 1.0]], until=3)
        for ending in ("gif", "mp4"):
            paths = [tmp_path / f"{k}.{ending}" for k in range(2)]
            for path in paths:
                figures.animate(run, path, seconds=0.1)
            assert paths[0].read_bytes() == paths[1].read_bytes()

    def test_leaves_no_figure_and_no_setting_behind(self, tmp_path: Path) -> None:
        import matplotlib.pyplot as plt

        before = dict(matplotlib.rcParams)
        figures.animate(short([[1.0], [0.0]]), tmp_path / "run.gif", seconds=0.1)
        assert plt.get_fignums() == []
        assert dict(matplotlib.rcParams) == before

    def test_other_endings_are_refused(self, hardmax: Trajectory, tmp_path: Path) -> None:
        with refused(r"'run.avi' ends in .avi, expected .mp4 or .gif: choose one of these"):
            hardmax.animate(tmp_path / "run.avi")
        with refused(r"'run' has no ending, expected .mp4 or .gif"):
            hardmax.animate(tmp_path / "run")

    def test_without_a_path_or_with_nothing_to_call_it_is_refused(self, hardmax: Trajectory, tmp_path: Path) -> None:
        with refused(r"no path was given for the movie: give one, such as 'run.mp4'"):
            hardmax.animate()
        with refused("behind is 3, expected a function that draws on axes"):
            hardmax.animate(tmp_path / "run.gif", behind=3)

    def test_missing_folders_and_times_are_refused(self, hardmax: Trajectory, tmp_path: Path) -> None:
        with refused("does not exist: create it"):
            hardmax.animate(tmp_path / "nowhere" / "run.gif")
        with refused("seconds is 0"):
            hardmax.animate(tmp_path / "run.gif", seconds=0)


class TestDashboard:
    def titles(self, run: Trajectory) -> dict[str, Any]:
        return {ax.get_title(): ax for ax in figures.dashboard(run).axes if ax.get_title()}

    def sentence(self, ax: Any) -> str:
        (text,) = ax.texts
        return " ".join(text.get_text().split())

    def test_panels_show_the_measurements(self) -> None:
        run = short(af.tokens.gaussian(n=30, d=2, seed=1), af.Softmax(beta=4.0), until=150)
        axes = self.titles(run)
        assert list(axes) == ["tokens", "attention", "clusters", "rank of attention", "diameter", "interaction energy"]
        law, final = af.Softmax(beta=4.0), run.final
        last = {name: ax.lines[0].get_ydata()[-1] for name, ax in axes.items() if ax.lines and name != "tokens"}
        assert last == {
            "clusters": af.measure.clusters(final, 1e-3).count,
            "rank of attention": af.measure.rank(law.weights(final)).value,
            "diameter": af.measure.diameter(final),
            "interaction energy": np.log10(af.measure.energy(final, 4.0)),
        }
        times = axes["clusters"].lines[0].get_xdata()
        assert len(times) <= 60
        assert times[[0, -1]].tolist() == [0, 150]
        assert len(axes["rank of attention"].lines[0].get_xdata()) <= 40
        assert axes["diameter"].get_yscale() == "log"

    def test_attention_is_in_the_order_of_clusters(self) -> None:
        run = short([[3.0, 0.0], [-3.0, 0.0], [3.0, 0.1], [-3.0, 0.1], [3.0, 0.2]])
        image = self.titles(run)["attention"].images[0].get_array()
        order = [0, 2, 4, 1, 3]
        np.testing.assert_array_equal(image, af.Softmax(beta=3.0).weights(run.final)[np.ix_(order, order)])

    def test_panels_say_why_they_are_empty(self) -> None:
        heads = af.Heads([af.Softmax(), af.Hardmax()])
        axes = self.titles(af.simulate(np.eye(2), heads, af.Residual(dt=0.1), until=3))
        assert self.sentence(axes["attention"]) == "each head has a matrix of its own"
        assert self.sentence(axes["interaction energy"]).startswith("defined for softmax")
        unknown = self.titles(unsaid([0, 1], np.zeros((2, 3, 2)) + np.eye(3, 2)))
        assert self.sentence(unknown["rank of attention"]) == "the law of this run was not stored"
        many = self.titles(short(af.tokens.gaussian(n=1001, d=2, seed=0), until=1))
        assert self.sentence(many["attention"]) == "matrices are shown for at most 1000 tokens, these are 1,001"
        assert self.sentence(many["rank of attention"]) == "ranks are shown for at most 200 tokens, these are 1,001"
        huge = self.titles(short([[99.0, 0.0]], until=1))
        assert "leaves the range of float64: divide them by a number" in self.sentence(huge["interaction energy"])
        rescaled = self.titles(af.simulate([[20.0, 0.0]], af.Softmax(), af.RescaledLayers(), until=1))
        assert "a rescaled run sees e^{tV} z; end the run" in self.sentence(rescaled["interaction energy"])
        assert self.sentence(huge["diameter"]) == "0 at all times: the tokens coincide"

    def test_large_energies_are_shown_by_their_logarithm(self) -> None:
        """Of (2, 0) and (0, 2): E = (e^{4 beta} + 1) / 4 beta, which is large for one sign of beta only."""
        at_rest = np.array([[[2.0, 0.0], [0.0, 2.0]]] * 2)
        ax = self.titles(unsaid([0, 1], at_rest, af.Softmax(beta=30.0)))["interaction energy"]
        assert ax.get_ylabel() == r"$\log_{10}|E|$"
        assert ax.get_yscale() == "linear"
        np.testing.assert_allclose(ax.lines[0].get_ydata(), (120 - np.log(120)) / np.log(10), rtol=1e-12)
        ax = self.titles(unsaid([0, 1], at_rest, af.Softmax(beta=-30.0)))["interaction energy"]
        assert ax.get_ylabel() == ""
        np.testing.assert_allclose(ax.lines[0].get_ydata(), -1 / 120, rtol=1e-12)

    def test_strips_have_the_colours_and_lengths_of_the_groups(self) -> None:
        run = short([[3.0, 0.0], [-3.0, 0.0], [3.0, 0.1], [-3.0, 0.1], [3.0, 0.2]])
        bars = self.titles(run)["attention"].patches
        across, down = bars[:2], bars[2:]
        assert [bar.get_width() for bar in across] == pytest.approx([0.6, 0.4])
        assert [bar.get_x() for bar in across] == pytest.approx([0.0, 0.6])
        assert [bar.get_height() for bar in down] == pytest.approx([0.6, 0.4])
        # The first token is at the top.
        assert [bar.get_y() for bar in down] == pytest.approx([0.4, 0.0])
        for strip in (across, down):
            assert [to_hex(bar.get_facecolor()) for bar in strip] == [c.lower() for c in colours([0, 1])]

    def test_headline_says_what_was_run(self) -> None:
        run = short([[1.0], [0.0]], af.Softmax(beta=3.0, B=[[2.0]]))
        headline = figures.dashboard(run).get_suptitle()
        what, ending, following = headline.split("\n")
        assert what.split("  ·  ") == ["2 tokens in dimension 1", "Softmax(beta=3, B)", "Layers(gamma=0.3)"]
        assert ending == "reached step 12, as asked"
        assert following == "still moving at step 12"
        resting = short(af.tokens.polygon(4), af.Softmax(beta=30.0), until=500)
        assert figures.dashboard(resting).get_suptitle().endswith(r"to move again near step $2.5 \cdot 10^{11}$")


class TestScene:
    def test_history_keeps_both_ends_and_the_fast_part(self) -> None:
        run = short(af.tokens.gaussian(n=600, d=2, seed=0), until=400)
        times, states = history(run)
        assert times[0] == 0
        assert times[-1] == 400
        assert len(times) <= 24
        assert np.median(times) < 100
        np.testing.assert_array_equal(states, run.tokens[times.astype(int)])

    def test_history_up_to_a_time_between_records(self) -> None:
        run = af.simulate([[1.0], [0.0]], af.Softmax(), af.Flow(), until=1.0)
        times, states = history(run, 0.77)
        assert times[-1] == 0.77
        np.testing.assert_array_equal(states[-1], run.at(0.77))

    def test_leaders_are_those_of_the_tokens_that_move(self) -> None:
        """In a moving frame scores are those of e^{tV} z, not of z."""
        V = np.array([[1.0, 0.5], [0.0, 0.25]])
        x0 = af.tokens.gaussian(n=20, d=2, seed=3)
        flow = af.simulate(x0, af.Softmax(), af.Flow(V=V), until=1.5)
        rescaled = af.simulate(x0, af.Softmax(), af.RescaledFlow(V=V), until=1.5)
        np.testing.assert_allclose(heard(rescaled, rescaled.final, 1.5), flow.final, rtol=1e-6)
        layers = af.simulate(x0, af.Hardmax(), af.Residual(V=V, dt=0.5), until=4)
        frame = af.simulate(x0, af.Hardmax(), af.RescaledLayers(V=V, dt=0.5), until=4)
        np.testing.assert_allclose(heard(frame, frame.final, 4), layers.final, rtol=1e-9)

    def test_frames_that_outgrow_float64_keep_their_direction(self) -> None:
        run = af.simulate([[3e5, 1.0], [1.0, 2.0]], af.Hardmax(), af.RescaledLayers(), until=1200)
        far = heard(run, run.final, 1200)
        assert np.isfinite(far @ far.T).all()
        np.testing.assert_allclose(far / far.max(), run.final / run.final.max())

    def test_laws_that_refuse_ties_have_no_leaders(self) -> None:
        run = af.simulate([[3.0, 2.0], [-1.0, 0.5]], af.Hardmax(ties="error"), af.Layers(gamma=0.5), until=2)
        tied = np.array([[1.0, 1.0], [1.0, -1.0], [0.5, 0.0]])
        assert groups(run, tied, 0).leaders is None

    def test_outlines(self) -> None:
        square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [1.0, 1.0]])
        closed = outline(1e-200 * square)
        assert len(closed) == 5
        np.testing.assert_array_equal(closed[0], closed[-1])
        assert outline(np.ones((3, 2))).shape == (2, 2)


@pytest.mark.parametrize("colour", [LIGHT, DARK])
def test_colours_go_through_the_palette_four_times_and_the_rest_is_grey(colour: Tone) -> None:
    with look(dark=colour is DARK):
        assert tone() is colour
        known = colours(range(28))
        assert known[:7] == list(colour.palette)
        assert len({*known, colour.others}) == 29
        assert colours([28, 100]) == [colour.others] * 2
    assert tone() is LIGHT


def test_every_colour_stands_out_from_its_paper() -> None:
    """The contrast of web pages: 3 to 1 for marks, 4.5 to 1 for text."""
    from matplotlib.colors import to_rgb

    def luminance(colour: str) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    def contrast(colour: str, paper: str) -> float:
        low, high = sorted([luminance(colour), luminance(paper)])
        return (high + 0.05) / (low + 0.05)

    for shade in (LIGHT, DARK):
        assert min(contrast(text, shade.paper) for text in (shade.ink, shade.quiet)) > 4.5
        with look(dark=shade is DARK):
            assert min(contrast(mark, shade.paper) for mark in colours(range(29))) > (2.2 if shade is LIGHT else 3)
        steps = [luminance(colour) for colour in shade.ramp]
        assert steps == sorted(steps, reverse=shade is LIGHT)


def test_dark_pictures_have_no_light_corner(hardmax: Trajectory) -> None:
    with look(dark=True):
        ax = hardmax.plot()
    from matplotlib.colors import to_hex

    assert to_hex(ax.figure.get_facecolor()) == DARK.paper.lower()
    assert to_hex(ax.get_facecolor()) == DARK.paper.lower()
    assert to_hex(ax.title.get_color()) == DARK.ink.lower()
    texts = [text.get_color() for text in ax.figure.legends[0].get_texts()]
    assert {to_hex(colour) for colour in texts} == {DARK.quiet.lower()}


@pytest.mark.parametrize("ending", ["png", "svg", pytest.param("pdf", marks=larger)])
def test_files_are_the_same_each_time(ending: str, tmp_path: Path, hardmax: Trajectory) -> None:
    paths = [tmp_path / f"{k}.{ending}" for k in range(2)]
    for path in paths:
        figures.save(figures.plot(hardmax), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with refused(r"expected .png, .svg or .pdf"):
        figures.save(figures.dashboard(hardmax), tmp_path / "run.bmp")


def test_plotting_is_loaded_only_to_plot() -> None:
    code = "import sys, attnflow.figures; assert not {'matplotlib', 'imageio_ffmpeg', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_says_what_is_missing(hardmax: Trajectory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with refused(r"need imageio-ffmpeg: pip install 'attnflow\[plot\]'"):
        figures.animate(hardmax, tmp_path / "run.mp4")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    draws = (figures.plot, figures.dashboard, lambda run: figures.compare({"run": run}))
    for draw in (*draws, lambda run: figures.animate(run, tmp_path / "run.gif")):
        with refused(r"plotting needs matplotlib: pip install 'attnflow\[plot\]'"):
            draw(hardmax)


def test_every_face_of_a_flat_polytope_is_seen() -> None:
    square = af.geometry.hull([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    cube = af.geometry.hull([[a, b, c] for a in (0.0, 1.0) for b in (0.0, 1.0) for c in (0.0, 1.0)])
    ax = Figure().add_subplot(projection="3d")
    assert in_front(ax, square, range(4))
    assert 0 < sum(in_front(ax, cube, face) for face in cube.facets) < len(cube.facets)


def test_between_its_moves_a_chain_rests() -> None:
    run = af.simulate(
        af.tokens.polygon(3), af.Softmax(beta=1.0), af.Jumps(gamma=0.5), until=9, record=[0, 4, 9], seed=0
    )
    states = Between(run, np.array([0.0, 3.9, 4.0, 8.0]))
    for k, record in enumerate((0, 0, 1, 1)):
        np.testing.assert_array_equal(states[k], run.tokens[record])
    flow = af.simulate([[1.0], [-1.0]], af.Softmax(), af.Flow(), until=1.0, record=[0.0, 1.0])
    np.testing.assert_allclose(Between(flow, np.array([0.5]))[0], flow.tokens.mean(axis=0))
