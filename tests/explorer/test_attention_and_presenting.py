"""Attention on the stage, and presenting it, in Chromium: against `law.weights`, brute force, boxes and pixels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from browser import launch, shared_address
from larger import details
from test_attention_row import STATES, matrix, state, unfolded
from test_page import SQUARE, show
from visits import settled

pytestmark = details

Page = Any

PARTS = ("body > header", "#controls", "main", ".toolbar", "#stage", ".time", "aside", "footer", "#share")


@pytest.fixture(scope="module")
def opened() -> Iterator[Page]:
    address = shared_address()
    with launch(viewport={"width": 1280, "height": 720}) as page:
        # The window of a test cannot fill a screen.
        page.add_init_script(
            "Element.prototype.requestFullscreen = async () => { window.filled = (window.filled ?? 0) + 1; };"
        )
        page.emulate_media(reduced_motion="reduce")
        page.goto(address)
        settled(page)
        yield page


@pytest.fixture
def page(opened: Page) -> Iterator[Page]:
    """The page as it is at first, and no errors of scripts."""
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.mouse.move(2, 2)
    opened.evaluate(
        "() => { const {presenter, stage} = window.attnflow; presenter.leave(); stage.choose(-1); stage.fit(); }"
    )
    yield opened
    assert not wrong


@pytest.fixture
def square(page: Page) -> Page:
    """The page with a square on it, and the stage in focus."""
    show(page, SQUARE)
    seek(page, 0)
    page.locator("#stage").focus()
    return page


def point(page: Page, token: int) -> None:
    """Point at a token, and wait for what it hears."""
    place = page.evaluate("i => window.attnflow.stage.place(i)", token)
    page.mouse.move(place["x"], place["y"])
    heard(page, token)


def heard(page: Page, token: int) -> None:
    settled(page)
    page.wait_for_function(
        """i => {
            const {store, player, stage} = window.attnflow;
            return stage.looked() === i && store.row?.token === i && store.row.frame === player.frameIndex();
        }""",
        arg=token,
    )
    drawn(page)


def drawn(page: Page) -> None:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def seek(page: Page, frame: int) -> None:
    page.evaluate(
        "k => { const {player, store} = window.attnflow; player.pause(); player.seek(k); store.notify('player'); }",
        frame,
    )
    settled(page)
    drawn(page)


def frame(page: Page) -> tuple[float, Any]:
    """Return the time and the tokens of the frame shown."""
    t, flat, n = page.evaluate(
        "() => { const {player: p} = window.attnflow, k = p.frameIndex(); return [p.times[k], [...p.frame(k)], p.n]; }"
    )
    return t, np.array(flat).reshape(n, -1)


def part(page: Page, name: str) -> list[Any]:
    root = ElementTree.fromstring(page.evaluate("() => window.attnflow.stage.svg()"))
    return [one for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("class") == name for one in group]


def places(page: Page, count: int) -> Any:
    """Return where tokens are on the stage, in pixels."""
    return np.array(
        page.evaluate(
            """n => {
                const {stage} = window.attnflow, {left, top} = document.querySelector("#stage").getBoundingClientRect();
                return Array.from({length: n}, (_, i) => [stage.place(i).x - left, stage.place(i).y - top]);
            }""",
            count,
        )
    )


# Attention


@pytest.mark.parametrize("name", STATES)
def test_pointing_at_a_token_draws_the_weights_of_the_law(page: Page, name: str) -> None:
    show(page, {"until": 6, **STATES[name]})
    seek(page, 2)
    token = 4
    point(page, token)
    t, x = frame(page)
    P = matrix(state(name), x, t)[token]
    row = page.evaluate("() => window.attnflow.store.row")
    np.testing.assert_allclose(unfolded(row, len(x)), P, rtol=0, atol=1e-12)
    # One line for each token that is heard, from this token to that one, the widest last; a loop for itself.
    lines, at = part(page, "attention"), places(page, len(x))
    assert len(lines) == (P > 0).sum()
    order = row["heard"][::-1]
    for j, line in zip(order, lines, strict=True):
        ends = np.array(re.findall(r"-?[\d.]+", line.get("d")), float).reshape(-1, 2)
        if j != token:
            np.testing.assert_allclose(ends, at[[token, j]], atol=0.02)
    widths = np.array([float(line.get("stroke-width")) for line in lines])
    np.testing.assert_allclose(widths, 0.6 + 11.4 * P[order], atol=0.006)
    # The tip of the arrow is at the mean.
    assert part(page, "mean")
    known = np.column_stack([x, np.ones(len(x))])
    affine, *_ = np.linalg.lstsq(known, at, rcond=None)
    tip = part(page, "mean")[-1]
    end = (
        np.array(re.findall(r"-?[\d.]+", tip.get("d")), float)[:2]
        if tip.get("d")
        else np.array([float(tip.get("cx")), float(tip.get("cy"))])
    )
    np.testing.assert_allclose(end, np.append(P @ x, 1.0) @ affine, atol=0.02)


def test_the_row_follows_the_time_and_the_token(page: Page) -> None:
    show(page, {"until": 6, **STATES["softmax"]})
    seek(page, 0)
    point(page, 4)
    for k in (1, 5):
        seek(page, k)
        heard(page, 4)
        t, x = frame(page)
        row = page.evaluate("() => window.attnflow.store.row")
        np.testing.assert_allclose(unfolded(row, 20), matrix(state("softmax"), x, t)[4], rtol=0, atol=1e-12)
    seek(page, 0)
    point(page, 7)
    # Away from all tokens nothing is drawn any more.
    page.mouse.move(2, 2)
    page.wait_for_function("() => window.attnflow.store.pointed === -1")
    drawn(page)
    assert part(page, "attention") == []
    # A token that is dragged is looked at while it moves.
    place = page.evaluate("() => window.attnflow.stage.place(7)")
    page.mouse.move(place["x"], place["y"])
    page.mouse.down()
    page.mouse.move(place["x"] + 40, place["y"] - 30, steps=4)
    page.wait_for_function(
        "() => { const {store: {row, run, state}, player} = window.attnflow;"
        "const here = run.state === state && player.id === run.id && player.count > 0;"
        "return Array.isArray(state.tokens) && row.token === 7 && row.run === run.id && here; }"
    )
    _, x = frame(page)
    row = page.evaluate("() => window.attnflow.store.row")
    np.testing.assert_allclose(unfolded(row, 20), matrix(state("softmax"), x, 0)[7], rtol=0, atol=1e-12)
    page.mouse.up()


def test_a_token_chosen_by_keys_says_whom_it_hears(page: Page) -> None:
    show(page, {"until": 6, **STATES["hardmax with ties"]})
    seek(page, 0)
    page.locator("#stage").focus()
    for _ in range(5):
        page.keyboard.press("Tab")
    heard(page, 4)
    assert "It hears token 0 and token 1 alike: 0.5 each." in page.evaluate("() => window.attnflow.stage.describe()")
    page.keyboard.press("Escape")
    drawn(page)
    assert part(page, "attention") == []


def test_rows_of_the_matrix_and_tokens_light_each_other(page: Page) -> None:
    show(page, {"until": 6, **STATES["softmax"]})
    seek(page, 1)
    page.evaluate("() => { document.querySelector('#attention-section').open = true; }")
    settled(page)
    canvas = page.locator("#attention")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    cell = (box["width"] - 2) / 20
    page.mouse.move(box["x"] + 5.5 * cell, box["y"] + 1 + 9.5 * cell)
    heard(page, 9)
    assert len(part(page, "attention")) == 20
    place = page.evaluate("() => window.attnflow.stage.place(4)")
    bright = """([x, y]) => {
        const canvas = document.querySelector("#attention"), s = canvas.width / canvas.clientWidth;
        return [...canvas.getContext("2d").getImageData(x * s, y * s, 1, 1).data];
    }"""
    page.mouse.move(place["x"], place["y"])
    heard(page, 4)
    lit = np.array([page.evaluate(bright, [1 + (j + 0.5) * cell, 1 + 4.5 * cell]) for j in range(20)])
    page.mouse.move(2, 2)
    page.wait_for_function("() => window.attnflow.store.pointed === -1")
    drawn(page)
    plain = np.array(
        [[page.evaluate(bright, [1 + (j + 0.5) * cell, 1 + (i + 0.5) * cell]) for j in range(20)] for i in (4, 9)]
    )
    # The row of the token is as it was, all others were veiled.
    np.testing.assert_array_equal(lit, plain[0])
    place = page.evaluate("() => window.attnflow.stage.place(9)")
    page.mouse.move(place["x"], place["y"])
    heard(page, 9)
    veiled = np.array([page.evaluate(bright, [1 + (j + 0.5) * cell, 1 + 4.5 * cell]) for j in range(20)])
    assert (veiled != plain[0]).any()
    page.evaluate("() => { document.querySelector('#attention-section').open = false; }")


def test_influences_are_drawn_above_the_threshold_of_the_slider_and_of_the_link(page: Page) -> None:
    show(page, {"until": 6, **STATES["softmax"]})
    seek(page, 1)
    page.locator("#show-influence").click()
    settled(page)
    t, x = frame(page)
    P = matrix(state("softmax"), x, t)
    np.fill_diagonal(P, 0.0)

    def count() -> int:
        settled(page)
        drawn(page)
        threshold = page.evaluate("() => window.attnflow.store.view.threshold")
        brute = int((threshold < P).sum())
        assert page.locator(".threshold output").inner_text().endswith(f": {brute} edges")
        assert len(part(page, "influence")) == brute
        return brute

    before = count()
    page.locator("#threshold").focus()
    page.keyboard.press("Home")
    assert count() > before > 0
    page.locator("#threshold").fill("0.7")
    assert 0 < count() < before
    given = page.evaluate(
        """async () => {
            const {encode, decode, screenOf} = await import("/page/link.js");
            const {store} = window.attnflow;
            return [(await decode(await encode(screenOf(store)))).view.threshold, store.view.threshold];
        }"""
    )
    assert given[0] == given[1] < 1
    page.locator("#show-influence").click()


def areas(page: Page) -> Any:
    """Return the areas of all stars, in square pixels."""
    found = []
    for star in part(page, "leaders"):
        corners = np.array(re.findall(r"-?[\d.]+", star.get("d")), float).reshape(-1, 2)
        x, y = (corners - corners.mean(axis=0)).T
        found.append(abs((x * np.roll(y, -1) - y * np.roll(x, -1)).sum()) / 2)
    return np.array(found)


def test_the_area_of_a_star_is_proportional_to_how_much_it_is_heard(page: Page) -> None:
    show(page, {"until": 60, **STATES["hardmax with ties"]})
    seek(page, 0)

    def heard_in_place() -> Any:
        """Return how much all tokens hear those within a hundredth of each leader."""
        t, x = frame(page)
        columns = matrix(state("hardmax with ties"), x, t).mean(axis=0)
        leaders = page.evaluate("() => window.attnflow.store.overlays.leaders")
        return np.array([columns[np.abs(x - x[i]).max(axis=1) < 0.01].sum() for i in leaders])

    ratios = []
    for k in (0, 55):
        seek(page, k)
        heard = heard_in_place()
        assert len(set(heard)) > 1
        ratios.append(areas(page) / heard)
    np.testing.assert_allclose(np.concatenate(ratios), ratios[0][0], rtol=0.01)


# Presenting


def present(page: Page) -> None:
    page.keyboard.press("p")
    page.wait_for_selector("body.presenting #caption")
    drawn(page)


def presenting(page: Page) -> bool:
    return bool(page.evaluate("() => document.body.classList.contains('presenting')"))


def boxes(page: Page) -> list[Any]:
    return page.evaluate(
        """parts => parts.map((part) => {
            const {x, y, width, height} = document.querySelector(part).getBoundingClientRect();
            return [x, y, width, height, getComputedStyle(document.querySelector(part)).visibility];
        })""",
        list(PARTS),
    )


def test_the_stage_takes_the_window(square: Page) -> None:
    page = square
    filled = page.evaluate("() => window.filled ?? 0")
    present(page)
    assert page.evaluate("() => window.filled") == filled + 1
    part, seen = page.evaluate(
        """() => {
            const stage = document.querySelector("#stage"), {width, height} = stage.getBoundingClientRect();
            let [hits, all] = [0, 0];
            for (let x = 4; x < innerWidth; x += 8)
                for (let y = 4; y < innerHeight; y += 8) {
                    all += 1;
                    hits += document.elementFromPoint(x, y) === stage;
                }
            return [(width * height) / (innerWidth * innerHeight), hits / all];
        }"""
    )
    assert part >= 0.85
    # Hardly any of it is under handles and buttons.
    assert seen >= 0.85


def test_a_large_caption_says_what_is_seen_at_this_moment(square: Page) -> None:
    page = square
    present(page)

    def caption() -> tuple[str, str]:
        said, about, told = page.evaluate(
            """async () => {
                const {captionOf} = await import("/page/caption.js");
                const {store, player} = window.attnflow;
                const [said, about] = ["said", "about"].map((name) => document.querySelector(`#caption .${name}`));
                return [said.textContent, about.textContent, captionOf(store, player)];
            }"""
        )
        assert said == told["said"]
        assert about == f"{told['time']} · {told['law']}"
        return said, about

    said, about = caption()
    assert "5 tokens at the start" in said
    assert about.startswith("step 0")
    sizes = page.evaluate(
        "() => [...document.querySelectorAll('#caption p')].map((one) => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert len(sizes) == 2
    assert min(sizes) >= 24
    seek(page, 7)
    assert caption()[1].startswith("step 7")
    # A sentence of two lines leaves the stage its room.
    page.evaluate("() => { document.querySelector('#caption .said').textContent = 'more tokens than '.repeat(9); }")
    drawn(page)
    tall = page.evaluate("() => document.querySelector('#stage').clientHeight / innerHeight")
    assert tall >= 0.85


def test_marks_are_thick_and_tokens_go_where_they_are_dragged(square: Page) -> None:
    page = square

    def radius() -> int:
        """Return for how many pixels the colour of the fourth token goes on to its right."""
        return int(
            page.evaluate(
                """() => {
                    const canvas = document.querySelector("#stage"), {left, top} = canvas.getBoundingClientRect();
                    const {x, y} = window.attnflow.stage.place(4), scale = canvas.width / canvas.clientWidth;
                    const row = canvas.getContext("2d").getImageData((x - left) * scale, (y - top) * scale, 60, 1).data;
                    let k = 0;
                    while (k < 60 && [0, 1, 2].every((c) => Math.abs(row[4 * k + c] - row[c]) < 12)) k += 1;
                    return k;
                }"""
            )
        )

    thin = radius()
    present(page)
    assert radius() >= 1.4 * thin > 4
    place = page.evaluate("() => window.attnflow.stage.place(4)")
    page.mouse.move(place["x"], place["y"])
    page.mouse.down()
    page.mouse.move(place["x"] - 60, place["y"] + 45, steps=4)
    page.mouse.up()
    settled(page)
    now = page.evaluate("() => window.attnflow.stage.place(4)")
    assert np.allclose([now["x"], now["y"]], [place["x"] - 60, place["y"] + 45], atol=1.5)


def test_drawers_open_by_keys_and_by_their_handles(square: Page) -> None:
    page = square
    present(page)
    panels = {"1": "#controls", "2": "aside", "3": ".time", "4": "body > header"}
    hidden = "([panel]) => getComputedStyle(document.querySelector(panel)).visibility === 'hidden'"
    for key, panel in panels.items():
        assert page.evaluate(hidden, [panel])
        page.keyboard.press(key)
        for other in panels.values():
            assert page.evaluate(hidden, [other]) == (other != panel)
    # The next Tab leads into the drawer.
    page.keyboard.press("1")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.closest('#controls') !== null")
    # Escape closes the drawer, and then ends it all.
    page.keyboard.press("Escape")
    assert page.evaluate(hidden, ["#controls"])
    assert presenting(page)
    assert page.evaluate("() => document.activeElement.id") == "stage"
    page.locator(".handle[data-side=left]").focus()
    page.keyboard.press("Enter")
    assert not page.evaluate(hidden, ["#controls"])
    assert page.locator(".handle[data-side=left]").get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    assert page.evaluate("() => document.activeElement.dataset.side") == "left"
    page.keyboard.press("Escape")
    assert not presenting(page)


INK = """() => {
    const ink = document.querySelector("#ink");
    const {data} = ink.getContext("2d").getImageData(0, 0, ink.width, ink.height);
    let count = 0;
    for (let k = 3; k < data.length; k += 4) count += data[k] > 0;
    return count;
}"""


def test_ink_is_drawn_over_the_stage_and_wiped(square: Page) -> None:
    page = square
    present(page)
    tokens = page.evaluate("() => window.attnflow.store.run.tokens")
    place = page.evaluate("() => window.attnflow.stage.place(4)")

    def stroke() -> None:
        page.mouse.move(place["x"], place["y"])
        page.mouse.down()
        page.mouse.move(place["x"] + 150, place["y"] - 80, steps=5)
        page.mouse.up()
        drawn(page)

    page.keyboard.press("i")
    stroke()
    # As long as the stroke, and as wide as can be seen from afar.
    assert page.evaluate(INK) > 170 * 4
    assert page.evaluate("() => window.attnflow.store.run.tokens") == tokens
    page.keyboard.press("w")
    drawn(page)
    assert page.evaluate(INK) == 0
    page.keyboard.press("i")
    stroke()
    settled(page)
    # Without the pen the pointer moves tokens.
    assert page.evaluate(INK) == 0
    assert page.evaluate("() => window.attnflow.store.run.tokens") != tokens


def test_a_clicker_goes_through_the_figures_or_whatever_takes_its_place(square: Page) -> None:
    page = square
    present(page)
    names = page.evaluate("() => [...document.querySelectorAll('#preset option')].map((one) => one.value).slice(1, 3)")

    def goes_to(key: str, name: str) -> None:
        page.keyboard.press(key)
        page.wait_for_function("name => window.attnflow.store.figure?.name === name", arg=name)

    goes_to("PageDown", names[0])
    goes_to("PageDown", names[1])
    goes_to("PageUp", names[0])
    goes_to("ArrowRight", names[1])
    goes_to("ArrowLeft", names[0])
    settled(page)
    # A chosen token is moved by arrows.
    page.evaluate("() => window.attnflow.stage.choose(0)")
    page.keyboard.press("ArrowRight")
    settled(page)
    assert page.evaluate("() => Array.isArray(window.attnflow.store.state.tokens)")
    page.evaluate(
        """() => {
            window.told = [];
            window.attnflow.presenter.onNext((by) => window.told !== null && window.told.push(by) > 0);
        }"""
    )
    page.keyboard.press("PageDown")
    page.keyboard.press("PageUp")
    assert page.evaluate("() => window.told") == [1, -1]
    # What has nothing to go on with leaves it to the figures.
    page.evaluate("() => { window.told = null; }")
    goes_to("PageDown", names[1])


def test_leaving_restores_the_page(square: Page) -> None:
    page = square
    before = boxes(page)
    present(page)
    page.keyboard.press("3")
    page.keyboard.press("i")
    assert boxes(page) != before
    page.keyboard.press("p")
    drawn(page)
    assert not presenting(page)
    assert boxes(page) == before
    assert page.evaluate("() => document.activeElement.id") == "stage"
    assert page.evaluate("() => [window.attnflow.presenter.ink.on, window.attnflow.presenter.ink.strokes]") == [
        False,
        0,
    ]
    # By its button as well; letters that are typed into a field stay letters.
    page.locator("#presenter-present").click()
    assert presenting(page)
    page.locator("#presenter-leave").click()
    assert not presenting(page)
    page.locator("#law-beta").focus()
    page.keyboard.press("p")
    assert not presenting(page)
    page.evaluate("() => document.activeElement.blur()")
