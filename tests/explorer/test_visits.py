"""Small things that a visitor of the explorer's page notices: keys, history, links, fields, a full house."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browser import SEEN, shared_address
from larger import details
from visits import settled, state

pytestmark = details

Page = Any


@pytest.fixture(scope="module")
def address() -> str:
    return shared_address()


def test_the_hint_is_gone_while_the_run_plays(page: Page) -> None:
    hint = page.locator("#hint")
    assert hint.inner_text() == "Drag a token. Turn β to infinity. Press space."
    page.locator("#play").click()
    hint.wait_for(state="hidden")
    page.locator("#play").click()


def test_a_phone_is_not_told_of_keys(page: Page, address: str) -> None:
    context = page.context.browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    try:
        context.add_init_script(SEEN)
        phone = context.new_page()
        phone.route_web_socket("**/ws", lambda line: None)
        phone.goto(address)
        phone.locator("#hint").wait_for(state="visible")
        assert phone.locator("#hint").inner_text() == "Drag a token. Turn β to infinity. Press play."
    finally:
        context.close()


def test_space_plays_after_a_figure_was_chosen(page: Page) -> None:
    menu = page.locator("#preset")
    menu.focus()
    page.mouse.move(5, 5)
    page.mouse.down()
    page.mouse.up()
    menu.focus()
    menu.select_option("fw/run")
    settled(page)
    page.keyboard.press("Space")
    page.wait_for_function("() => window.attnflow.player.playing")
    page.keyboard.press("Space")
    page.wait_for_function("() => !window.attnflow.player.playing")


def test_keys_in_a_menu_stay_there(page: Page) -> None:
    menu = page.locator("#clock")
    menu.focus()
    page.keyboard.press("ArrowDown")
    page.evaluate("() => document.querySelector('#clock').dispatchEvent(new Event('change', {bubbles: true}))")
    assert page.evaluate("() => document.activeElement.id") == "clock"
    page.evaluate("() => window.attnflow.store.setState({clock: 'linear'})")


def test_back_and_forward_go_from_screen_to_screen(page: Page, address: str) -> None:
    page.goto(f"{address}#preset=fw/run")
    settled(page)
    page.locator("#until").fill("7")
    page.locator("#preset").select_option("hardmax/layers/square")  # at once, before the address was written
    settled(page)
    square = state(page)
    page.wait_for_function("() => location.hash === '#preset=hardmax/layers/square'")
    before = page.evaluate("() => history.length")
    page.locator("#until").fill("9")
    page.wait_for_function("() => !location.hash.startsWith('#preset=')")
    assert page.evaluate("() => history.length") == before
    page.go_back()
    page.wait_for_function("() => window.attnflow.store.state.until === 7")
    settled(page)
    assert state(page)["law"] != square["law"] or state(page)["tokens"] != square["tokens"]
    page.go_forward()
    page.wait_for_function("() => window.attnflow.store.state.until === 9")
    settled(page)
    assert state(page) == {**square, "until": 9}


def test_back_comes_to_an_untouched_figure_by_its_name(page: Page) -> None:
    page.locator("#preset").select_option("fw/run")
    settled(page)
    page.locator("#preset").select_option("fw/rates")
    settled(page)
    page.go_back()
    page.wait_for_function("() => document.querySelector('#preset').value === 'fw/run'")
    settled(page)
    assert page.evaluate("() => location.hash") == "#preset=fw/run"
    assert page.evaluate("() => window.attnflow.store.figure.name") == "fw/run"


@pytest.mark.parametrize("hash", ["#preset=fw%2Frates", "#preset%3Dfw%2frates"])
def test_a_slash_may_be_written_as_others_write_it(page: Page, hash: str) -> None:
    page.evaluate("hash => (location.hash = hash)", hash)
    page.wait_for_function("() => document.querySelector('#preset').value === 'fw/rates'")
    settled(page)
    assert page.locator("#status").inner_text() == ""
    page.go_back()
    page.wait_for_function("() => document.querySelector('#preset').value === 'fw/run'")


@pytest.mark.parametrize("hash", ["#preset=%E0%A4%A", "#%"])
def test_letters_that_mean_nothing_are_refused_in_a_sentence(page: Page, hash: str) -> None:
    page.evaluate("hash => (location.hash = hash)", hash)
    page.wait_for_function("() => /(first screen|link anew)[.]$/.test(document.querySelector('#status').textContent)")
    settled(page)


WIDTHS = """() => {
    const context = document.createElement("canvas").getContext("2d");
    const width = (element, text) => {
        const style = getComputedStyle(element);
        context.font = style.font;
        const edges = [style.paddingLeft, style.paddingRight, style.borderLeftWidth, style.borderRightWidth];
        const room = element.getBoundingClientRect().width - edges.map(parseFloat).reduce((a, b) => a + b);
        return room - context.measureText(text).width;
    };
    const fields = [...document.querySelectorAll("#until, #seed, #law-threshold")];
    return fields.filter((one) => one.offsetParent).map((one) => [one.id, Math.min(...(one.options
        ? [...one.options].map((each) => width(one, each.textContent)) : [width(one, one.value)]))]);
}"""


@pytest.mark.parametrize("wide", [1280, 1000, 390])
def test_fields_show_what_is_in_them(page: Page, wide: int) -> None:
    page.set_viewport_size({"width": wide, "height": 844})
    change = {"law": {"name": "localmax", "delta": 0.6}, "motion": {"name": "jumps", "gamma": 0.1}, "until": 10**12}
    page.evaluate("patch => window.attnflow.store.setState(patch)", change)
    room = dict(page.evaluate(WIDTHS))
    assert room.keys() == {"until", "seed", "law-threshold"}
    assert min(room.values()) >= 0, room
    page.evaluate("() => window.attnflow.store.undo()")


START = {"kind": "start", "n": 1, "d": 2, "discrete": True, "tokens": [[0, 1]], "until": 60}


def test_a_page_without_room_is_one_sentence_until_there_is_room(page: Page, address: str) -> None:
    room = False

    def server(line: Any) -> None:
        if room:
            line.on_message(lambda text: line.send(json.dumps({**START, "id": json.loads(text)["id"]})))
            return
        sentence = "this explorer serves 4 pages at once, and all are open: wait or close one"
        line.send(json.dumps({"kind": "refused", "id": None, "sentence": sentence}))
        line.close(code=1013)

    other = page.context.new_page()
    try:
        other.route_web_socket("**/ws", server)
        other.add_init_script(
            "{ const {setTimeout} = window;"
            "window.setTimeout = (f, delay, ...rest) => setTimeout(f, delay >= 8000 ? 500 : delay, ...rest); }"
        )
        other.goto(address)
        waiting = other.locator("#waiting-room")
        waiting.wait_for(state="visible")
        assert "This explorer serves 4 pages at once, and all are open: wait or close one." in waiting.inner_text()
        box = waiting.bounding_box()
        assert (box["width"], box["height"]) == (1280, 860)
        room = True
        waiting.wait_for(state="hidden")
        assert other.evaluate("() => window.attnflow.store.run.n") == 1
    finally:
        other.close()
