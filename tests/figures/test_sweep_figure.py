"""What the picture of a sweep shows: values, means and their intervals, scales, and cells that failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray
from refusals import refused

import attnflow as af
from attnflow import figures
from attnflow.figures.sweep_values import study

matplotlib.use("Agg")
pytestmark = pytest.mark.usefixtures("figures_closed")
BETA, N = np.linspace(0.5, 4.0, 8), np.array([8, 16, 32, 64])


def grid(axes: dict[str, Any], values: dict[str, Any], broken: Any = ()) -> xarray.Dataset:
    """A Dataset as a sweep returns it; the cells at these indices failed."""
    failed = np.full([len(along) for along in axes.values()], "", dtype="<U40")
    data = {name: np.array(np.broadcast_to(given, failed.shape), dtype=np.float64) for name, given in values.items()}
    for place in broken:
        failed[place] = "beta is too large"
        for given in data.values():
            given[place] = np.nan
    return xarray.Dataset({name: (tuple(axes), each) for name, each in {**data, "failed": failed}.items()}, axes)


def found(ax: Any, gid: str) -> Any:
    """The one thing with this gid on axes."""
    (one,) = [child for child in ax.get_children() if child.get_gid() == gid]
    return one


def cells(ax: Any) -> Any:
    """The numbers of a heat map, (k, m), masked where there is none."""
    drawn = found(ax, "cells")
    rows, columns = (size - 1 for size in drawn.get_coordinates().shape[:2])
    return drawn.get_array().reshape(rows, columns).T


def panels(figure: Any) -> list[Any]:
    return [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]


def bar_of(figure: Any) -> Any:
    (bar,) = [ax for ax in figure.axes if ax.get_label() == "<colorbar>"]
    return bar


def test_one_axis_is_a_line_in_the_order_of_its_numbers() -> None:
    figure = figures.sweep(grid({"law.beta": [3.0, 1.0, 2.0]}, {"end_time": [30.0, 10.0, 20.0]}))
    (ax,) = panels(figure)
    np.testing.assert_array_equal(found(ax, "values").get_xydata(), [[1, 10], [2, 20], [3, 30]])
    assert (ax.get_xlabel(), ax.get_ylabel(), figure.get_supxlabel()) == (r"$\beta$", "end time", "")
    assert ax.get_xscale() == ax.get_yscale() == "linear"


def test_two_axes_are_a_heat_map_with_the_first_from_left_to_right() -> None:
    counts = np.arange(8)[:, None] // 2 + np.arange(4) % 2
    figure: Any = figures.sweep(grid({"beta": BETA, "n": N}, {"clusters": counts}, [(3, 2), (0, 0)]))
    (ax,) = panels(figure)
    drawn = cells(ax)
    assert set(map(tuple, np.argwhere(np.ma.getmaskarray(drawn)))) == {(3, 2), (0, 0)}
    np.testing.assert_array_equal(drawn.compressed(), np.ma.array(counts, mask=drawn.mask).compressed())
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "log")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["8", "16", "32", "64"]
    # Where cells failed, these cells are hatched, and counted.
    hatched = found(ax, "failed")
    assert hatched.get_hatch()
    boxes = [path.get_extents() for path in hatched.get_paths()]
    inside = {(i, j) for i, b in enumerate(BETA) for j, n in enumerate(N) for box in boxes if box.contains(b, n)}
    assert inside == {(3, 2), (0, 0)}
    assert figure.get_supxlabel() == "2 of 32 cells failed (hatched)"
    # Whole numbers have a colour each, and a tick in its middle.
    np.testing.assert_array_equal(bar_of(figure).get_yticks(), np.arange(5))
    assert len({tuple(colour) for colour in found(ax, "cells").to_rgba(np.arange(5))}) == 5
    assert tuple(found(ax, "cells").to_rgba(2.4)) == tuple(found(ax, "cells").to_rgba(1.6))


def test_three_axes_are_panels_of_the_shortest_on_one_scale() -> None:
    values = BETA[:, None, None] * np.arange(1, 4)[:, None] + 100.0 * N
    figure = figures.sweep(grid({"beta": BETA, "k": [3, 4, 5], "n": N}, {"energy": values}))
    drawn = panels(figure)
    assert [ax.get_title() for ax in drawn] == ["$k$ = 3", "$k$ = 4", "$k$ = 5"]
    for k, ax in enumerate(drawn):
        np.testing.assert_allclose(cells(ax), values[:, k])
        assert found(ax, "cells").get_clim() == (values.min(), values.max())
    assert [ax.get_ylabel() for ax in drawn] == ["$n$", "", ""]
    assert bar_of(figure).get_ylabel() == "energy"


def test_variables_have_a_panel_each_and_show_chooses() -> None:
    data = grid({"beta": BETA}, {"clusters": 3.0, "diameter": np.exp(-3 * BETA), "rank": 2.0})
    data["tokens"] = (("beta", "tokens_0"), np.zeros((8, 5)))
    figure = figures.sweep(data)
    assert [ax.get_ylabel() for ax in panels(figure)] == ["clusters", "diameter", "rank"]
    assert [ax.get_yscale() for ax in panels(figure)] == ["linear", "log", "linear"]
    assert "arrays are left out: tokens" in figure.get_supxlabel()
    (ax,) = panels(figures.sweep(data, "rank"))
    assert ax.get_ylabel() == "rank"
    assert [ax.get_ylabel() for ax in panels(figures.sweep(data, ["rank", "clusters"]))] == ["rank", "clusters"]
    (ax,) = panels(figures.sweep(data.isel(tokens_0=2), "tokens"))
    np.testing.assert_array_equal(found(ax, "values").get_ydata(), 0.0)
    rows = grid({"beta": BETA, "n": N, "k": [3, 4]}, {"clusters": 3.0, "energy": BETA[:, None, None]})
    figure = figures.sweep(rows)
    assert [ax.get_title() for ax in panels(figure)] == ["$k$ = 3", "$k$ = 4", "", ""]
    assert sorted({ax.get_ylabel() for ax in figure.axes}) == ["", "$n$", "clusters", "energy"]


def test_seeds_are_averaged_and_what_failed_is_left_out_of_means() -> None:
    draws = np.random.default_rng(0).exponential(size=(8, 20))
    broken = [(2, slice(None)), (5, slice(0, 15)), (6, slice(0, 19))]
    data = grid({"beta": BETA, "seed": range(20)}, {"waiting": draws}, broken)
    figure: Any = figures.sweep(data)
    (ax,) = panels(figure)
    means = [np.nan if k == 2 else draws[k, {5: 15, 6: 19}.get(k, 0) :].mean() for k in range(8)]
    np.testing.assert_allclose(found(ax, "values").get_ydata(), means)
    np.testing.assert_allclose(found(ax, "part").get_xdata(), BETA[[5, 6]])
    assert found(ax, "failed").get_xdata().tolist() == [BETA[2]]
    assert found(ax, "failed").get_markerfacecolor() == found(ax, "part").get_markerfacecolor() == "#FFFFFF"
    said = figure.get_supxlabel().replace("\n", " ")
    assert said == (
        "means of 20 seeds with 95 per cent intervals, none for fewer than 5; 54 of 160 cells failed (hollow, on the "
        "axis if no value is left)"
    )
    # The band is that of the means: of one value there is none.
    shown = study(data, None, None, None).values[0]
    ends = np.concatenate([path.vertices for path in found(ax, "intervals").get_paths()])
    for k in (0, 1, 3, 4, 5, 7):
        at = ends[ends[:, 0] == BETA[k], 1]
        np.testing.assert_allclose([at.min(), at.max()], [shown.low[0, 0, k, 0], shown.high[0, 0, k, 0]])
        assert at.min() < means[k] < at.max()
    assert not {BETA[2], BETA[6]} & set(ends[:, 0])
    # Every seed by itself, if asked for, and means over another axis.
    assert cells(panels(figures.sweep(data, average=()))[0]).shape == (8, 20)
    (ax,) = panels(figures.sweep(data, average="beta"))
    np.testing.assert_allclose(found(ax, "values").get_ydata()[0], draws[[0, 1, 3, 4, 7], 0].mean())


def test_fewer_than_five_seeds_have_no_intervals_and_the_caption_says_so() -> None:
    draws = np.random.default_rng(0).exponential(size=(8, 5))
    for seeds, says in ((4, "means of 4 seeds, no intervals for fewer than 5"), (5, "means of 5 seeds with 95")):
        figure: Any = figures.sweep(grid({"beta": BETA, "seed": range(seeds)}, {"waiting": draws[:, :seeds]}))
        assert figure.get_supxlabel().startswith(says)
        assert ("intervals" in [child.get_gid() for child in panels(figure)[0].get_children()]) == (seeds == 5)


def test_a_band_that_goes_below_a_logarithmic_panel_is_cut_at_its_end() -> None:
    values = np.array([[1e4], [1e2], [1.0]]) * np.array([0.1, 0.2, 0.3, 0.4, 4.0])  # the interval of the mean holds 0
    values[0] = 1e4
    data = grid({"beta": [1.0, 2.0, 3.0], "seed": range(5)}, {"x": values})
    shown = study(data, None, None, None).values[0]
    assert shown.low[0, 0, 1, 0] < 0 < shown.high[0, 0, 1, 0]
    for given in (data, data.assign_coords(beta=["a", "b", "c"])):
        figure: Any = figures.sweep(given)
        (ax,) = panels(figure)
        bottom, top = ax.get_ylim()
        assert ax.get_yscale() == "log"
        assert 0 < bottom < shown.mean.min() < shown.high.max() < top
        ends = np.concatenate([path.vertices for path in found(ax, "intervals").get_paths()])
        assert np.isclose(ends[:, 1].min(), bottom)
        assert figure.get_supxlabel().endswith("with 95 per cent intervals, cut where they go below the panel")
    # Panels of a variable have one scale, which holds all of it.
    rows = values[:, None, None] * np.array([1.0, 10.0, 1000.0])[:, None]
    data = grid({"beta": [1, 2, 3], "n": [8, 9], "k": [1, 2, 3], "seed": range(5)}, {"x": rows})
    drawn = panels(figures.sweep(data, lines="n"))
    assert {ax.get_ylim() for ax in drawn} == {drawn[0].get_ylim()}
    assert drawn[0].get_ylim()[1] > 1e7


@pytest.mark.parametrize("law", ["exponential", "poisson", "standard_normal"])
def test_intervals_hold_the_expected_value_95_times_in_100(law: str) -> None:
    rng = np.random.default_rng(1)
    draws: dict[str, Any] = {"poisson": rng.poisson, "exponential": rng.exponential}
    size = (1500, 12)
    values = draws[law](3.0, size) if law in draws else 3.0 + rng.standard_normal(size)
    shown = study(grid({"trial": range(1500), "seed": range(12)}, {"x": values}), None, None, None).values[0]
    held = ((shown.low <= 3) & (shown.high >= 3)).mean()
    assert 0.93 < held < 0.97
    assert (shown.low < shown.mean).all()
    assert (shown.mean < shown.high).all()


def test_means_in_a_heat_map_have_rings_where_cells_failed_and_their_errors_below() -> None:
    values = np.arange(20.0) + np.zeros((8, 4, 1))
    figure = figures.sweep(grid({"beta": BETA, "n": N, "seed": range(20)}, {"x": values}, [(1, 2, 0), (3, 3)]))
    (ax,) = panels(figure)
    np.testing.assert_array_equal(found(ax, "part").get_offsets(), [[BETA[1], N[2]]])
    assert cells(ax)[1, 2] == 10.0
    assert len(found(ax, "failed").get_paths()) == 1
    error = np.arange(20).std(ddof=1) / np.sqrt(20)
    assert figure.get_supxlabel().startswith(f"means of 20 seeds, standard errors up to {error:.2g}; 21 of 640 cells")


def test_lines_of_an_axis_are_told_apart_by_colour_and_mark() -> None:
    values = BETA[:, None, None] * N[:, None] + np.zeros(5)
    data = grid({"beta": BETA, "n": N, "seed": range(5)}, {"x": values}, [(2, 1)])
    figure = figures.sweep(data, lines="n")
    (ax,) = panels(figure)
    drawn = [line for line in ax.lines if line.get_gid() == "values"]
    for line, n in zip(drawn, N, strict=True):
        good = np.isfinite(np.asarray(line.get_ydata(), dtype=float))
        np.testing.assert_allclose(np.asarray(line.get_ydata())[good], (BETA * n)[good])
    assert len({line.get_color() for line in drawn}) == len({line.get_marker() for line in drawn}) == 4
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [f"$n$ = {n}" for n in N]
    assert found(ax, "failed").get_markeredgecolor() == drawn[1].get_color()


def test_words_are_at_equal_distances_and_so_are_infinity_and_zero_before_decades() -> None:
    (ax,) = panels(figures.sweep(grid({"law": ["softmax", "hardmax"], "seed": range(9)}, {"x": np.arange(9)})))
    assert [label.get_text() for label in ax.get_xticklabels()] == ["softmax", "hardmax"]
    line = found(ax, "values")
    np.testing.assert_array_equal(line.get_xydata(), [[0, 4], [1, 4]])
    assert line.get_linestyle() == "None"  # nothing is between two words
    (ax,) = panels(figures.sweep(grid({"law": ["softmax", "hardmax"], "n": N}, {"x": 1.0}), lines="n"))
    beside = np.array([line.get_xdata() for line in ax.lines])  # side by side, around their words
    assert (np.diff(beside, axis=0) > 0.05).all()
    np.testing.assert_allclose(beside.mean(axis=0), [0, 1], atol=1e-12)
    for numbers, words in (([0.0, 0.1, 1.0, 10.0], ["0", "0.1", "1", "10"]), ([np.inf, 2.0], ["2", r"$\infty$"])):
        (ax,) = panels(figures.sweep(grid({"beta": numbers}, {"x": range(len(numbers))})))
        assert [label.get_text() for label in ax.get_xticklabels()] == words
    (ax,) = panels(figures.sweep(grid({"beta": np.geomspace(0.1, 100, 9)}, {"x": range(9)})))
    assert ax.get_xscale() == "log"


def ticks(ax: Any, which: str) -> dict[float, str]:
    """The numbers at the ticks of an axis that are in sight."""
    side = getattr(ax, f"{which}axis")
    low, high = side.get_view_interval()
    at = zip(side.get_majorticklocs(), side.get_majorticklabels(), strict=True)
    return {float(place): text.get_text() for place, text in at if low <= place <= high}


def test_axes_with_few_numbers_have_ticks_at_these_and_at_no_others() -> None:
    (ax,) = panels(figures.sweep(grid({"delta": [0.05, 0.1, 0.3], "n": [24, 48]}, {"x": np.arange(6).reshape(3, 2)})))
    assert (ticks(ax, "x"), ticks(ax, "y")) == ({0.05: "0.05", 0.1: "0.1", 0.3: "0.3"}, {24: "24", 48: "48"})
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "linear")
    # A factor of four is enough for a logarithmic axis if logarithms are evenly spaced, and values are not.
    for numbers, scale in (([8, 16, 32], "log"), ([8, 16, 24], "linear"), ([8, 16, 28], "linear")):
        (ax,) = panels(figures.sweep(grid({"n": numbers}, {"x": range(3)})))
        assert (ax.get_xscale(), ticks(ax, "x")) == (scale, {n: str(n) for n in numbers})
        assert len(ax.get_xticks(minor=True)) == 0
    # Long numbers are rounded; where numbers have no room, ticks stay.
    (ax,) = panels(figures.sweep(grid({"beta": np.linspace(0.1, 1.0, 8)}, {"x": range(8)})))
    assert list(ticks(ax, "x").values()) == ["0.1", "0.23", "0.36", "0.49", "0.61", "0.74", "0.87", "1"]
    (ax,) = panels(figures.sweep(grid({"beta": [0.0, 0.1, 3.1]}, {"x": range(3)})))
    assert ticks(ax, "x") == {0.0: "0", 0.1: "", 3.1: "3.1"}


def test_a_logarithmic_axis_with_many_numbers_has_no_tick_beyond_them() -> None:
    for beta, expected in ((np.geomspace(0.1, 100, 20), [0.1, 1, 10, 100]), (np.geomspace(1.5, 19, 12), [2, 5, 10])):
        for data in (grid({"beta": beta}, {"x": range(len(beta))}), grid({"beta": beta, "n": N}, {"x": 1.0})):
            (ax,) = panels(figures.sweep(data))
            assert ax.get_xscale() == "log"
            np.testing.assert_allclose(list(ticks(ax, "x")), expected)
    # Few points of a design are in any order: their numbers are where they say.
    data = grid({"point": range(4)}, {"x": [4.0, 1.0, 3.0, 2.0]}).assign_coords(beta=("point", [8.0, 1.0, 64.0, 2.0]))
    (ax,) = panels(figures.sweep(data))
    assert ticks(ax, "x") == {1: "1", 2: "2", 5: "5", 10: "10", 20: "20", 50: "50"}


def test_points_of_a_design_are_dots_over_one_or_two_coordinates() -> None:
    rng = np.random.default_rng(0)
    beta, gamma = rng.uniform(0.1, 9.0, 30), 10 ** rng.uniform(-4.0, 0.0, 30)
    data = grid({"point": range(30)}, {"x": beta + 0.5}, [(4,), (7,)])
    data = data.assign_coords(beta=("point", beta), gamma=("point", gamma))
    figure: Any = figures.sweep(data)
    (ax,) = panels(figure)
    good = np.delete(np.arange(30), [4, 7])
    np.testing.assert_allclose(found(ax, "dots").get_offsets(), np.stack([beta, gamma], axis=1)[good])
    np.testing.assert_allclose(found(ax, "dots").get_array(), beta[good] + 0.5)
    np.testing.assert_allclose(found(ax, "failed").get_offsets(), np.stack([beta, gamma], axis=1)[[4, 7]])
    assert len(found(ax, "failed").get_facecolor()) == 0  # hollow
    assert figure.get_supxlabel() == "2 of 30 cells failed (hollow)"
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "log")
    (ax,) = panels(figures.sweep(data.drop_vars("gamma")))
    np.testing.assert_allclose(found(ax, "values").get_xydata()[good], np.stack([beta, beta + 0.5], axis=1)[good])
    with refused(r"coordinates beta, gamma, delta, expected two at most.*drop_vars\(\['delta'\]\)"):
        figures.sweep(data.assign_coords(delta=("point", beta)))


def test_an_axis_with_one_value_and_a_selected_one_are_named_below() -> None:
    data = grid({"beta": BETA, "n": [8], "k": [3, 4]}, {"x": BETA[:, None, None]})
    figure = figures.sweep(data.sel(k=4))
    (ax,) = panels(figure)
    np.testing.assert_array_equal(found(ax, "values").get_xdata(), BETA)
    assert sorted(figure.get_supxlabel().split("; ")) == ["$k = 4$", "$n = 8$"]
    (ax,) = panels(figures.sweep(grid({"beta": [1.0], "seed": range(5)}, {"x": range(5)})))
    np.testing.assert_array_equal(found(ax, "values").get_ydata(), range(5))


def test_axes_of_ones_own_get_the_picture_and_its_caption() -> None:
    figure, (left, right) = plt.subplots(1, 2)
    data = grid({"beta": BETA, "n": N}, {"x": BETA[:, None]}, [(0, 0)])
    assert figures.sweep(data, ax=left) is figure
    assert cells(left).shape == (8, 4)
    assert left.get_title() == "1 of 32 cells failed (hatched)"
    assert not right.get_children()[0].get_gid()
    with refused("the picture has 4: leave ax out"):
        figures.sweep(grid({"beta": BETA, "n": N, "k": range(9)}, {"x": 1.0}), ax=right)
    with refused("expected axes of Matplotlib"):
        figures.sweep(data, ax=3)  # type: ignore[arg-type]


def test_a_store_is_drawn_as_it_grows(tmp_path: Path) -> None:
    """What a sweep returned, and its store: cells that have not run yet are hatched too."""

    def cell(beta: float, n: int) -> dict[str, float]:
        if n == 16 and beta < 1:
            raise ValueError("the tokens are too warm")
        return {"clusters": n // 8 + round(beta), "diameter": 1 / beta}

    kept = tmp_path / "s.zarr"
    data = af.sweep(cell, over={"beta": BETA, "n": N}, store=kept, on="here")
    figure = figures.sweep(data, "clusters")
    assert figure.get_supxlabel() == "1 of 32 cells failed (hatched)"
    with xarray.open_zarr(kept, consolidated=False) as stored:
        half = stored.load()
    assert figures.sweep(half, "clusters").get_supxlabel() == figure.get_supxlabel()
    for name, value in (("clusters", np.nan), ("diameter", np.nan), ("finished", False)):
        half[name][4:] = value
    assert len(panels(figures.sweep(half))) == 2  # whether a cell has run is no value
    again = figures.sweep(half, "clusters")
    assert again.get_supxlabel() == "1 of 32 cells failed, 16 have not run yet (hatched)"
    np.testing.assert_array_equal(cells(panels(again)[0])[:4].filled(-1), cells(panels(figure)[0])[:4].filled(-1))


@pytest.mark.parametrize("dark", [False, True])
def test_hatches_and_hollow_marks_have_the_colour_of_the_paper(dark: bool) -> None:
    from matplotlib.colors import to_hex

    paper = "#14171c" if dark else "#ffffff"
    with figures.look(dark=dark):
        heat = figures.sweep(grid({"beta": BETA, "n": N}, {"x": 1.5}, [(0, 0)]))
        line = figures.sweep(grid({"beta": BETA}, {"x": 1.5}, [0]))
    assert to_hex(found(panels(heat)[0], "failed").get_facecolor()[0]) == paper
    assert found(panels(line)[0], "failed").get_markerfacecolor().lower() == paper


GOOD = grid({"beta": BETA, "n": N}, {"x": 1.0})
FOUR = grid({"a": [1, 2], "b": [1, 2], "c": [1, 2], "d": [1, 2]}, {"x": 1.0})


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (3, {}, r"of type int, expected what af.sweep\(cell, over\) returned"),
        (GOOD["x"], {}, "dataset is a DataArray, expected a Dataset: give what af.sweep returned, and show='x'"),
        (GOOD[["failed"]], {}, "no numbers to draw"),
        (grid({"n": N}, {}, [slice(None)]), {}, "all 4 cells have failed, the first with 'beta is too large'"),
        (GOOD.isel(n=slice(0, 0)), {}, "its axis 'n' is empty"),
        (GOOD.isel(n=0, beta=0), {}, "no axis with two values or more"),
        (GOOD, {"show": "y"}, "show is 'y', expected one of x"),
        (GOOD, {"show": []}, "show is [], expected a name or a list of names"),
        (GOOD, {"average": "seed"}, "average is 'seed', expected one of beta, n"),
        (GOOD, {"average": ["n", "beta"]}, "leaves no axis to draw over"),
        (GOOD, {"lines": "k"}, "lines is 'k', expected one of beta, n"),
        (GOOD.isel(beta=0), {"lines": "n"}, "lines is 'n', which leaves no axis to draw over"),
        (grid({"n": range(9), "beta": BETA}, {"x": 1.0}), {"lines": "n"}, "'n' has 9 values, but there is room for 8"),
        (grid({"a": range(30), "b": range(30), "c": range(30)}, {"x": 1.0}), {}, "room for 24 panels: select some"),
        (FOUR, {}, r"4 axes to draw, a, b, c, d, expected 3 at most: select one value, as dataset.isel\({'d': 0}\)"),
        (GOOD.assign(x=GOOD.x * 1j), {}, "'x' is complex, expected real numbers"),
        (GOOD.assign(x=GOOD.x * np.nan), {}, "no value of 'x' is a finite number: correct"),
        (grid({"n": N}, {"x": 1.0}, [slice(None)]), {}, "all 4 cells have failed, the first with 'beta is too large'"),
        (
            xarray.Dataset({"x": (("n", "x_0", "x_1"), np.zeros((4, 2, 2)))}, {"n": N}),
            {},
            r"'x' is an array in each cell, expected a number: choose an entry, as dataset.isel\(x_0=0, x_1=0\)",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(given: Any, options: dict[str, Any], said: str) -> None:
    with refused(said):
        figures.sweep(given, **options)
    assert not plt.get_fignums()


def test_long_words_are_turned_so_that_they_do_not_overlap() -> None:
    short, long = (
        figures.sweep(xarray.Dataset({"clusters": ("law", np.arange(4.0))}, {"law": [f"{k}{word}" for k in range(4)]}))
        for word in ("", " a law with a very long name")
    )
    assert {tick.get_rotation() for tick in short.axes[0].get_xticklabels()} == {0.0}
    assert {tick.get_rotation() for tick in long.axes[0].get_xticklabels()} == {30.0}


def test_more_panels_than_can_be_read_are_refused() -> None:
    values = {f"number {k}": ("beta", np.arange(3.0)) for k in range(99)}
    with refused("the picture would have 99 panels, expected .* at most: choose with show"):
        figures.sweep(xarray.Dataset(values, {"beta": np.arange(3.0)}))


def test_lines_in_axes_of_ones_own_have_their_key_there() -> None:
    ax: Any = plt.figure().subplots()
    data = xarray.Dataset({"clusters": (("beta", "n"), np.ones((3, 2)))}, {"beta": [1.0, 2.0, 3.0], "n": [4, 5]})
    figures.sweep(data, lines="n", ax=ax)
    (key,) = [one for one in ax.get_children() if type(one).__name__ == "Legend"]
    assert [text.get_text() for text in key.get_texts()] == ["$n$ = 4", "$n$ = 5"]
    plt.close(ax.figure)


def test_a_point_of_a_design_with_some_seeds_left_has_a_ring() -> None:
    beta, gamma = np.array([1.0, 2.0, 4.0]), np.array([0.3, 0.1, 0.2])
    data = grid({"point": range(3), "seed": range(4)}, {"x": beta[:, None]}, [(1, 0)])
    data = data.assign_coords(beta=("point", beta), gamma=("point", gamma))
    (ax,) = panels(figures.sweep(data))
    np.testing.assert_allclose(found(ax, "part").get_offsets(), [[2.0, 0.1]])
    with refused("lines is 'seed', but points of a design have no lines: leave it out"):
        figures.sweep(data, lines="seed", average=[])
