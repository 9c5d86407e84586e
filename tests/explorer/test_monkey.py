"""Random actions on the explorer's page: whatever is clicked, typed, chosen or dragged, nothing fails in any panel."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from browser import launch, shared_address
from larger import larger

Page = Any

KEYS = (
    " ", ".", ",", "]", "[", "n", "p", "h", "i", "+", "-", "0", "?", "Escape", "Tab", "Shift+Tab", "Delete",
    "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Enter", "Home", "End", "PageDown", "PageUp", "Control+z",
    "Control+Shift+z",
)  # fmt: skip
TYPED = ("0", "1", "-3", "1e9", "inf", "2 / (t + 2)", "nonsense", "", "0.5", "1e400", "12", "t", "7.25")
SIZES = ((1280, 860), (1280, 720), (390, 844), (844, 390), (1920, 1080))
# Use one of the controls that are seen, in a dialog that is open first: click, slide, choose or type.
USE = """([which, part, text]) => {
    const open = document.querySelector("dialog[open]") ?? document;
    const kinds = "button, select, input:not([type=file]), summary, textarea";
    // A movie takes long, and has tests of its own.
    const able = (one) => one.checkVisibility() && !one.disabled && !one.id.startsWith("export-m");
    const seen = [...open.querySelectorAll(kinds)].filter(able);
    if (seen.length === 0) return "nothing";
    const one = seen[Math.floor(which * seen.length)];
    const clicked = ["button", "summary"].includes(one.localName) || ["radio", "checkbox"].includes(one.type);
    if (clicked) one.click();
    else {
        one.focus();
        const options = [...(one.options ?? [])].filter((each) => !each.disabled);
        if (one.type === "range") one.value = String(Number(one.min) + part * (Number(one.max) - Number(one.min)));
        else if (options.length) one.value = options[Math.floor(part * options.length)].value;
        else one.value = text;
        for (const event of ["input", "change"]) one.dispatchEvent(new Event(event, { bubbles: true }));
    }
    return `${one.localName} ${one.id || one.textContent.slice(0, 30)} ${one.value ?? ""}`;
}"""
# Words that no reader should see: those of programs, and numbers that are none.
WRONG = re.compile(r"Traceback|TypeError|ValueError|KeyError|AttributeError|IndexError|\[object|undefined|\bNaN\b")


class Monkey:
    """Somebody who does anything, drawn from a seed."""

    def __init__(self, page: Page, seed: int) -> None:
        self.page, self.random = page, Random(seed)
        self.done: list[str] = []

    def act(self) -> None:
        """Do one thing."""
        acts: tuple[tuple[Callable[[], None], int], ...] = (
            (self.use, 9), (self.drag, 5), (self.press, 4), (self.preset, 2), (self.turn, 1), (self.resize, 1)
        )  # fmt: skip
        act = self.random.choices([act for act, _ in acts], [weight for _, weight in acts])[0]
        self.done.append(act.__name__)
        act()

    def use(self) -> None:
        """Use one of the controls that are seen."""
        parts = [self.random.random(), self.random.random(), self.random.choice(TYPED)]
        self.done[-1] += f" {self.page.evaluate(USE, parts)}"

    def drag(self) -> None:
        """Drag, wheel or double-click somewhere on the page, most often on a stage."""
        other = self.page.locator("#other-stage")
        right = other.is_visible() and self.random.random() < 0.5
        box = (other if right else self.page.locator("#stage")).bounding_box()
        if box is None or not box["width"]:
            return
        x, y, u, v = (self.random.random() for _ in range(4))
        mouse = self.page.mouse
        mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        what = self.random.randrange(6)
        if what == 0:
            mouse.wheel(0, 600 * (u - 0.5))
        elif what == 1:
            mouse.dblclick(box["x"] + x * box["width"], box["y"] + y * box["height"])
        else:
            if what > 2:
                place = self.page.evaluate(
                    "([part, right]) => { const {stage, player} = right ? window.attnflow.compare : window.attnflow;"
                    " return player.n ? stage.place(Math.floor(part * player.n)) : null; }",
                    [u, right],
                )
                if place and all(isinstance(place[c], int | float) and abs(place[c]) < 1e4 for c in "xy"):
                    mouse.move(place["x"], place["y"])
            mouse.down()
            mouse.move(box["x"] + u * box["width"], box["y"] + v * box["height"], steps=2)
            mouse.up()

    def press(self) -> None:
        """Press a key, perhaps on the stage."""
        if self.random.random() < 0.6:
            self.page.locator("#stage").evaluate("one => one.focus()")
        key = self.random.choice(KEYS)
        self.done[-1] += f" {key}"
        self.page.keyboard.press(key)

    def preset(self) -> None:
        """Open one of the figures."""
        names = self.page.evaluate("() => [...document.querySelector('#preset').options].map((one) => one.value)")
        name = self.random.choice([name for name in names if name] or [""])
        self.done[-1] += f" {name}"
        self.page.evaluate("name => { location.hash = `preset=${name}`; }", name)

    def turn(self) -> None:
        """Go back, go to a story or to an address that means nothing."""
        where = self.random.choice(["#story/1", "#story/4", "#story/99", "#bm90IGEgbGluaw", "#preset=none", ""])
        self.done[-1] += f" {where}"
        if where:
            self.page.evaluate("hash => { location.hash = hash; }", where)
        else:
            self.page.evaluate("() => history.back()")

    def resize(self) -> None:
        """Take another window."""
        width, height = self.random.choice(SIZES)
        self.page.set_viewport_size({"width": width, "height": height})


@pytest.fixture(scope="module")
def address() -> str:
    return shared_address()


@pytest.mark.parametrize(
    ("seed", "actions"), [(0, 16), *(pytest.param(seed, 2000, marks=larger) for seed in (1, 2, 3))]
)
def test_nothing_fails_whatever_is_done(address: str, seed: int, actions: int) -> None:
    with launch(viewport={"width": 1280, "height": 860}, accept_downloads=True) as page:
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(f"{error}\n{error.stack}"))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.goto(address)
        page.wait_for_function("() => window.attnflow?.player.count > 1")
        # A page that was left has nothing to act on.
        page.evaluate("() => history.pushState(null, '')")
        monkey = Monkey(page, seed)
        for _ in range(actions):
            monkey.act()
            said = page.evaluate("() => document.body.innerText")
            found = WRONG.search(said)
            context = said[max(0, found.start() - 200) : found.end() + 200] if found else ""
            assert found is None, f"the page says {context!r} after {monkey.done[-12:]}"
            assert not wrong, f"{wrong} after {monkey.done[-12:]}"
        # Whatever was done, the page still serves.
        page.set_viewport_size({"width": 1280, "height": 860})
        page.evaluate("() => document.querySelectorAll('dialog[open]').forEach((one) => one.close())")
        page.evaluate("() => { location.hash = 'preset=fw/run'; }")
        page.wait_for_function(
            "() => window.attnflow.store.figure?.name === 'fw/run' && window.attnflow.requests.idle()"
        )
        assert not wrong
