"""A page of the explorer that several files of tests use: opened once a file, with what visitors do and see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browser import PATIENCE, launch, shared_address

Page = Any

SQUARE: dict[str, Any] = {
    "tokens": [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.5, 0.2]],
    "law": {"name": "softmax", "beta": "inf"},
    "motion": {"name": "layers", "gamma": 0.5},
    "until": 12,
    "seed": 0,
    "clock": "linear",
}
SOFT: dict[str, Any] = {**SQUARE, "law": {"name": "softmax", "beta": 4, "B": [[2.0, 0.0], [0.0, 1.0]]}}
# Every text on a canvas is kept with its colour.
KEEP = """{
    window.texts = [];
    const {fillText} = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillText = function (...given) {
        window.texts.push([this.canvas.id || this.canvas.parentElement?.id, given[0], this.fillStyle]);
        return fillText.apply(this, given);
    };
}"""


@pytest.fixture(scope="module")
def opened() -> Iterator[Page]:
    """Open the page of the shared explorer, in a window that a laptop has."""
    with launch(viewport={"width": 1280, "height": 860}) as page:
        page.add_init_script(KEEP)
        page.goto(shared_address())
        yield page


@pytest.fixture
def page(opened: Page) -> Iterator[Page]:
    """Give the page to one test as it was opened; what fails in it fails the test."""
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.set_viewport_size({"width": 1280, "height": 860})
    settled(opened)
    yield opened
    opened.evaluate("() => document.querySelectorAll('#placing [aria-pressed=true]').forEach((one) => one.click())")
    opened.evaluate("() => window.attnflow.store.setView({tool: 'move'})")
    assert not wrong


def settled(page: Page) -> None:
    """Wait until a run is there and nothing is asked for."""
    page.wait_for_function(
        """() => {
            const {store, player, requests} = window.attnflow ?? {};
            return store?.run && player.count > 1 && requests.idle();
        }"""
    )


def show(page: Page, state: dict[str, Any]) -> None:
    """Open a state, and wait for its run."""
    page.evaluate("state => window.attnflow.store.open({state})", state)
    settled(page)


def judged(page: Page) -> None:
    """Wait until all claims have their verdicts on what is shown."""
    page.wait_for_function(
        """() => {
            const {claims} = window.attnflow.store;
            return claims.size && claims.waiting === false && [...claims.values()].every((one) => !one.stale);
        }"""
    )


def state(page: Page) -> dict[str, Any]:
    """Return the state on the screen."""
    return dict(page.evaluate("() => window.attnflow.store.state"))


def copied(page: Page, what: str) -> str:
    """Press a button that copies, and return the text."""
    page.evaluate("() => navigator.clipboard.writeText('')")
    page.locator(f"#copy-{what}").click()
    for _ in range(PATIENCE // 50):
        if text := page.evaluate("() => navigator.clipboard.readText()"):
            return str(text)
        page.wait_for_timeout(50)
    raise AssertionError(f"copying {what} left the clipboard empty")
