"""The stage in Chromium, without a server: what it draws counts up, and hands move tokens where they should."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from modules import importing

from attnflow.catalogue import entries
from attnflow.geometry import cells, hull

Page = Any
SVG = "{http://www.w3.org/2000/svg}"
SETUP = """async (surfaces) => {
    const [{ createStore }, { createPlayer }, { createStage }] =
        await Promise.all(['store', 'player', 'stage'].map((name) => import(`/page/${name}.js`)));
    const canvas = document.createElement('canvas');
    Object.assign(canvas.style, { position: 'fixed', left: '40px', top: '30px', width: '800px', height: '500px' });
    document.body.append(canvas);
    const [store, player] = [createStore(), createPlayer()];
    const stage = createStage(canvas, store, player, (motion) => surfaces[motion]);
    Object.assign(window, { store, player, stage, canvas, id: 0 });
}"""
SHOW = """async ({ tokens, frames, overlays, motion, show }) => {
    const [n, d, id] = [tokens.length, tokens[0].length, ++window.id];
    store.setState({ tokens, motion: { name: motion } });
    player.clear(id, n, d);
    const times = frames.map((_, k) => k);
    player.append({ id, first: 0, count: times.length, times }, Float64Array.from(frames.flat(2)));
    player.done = true;
    store.put('run', { id, n, d, tokens, discrete: true, until: frames.length - 1 });
    store.put('overlays', { run: id, frame: 0, ...overlays });
    store.setView({ camera: null, tool: 'move', show });
    store.notify('player');
    stage.choose(-1);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
SHOWN = dict.fromkeys(("cells", "hull", "limits", "leaders", "quiescent", "paths", "numbers"), True)


@pytest.fixture(scope="module")
def opened() -> Iterator[Page]:
    with importing() as page:
        # Otherwise a picture comes to its place by and by.
        page.emulate_media(reduced_motion="reduce")
        motions: Any = entries("motion")
        page.evaluate(SETUP, {name: motion.surface for name, motion in motions.items()})
        yield page


def shown(page: Page, tokens: Any, overlays: dict[str, Any] | None = None, motion: str = "layers") -> Page:
    """Put tokens on the stage that halve in each of six steps."""
    x = np.asarray(tokens)
    frames = [(x * 0.5**k).tolist() for k in range(7)] if motion == "layers" else [x.tolist()] * 7
    given = {"tokens": x.tolist(), "frames": frames, "overlays": overlays or {}, "motion": motion, "show": SHOWN}
    page.evaluate(SHOW, given)
    return page


@pytest.fixture
def cloud() -> Any:
    return np.random.default_rng(0).standard_normal((20, 2))


def plane_look(x: Any) -> dict[str, Any]:
    """Return what the server would say of tokens in the plane."""
    outer = hull(x)
    polygons = cells(outer.vertices).polygons()
    vertices = [int(i) for i in np.abs(x[:, None] - outer.vertices).sum(axis=-1).argmin(axis=0)]
    return {
        "hull": vertices,
        "cells": [{"vertex": i, "polygon": shape.tolist()} for i, shape in zip(vertices, polygons, strict=True)],
        "labels": (x @ outer.vertices.T).argmax(axis=1).tolist(),
        "limits": {"points": [[0.0, 0.0], [0.5, 0.5]], "attracting": [False, True]},
        "leaders": vertices[:2],
        "follows": (x @ x.T).argmax(axis=1).tolist(),
        "quiescent": [{"members": vertices[:3]}],
    }


def parts(page: Page) -> dict[str, Any]:
    """Return the named parts of the picture as it is saved."""
    root = ElementTree.fromstring(page.evaluate("stage.svg()"))
    return {str(group.get("class")): group for group in root.iter(f"{SVG}g")}


def places(page: Page) -> Any:
    """Return where tokens are, in pixels of the window."""
    many = "Array.from({length: store.state.tokens.length}, (_, i) => stage.place(i)).map(({x, y}) => [x, y])"
    return np.array(page.evaluate(many))


def tokens(page: Page) -> Any:
    return np.array(page.evaluate("store.state.tokens"))


def drag(page: Page, i: int, dx: float, dy: float) -> None:
    x, y = places(page)[i]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + dx / 2, y + dy / 2)
    page.mouse.move(x + dx, y + dy)
    page.mouse.up()


def test_the_picture_holds_every_mark_of_the_scene(opened: Page, cloud: Any) -> None:
    overlays = plane_look(cloud)
    page = shown(opened, cloud, overlays)
    drawn = parts(page)
    count = {name: len(list(group)) for name, group in drawn.items()}
    assert count["tokens"] == 20
    assert count["cells"] == sum(len(cell["polygon"]) > 2 for cell in overlays["cells"]) > 3
    assert count["vertices"] == len(overlays["hull"])
    assert count["leaders"] == 2
    assert count["quiescent"] == 1
    # A diamond each, and rays for the one that attracts.
    assert count["limits"] == 3
    at = np.array([[float(disc.get("cx", "")), float(disc.get("cy", ""))] for disc in drawn["tokens"]])
    assert np.allclose(at, places(page) - [40, 30], atol=0.006)


def test_cells_are_drawn_where_they_are(opened: Page, cloud: Any) -> None:
    overlays = plane_look(cloud)
    page = shown(opened, cloud, overlays)
    # The picture is an affine map of the plane, known from the tokens.
    known = np.column_stack([cloud, np.ones(20)])
    affine = np.linalg.lstsq(known, places(page) - [40, 30], rcond=None)[0]
    for cell, path in zip(overlays["cells"], parts(page)["cells"], strict=True):
        numbers = np.array(re.findall(r"-?[\d.]+", path.get("d", "")), dtype=float).reshape(-1, 2)
        corners = np.column_stack([cell["polygon"], np.ones(len(cell["polygon"]))]) @ affine
        assert np.allclose(numbers, corners, atol=0.006)


def test_tokens_have_the_colour_of_their_cell(opened: Page, cloud: Any) -> None:
    overlays = plane_look(cloud)
    drawn = parts(shown(opened, cloud, overlays))
    fills = [disc.get("fill", "").lower() for disc in drawn["tokens"]]
    tints = [[int(v) for v in re.findall(r"\d+", path.get("fill", ""))[:3]] for path in drawn["cells"]]
    assert len({tuple(tint) for tint in tints}) == len(tints)
    for fill, label in zip(fills, overlays["labels"], strict=True):
        assert [int(fill[k : k + 2], 16) for k in (1, 3, 5)] == tints[label]


def test_what_is_not_wanted_is_not_drawn(opened: Page, cloud: Any) -> None:
    page = shown(opened, cloud, plane_look(cloud))
    page.evaluate("store.setView({show: {}})")
    assert {"cells", "vertices", "leaders", "limits", "quiescent", "trails", "numbers"}.isdisjoint(parts(page))


def test_a_picture_is_saved_as_png(opened: Page, cloud: Any) -> None:
    head = "stage.png().then((blob) => blob.arrayBuffer()).then((bytes) => [...new Uint8Array(bytes).subarray(0, 24)])"
    first = bytes(shown(opened, cloud, plane_look(cloud)).evaluate(head))
    assert first[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(first[k : k + 4], "big") for k in (16, 20))
    # Under the stage there is a strip with words.
    assert width == 1600
    assert 1000 + 2 * 60 < height < 1000 + 2 * 160


def test_a_token_follows_the_hand_and_no_other_moves(opened: Page, cloud: Any) -> None:
    page = shown(opened, cloud)
    before = places(page)
    drag(page, 7, 60, -35)
    moved = places(page) - before
    assert np.allclose(moved[7], [60, -35], atol=1e-6)
    assert np.array_equal(np.delete(tokens(page), 7, axis=0), np.delete(cloud, 7, axis=0))
    assert "token 7" in page.evaluate("stage.describe()")


def test_a_token_taken_later_goes_back_to_the_start(opened: Page, cloud: Any) -> None:
    page = shown(opened, cloud)
    page.evaluate("(player.seek(3), store.notify('player'))")
    pixel = (places(page)[1] - places(page)[0]) / (cloud[1] - cloud[0]) * 8
    assert np.allclose(places(page)[4], places(page)[0] + (cloud[4] - cloud[0]) / 8 * pixel)
    drag(page, 4, 16, 24)
    assert page.evaluate("player.position") == 0
    assert np.allclose((tokens(page)[4] - cloud[4]) * pixel, [16, 24])


def test_the_other_tools_and_the_double_click(opened: Page, cloud: Any) -> None:
    page = shown(opened, cloud)
    page.mouse.dblclick(70, 60)
    assert len(tokens(page)) == 21
    assert np.allclose(places(page)[20], [70, 60])
    page.evaluate("store.setView({tool: 'add'})")
    page.mouse.click(800, 70)
    assert np.allclose(places(page)[21], [800, 70])
    page.evaluate("store.setView({tool: 'delete'})")
    gone = places(page)[20]
    page.mouse.click(*gone)
    assert len(tokens(page)) == 21
    assert np.array_equal(tokens(page)[:20], cloud)


def test_the_last_token_stays(opened: Page) -> None:
    page = shown(opened, [[0.5, 0.5]])
    page.evaluate("canvas.focus()")
    page.keyboard.press("]")
    page.keyboard.press("Delete")
    assert len(tokens(page)) == 1


def test_keys_choose_move_add_and_remove(opened: Page, cloud: Any) -> None:
    page = shown(opened, cloud)
    page.evaluate("canvas.focus()")
    page.keyboard.press("Tab")
    page.keyboard.press("]")
    assert page.evaluate("stage.chosen") == 1
    before = places(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowUp")
    assert np.allclose(places(page)[1] - before[1], [12, -1])
    page.keyboard.press("n")
    assert len(tokens(page)) == 21
    assert page.evaluate("stage.chosen") == 20
    page.keyboard.press("Delete")
    assert np.array_equal(np.delete(tokens(page), 1, axis=0), np.delete(cloud, 1, axis=0))
    # After Escape the next Tab leaves the stage.
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("stage.chosen") == -1
    assert page.evaluate("document.activeElement !== canvas")


def test_tab_leaves_after_the_last_token(opened: Page) -> None:
    page = shown(opened, [[0.0, 1.0], [1.0, 0.0]])
    page.evaluate("canvas.focus()")
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement !== canvas")


def test_the_wheel_zooms_where_the_pointer_is(opened: Page, cloud: Any) -> None:
    page = shown(opened, cloud)
    page.evaluate("(store.setView({camera: {x: 0.2, y: 0.1, zoom: 0.5}}))")
    before = places(page)
    page.mouse.move(*before[3])
    page.mouse.wheel(0, -200)
    page.wait_for_function("() => store.view.camera.zoom > 0.5")
    after = places(page)
    # Wheels tell of whole pixels.
    assert np.allclose(after[3], before[3], atol=0.5)
    grown = np.linalg.norm(after - after[3], axis=1)[:3] / np.linalg.norm(before - before[3], axis=1)[:3]
    assert np.allclose(grown, grown[0])
    assert grown[0] > 1.1


def test_two_fingers_zoom_and_one_drags(opened: Page, cloud: Any) -> None:
    page = shown(opened, cloud)
    touch = page.context.new_cdp_session(page)

    def fingers(kind: str, *where: tuple[float, float]) -> None:
        points = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(where)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    before = places(page)
    far = np.linalg.norm(before[:, None] - before, axis=-1)
    fingers("touchStart", (300, 60))
    fingers("touchStart", (300, 60), (500, 60))
    fingers("touchMove", (250, 60), (550, 60))
    fingers("touchEnd")
    page.wait_for_function("() => store.view.camera")
    grown = np.linalg.norm(places(page)[:, None] - places(page), axis=-1)
    assert np.allclose(grown, 1.5 * far)
    shown(page, cloud)
    # A finger is coarser than a mouse.
    x, y = before[int(before[:, 0].argmax())]
    fingers("touchStart", (x + 15, y))
    fingers("touchMove", (x + 5, y - 20))
    fingers("touchEnd")
    assert np.allclose(places(page)[int(before[:, 0].argmax())], [x - 10, y - 20])


def test_on_the_line_tokens_move_up_and_time_is_a_handle(opened: Page) -> None:
    x = np.array([[-1.0], [0.0], [2.0]])
    page = shown(opened, x)
    start = places(page)
    drag(page, 1, 50, -40)
    assert np.allclose(places(page)[1], start[1] - [0, 40])
    assert np.array_equal(tokens(page)[[0, 2]], x[[0, 2]])
    # A click on the axis of time seeks; tokens go there.
    page.mouse.click(440, 30 + 500 - 30)
    assert page.evaluate("player.position") == 3
    assert np.allclose(places(page)[:, 0], 440, atol=400 / 6 / 2)
    assert "step 3." in page.evaluate("stage.describe()")
    assert "3" in [text.text for text in parts(page)["axes"].iter(f"{SVG}text")]
    # At the left edge a token is still in reach.
    page.mouse.move(*start[2])
    page.mouse.down()
    page.mouse.move(start[2][0], start[2][1] + 30)
    page.mouse.up()
    assert page.evaluate("player.position") == 0
    assert tokens(page)[2, 0] < 2


def test_in_space_a_token_keeps_its_distance_from_the_screen(opened: Page) -> None:
    x = np.random.default_rng(5).standard_normal((12, 3))
    page = shown(opened, x, {"hull": [0, 1, 2, 3], "edges": [[0, 1], [2, 3]]})
    before = places(page)
    drag(page, 6, 30, 30)
    assert np.allclose(places(page)[6] - before[6], [30, 30], atol=1e-6)
    shift = tokens(page)[6] - x[6]
    # The pixels of all tokens are an orthogonal projection, and the shift is in its plane.
    axes = np.linalg.lstsq(np.column_stack([x, np.ones(12)]), before, rcond=None)[0][:3].T
    away = np.cross(axes[0], axes[1])
    assert abs(shift @ away) < 1e-9 * np.linalg.norm(away)
    assert np.linalg.norm(axes[0]) == pytest.approx(np.linalg.norm(axes[1]))
    # Pulling at an empty place turns the room.
    page.mouse.move(60, 60)
    page.mouse.down()
    page.mouse.move(100, 60)
    page.mouse.up()
    assert page.evaluate("store.view.camera.yaw") != 0
    assert np.array_equal(np.delete(tokens(page), 6, axis=0), np.delete(x, 6, axis=0))


@pytest.mark.parametrize("d", [2, 3])
def test_on_the_sphere_tokens_stay_on_it(opened: Page, d: int) -> None:
    x = np.random.default_rng(d).standard_normal((10, d))
    page = shown(opened, x / np.linalg.norm(x, axis=1, keepdims=True), motion="sphere-flow")
    drag(page, 2, 45, 20)
    assert np.allclose(np.linalg.norm(tokens(page), axis=1), 1)
    assert np.abs(tokens(page)[2] - x[2] / np.linalg.norm(x[2])).max() > 0.05
    assert "sphere" in parts(page)


def test_a_film_plays_on_the_stage_and_stops(opened: Page, cloud: Any) -> None:
    page = shown(opened, cloud)
    page.evaluate("(player.speed = 40, player.play(), store.notify('player'))")
    page.wait_for_function("() => !player.playing")
    assert page.evaluate("player.position") == 6
    assert np.ptp(places(page), axis=0).max() < 30
    page.evaluate("player.speed = 1")


def test_a_click_chooses_and_the_film_stays(opened: Page, cloud: Any) -> None:
    page = shown(opened, cloud)
    page.evaluate("(player.seek(2), store.notify('player'))")
    x, y = places(page)[5]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 2, y)
    page.mouse.up()
    assert page.evaluate("[stage.chosen, player.position, store.view.camera]") == [5, 2, None]
    assert np.array_equal(tokens(page), cloud)


def test_keys_let_a_held_token_be(opened: Page, cloud: Any) -> None:
    page = shown(opened, cloud)
    x, y = places(page)[3]
    page.mouse.move(x, y)
    page.mouse.down()
    for key in ("Delete", "n"):
        page.keyboard.press(key)
    page.mouse.move(x + 30, y)
    for key in ("Delete", "n", "ArrowUp", "Backspace"):
        page.keyboard.press(key)
    page.mouse.move(x + 40, y)
    page.mouse.up()
    assert np.allclose(places(page)[3], [x + 40, y])
    assert np.array_equal(np.delete(tokens(page), 3, axis=0), np.delete(cloud, 3, axis=0))


def test_undo_takes_a_held_token_from_the_hand(opened: Page, cloud: Any) -> None:
    # Two tokens fewer before: the one that is held is not among them.
    page = shown(opened, cloud[:18])
    page.evaluate("(tokens) => store.setState({ tokens })", cloud.tolist())
    # The picture comes to its new place before a hand does.
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    x, y = places(page)[19]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 20, y + 20)
    page.wait_for_function("(x) => store.state.tokens[19][0] !== x", arg=cloud[19, 0])
    page.evaluate("store.undo(), store.undo()")
    page.mouse.move(x + 40, y + 40)
    page.evaluate("new Promise((done) => setTimeout(done, 60))")
    page.mouse.up()
    assert np.array_equal(tokens(page), cloud[:18])
    assert page.evaluate("stage.chosen") == -1
    assert len(parts(page)["tokens"]) == 18


def dashes(page: Page) -> int:
    """Return how many lines of the hull of the start are drawn."""
    dashed = [path for path in parts(page)["hulls"] if path.get("stroke-dasharray")]
    return sum(path.get("d", "").count("M") for path in dashed)


def test_the_hull_of_the_start_is_that_of_this_run(opened: Page) -> None:
    x = np.random.default_rng(6).standard_normal((8, 3))
    page = shown(opened, x, {"hull": [0, 1, 2], "edges": [[0, 1], [1, 2], [2, 0]]})
    page.evaluate("(player.seek(3), store.put('overlays', { run: id, frame: 3, hull: [1, 2], edges: [[1, 2]] }))")
    assert dashes(page) == 3
    # Other tokens, at a later frame: their start has not been looked at.
    page.evaluate("""() => { const run = { ...store.run, id: ++window.id }; player.id = run.id; store.put('run', run);
        store.put('overlays', { run: run.id, frame: 3, hull: [1, 2], edges: [[1, 2]] }); }""")
    assert dashes(page) == 0
    page.evaluate("() => { store.first = { run: id - 1, frame: 0, edges: [[0, 1]] }; store.notify('overlays'); }")
    assert dashes(page) == 0
    page.evaluate("() => { store.first = { run: id, frame: 0, edges: [[4, 5], [5, 6]] }; store.notify('overlays'); }")
    assert dashes(page) == 2
    page.evaluate("store.first = null")


def test_marks_of_another_frame_are_not_shown_as_those_of_this(opened: Page, cloud: Any) -> None:
    page = shown(opened, cloud, plane_look(cloud))
    page.evaluate("stage.choose(0)")
    assert "cell of" in page.evaluate("stage.describe()")
    page.evaluate("(player.seek(4), store.notify('player'))")
    assert "cell of" not in page.evaluate("stage.describe()")
    assert not len(parts(page)["cells"])
    assert not len(parts(page)["vertices"])
    # Colours stay, and everything comes back with the look at this frame.
    assert len({disc.get("fill") for disc in parts(page)["tokens"]}) > 2
    page.evaluate("store.put('overlays', { ...store.overlays, frame: 4 })")
    assert len(parts(page)["cells"]) > 3


def test_on_the_screen_marks_of_another_frame_are_pale(opened: Page) -> None:
    drawn = opened.evaluate("""async () => { const m = await import('/page/marks.js');
        return [false, true].map((pale) => { const alphas = [];
            const pen = { paint: (s) => alphas.push(s.alpha ?? 1), disc: (x, y, r, s) => alphas.push(s.alpha ?? 1) };
            const told = m.overlay(pen, { pale });
            told.paint({}); told.paint({ alpha: 0.5 }); told.disc(0, 0, 1, {}); return alphas; }); }""")
    assert drawn[0] == [1, 0.5, 1]
    assert 0 < max(drawn[1]) < 0.5


def test_pictures_are_of_a_frame_also_while_a_film_plays(opened: Page, cloud: Any) -> None:
    page = shown(opened, cloud)
    at = page.evaluate("""() => { player.play(); player.position = 2.4; store.overlays.frame = 2;
        const svg = stage.svg(); const found = player.position; player.pause(); return [svg, found]; }""")
    assert at[1] == pytest.approx(2.4)
    assert "step 2." in at[0]
    root = ElementTree.fromstring(at[0])
    discs = next(group for group in root.iter(f"{SVG}g") if group.get("class") == "tokens")
    drawn = np.array([[float(disc.get("cx", "")), float(disc.get("cy", ""))] for disc in discs])
    page.evaluate("player.seek(2)")
    assert np.allclose(drawn, places(page) - [40, 30], atol=0.006)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_tokens_that_run_away_stay_in_view(opened: Page, d: int) -> None:
    x = np.random.default_rng(d).standard_normal((9, d)) + 3
    frames = [(x * 10.0**k).tolist() for k in range(7)]
    given = {"tokens": x.tolist(), "frames": frames, "overlays": {}, "motion": "flow", "show": SHOWN}
    opened.evaluate(SHOW, given)
    for k in (0, 3, 6, 1):
        opened.evaluate("(k) => (player.seek(k), store.notify('player'))", k)
        opened.evaluate("new Promise((done) => setTimeout(done, 60))")
        seen = places(opened) - [40, 30]
        assert np.all(seen > 0)
        assert np.all(seen < [800, 500])
        # They are not a dot either.
        assert np.ptp(seen[:, 1]) > 40


def test_tokens_that_run_away_are_in_view_while_they_do(opened: Page) -> None:
    x = np.random.default_rng(2).standard_normal((9, 2)) + 3
    frames = [(x * 3.0**k).tolist() for k in range(60)]
    given = {"tokens": x.tolist(), "frames": frames, "overlays": {}, "motion": "flow", "show": SHOWN}
    opened.emulate_media(reduced_motion="no-preference")
    opened.evaluate(SHOW, given)
    # A busy machine draws fewer pictures of the player, and more of a slower one.
    seen = opened.evaluate("""async () => { const found = [];
        for (player.speed = 8; found.length <= 90 && player.speed > 0.01; player.speed /= 2) {
            player.seek(0); player.play(); store.notify('player');
            while (player.playing) { await new Promise(requestAnimationFrame);
                for (let i = 0; i < 9; i++) found.push(Object.values(stage.place(i))); } }
        player.speed = 1; return found; }""")
    opened.emulate_media(reduced_motion="reduce")
    assert len(seen) > 90
    assert np.all(np.array(seen) - [40, 30] > 0)
    assert np.all(np.array(seen) - [40, 30] < [800, 500])


def test_lines_in_time_end_at_the_frame(opened: Page) -> None:
    page = shown(opened, [[-1.0], [0.0], [2.0]])
    order = list(parts(page))
    assert order.index("trails") < order.index("margins") < order.index("axes")
    corners = [re.findall(r"-?[\d.]+", path.get("d", "")) for path in parts(page)["margins"]]
    rows = sorted(float(y) for numbers in corners for y in numbers[1::2])
    assert rows[0] == 0
    assert rows[-1] == 500


@pytest.mark.parametrize("moved", [False, True])
def test_a_hand_has_no_token_of_before_an_undo(opened: Page, cloud: Any, moved: bool) -> None:
    page = shown(opened, cloud)
    page.evaluate("(tokens) => store.setState({ tokens })", cloud[::-1].tolist())
    x, y = places(page)[7]
    page.mouse.move(x, y)
    page.mouse.down()
    if moved:
        page.mouse.move(x + 20, y + 20)
        page.wait_for_function("(x) => store.state.tokens[7][0] !== x", arg=cloud[12, 0])
        page.evaluate("store.undo()")
    page.evaluate("store.undo()")
    page.mouse.move(x + 40, y + 40)
    page.evaluate("new Promise((done) => setTimeout(done, 60))")
    page.mouse.up()
    assert np.array_equal(tokens(page), cloud)


def test_a_run_that_is_discrete_brings_the_film_to_a_frame(opened: Page, cloud: Any) -> None:
    page = shown(opened, cloud)
    page.evaluate("store.put('run', { ...store.run, discrete: false })")
    page.evaluate("player.seek(2.4)")
    assert "time 2.4." in page.evaluate("stage.describe()")
    page.evaluate("store.put('run', { ...store.run, discrete: true })")
    assert page.evaluate("player.position") == 2
    assert "step 2." in page.evaluate("stage.describe()")


def test_lines_on_the_circle_go_around_it(opened: Page) -> None:
    start = np.array([0.1, 1.3, 2.9])
    frames = [np.column_stack([np.cos(start + k), np.sin(start + k)]).tolist() for k in range(5)]
    given = {"tokens": frames[0], "frames": frames, "overlays": {}, "motion": "sphere-flow", "show": SHOWN}
    opened.evaluate(SHOW, given)
    opened.evaluate("player.seek(2)")
    drawn = parts(opened)
    x, y, r = (float(drawn["sphere"][0].get(name, "")) for name in ("cx", "cy", "r"))
    lines = [line for path in drawn["trails"] for line in path.get("d", "").split("M")[1:]]
    assert len(lines) >= 6
    for line in lines:
        points = (np.array(re.findall(r"-?[\d.]+", line), dtype=float).reshape(-1, 2) - [x, y]) / r
        assert np.allclose(np.linalg.norm(points, axis=1), 1, atol=1e-3)
        assert np.linalg.norm(np.diff(points, axis=0), axis=1).max() < 0.1
