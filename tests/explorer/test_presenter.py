"""Presenting in Chromium: the room of the stage, captions, drawers, ink, a clicker, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from browser import launch, serving
from test_page import SQUARE, settled, show

Page = Any

PARTS = ("body > header", "#controls", "main", ".toolbar", "#stage", ".time", "aside", "footer", "#share")


@pytest.fixture(scope="module")
def opened() -> Iterator[Page]:
    with serving() as address, launch(viewport={"width": 1280, "height": 720}) as page:
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
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.evaluate("() => window.attnflow.presenter.leave()")
    opened.mouse.move(2, 2)
    opened.evaluate("() => { window.attnflow.stage.choose(-1); window.attnflow.stage.fit(); }")
    show(opened, SQUARE)
    seek(opened, 0)
    opened.locator("#stage").focus()
    yield opened
    assert not wrong


def seek(page: Page, frame: int) -> None:
    page.evaluate(
        "k => { const {player, store} = window.attnflow; player.pause(); player.seek(k); store.notify('player'); }",
        frame,
    )
    settled(page)
    drawn(page)


def drawn(page: Page) -> None:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


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


def test_the_stage_takes_the_window(page: Page) -> None:
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


def test_a_large_caption_says_what_is_seen_at_this_moment(page: Page) -> None:
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


def test_marks_are_thick_and_tokens_go_where_they_are_dragged(page: Page) -> None:
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


def test_drawers_open_by_keys_and_by_their_handles(page: Page) -> None:
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
    assert page.evaluate("() => document.activeElement.dataset.side") == "left"
    page.keyboard.press("Enter")
    assert not page.evaluate(hidden, ["#controls"])
    assert page.locator(".handle[data-side=left]").get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert not presenting(page)


INK = """() => {
    const ink = document.querySelector("#ink");
    const {data} = ink.getContext("2d").getImageData(0, 0, ink.width, ink.height);
    let count = 0;
    for (let k = 3; k < data.length; k += 4) count += data[k] > 0;
    return count;
}"""


def test_ink_is_drawn_over_the_stage_and_wiped(page: Page) -> None:
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


def test_a_clicker_goes_through_the_figures_or_whatever_takes_its_place(page: Page) -> None:
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


def test_leaving_restores_the_page(page: Page) -> None:
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
