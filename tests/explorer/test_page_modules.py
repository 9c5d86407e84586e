"""What the page computes by itself, in Chromium: films, projections, hulls and ticks, against NumPy and SciPy."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from modules import FOLDER, importing
from scipy.spatial import ConvexHull, distance_matrix
from scipy.spatial.transform import Rotation

from attnflow.figures.style import DARK, LIGHT, colours, look, shades

Page = Any


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with importing() as page:
        yield page


def ask(page: Page, module: str, body: str, given: Any = None) -> Any:
    """Return what a JavaScript expression says, with the module as `m` and what is given as `g`."""
    return page.evaluate(f"async (g) => {{ const m = await import('/page/{module}.js'); return ({body}); }}", given)


def test_the_colours_are_those_of_the_figures(page: Page) -> None:
    for name, tone in (("LIGHT", LIGHT), ("DARK", DARK)):
        here = ask(page, "colours", f"m.{name}")
        shown = {key: tuple(value) if isinstance(value, list) else value for key, value in here.items()}
        assert shown == {**vars(tone), "shades": shades(tone)}
        with look(dark=tone is DARK):
            there = colours(range(30))
        assert ask(page, "colours", f"Array.from({{length: 30}}, (_, k) => m.colour(k, m.{name}))") == there


FILM = """async ([times, frames, d, what, given]) => {
    const { createPlayer } = await import('/page/player.js');
    const player = createPlayer();
    player.clear(5, frames[0].length / d, d);
    const half = Math.ceil(times.length / 2);
    for (const [first, count] of [[0, half], [half, times.length - half]])
        player.append({ id: 5, first, count, times: times.slice(first, first + count) },
                    Float64Array.from(frames.slice(first, first + count).flat()));
    player.append({ id: 4, first: times.length, count: 1, times: [1e9] }, new Float64Array(frames[0].length));
    player.done = true;
    return eval(what)(player, given);
}"""


def player(page: Page, times: Any, frames: Any, what: str, given: Any = None) -> Any:
    """Return what a function of a player, filled in two parts and by a stranger, says."""
    rows = np.reshape(frames, (len(times), -1)).tolist()
    return page.evaluate(FILM, [list(times), rows, np.shape(frames)[-1], what, given])


@pytest.fixture
def run() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    times = np.concatenate([[0.0], np.cumsum(rng.uniform(0.1, 3.0, 11))])
    return times, rng.standard_normal((12, 5, 2))


def test_between_frames_tokens_are_in_proportion(page: Page, run: tuple[Any, Any]) -> None:
    times, frames = run
    assert player(page, times, frames, "(f) => [f.count, f.n, f.d]") == [12, 5, 2]
    for position in (0.0, 3.0, 3.25, 10.9, 11.0):
        said = player(page, times, frames, "(f, p) => { f.seek(p); return [...f.positions(), f.time()]; }", position)
        k, part = min(int(position), 10), position - min(int(position), 10)
        assert np.allclose(said[:-1], ((1 - part) * frames[k] + part * frames[k + 1]).ravel())
        assert said[-1] == pytest.approx(np.interp(position, np.arange(12), times))
    moments = np.linspace(-1.0, times[-1] + 1, 50)
    found = player(page, times, frames, "(f, all) => all.map(f.at)", moments.tolist())
    assert np.allclose(found, np.interp(moments, times, np.arange(12)))


def test_the_box_of_a_film(page: Page, run: tuple[Any, Any]) -> None:
    times, frames = run
    box = player(page, times, frames, "(f) => f.box")
    assert np.array_equal(box["low"], frames.min(axis=(0, 1)))
    assert np.array_equal(box["high"], frames.max(axis=(0, 1)))


@pytest.mark.parametrize("clock", ["linear", "log"])
def test_a_film_plays_evenly_on_its_clock(page: Page, run: tuple[Any, Any], clock: str) -> None:
    times, frames = run
    what = """(f, clock) => { f.clock = clock; f.play(); const said = [];
        for (let k = 0; k < 60; k++) { said.push(f.time()); f.tick(0.1); } return [said, f.playing, f.position]; }"""
    said, playing, position = player(page, times, frames, what, clock)
    # Twelve frames take four seconds.
    shown = np.minimum(np.arange(60) / 40, 1.0)
    end = times[-1]
    expected = end * shown if clock == "linear" else (1 + end) ** shown - 1
    assert np.allclose(said, expected)
    assert not playing
    assert position == 11
    there_and_back = "(f, [c, all]) => { f.clock = c; return all.map((s) => (f.seekFraction(s), f.fraction())); }"
    parts = [0, 0.1, 0.5, 0.93, 1]
    assert np.allclose(player(page, times, frames, there_and_back, [clock, parts]), parts)


def test_steps_go_to_whole_frames(page: Page, run: tuple[Any, Any]) -> None:
    what = "(f, [from, by]) => { f.seek(from); f.step(by); return f.position; }"
    for start, by, end in ((2.5, 1, 3), (2.5, -1, 2), (2, 1, 3), (2, -1, 1), (0, -1, 0), (11, 1, 11)):
        assert player(page, *run, what, [start, by]) == end


def test_a_discrete_film_rests_at_frames_only(page: Page, run: tuple[Any, Any]) -> None:
    # Every third step is recorded.
    times, frames = list(range(0, 36, 3)), run[1]
    said = "[f.position, f.time(), ...f.positions()]"
    moves = {
        "f.seek(4.4)": 4,
        "f.seekFraction(0.25)": 3,
        "f.seek(f.at(20))": 7,
        "(f.play(), f.tick(0.9), f.pause())": round(0.9 / 4 * 11),
    }
    for move, k in moves.items():
        found = player(page, times, frames, f"(f) => {{ f.discrete = true; {move}; return {said}; }}")
        assert found == [k, 3 * k, *frames[k].ravel()]
    # While it plays tokens go on evenly, but the step that is told is one of the run.
    what = f"(f) => {{ f.discrete = true; f.play(); f.tick(0.9); return [...{said}, f.exactTime()]; }}"
    position, told, *tokens, moment = player(page, times, frames, what)
    assert position == pytest.approx(0.9 / 4 * 11)
    assert told == 6
    assert moment == pytest.approx(3 * position)
    assert np.allclose(tokens, (frames[2] + (position - 2) * (frames[3] - frames[2])).ravel())


def test_hulls(page: Page) -> None:
    rng = np.random.default_rng(0)
    for n in (3, 10, 200):
        x = rng.standard_normal((n, 2))
        # SciPy's corners go counterclockwise as well; where they begin is of no matter.
        here, there = ask(page, "shapes", "m.hull(g)", x.ravel().tolist()), ConvexHull(x).vertices.tolist()
        turn = there.index(here[0])
        assert here == there[turn:] + there[:turn]
    assert sorted(ask(page, "shapes", "m.hull(g)", [0, 0, 1, 1, 2, 2, 3, 3])) == [0, 3]
    assert len(ask(page, "shapes", "m.hull(g)", [1, 2, 1, 2, 1, 2])) == 1


def test_an_outline_keeps_its_distance(page: Page) -> None:
    rng = np.random.default_rng(1)
    for n in (1, 2, 3, 9):
        x = rng.uniform(0, 100, (n, 2))
        outline = np.reshape(
            ask(page, "shapes", "m.around(g, [...Array(g.length / 2).keys()], 10)", x.ravel().tolist()), (-1, 2)
        )
        walls = np.linspace(outline, np.roll(outline, -1, axis=0), 21).reshape(-1, 2)
        # Points of the hull: convex combinations of the tokens, dense enough to measure distances to it.
        edges = np.linspace(x[:, None], x[None, :], 401).reshape(-1, 2)
        apart = distance_matrix(walls, edges).min(axis=1)
        assert apart.min() > 9.99
        assert apart.max() < 11
    area = ask(page, "shapes", "[m.area([0, 0, 3, 0, 3, 2, 0, 2]), m.area([0, 0, 0, 2, 3, 2, 3, 0])]")
    assert area == [6, -6]


def test_the_nearest_token(page: Page) -> None:
    rng = np.random.default_rng(2)
    x, hands = rng.uniform(0, 100, (40, 2)), rng.uniform(0, 100, (30, 2))
    found = ask(
        page, "shapes", "g[1].map(([u, v]) => m.nearest(g[0], 40, u, v, 9))", [x.ravel().tolist(), hands.tolist()]
    )
    distances = distance_matrix(hands, x)
    assert found == [int(row.argmin()) if row.min() <= 9 else -1 for row in distances]
    assert -1 in found
    assert len(set(found)) > 5


def test_tokens_that_met_are_counted(page: Page) -> None:
    x = np.random.default_rng(3).integers(-6, 6, (300, 2))
    many = Counter(map(tuple, x.tolist()))
    found = ask(page, "shapes", "[...m.met(g, 300, new Int32Array(300))]", (x + 0.3).ravel().tolist())
    assert found == [many[tuple(row)] for row in x.tolist()]


def test_boxes_hold_what_is_in_them_and_change_seldom(page: Page) -> None:
    rng = np.random.default_rng(4)
    changed = 0
    for _ in range(60):
        low = rng.normal(size=2) * 10 ** rng.uniform(-3, 3)
        high = low + np.exp(rng.normal(size=2))
        near = high + 0.01 * (high - low)
        one, other = ask(
            page, "boxes", "g.map(([low, high]) => m.roundedBox({low, high}))",
            [[low.tolist(), high.tolist()], [low.tolist(), near.tolist()]],
        )  # fmt: skip
        assert np.all(np.array(one["low"]) <= low + 1e-9)
        assert np.all(np.array(one["high"]) >= high - 1e-9)
        assert np.max(np.array(one["high"]) - one["low"]) < 1.5 * np.max(high - low)
        changed += one != other
    assert changed < 15
    point = ask(page, "boxes", "m.roundedBox({low: [3, 3], high: [3, 3]})")
    assert point["high"][0] > 3 > point["low"][0]


def test_ticks_are_all_round_numbers_between_the_ends(page: Page) -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        low = rng.normal() * 10 ** rng.uniform(-4, 4)
        high = low + 10 ** rng.uniform(-2, 4)
        found = np.array(ask(page, "ticks", "m.ticks(g[0], g[1], 6)", [low, high]))
        step = found[1] - found[0]
        lead = step / 10 ** math.floor(math.log10(step) + 1e-6)
        assert min(abs(lead - known) for known in (1, 2, 5)) < 1e-6
        assert np.allclose(found / step, np.round(found / step), atol=1e-6)
        assert low - 1e-6 * step <= found[0] < low + step
        assert high - step < found[-1] <= high + 1e-6 * step
        assert 2 <= len(found) <= 7
    assert ask(page, "ticks", "m.ticks(0, 0.3, 3)") == [0, 0.1, 0.2, 0.3]
    assert ask(page, "ticks", "m.decades(1e4)") == [0, 1, 10, 100, 1000, 10000]
    assert len(ask(page, "ticks", "m.decades(1e25)")) <= 9


@pytest.mark.parametrize(
    ("low", "high", "parts"),
    [(1.0, 1.0000000000000002, 4), (-1e300, 1e300, 1e12), (1000.0, 1000.0000000000002, 8), (1e16, 1e16 + 4, 5)],
)
def test_ticks_come_to_an_end(page: Page, low: float, high: float, parts: float) -> None:
    # Ticks that never end are counted, not waited for.
    counted = """((push) => { let n = 0; Array.prototype.push = function (...x) {
        if (++n > 1e4) throw new Error('ticks without end'); return push.apply(this, x); };
        try { return m.ticks(...g); } finally { Array.prototype.push = push; } })(Array.prototype.push)"""
    found = ask(page, "ticks", counted, [low, high, parts])
    assert len(found) <= 1000
    assert len(set(found)) == len(found)
    assert all(low <= value <= high for value in found)


@pytest.mark.parametrize("zoom", [1e13, 1e300, 0.0, -1.0])
def test_no_camera_is_absurd(page: Page, zoom: float) -> None:
    for at in (0.0, 1000.0, 1e6):
        plane = ask(page, "plane", "m.lens(g[0], 900, 600, {x: g[1], y: 0, zoom: g[2]})", [BOX, at, zoom])
        time = {"first": 0, "last": 1, "clock": "linear"}
        flat = {"low": [0.0], "high": [1.0]}
        line = ask(page, "line", "m.lens(g[0], 900, 600, {y: g[1], zoom: g[2]}, g[3])", [flat, at, zoom, time])
        for eye in (plane, line):
            assert 0 < eye["scale"] < 1e31
            # Neighbouring pixels are different numbers.
            assert at + 2 / eye["scale"] > at
    turned = ask(page, "space", "m.lens(g[0], 900, 600, {yaw: 0, pitch: 9, zoom: g[1]})", [CUBE, zoom])["turn"]
    assert turned["pitch"] < math.pi / 2
    assert 0 < turned["zoom"] < 1e5


def test_numbers_are_written_short(page: Page) -> None:
    values = [0, 0.5, -0.25, 1000, 2e6, 1e-9, -1e4, 123456, 0.000123]
    said = ["0", "0.5", "−0.25", "1000", "2 × 10⁶", "10⁻⁹", "−10⁴", "1.23 × 10⁵", "1.23 × 10⁻⁴"]
    assert ask(page, "ticks", "g.map((v) => m.written(v))", values) == said
    assert ask(page, "ticks", "m.place([0.5, -1])") == "(0.5, −1)"


BOX = {"low": [-1.0, 2.0], "high": [3.0, 4.0]}


@pytest.mark.parametrize(
    ("bounds", "text", "said"),
    [
        ({"above": 0}, "0", "number above 0."),
        ({"above": 0, "most": 1}, "0", "number above 0, up to 1."),
        ({"above": 0, "most": 1}, "1.5", "number above 0, up to 1."),
        ({"least": 0}, "-1", "number of at least 0."),
        ({"least": 0, "most": 1, "whole": True}, "2", "whole number from 0 to 1."),
        ({}, "x", "number."),
    ],
)
def test_a_number_out_of_bounds_is_refused(page: Page, bounds: Any, text: str, said: str) -> None:
    call = "(() => { try { return m.asNumber('h', g[0])(g[1]); } catch (error) { return error.message; } })()"
    assert ask(page, "fields", call, [bounds, text]) == f"h is \u201c{text}\u201d: give a {said}"
    assert ask(page, "fields", call, [bounds, "1"]) == 1


def test_the_plane_there_and_back(page: Page) -> None:
    eye = ask(page, "plane", "m.lens(g, 900, 600, null)", BOX)
    corners = [[-1, 2], [3, 4], [1, 3]]
    pixels = np.array(ask(page, "plane", "g[1].map((p) => m.point(g[0], p))", [eye, corners]))
    assert np.allclose(pixels[2], [450, 300])
    assert np.all(pixels > 0)
    assert np.all(pixels < [900, 600])
    # One scale on both axes, and y points up.
    assert np.allclose((pixels[1] - pixels[0]) / [4, 2], [eye["scale"], -eye["scale"]])
    assert np.allclose(ask(page, "plane", "g[1].map(([x, y]) => m.lift(g[0], x, y))", [eye, pixels.tolist()]), corners)
    on_circle = ask(page, "plane", "m.lift(g[0], 700, 100, null, true)", [eye])
    free = np.array(ask(page, "plane", "m.lift(g[0], 700, 100)", [eye]))
    assert np.allclose(on_circle, free / np.linalg.norm(free))
    # A camera says what is in the middle, and that a unit fits the shorter half so many times.
    assert ask(page, "plane", "m.lens(g, 900, 600, {x: 5, y: 6, zoom: 2})", BOX)["scale"] == 600
    again = ask(page, "plane", "m.lens(g[1], 900, 600, m.camera(g[0]))", [eye, BOX])
    assert again == pytest.approx(eye)


def test_the_plane_zooms_about_a_pixel_and_is_pulled(page: Page) -> None:
    turn = "(c) => m.lens(g, 900, 600, c)"
    eye = f"({turn})(null)"
    before, after = ask(
        page, "plane", f"[{eye}, ({turn})(m.zoomed({eye}, 200, 500, 3))].map((e) => m.lift(e, 200, 500))", BOX
    )
    assert np.allclose(before, after)
    scales = ask(page, "plane", f"[{eye}.scale, ({turn})(m.zoomed({eye}, 200, 500, 3)).scale]", BOX)
    assert scales[1] == pytest.approx(3 * scales[0])
    pixel = ask(page, "plane", f"m.point(({turn})(m.pulled({eye}, 30, -20)), m.lift({eye}, 100, 100))", BOX)
    assert np.allclose(pixel, [130, 80])


CUBE = {"low": [-1.0, -2.0, 0.0], "high": [1.0, 2.0, 2.0]}


def test_space_is_turned_as_a_rotation_says(page: Page) -> None:
    rng = np.random.default_rng(6)
    x, middle = rng.standard_normal((20, 3)), np.array([0.0, 0.0, 1.0])
    for yaw, pitch in ((0.0, 0.0), (-1.02, 0.42), (2.5, -1.1)):
        camera = {"yaw": yaw, "pitch": pitch, "zoom": 1.3}
        eye = ask(page, "space", "m.lens(g[0], 800, 600, g[1])", [CUBE, camera])
        seen = np.array(ask(page, "space", "g[1].map((p) => [...m.point(g[0], p)])", [eye, x.tolist()]))
        # Turn the eye to the x axis: first back by the yaw about z, then down by the pitch about y.
        turned = (x - middle) @ Rotation.from_euler("zy", [-yaw, pitch]).as_matrix().T
        toward, right, up = turned.T
        assert np.allclose(seen, np.column_stack([400 + eye["scale"] * right, 300 - eye["scale"] * up, toward]))
        # A token moves in the plane through it, parallel to the screen.
        lifted = ask(page, "space", "g[1].map((p) => m.lift(g[0], 123, 456, p))", [eye, x.tolist()])
        again = np.array(ask(page, "space", "g[1].map((p) => [...m.point(g[0], p)])", [eye, lifted]))
        assert np.allclose(again, np.column_stack([np.full(20, 123), np.full(20, 456), toward]))


def test_on_the_sphere_a_token_stays_on_its_side(page: Page) -> None:
    ball = {"low": [-1.0] * 3, "high": [1.0] * 3}
    eye = ask(page, "space", "m.lens(g, 600, 600, {yaw: 0.3, pitch: 0.2, zoom: 1}, true)", ball)
    for sign in (1, -1):
        start = (sign * np.array(eye["toward"])).tolist()
        for x, y in ((320, 290), (300, 120), (20, 30)):
            found = np.array(ask(page, "space", "m.lift(g[0], g[2], g[3], g[1], true)", [eye, start, x, y]))
            assert np.linalg.norm(found) == pytest.approx(1)
            assert sign * (found @ eye["toward"]) >= -1e-12
            pixel = np.array(ask(page, "space", "[...m.point(g[0], g[1])]", [eye, found.tolist()]))[:2]
            away = np.array([x - 300, y - 300])
            held = away * min(1, eye["scale"] / np.linalg.norm(away))
            assert np.allclose(pixel - 300, held)


@pytest.mark.parametrize("clock", ["linear", "log"])
def test_the_line_in_time(page: Page, clock: str) -> None:
    span = {"low": [-1.0], "high": [3.0]}
    eye = ask(page, "line", "m.lens(g[0], 800, 500, null, {first: 2, last: 102, clock: g[1]})", [span, clock])
    times = np.array([2.0, 3.0, 50.0, 102.0])
    part = (times - 2) / 100 if clock == "linear" else np.log1p(times - 2) / np.log(101)
    columns = ask(page, "line", "g[1].map((t) => m.column(g[0], t))", [eye, times.tolist()])
    assert np.allclose(columns, eye["left"] + part * (eye["right"] - eye["left"]))
    assert np.allclose(ask(page, "line", "g[1].map((x) => m.timeAt(g[0], x))", [eye, columns]), times)
    rows = np.array(ask(page, "line", "[-1, 1, 3].map((v) => m.row(g, v))", eye))
    assert rows[1] == pytest.approx((eye["top"] + eye["bottom"]) / 2)
    assert eye["top"] < rows[2] < rows[0] < eye["bottom"]
    assert ask(page, "line", "m.lift(g[0], 0, g[1])", [eye, rows[2]]) == pytest.approx([3.0])


def test_trails_fade_with_age(page: Page) -> None:
    passed = np.concatenate([[0.0], np.cumsum(np.random.default_rng(7).exponential(size=30))])
    passed /= passed[-1]
    for first, last in ((0, 30), (4, 20), (0, 1)):
        found = ask(page, "trails", "m.stages(...g)", [passed.tolist(), first, last])
        assert [one["from"] for one in found] == [first, *(one["to"] for one in found[:-1])]
        assert found[-1]["to"] == last
        alphas = [one["alpha"] for one in found]
        assert alphas == sorted(set(alphas))
        assert len(alphas) <= 8
        # The newest steps are the strongest, and those of more than three tenths of the run ago the faintest.
        assert alphas[-1] == 0.9
        for one in found:
            assert (one["alpha"] == 0.16) == (passed[last] - passed[one["to"]] >= 0.3 * 7 / 8)


def test_ways_on_the_sphere_are_arcs(page: Page) -> None:
    x = np.random.default_rng(8).standard_normal((2, 6, 3))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    # A pixel has two of the three coordinates: it is looked at from two sides.
    what = """[0, 1, 2, 3, 4, 5].map((i) => { const way = [];
        const mode = { point: (eye, p, out) => out.set(eye.map((c) => p[c])) };
        for (const eye of [[0, 1, 2], [2, 0, 1]]) { let k = 0;
            const scene = { d: 3, sphere: true, mode, eye };
            m.bent(scene, Float64Array.from(g[0]), Float64Array.from(g[1]), i, (x, y) => (way[k++] ??= []).push(x, y));
        } return way.map(([x, y, z]) => [x, y, z]); })"""
    for i, way in enumerate(ask(page, "trails", what, x.reshape(2, -1).tolist())):
        points = np.array([x[0, i], *way, x[1, i]])
        assert np.allclose(np.linalg.norm(points, axis=1), 1)
        angle = np.arccos(x[0, i] @ x[1, i])
        steps = np.arccos((points[1:] * points[:-1]).sum(axis=1))
        # The shortest way, in short pieces.
        assert steps.sum() == pytest.approx(angle)
        assert steps.max() < 0.081


def test_the_scales_of_charts(page: Page) -> None:
    falling = np.exp(-np.arange(40.0))
    scale = ask(page, "charts", "m.scaleOf(g, false)", falling.tolist())
    assert scale["log"]
    heights = ask(page, "charts", "g[1].map((v) => m.heightOf(g[0], v))", [scale, falling[:30].tolist()])
    # What falls exponentially is a straight line.
    assert np.allclose(np.diff(heights, n=2), 0)
    assert heights[0] == 1
    assert not ask(page, "charts", "m.scaleOf([3, 2, 1], false)")["log"]
    assert ask(page, "charts", "m.scaleOf([5, 4, 2], true)") == {"low": 0, "high": 5, "log": False}
    constant = ask(page, "charts", "m.scaleOf([2, 2], false)")
    assert constant["low"] < 2 < constant["high"]
    given: list[list[float]] = [[0, 1, 4], [10, 8, 2], [0, 0.5, 1, 3.9, 4]]
    assert ask(page, "charts", "g[2].map((t) => m.valueAt(g[0], g[1], t, null))", given) == [10, 10, 8, 8, 2]
    for clock, scaled in (("linear", np.asarray), ("log", np.log1p)):
        smooth = ask(page, "charts", f"g[2].map((t) => m.valueAt(g[0], g[1], t, '{clock}'))", given)
        assert smooth == pytest.approx(np.interp(scaled(given[2]), scaled(given[0]), given[1]).tolist())


def test_rows_of_attention_are_all_tokens_once(page: Page) -> None:
    for n, rows in ((5, 5), (300, 128), (129, 128)):
        found = ask(page, "attention", f"Array.from({{length: {rows}}}, (_, k) => m.tokensOf(k, {n}, {rows}))")
        assert [i for first, last in found for i in range(first, last + 1)] == list(range(n))


def test_ends_of_a_scale_are_told_apart(page: Page) -> None:
    cases = [[1.2, 3.4], [1.996, 2.0], [0.0, 5.0], [7.0, 7.0], [12345.0, 12346.0]]
    found = ask(page, "charts", "g.map(([low, high]) => m.apart(low, high))", cases)
    assert found[:4] == [["1.2", "3.4"], ["1.996", "2"], ["0", "5"], ["7", "7"]]
    assert found[4][0] != found[4][1]


def test_a_grip_loses_its_token_when_the_tokens_are_replaced(page: Page) -> None:
    """Follow all ways through the states of a held token, with `o` for other tokens and `u` for those before."""
    follow = """async (ways) => { const { createHeldToken } = await import('/page/held_token.js');
        return ways.map((way) => { let [rows, other] = [[[0]], [[1]]];
            const held = createHeldToken(() => rows);
            const does = { t: held.touch, g: () => held.grab() && held.hold(0, 1, 2),
                c: () => held.carry({ x: 3, y: 4 }), m: () => held.made(rows), l: held.compare, r: held.release,
                o: () => ([rows, other] = [other, rows]) };
            for (const step of way) does[step === 'u' ? 'o' : step]();
            if (!held.held) return held.free ? 'free' : 'not held';
            return held.held.to ? 'held on its way' : 'held at rest'; }); }"""
    found = {
        "": "free", "g": "free", "c": "free", "t": "not held", "tr": "free", "tg": "held at rest",
        "tgc": "held on its way", "tgl": "held at rest", "tgol": "not held", "tgoul": "held at rest",
        "tgoml": "held at rest", "tgolc": "not held", "tgolg": "not held", "tgolr": "free", "tog": "not held",
        "toug": "held at rest", "togu": "not held", "togug": "not held", "tgcr": "free",
    }  # fmt: skip
    assert dict(zip(found, page.evaluate(follow, list(found)), strict=True)) == found


def test_a_question_is_asked_again_when_something_changed_or_the_answer_was_lost(page: Page) -> None:
    """Follow ways through the states of a question: s it is sent, c what it asks about changes, a it is answered."""
    follow = """async (ways) => { const { FORGOTTEN, createQuestion } = await import('/page/questions.js');
        return ways.map(([first, way]) => { const question = createQuestion(first);
            const does = { s: () => question.sent(7, 100), c: question.changed, a: question.answered };
            for (const step of way) does[step]();
            return [question.due, question.underWay, question.free(101), question.free(101 + FORGOTTEN)]; }); }"""
    settled, due = [False, False, True, True], [True, False, True, True]
    asked, superseded = [False, True, False, True], [True, True, False, True]
    found = {
        ("settled", ""): settled, ("settled", "a"): settled, ("settled", "c"): due, ("settled", "s"): asked,
        ("due", ""): due, ("due", "c"): due, ("due", "a"): due, ("due", "s"): asked, ("due", "sa"): settled,
        ("due", "sc"): superseded, ("due", "scc"): superseded, ("due", "sca"): due, ("due", "scs"): asked,
        ("due", "scsa"): settled, ("due", "ss"): asked,
    }  # fmt: skip
    assert page.evaluate(follow, [list(way) for way in found]) == list(found.values())


def test_the_colours_of_the_style_sheet_are_those_of_the_figures() -> None:
    sheet = (FOLDER / "style.css").read_text(encoding="utf-8")
    pairs = dict(re.findall(r"--(\w+): light-dark\((#\w+, #\w+)\)", sheet))
    for name in ("paper", "ink", "quiet", "pencil", "wire"):
        assert pairs[name] == f"{getattr(LIGHT, name)}, {getattr(DARK, name)}".lower()
    assert pairs["accent"] == f"{LIGHT.palette[0]}, {DARK.palette[0]}".lower()
