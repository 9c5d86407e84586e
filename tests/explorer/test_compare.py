"""Two sides of the explorer's page in Chromium, side by side, against two runs of `simulate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from browser import PATIENCE, launch
from larger import details, larger
from numpy.typing import NDArray
from served import alive, serving, until, workers
from visits import copied

import attnflow as af
from attnflow.explorer.state import arguments, read

Array = NDArray[np.float64]
Page = Any
State = dict[str, Any]

SOFT = {"name": "softmax", "beta": 1.0}
HARD = {"name": "softmax", "beta": "inf"}
LAYERS = {"name": "layers", "gamma": 0.2}
CLOUD = {"cloud": "gaussian", "n": 9, "d": 2, "seed": 3}
LEFT: State = {"tokens": CLOUD, "law": SOFT, "motion": LAYERS, "until": 12, "seed": 0, "clock": "linear"}
RIGHT: State = {"law": HARD, "motion": LAYERS}


class Opened:
    """A page, what went wrong on it, and its lines to the server."""

    def __init__(self, page: Page) -> None:
        self.page, self.wrong, self.lines = page, list[str](), list[Any]()
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda message: self.wrong.append(message.text) if message.type == "error" else None)
        page.on("websocket", lambda line: self.lines.append(line))

    def open_lines(self) -> int:
        return sum(not line.is_closed() for line in self.lines)


@pytest.fixture(scope="module")
def opened() -> Iterator[Opened]:
    size = {"width": 1280, "height": 860}
    with serving() as server, launch(viewport=size, permissions=["clipboard-read", "clipboard-write"]) as page:
        found = Opened(page)
        page.goto(f"http://127.0.0.1:{server.port}/")
        yield found
        page.goto("about:blank")


@pytest.fixture
def page(opened: Opened) -> Iterator[Page]:
    settled(opened.page)
    yield opened.page
    assert not opened.wrong


def settled(page: Page) -> None:
    """Wait until both runs of the present state are on the screen, whole, and have been looked at."""
    page.wait_for_function(
        """() => {
            const {store, player, requests, compare} = window.attnflow ?? {};
            if (!store?.run || store.run.state !== store.state || !requests.idle()) return false;
            if (store.other === null) return true;
            return compare.idle() && compare.store.run.state === compare.store.state;
        }"""
    )


def show(page: Page, state: State = LEFT, other: State | None = RIGHT) -> None:
    """Put a state on the screen, and what it is compared with."""
    page.evaluate("([state, other]) => window.attnflow.store.setState(state, {other})", [{**LEFT, **state}, other])
    settled(page)


def states(page: Page) -> list[State]:
    """Return what the two sides say that they show."""
    found: list[State] = page.evaluate("() => [attnflow.store.state, attnflow.compare.store.state]")
    return found


def shown(page: Page) -> list[tuple[Array, Array]]:
    """Return the times and the frames of both sides, as the page has them."""
    found = page.evaluate(
        """() => [attnflow.player, attnflow.compare.player].map((p) => [
            p.times, p.times.map((_, k) => Array.from(p.frame(k))), p.n, p.d,
        ])"""
    )
    return [(np.array(times), np.array(frames).reshape(-1, n, d)) for times, frames, n, d in found]


def simulated(page: Page) -> list[af.Trajectory]:
    """Simulate what the two sides say that they show, and check that they do."""
    runs = [af.simulate(**arguments(read(state))) for state in states(page)]
    for run, (times, frames) in zip(runs, shown(page), strict=True):
        np.testing.assert_allclose(times, run.times, rtol=0, atol=1e-12)
        np.testing.assert_allclose(frames, run.tokens, rtol=0, atol=1e-12)
    return runs


def go(page: Page, t: float) -> None:
    """Show a time, as a click in a chart does."""
    page.evaluate(
        "t => { const {player, store} = attnflow; player.pause(); player.seek(player.at(t)); store.notify('player'); }",
        t,
    )
    settled(page)


def moments(page: Page) -> list[float]:
    """Return the times that both sides show."""
    found: list[float] = page.evaluate("() => [attnflow.player, attnflow.compare.player].map((p) => p.time())")
    return found


def drag(page: Page, side: str, token: int, by: tuple[int, int]) -> None:
    """Drag a token on a stage by some pixels."""
    stage = "attnflow.stage" if side == "left" else "attnflow.compare.stage"
    place = page.evaluate(f"i => {stage}.place(i)", token)
    page.mouse.move(place["x"], place["y"])
    page.mouse.down()
    page.mouse.move(place["x"] + by[0] / 2, place["y"] + by[1] / 2, steps=3)
    page.mouse.move(place["x"] + by[0], place["y"] + by[1], steps=3)
    page.mouse.up()
    settled(page)


def test_both_sides_are_runs_of_the_same_tokens_wherever_these_are_dragged(page: Page) -> None:
    show(page)
    left, right = simulated(page)
    assert isinstance(right.law, af.Hardmax)
    assert np.abs(left.final - right.final).max() > 0.1
    for side, token in (("left", 4), ("right", 7)):
        # A token is also taken from a later moment: then both sides go back to the start.
        go(page, 3)
        assert moments(page) == [3, 3]
        before = simulated(page)[0].tokens[0]
        drag(page, side, token, (38, -24))
        left, right = simulated(page)
        np.testing.assert_array_equal(left.tokens[0], right.tokens[0])
        moved = np.abs(left.tokens[0] - before).max(axis=1)
        assert np.flatnonzero(moved > 1e-12).tolist() == [token]
        assert moments(page) == [0, 0]
        chosen = page.evaluate("() => [attnflow.stage.chosen, attnflow.compare.stage.chosen]")
        assert chosen == [token, token]


@pytest.mark.parametrize("d", [pytest.param(1, marks=larger), 2, pytest.param(3, marks=larger)])
def test_layers_and_a_flow_show_the_same_time_and_their_distance(page: Page, d: int) -> None:
    flow = {"law": SOFT, "motion": {"name": "rescaled-flow"}}
    sides: list[State] = [{"law": SOFT, "motion": LAYERS}, flow]
    for left, right in (sides, sides[::-1]):
        show(page, {**left, "tokens": {**CLOUD, "d": d}, "until": 7}, right)
        runs = simulated(page)
        layers = next(run for run in runs if isinstance(run.motion, af.Layers))
        assert np.isin(layers.times, runs[0].times).all()
        distances = np.linalg.norm(runs[0].at(layers.times) - runs[1].at(layers.times), axis=2)
        told = page.evaluate("() => attnflow.compare.chart.measured()")
        np.testing.assert_array_equal(told["times"], layers.times)
        np.testing.assert_allclose(told["largest"], distances.max(axis=1), rtol=0, atol=1e-12)
        np.testing.assert_allclose(told["rms"], np.sqrt((distances**2).mean(axis=1)), rtol=0, atol=1e-12)
        assert not told["between"]
        # Whoever leads, the time is that of a layer; a step goes to the next one.
        go(page, 2.3)
        assert moments(page) == [2, 2]
        page.locator("#step-forward").click()
        settled(page)
        assert moments(page) == [3, 3]
        said = page.locator("#apart").text_content()
        assert said.startswith("Distance at t = 3: ")
        assert float(said.split("largest ")[1].split(",")[0]) == pytest.approx(distances[3].max(), rel=5e-3)
        # While it plays, both are between two layers.
        between = page.evaluate(
            """async () => {
                const {player, compare, store} = attnflow;
                player.play();
                player.tick(0.3);
                store.notify("player");
                await new Promise(requestAnimationFrame);
                const found = [player, compare.player].map((p) => p.exactTime());
                player.pause();
                store.notify("player");
                return found;
            }"""
        )
        assert between[0] == pytest.approx(between[1], abs=1e-9)
        assert between[0] > 3


@larger
def test_runs_without_common_frames_are_measured_in_between(page: Page) -> None:
    # 2,000 layers have a frame at every fourth step, where the flow has none.
    flow = {"law": SOFT, "motion": {"name": "rescaled-flow"}}
    show(page, {"until": 2000, "motion": {"name": "layers", "gamma": 1e-3}}, flow)
    (times, frames), (moments, flowing) = shown(page)
    told = page.evaluate("() => attnflow.compare.chart.measured()")
    assert told["between"]
    np.testing.assert_array_equal(told["times"], times)
    n, d = frames.shape[1:]
    columns = [np.interp(times, moments, column) for column in flowing.reshape(len(moments), -1).T]
    distances = np.linalg.norm(frames - np.stack(columns, axis=1).reshape(-1, n, d), axis=2)
    np.testing.assert_allclose(told["largest"], distances.max(axis=1), rtol=0, atol=1e-12)
    page.wait_for_function("() => !document.querySelector('#difference .chart-note').hidden")


@larger
def test_tokens_stay_on_the_sphere_of_one_side_wherever_they_are_dragged(page: Page) -> None:
    flow = {"law": SOFT, "motion": {"name": "sphere-flow"}, "tokens": {**CLOUD, "cloud": "sphere"}, "until": 2}
    show(page, flow, {"law": SOFT, "motion": LAYERS})
    before = simulated(page)[0].tokens[0]
    drag(page, "right", 5, (30, 30))
    after = simulated(page)[0].tokens[0]
    assert np.flatnonzero(np.abs(after - before).max(axis=1) > 1e-3).tolist() == [5]
    np.testing.assert_allclose(np.linalg.norm(after, axis=1), 1, rtol=0, atol=1e-12)


@details
def test_controls_change_the_chosen_side_alone_and_undo_covers_both(page: Page) -> None:
    show(page)
    page.locator("#side-right").check(force=True)
    run = page.evaluate("() => attnflow.store.run.id")
    page.select_option("#law", "localmax")
    settled(page)
    left, right = states(page)
    assert (left["law"], right["law"]["name"]) == (SOFT, "localmax")
    assert page.evaluate("() => attnflow.store.run.id") == run, "the left side was computed again"
    page.locator(".side-caption").first.click()
    again = page.evaluate("() => attnflow.compare.store.run.id")
    page.locator("#motion-gamma").fill("0.4")
    settled(page)
    left, right = states(page)
    assert (left["motion"]["gamma"], right["motion"]["gamma"]) == (0.4, 0.2)
    assert page.evaluate("() => attnflow.compare.store.run.id") == again, "the right side was computed again"
    simulated(page)
    page.locator("#undo").click()
    settled(page)
    assert states(page)[0]["motion"]["gamma"] == 0.2
    page.locator("#undo").click()
    settled(page)
    assert states(page)[1]["law"]["beta"] == "inf"
    page.locator("#swap").click()
    settled(page)
    assert [side["law"]["beta"] for side in states(page)] == ["inf", 1.0]


@details
def test_matrices_of_both_sides_follow_the_dimension(page: Page) -> None:
    turned = [[0.0, 1.0], [-1.0, 0.0]]
    for side in ("left", "right"):
        show(page, {**LEFT, "law": {**SOFT, "B": turned}}, {"law": {**HARD, "B": turned}, "motion": LAYERS})
        page.locator(f"#side-{side}").check(force=True)
        page.select_option("#d", "3")
        settled(page)
        assert all(run.tokens.shape[2] == 3 for run in simulated(page))


@details
def test_both_stages_show_the_same_part_of_space(page: Page) -> None:
    # The right run leaves the cloud, the left one does not.
    show(page, {"until": 3}, {"law": SOFT, "motion": {"name": "flow"}})
    seen = "() => [attnflow.stage, attnflow.compare.stage].map(({scene}) => [scene.eye, scene.width, scene.height])"
    same = "() => { const [a, b] = (" + seen + ")().map(([eye]) => JSON.stringify(eye)); return a === b; }"
    for t in (0, 1, 3):
        go(page, t)
        page.wait_for_function(same)
    box = page.locator("#other-stage").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 80)
    before = page.evaluate(seen)[0][0]["scale"]
    page.mouse.wheel(0, -240)
    page.wait_for_function(f"() => attnflow.stage.scene.eye.scale > 1.2 * {before}")
    page.wait_for_function(same)
    page.locator("#fit").click()


def test_a_refusal_is_said_on_its_side_only(page: Page) -> None:
    show(page)
    before = shown(page)
    page.evaluate("other => attnflow.store.setState({}, {other})", {"law": HARD, "motion": {**LAYERS, "gamma": 3}})
    note = page.locator("#other-stage ~ .side-note")
    note.filter(has_text="gamma is 3").wait_for()
    assert page.locator("#stage ~ .side-note").is_hidden()
    assert page.locator("#status").text_content() == ""
    assert "No distance" in page.locator("#apart").text_content()
    # The left side goes on.
    page.evaluate("() => attnflow.store.setState({law: {name: 'softmax', beta: 1}})")
    page.wait_for_function("() => attnflow.store.run.state === attnflow.store.state && attnflow.requests.idle()")
    assert note.is_visible()
    np.testing.assert_array_equal(shown(page)[1][1], before[1][1])
    show(page)
    note.wait_for(state="hidden")
    page.evaluate("motion => attnflow.store.setState({motion})", {**LAYERS, "gamma": 3})
    page.locator("#stage ~ .side-note").filter(has_text="gamma is 3").wait_for()
    assert note.is_hidden()
    # Once on its stage, and once in the line of status.
    assert page.locator("#stage-refusal").is_hidden()
    assert page.locator("#status").text_content().startswith("Left: gamma is 3")
    show(page)
    simulated(page)


@details
def test_what_is_chosen_and_said_on_the_right_is_so_for_the_whole_page(page: Page) -> None:
    show(page)
    names = [page.locator(one).get_attribute("aria-label").split(".")[0] for one in ("#stage", "#other-stage")]
    assert names == ["Tokens of the left side", "Tokens of the right side"]
    page.evaluate("() => attnflow.compare.stage.choose(6)")
    page.wait_for_function("() => attnflow.store.row?.token === 6 && attnflow.compare.store.row?.token === 6")
    page.evaluate("() => { attnflow.compare.stage.choose(-1); attnflow.compare.stage.say('Take fewer.'); }")
    assert page.locator("#status").text_content() == "Take fewer."


@details
def test_new_tokens_start_on_the_sphere_of_either_side(page: Page) -> None:
    flow = {"law": SOFT, "motion": {"name": "sphere-flow"}, "tokens": {**CLOUD, "cloud": "sphere"}, "until": 1}
    show(page, flow, {"law": SOFT, "motion": LAYERS})
    page.locator("#side-right").check(force=True)
    paste = """() => {
        const clipboardData = new DataTransfer();
        clipboardData.setData("text/plain", "3, 4\\n-2, 0");
        document.body.dispatchEvent(new ClipboardEvent("paste", {clipboardData, bubbles: true, cancelable: true}));
    }"""
    acts: tuple[Callable[[], Any], ...] = (
        lambda: page.locator("#clear").click(),
        lambda: page.evaluate(paste),
        lambda: page.select_option("#cloud", "gaussian"),
    )
    for act in acts:
        before = page.evaluate("() => attnflow.store.run.id")
        act()
        page.wait_for_function("before => attnflow.store.run.id !== before", arg=before)
        settled(page)
        for run in simulated(page):
            np.testing.assert_allclose(np.linalg.norm(run.tokens[0], axis=1), 1, rtol=0, atol=1e-12)
    page.locator("#side-left").check(force=True)


@details
def test_both_rooms_turn_together_until_one_is_taken(page: Page) -> None:
    page.emulate_media(reduced_motion="no-preference")
    show(page, {"tokens": {**CLOUD, "d": 3}, "until": 2})
    page.locator("#orbit").click()
    page.wait_for_function(
        """() => {
            const {stage, compare} = attnflow;
            return stage.scene.spin > 0.01 && compare.stage.scene.spin === stage.scene.spin;
        }"""
    )
    box = page.locator("#other-stage").bounding_box()
    page.mouse.move(box["x"] + 12, box["y"] + 12)
    page.mouse.down()
    page.mouse.move(box["x"] + 40, box["y"] + 12)
    page.mouse.up()
    turning = (
        "() => [attnflow.stage.orbit.turning, ...[attnflow.stage, attnflow.compare.stage].map((s) => s.scene.spin)]"
    )
    assert page.evaluate(turning) == [False, 0, 0]
    page.wait_for_function(
        """() => {
            const [a, b] = [attnflow.stage, attnflow.compare.stage].map(({scene}) => JSON.stringify(scene.eye));
            return a === b;
        }"""
    )
    page.locator("#fit").click()


# Make a movie without a server, and tell for each frame the times of both sides, and the tokens of the side beside.
FILM = """async (side) => {
    const {createMovies} = await import("/page/movies.js");
    const {store, player, stage, compare, requests} = attnflow;
    const left = {store, player, stage, requests, pause: () => player.pause()};
    const shown = side === "right" ? compare.saved : left;
    const told = [];
    const canvas = Object.assign(document.createElement("canvas"), {width: 2, height: 2});
    const frame = async () => {
        const {player, beside} = shown.stage.scene;
        told.push([player.exactTime(), beside.player.exactTime(), Array.from(beside.tokens)]);
        return canvas;
    };
    const drawn = {scene: shown.stage.scene, looked: () => -1, film: () => ({width: 2, height: 2}), frame};
    const answers = {movie: {type: "video/mp4", payload: new Uint8Array(1)}, frame: {}, overlays: {frame: 0}};
    const socket = {next: 1, open: true, send: () => 1, ask: async (message) => answers[message.do]};
    const signal = new AbortController().signal;
    await createMovies({...shown, stage: drawn, socket}).record({format: "mp4", signal, progress: () => {}});
    return told;
}"""


@details
@pytest.mark.parametrize("side", ["left", "right"])
def test_in_a_movie_the_rings_move_as_well(page: Page, side: str) -> None:
    show(page, {"until": 4}, {"law": HARD, "motion": LAYERS})
    page.locator(f"#side-{side}").check(force=True)
    go(page, 3)
    other = simulated(page)[0 if side == "right" else 1]
    told = page.evaluate(FILM, side)
    times = np.array([moment[:2] for moment in told])
    np.testing.assert_allclose(times[:, 0], times[:, 1], rtol=0, atol=1e-9)
    assert times[-1, 0] == 4
    assert len(times) > 10
    for t, _, tokens in told:
        k = min(int(t), 3)
        between = (1 - t + k) * other.tokens[k] + (t - k) * other.tokens[k + 1]
        np.testing.assert_allclose(np.reshape(tokens, between.shape), between, rtol=0, atol=1e-9)
    page.wait_for_function("() => attnflow.player.time() === 3 && attnflow.compare.player.time() === 3")
    page.locator("#side-left").check(force=True)


@details
def test_where_a_density_is_drawn_there_are_no_rings(page: Page) -> None:
    show(page)
    drawn = page.evaluate(
        """async () => {
            const {drawBeside} = await import("/page/beside_marks.js");
            const {scene} = attnflow.stage;
            return [false, true].map((dense) => {
                let discs = 0;
                const sheet = new Proxy({}, {get: (_, name) => () => { discs += name === "disc"; }});
                drawBeside(sheet, {...scene, dense, show: {beside: true}});
                return discs;
            });
        }"""
    )
    assert drawn == [9, 0]


@larger
def test_of_very_many_tokens_there_are_no_rings(page: Page) -> None:
    button = page.locator("#show-beside")
    show(page, {"until": 1})
    button.click()
    assert "other side" in page.evaluate("() => attnflow.stage.svg()")
    assert button.get_attribute("title").startswith("Where the tokens")
    show(page, {"until": 1, "tokens": {**CLOUD, "n": 801}})
    assert "other side" not in page.evaluate("() => attnflow.stage.svg()")
    page.wait_for_function("() => document.getElementById('show-beside').title.startsWith('Not drawn: ')")
    button.click()


@details
def test_presenting_two_sides_the_caption_says_which_it_is_of(page: Page) -> None:
    show(page)
    page.evaluate("() => attnflow.presenter.enter()")
    assert page.locator("#caption .said").text_content().startswith("Left: 9 tokens")
    boxes = [page.locator(one).bounding_box() for one in (".presenter-buttons", "#swap")]
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
    page.locator("#other-stage").press("ArrowRight")
    page.wait_for_function("() => attnflow.store.figure !== null")
    page.evaluate("() => attnflow.presenter.leave()")
    settled(page)


def test_a_link_shows_both_sides_again(page: Page) -> None:
    show(page)
    drag(page, "right", 2, (20, 15))
    go(page, 5)
    before = [*states(page), moments(page)]
    link = copied(page, "link")
    show(page, {**LEFT, "until": 3}, {"law": SOFT, "motion": {"name": "rescaled-flow"}})
    # The address follows the screen a little later; until then the link would lead nowhere.
    page.wait_for_function("link => location.href !== link", arg=link)
    page.goto(link)
    page.wait_for_function("() => attnflow.store.state.until === 12")
    settled(page)
    assert [*states(page), moments(page)] == before
    simulated(page)


@details
def test_copied_python_makes_both_runs_and_says_their_distance(page: Page, capsys: Any) -> None:
    show(page, LEFT, {"law": SOFT, "motion": {"name": "rescaled-flow"}})
    drag(page, "left", 1, (-20, 10))
    names: dict[str, Any] = {}
    exec(copied(page, "python"), names)
    told = page.evaluate("() => attnflow.compare.chart.measured()")
    np.testing.assert_allclose(names["largest"], told["largest"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(names["rms"], told["rms"], rtol=0, atol=1e-12)
    assert f"largest distance {told['largest'][-1]:.4g}" in capsys.readouterr().out


@details
def test_the_second_line_and_its_workers_end_with_the_comparison(page: Page, opened: Opened) -> None:
    show(page, LEFT, None)
    page.wait_for_function("() => attnflow.store.claims.waiting === false")
    assert opened.open_lines() == 1
    there = workers()
    page.locator("#compare").click()
    settled(page)
    # What was compared before comes back; the controls change the right side.
    assert states(page)[1]["law"] == HARD
    assert page.locator("#side-right").is_checked()
    assert opened.open_lines() == 2
    # What one presses in a hurry leaves one line more, or none.
    page.evaluate("() => { for (let k = 0; k < 4; k++) document.getElementById('compare').click(); }")
    settled(page)
    came = workers() - there
    page.locator("#undo").click()
    page.locator("#other-stage").wait_for(state="hidden")
    for _ in range(PATIENCE // 20):
        if opened.open_lines() == 1:
            break
        page.wait_for_timeout(20)
    assert opened.open_lines() == 1
    until(lambda: not any(alive(process) for process in came))
    assert there <= workers()


@details
def test_a_law_is_compared_with_its_limit_at_first(page: Page) -> None:
    found = page.evaluate(
        """async () => {
            const {firstOther} = await import("/page/other_side.js");
            const of = (law, motion) => firstOther({law, motion}).law;
            const layers = {name: "layers", gamma: 0.5};
            return [
                of({name: "softmax", beta: 2}, layers).beta, of({name: "softmax", beta: "inf"}, layers).beta,
                of({name: "softmax", beta: 2}, {name: "flow"}).beta, of({name: "localmax", delta: 0.1}, layers),
            ];
        }"""
    )
    assert found == ["inf", 4, 2, {"name": "localmax", "delta": 0.1}]
