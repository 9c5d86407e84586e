"""What pictures of very many tokens show: densities with a scale, rings around places, samples that say so."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from larger import larger
from matplotlib.colors import LogNorm
from refusals import refused

import attnflow as af
from attnflow import figures
from attnflow.core.inputs import Array
from attnflow.figures import groups, samples
from attnflow.figures.gif import Gif
from attnflow.figures.marks import DENSITY, PLACE, RING
from attnflow.figures.places import SHARE, places
from attnflow.figures.stage import HULL
from attnflow.runs.trajectory import Trajectory

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("figures_closed")

SHARES = np.array([0.4, 0.2, 0.1, 0.05])


def run_of(*states: Array) -> Trajectory:
    """A run of which only the states are known."""
    parts: dict[str, Any] = {"law": None, "motion": None, "masses": None, "about": {"seed": None}, "report": {}}
    return Trajectory(np.arange(len(states)), np.stack(states), stopped="given", **parts)


def gathered(d: int, n: int = 20_000) -> tuple[Array, Array]:
    """Four places with known shares of n tokens; the rest is spread evenly."""
    rng = np.random.default_rng(d)
    corners = np.array([[-0.7] * d, [0.6] * d, [0.5] + [-0.5] * (d - 1), [-0.2] + [0.4] * (d - 1)])
    counts = (n * SHARES).astype(int)
    there = np.repeat(corners, counts, axis=0) + 1e-4 * rng.standard_normal((counts.sum(), d))
    spread = rng.uniform(-1, 1, (n - counts.sum(), d))
    return rng.permutation(np.concatenate([there, spread])), corners


def by_gid(ax: Any, gid: str) -> Any:
    (found,) = [artist for artist in ax.collections if artist.get_gid() == gid]
    return found


@pytest.mark.parametrize("d", [1, 2])
def test_rings_are_at_the_places_and_as_large_as_their_share(d: int) -> None:
    x, corners = gathered(d)
    ax = figures.plot(run_of(np.random.default_rng(9).uniform(-1, 1, x.shape), x))
    rings = by_gid(ax, "places")
    points = np.asarray(rings.get_offsets())[:, -d:]
    np.testing.assert_allclose(points, corners, atol=0.01)
    # What is spread adds a little to each.
    np.testing.assert_allclose(rings.get_sizes() / RING, SHARES, atol=0.01)
    if d == 1:
        assert set(rings.get_offsets()[:, 0]) == {1.0}
    (legend,) = ax.figure.legends
    assert PLACE in [text.get_text() for text in legend.get_texts()]


def test_a_density_has_a_logarithmic_scale_that_holds_all_counts() -> None:
    x, _ = gathered(2)
    ax = figures.plot(run_of(x))
    density = by_gid(ax, DENSITY)
    counts = np.asarray(density.get_array())
    assert counts.sum() == len(x)
    assert isinstance(density.norm, LogNorm)
    assert (density.norm.vmin, density.norm.vmax) == (1, counts.max())
    bar = density.colorbar.ax
    assert bar.get_ylabel() == "tokens in a cell"
    # Even a single token is not paper.
    assert min(density.cmap(0.0)[:3]) < 0.93


def test_hills_have_no_rings() -> None:
    rng = np.random.default_rng(0)
    for x in (rng.standard_normal((30_000, 2)), np.concatenate([rng.uniform(-1, 1, (9000, 2)) for _ in range(3)]) ** 3):
        assert len(places(x, x.min(axis=0), x.max(axis=0)).counts) == 0


@pytest.mark.parametrize("d", [1, 2, 3])
def test_no_place_is_missed_wherever_cells_end(d: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20 if d < 3 else 5):
        spot = rng.uniform(-0.9, 0.9, d)
        few = int(1.2 * SHARE * 5000)
        x = np.concatenate([rng.uniform(-1, 1, (5000 - few, d)), spot + 1e-5 * rng.standard_normal((few, d))])
        found = places(x, np.full(d, -1.0), np.full(d, 1.0))
        if d == 1:
            # On the line there is always somebody around a place that is no fuller than this.
            continue
        np.testing.assert_allclose(found.points, spot[None], atol=0.02)
        assert few <= found.counts[0] <= few + 20


def test_in_space_dots_say_how_many_they_stand_for() -> None:
    x, corners = gathered(3)
    ax: Any = figures.plot(run_of(x))
    assert ax.name == "3d"
    (label,) = [name for name in ax.get_legend_handles_labels()[1] if name.startswith("one dot")]
    assert label == "one dot: 7 tokens"
    (sample,) = [c for c in ax.collections if c.get_label() == label]
    assert len(sample._offsets3d[0]) == -(-len(x) // 7)
    np.testing.assert_allclose(np.stack(by_gid(ax, "places")._offsets3d, axis=1), corners, atol=0.02)


def test_panels_side_by_side_have_one_scale() -> None:
    x, _ = gathered(2)
    figure = figures.compare({"all": run_of(x), "half": run_of(0.5 * x)})
    first, second = (by_gid(ax, DENSITY) for ax in figure.axes[:2])
    assert first.norm is second.norm
    assert first.norm.vmax == max(first.get_array().max(), second.get_array().max())
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    # Cells of one size: twice as near means four times as many, but for the places.
    one, other = (np.median(np.asarray(density.get_array())) for density in (first, second))
    assert other == pytest.approx(4 * one, rel=0.4)


def test_titles_of_crowds_say_what_happened() -> None:
    x, corners = gathered(2, n=30_000)
    assert figures.plot(run_of(x)).get_title().endswith("30,000 tokens at step 0")
    met = np.repeat(corners, 7500, axis=0)
    ax = figures.plot(run_of(np.random.default_rng(0).uniform(-1, 1, met.shape), met))
    assert ax.get_title().endswith("4 clusters at step 1")


def segments_of(drawn: Any) -> list[Array]:
    """Return the lines that were drawn, of a picture of space as they were given."""
    return [np.asarray(one) for one in getattr(drawn, "_segments3d", None) or drawn.get_segments()]


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The hull of the start, the limits, the counts of the density and the title of each frame that is written."""
    seen: list[dict[str, Any]] = []

    def watched(writer: Any) -> None:
        ax = writer.figure.axes[0]
        hulls = [line.get_xydata().tolist() for line in ax.lines if line.get_label() == HULL]
        counts = [float(c.get_array().sum()) for c in ax.collections if c.get_gid() == DENSITY]
        ends = [np.asarray(patch.get_xy()).tolist() for patch in ax.patches if patch.get_gid() == "end"]
        rings = [np.asarray(c.get_sizes()).tolist() for c in ax.collections if c.get_gid() == "places"]
        limits = (ax.get_xlim(), ax.get_ylim())
        now = [one.tolist() for c in ax.collections if c.get_gid() == "now" for one in segments_of(c)]
        seen.append({"hulls": hulls, "counts": counts, "ends": ends, "rings": rings, "limits": limits, "now": now})
        seen[-1]["title"] = ax.get_title()
        grab(writer)

    grab = Gif.grab_frame
    monkeypatch.setattr(Gif, "grab_frame", watched)
    return seen


def outliers(n: int, d: int) -> Array:
    """A cloud with a far token at each corner of a cube, among the last: none of them is an n-th token for small n."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (n, d))
    x[-(2**d) - 1 : -1] = 5 * np.array(list(itertools.product([-1.0, 1.0], repeat=d)))
    return x


def test_hulls_and_counts_of_a_movie_are_those_of_all_tokens(
    frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where memory would not hold them at all times."""
    monkeypatch.setattr("attnflow.figures.scene.NUMBERS", 50_000)
    x = outliers(20_000, 2)
    run_of(x, 0.5 * x).animate(tmp_path / "run.gif", seconds=0.1)
    assert len(frames) > 1
    for frame in frames:
        (hull,) = frame["hulls"]
        assert {tuple(corner) for corner in hull} == {(5, 5), (-5, 5), (-5, -5), (5, -5)}
        assert frame["counts"] == [20_000]
        assert all(low < -5 < 5 < high for low, high in frame["limits"])


def test_the_hull_of_each_frame_holds_all_tokens(
    frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of 20,000 tokens few are followed, and of each cluster one has a ring: the hull is that of all of them."""
    monkeypatch.setattr("attnflow.figures.scene.NUMBERS", 50_000)
    rng = np.random.default_rng(5)
    x, corners = outliers(20_000, 2), 2 * af.tokens.polygon(5)
    met = corners[rng.integers(5, size=20_000)] + 0.02 * rng.standard_normal((20_000, 2)).clip(-2, 2)
    run_of(x, met).animate(tmp_path / "run.gif", seconds=0.4)
    moving = [frame for frame in frames if frame["now"]]
    assert len(moving) > 3
    # The end is held.
    last = len(frames) - frames.count(frames[-1])
    for k, frame in enumerate(frames[: last + 1]):
        part = k / last
        tokens = (1 - part) * x + part * met
        (hull,) = frame["hulls"] if k == 0 else frame["ends"] if k == last else frame["now"]
        line = np.asarray(hull)
        along = np.diff(line, axis=0)
        # No token is on the other side of any edge, and every corner is a token.
        side = along[:, 0] * (tokens[:, None, 1] - line[:-1, 1]) - along[:, 1] * (tokens[:, None, 0] - line[:-1, 0])
        assert side.min() > -1e-9
        assert np.abs(tokens[:, None] - line).sum(axis=2).min(axis=0).max() < 1e-9


@pytest.mark.parametrize("d", [1, 2, *(pytest.param(d, marks=larger) for d in (3, 4))])
def test_movies_of_few_and_of_very_many_tokens_are_drawn_alike(
    d: int, frames: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    x, corners = outliers(3_101, d), np.concatenate([np.eye(d), -np.eye(d)])
    run = run_of(x, np.repeat(corners, 3_101 // len(corners) + 1, axis=0)[:3_101])
    for most, name in ((10**9, "whole.gif"), (10_000, "in turn.gif")):
        monkeypatch.setattr("attnflow.figures.scene.NUMBERS", most)
        run.animate(tmp_path / name, seconds=0.1)
    half = len(frames) // 2
    assert frames[:half] == frames[half:]
    assert (tmp_path / "whole.gif").read_bytes() == (tmp_path / "in turn.gif").read_bytes()
    assert frames[-1]["title"] == f"{2 * d} clusters at step 1"


def test_dashboards_of_crowds_measure_what_needs_no_pairs() -> None:
    x0 = af.tokens.gaussian(n=25_000, d=2, seed=0)
    run = af.simulate(x0, af.Softmax(beta=1.0), af.Layers(gamma=0.5), until=6)
    axes: dict[str, Any] = {ax.get_title(): ax for ax in figures.dashboard(run).axes}
    assert axes["diameter"].lines[0].get_ydata()[-1] == af.measure.diameter(run.final)
    energy = axes["interaction energy"].lines[0].get_ydata()[-1]
    assert energy == pytest.approx(af.measure.energy(run.final, 1.0), rel=1e-9)
    assert axes["clusters"].get_ylabel() == "places with 1% of the tokens"
    assert axes["clusters"].lines[0].get_ydata()[0] == 0


def test_a_picture_of_a_run_in_dask_shows_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tokens if they are few; of many a random sample, with the exact hulls of the start and the end."""
    dask = pytest.importorskip("dask")
    monkeypatch.setattr(samples, "MOST", 50)
    with dask.config.set(scheduler="synchronous"):
        x = af.tokens.gaussian(n=400, d=2, seed=0, chunks=(150, 250))
        run = af.simulate(x, af.Hardmax(), af.Layers(alpha=0.5), until=2)
        few, says = samples.sample(run)
        title = run.plot().get_title()
        with refused("cells need all tokens, but only a sample"):
            run.plot(cells=True)
        alone = af.simulate(x.compute(), af.Hardmax(), af.Layers(alpha=0.5), until=2)
        all_of_them = samples.sample(af.simulate(x[:50], af.Hardmax(), af.Layers(alpha=0.5), until=2))
    assert title.endswith("at step 2\na random sample (seed 0) of 400 tokens")
    assert title.endswith(says)
    assert 50 <= len(few.final) <= 50 + 40
    for k in (0, -1):
        np.testing.assert_allclose(af.geometry.hull(few.tokens[k]).vertices, af.geometry.hull(alone.tokens[k]).vertices)
    assert all_of_them[0].tokens.shape == (3, 50, 2)
    assert all_of_them[1] == ""
    # A density counts the tokens of the sample, and says so.
    monkeypatch.setattr("attnflow.figures.scene.CROWD", 40)
    with dask.config.set(scheduler="synchronous"):
        density = by_gid(run.plot(), DENSITY)
    assert density.get_array().sum() == len(few.final)
    assert density.colorbar.ax.get_ylabel() == "tokens of the sample in a cell"


def test_clusters_of_many_tokens_are_counted_where_they_are_at_few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.repeat(np.array([[0.0, 0.0], [1.0, 1.0]]), [3, 2], axis=0)
    found = groups._of_many(x, 0.1)
    assert found is not None
    assert found.sizes.tolist() == [3, 2]
    assert groups._of_many(np.array([[0.0, 0.0], [1e12, 1e12]]), 1e-3) is None
    monkeypatch.setattr(groups, "COUNTED_ONE_BY_ONE", 1)
    assert groups._of_many(x, 0.1) is None


def test_a_sample_without_its_outermost_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*given: Any) -> Any:
        raise af.InputError("too many")

    monkeypatch.setattr("attnflow.figures.samples.in_chunks.outermost", refusing)
    assert samples._outermost(np.zeros((3, 2))).tolist() == []
