"""The explorer's page in Chromium, used as people use it, against runs, cells and claims computed here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from browser import launch, shared_address
from larger import larger
from numpy.typing import NDArray
from visits import copied, settled

import attnflow as af
from attnflow.explorer import presets
from attnflow.explorer.state import arguments, read

Array = NDArray[np.float64]
Page = Any

SQUARE: dict[str, Any] = {
    "tokens": [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.5, 0.2]],
    "law": {"name": "softmax", "beta": "inf"},
    "motion": {"name": "layers", "gamma": 0.5},
    "until": 12,
}


@pytest.fixture(scope="module")
def address() -> str:
    return shared_address()


@pytest.fixture(scope="module")
def opened(address: str) -> Iterator[tuple[Page, list[str]]]:
    """A page, and what went wrong on it: errors of scripts, requests to other hosts."""
    with launch(viewport={"width": 1280, "height": 860}, permissions=["clipboard-read", "clipboard-write"]) as page:
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        home = (address, address.replace("http:", "ws:"), "blob:", "data:", "about:")
        page.on("request", lambda request: None if request.url.startswith(home) else wrong.append(request.url))
        # Otherwise the picture comes to its place by and by, while tokens are dragged.
        page.emulate_media(reduced_motion="reduce")
        page.goto(address)
        yield page, wrong


@pytest.fixture
def page(opened: tuple[Page, list[str]]) -> Iterator[Page]:
    page, wrong = opened
    settled(page)
    yield page
    assert not wrong


def show(page: Page, state: dict[str, Any]) -> None:
    """Put a state on the screen."""
    page.evaluate("state => window.attnflow.store.setState(state)", {"seed": 0, "clock": "linear", **state})
    settled(page)


def start(page: Page) -> Array:
    return np.array(page.evaluate("() => window.attnflow.store.run.tokens"))


def final(page: Page) -> Array:
    """Return the last frame."""
    found = page.evaluate(
        "() => { const {player: p} = window.attnflow; return [Array.from(p.frame(p.count - 1)), p.n, p.d]; }"
    )
    return np.array(found[0]).reshape(found[1], found[2])


def drag(page: Page, token: int, to: tuple[float, float]) -> None:
    """Drag a token, by the mouse, to a point given in coordinates of the picture; the camera stays where it is."""
    places = page.evaluate(
        "() => { const {stage, store} = window.attnflow; return store.run.tokens.map((_, i) => stage.place(i)); }"
    )
    x = start(page)
    pixels = np.array([[place["x"], place["y"]] for place in places])
    # Pixels are an affine function of coordinates: found from the tokens themselves.
    ones = np.column_stack([x, np.ones(len(x))])
    affine = np.linalg.lstsq(ones, pixels, rcond=None)[0]
    there = np.array([*to, 1.0]) @ affine
    page.mouse.move(*pixels[token])
    page.mouse.down()
    page.mouse.move(*((pixels[token] + there) / 2), steps=4)
    page.mouse.move(*there, steps=4)
    page.mouse.up()
    settled(page)


def outcome(page: Page, claim: str, wanted: str) -> Any:
    """Wait for the verdict on a claim and return its row."""
    row = page.locator(f'#claims [data-claim="{claim}"]')
    page.wait_for_selector(f'#claims [data-claim="{claim}"][data-outcome="{wanted}"]', state="attached")
    return row


def test_a_token_dragged_across_a_boundary_changes_its_cell(page: Page) -> None:
    show(page, SQUARE)
    vertices = np.array(SQUARE["tokens"][:4])
    cells = af.geometry.cells(vertices)

    def told() -> tuple[int, Any]:
        overlays = page.evaluate("() => window.attnflow.store.overlays")
        return overlays["cells"][overlays["labels"][4]]["vertex"], page.locator("#token-list").text_content()

    before, listed = told()
    assert before == cells.label([[0.5, 0.2]])[0] == 0
    drag(page, 4, (-0.5, -0.3))
    here = start(page)[4]
    np.testing.assert_allclose(here, [-0.5, -0.3], atol=0.03)
    after, relisted = told()
    assert after == cells.label([here])[0] == 2
    assert relisted != listed


def test_beta_slides_to_infinity_and_becomes_hardmax(page: Page) -> None:
    cloud = {"cloud": "gaussian", "n": 12, "d": 2, "seed": 3}
    soft = {"tokens": cloud, "law": {"name": "softmax", "beta": 1.0}, "motion": {"name": "layers", "gamma": 0.4}}
    show(page, {**soft, "until": 25})
    x0 = af.tokens.gaussian(n=12, d=2, seed=3)
    expected = af.simulate(x0, af.Softmax(beta=1.0), af.Layers(gamma=0.4), until=25)
    np.testing.assert_allclose(final(page), expected.final, rtol=0, atol=1e-12)
    page.locator("#law-beta-slider").focus()
    page.keyboard.press("End")
    settled(page)
    assert page.evaluate("() => window.attnflow.store.state.law.beta") == "inf"
    hard = af.simulate(x0, af.Hardmax(), af.Layers(gamma=0.4), until=25)
    np.testing.assert_allclose(final(page), hard.final, rtol=0, atol=1e-12)
    assert np.abs(hard.final - expected.final).max() > 0.1
    drawn = page.evaluate("() => window.attnflow.store.overlays.cells.map(cell => cell.vertex)")
    assert sorted(drawn) == sorted(af.geometry.hull(x0).indices.tolist())


@pytest.mark.parametrize(
    "name", ["fw/run", "emergence/polytope-3d", pytest.param("emergence/one-dimension", marks=larger)]
)
def test_a_preset_comes_by_its_address(page: Page, address: str, name: str) -> None:
    # The first into a new page, the others into a page that is open.
    if name == "fw/run":
        page.goto("about:blank")
    page.goto(f"{address}#preset={name}")
    page.wait_for_function("name => window.attnflow?.store.figure?.name === name", arg=name)
    settled(page)
    preset = next(preset for preset in presets.PRESETS if preset.name == name)
    state = read(preset.state)
    np.testing.assert_array_equal(start(page), state.tokens)
    np.testing.assert_allclose(final(page), af.simulate(**arguments(state)).final, rtol=0, atol=1e-12)
    assert page.locator("#preset").input_value() == name


def test_a_link_shows_the_same_screen(page: Page, address: str) -> None:
    show(page, SQUARE)
    drag(page, 4, (0.2, -0.6))
    page.locator("#scrub").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    link = copied(page, "link")
    assert link.startswith(f"{address}#")
    seen = "() => { const {store, player} = window.attnflow; return [store.state, store.view, player.frameIndex()]; }"
    state, view, frame = page.evaluate(seen)
    assert frame > 0
    page.goto("about:blank")
    page.goto(link)
    settled(page)
    again = page.evaluate(seen)
    assert again[0] == state
    assert again[2] == frame
    assert {k: again[1][k] for k in ("t", "show", "camera")} == {k: view[k] for k in ("t", "show", "camera")}


@pytest.mark.parametrize(
    "motion", [{"name": "layers", "gamma": "2 / (t + 2)"}, pytest.param({"name": "rescaled-flow"}, marks=larger)]
)
def test_copied_python_reproduces_the_tokens(page: Page, motion: dict[str, Any]) -> None:
    show(page, {**SQUARE, "law": {"name": "softmax", "beta": 3.0}, "motion": motion, "until": 6})
    drag(page, 4, (-0.31, 0.57))
    names: dict[str, Any] = {}
    exec(copied(page, "python"), names)
    np.testing.assert_allclose(names["run"].final, final(page), rtol=0, atol=1e-12)


def test_a_verdict_flips_when_a_drag_breaks_its_hypothesis(page: Page) -> None:
    show(page, SQUARE)
    assert af.check("fw/straight-lines", tokens=SQUARE["tokens"], gamma=0.5, steps=12).outcome == "holds"
    outcome(page, "fw/straight-lines", "holds")
    drag(page, 4, (1.6, 0.9))
    moved = start(page)
    assert af.check("fw/straight-lines", tokens=moved, gamma=0.5, steps=12).outcome == "hypotheses not met"
    row = outcome(page, "fw/straight-lines", "hypotheses not met")
    broken = row.locator('[data-given][data-outcome="fails"]')
    assert broken.count() == 1
    assert broken.get_attribute("data-given") == "generic polytope"


def test_keys_choose_move_remove_and_bring_back_a_token(page: Page) -> None:
    show(page, SQUARE)
    page.locator("#stage").focus()
    page.keyboard.press("]")
    page.keyboard.press("ArrowRight")
    settled(page)
    moved = start(page) - np.array(SQUARE["tokens"])
    assert np.count_nonzero(np.abs(moved).sum(axis=1)) == 1
    assert moved.max() > 0
    assert moved.min() == 0
    page.keyboard.press("Delete")
    settled(page)
    assert len(start(page)) == 4
    page.keyboard.press("Control+z")
    settled(page)
    assert len(start(page)) == 5


def test_a_refusal_is_a_sentence_and_the_picture_stays(page: Page) -> None:
    show(page, SQUARE)
    before = final(page)
    page.evaluate(
        "() => window.attnflow.store.setState({motion: {name: 'layers', gamma: 3}})",
    )
    page.wait_for_function("() => document.querySelector('#status').textContent.includes('gamma')")
    np.testing.assert_array_equal(final(page), before)
    show(page, SQUARE)
    page.wait_for_function("() => !document.querySelector('#status').textContent.includes('gamma')")


def test_a_refusal_that_comes_late_is_not_said(page: Page) -> None:
    """It is about a screen that was left; the server itself, whose sentences have no number, is still heard."""
    show(page, SQUARE)
    receive = "(given) => window.attnflow.requests.receive({kind: 'refused', ...given})"
    page.evaluate(receive, {"id": 0, "sentence": "gamma is 3"})
    page.evaluate(receive, {"id": None, "sentence": "the message is too long"})
    page.wait_for_function("() => document.querySelector('#status').textContent.includes('too long')")
    page.evaluate(receive, {"id": 0, "sentence": "gamma is 3"})
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert "too long" in page.locator("#status").text_content()
    show(page, {**SQUARE, "until": 11})
    page.wait_for_function("() => document.querySelector('#status').textContent === ''")


def test_a_damaged_link_is_a_sentence_and_the_page_goes_on(page: Page, address: str) -> None:
    show(page, SQUARE)
    page.goto(f"{address}#bm90IGEgbGluaw")
    page.wait_for_function("() => document.querySelector('#status').textContent.includes('link')")
    settled(page)
    assert len(start(page)) > len(SQUARE["tokens"])


def test_exports_hold_what_is_on_the_screen(page: Page, tmp_path: Any) -> None:
    show(page, SQUARE)
    found = {}
    for name in ("png", "svg", "data"):
        with page.expect_download() as waiting:
            page.locator(f"#export-{name}").click()
        found[name] = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(found[name])
    assert found["png"].read_bytes().startswith(b"\x89PNG")
    assert found["svg"].read_text().startswith("<svg")
    with np.load(found["data"]) as data:
        np.testing.assert_array_equal(data["tokens"][0], SQUARE["tokens"])
        np.testing.assert_array_equal(data["tokens"][-1], final(page))
        assert json.loads(str(data["state"]))["law"] == SQUARE["law"]
