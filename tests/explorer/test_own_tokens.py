"""Tokens of one's own on the stage: pasted, dropped, opened and drawn."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from larger import details
from visits import SOFT, settled, show

pytestmark = details

Page = Any


@pytest.fixture
def softmax(page: Page) -> None:
    show(page, SOFT)


def tokens(page: Page) -> list[list[float]]:
    return list(page.evaluate("() => window.attnflow.store.state.tokens"))


GIVE = """([kind, text, file]) => {
    const data = new DataTransfer();
    if (file) data.items.add(new File([text], file));
    else data.setData("text/plain", text);
    const Kind = kind === "paste" ? ClipboardEvent : DragEvent;
    const event = new Kind(kind, {bubbles: true, cancelable: true, clipboardData: data, dataTransfer: data});
    (document.activeElement ?? document.body).dispatchEvent(event);
    return event.defaultPrevented;
}"""


@pytest.mark.parametrize(("kind", "file"), [("paste", ""), ("paste", "a.csv"), ("drop", "a.csv"), ("drop", "")])
@pytest.mark.usefixtures("softmax")
def test_tokens_are_pasted_and_dropped_and_undone_at_once(page: Page, kind: str, file: str) -> None:
    page.evaluate("() => document.activeElement.blur()")
    assert page.evaluate(GIVE, [kind, "0,1\n2,3\n4,6.5", file])
    page.wait_for_function("() => window.attnflow.store.state.tokens.length === 3")
    settled(page)
    assert tokens(page) == [[0, 1], [2, 3], [4, 6.5]]
    what = file or {"paste": "what was pasted", "drop": "what was dropped"}[kind]
    assert page.locator("#status").inner_text() == f"3 tokens from {what}."
    assert page.locator("#drop-here").is_hidden()
    page.evaluate("() => window.attnflow.store.undo()")
    assert tokens(page) == SOFT["tokens"]


@pytest.mark.usefixtures("softmax")
def test_a_text_field_keeps_what_is_pasted_into_it(page: Page) -> None:
    page.locator("#until").focus()
    assert not page.evaluate(GIVE, ["paste", "0,1\n2,3", ""])
    assert tokens(page) == SOFT["tokens"]


@pytest.mark.usefixtures("softmax")
def test_a_file_in_space_brings_matrices_of_its_size(page: Page) -> None:
    x = np.random.default_rng(5).standard_normal((6, 3))
    np.save(saved := io.BytesIO(), x)
    file = {"name": "cloud.npy", "mimeType": "application/octet-stream", "buffer": saved.getvalue()}
    page.locator("#token-file").set_input_files(file)
    page.wait_for_function("() => window.attnflow.store.run.d === 3")
    settled(page)
    assert np.array_equal(tokens(page), x)
    assert page.locator("#status").inner_text() == "6 tokens from cloud.npy."
    form = page.evaluate("() => window.attnflow.store.state.law.B")
    assert form is None or np.shape(form) == (3, 3)
    assert page.locator("#stage-refusal").is_hidden()


@pytest.mark.usefixtures("softmax")
def test_a_bad_file_leaves_the_tokens_and_says_why(page: Page) -> None:
    file = {"name": "wide.csv", "mimeType": "text/csv", "buffer": b"1,2,3,4"}
    page.locator("#token-file").set_input_files(file)
    page.wait_for_function("() => document.querySelector('#status').textContent.startsWith('wide.csv has 4 columns')")
    assert tokens(page) == SOFT["tokens"]


@pytest.mark.usefixtures("softmax")
def test_on_the_sphere_tokens_are_moved_to_it(page: Page) -> None:
    page.locator("#motion").select_option("sphere-layers")
    settled(page)
    page.evaluate("() => document.activeElement.blur()")
    page.evaluate(GIVE, ["paste", "3 4\n0 2", ""])
    page.wait_for_function("() => window.attnflow.store.state.tokens.length === 2")
    settled(page)
    assert tokens(page) == [[0.6, 0.8], [0, 1]]
    assert page.locator("#status").inner_text().endswith(", moved to the sphere.")
    page.evaluate(GIVE, ["paste", "3 4\n0 0", ""])
    page.wait_for_function("() => document.querySelector('#status').textContent.startsWith('Row 2 of what was pasted')")


def tool(page: Page, name: str) -> None:
    page.locator(f"#tools input[value={name}]").check(force=True)


def stroke(page: Page, *points: tuple[float, float]) -> None:
    """Draw through pixels of the stage, counted from its middle."""
    box = page.locator("#stage").bounding_box()
    middle = np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
    page.mouse.move(*(middle + points[0]))
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*(middle + point), steps=6)
    page.mouse.up()
    settled(page)


def pixels(page: Page) -> Any:
    where = "({store, stage}) => store.state.tokens.map((_, i) => Object.values(stage.place(i)))"
    return np.array(page.evaluate(f"() => ({where})(window.attnflow)"))


@pytest.mark.usefixtures("softmax")
def test_a_stroke_drops_tokens_evenly_and_is_undone_at_once(page: Page) -> None:
    tool(page, "draw")
    stroke(page, (-90, 40), (90, 40))
    drawn = pixels(page)[5:]
    assert len(drawn) == 11
    steps = np.linalg.norm(np.diff(drawn, axis=0), axis=1)
    assert np.allclose(steps, 18, atol=1e-6)
    page.evaluate("() => window.attnflow.store.undo()")
    assert tokens(page) == SOFT["tokens"]


@pytest.mark.usefixtures("softmax")
def test_a_slow_gesture_is_one_step_of_undo(page: Page) -> None:
    page.evaluate(
        "() => { window.now = performance.now; performance.now = () => window.now.call(performance) * 1000; }"
    )
    try:
        tool(page, "draw")
        stroke(page, (-90, 40), (90, 40))
        page.evaluate("() => window.attnflow.store.undo()")
        assert tokens(page) == SOFT["tokens"]
        tool(page, "move")
        middle = pixels(page)[4]
        page.mouse.move(*middle)
        page.mouse.down()
        for far in (20, 40, 60):
            page.mouse.move(middle[0] + far, middle[1], steps=3)
            page.wait_for_function("at => window.attnflow.stage.place(4).x > at - 2", arg=middle[0] + far)
        page.mouse.up()
        page.evaluate("() => window.attnflow.store.undo()")
        assert tokens(page) == SOFT["tokens"]
    finally:
        page.evaluate("() => (performance.now = window.now)")


@pytest.mark.usefixtures("softmax")
def test_mirrors_and_the_grid_hold_for_what_is_drawn_added_and_moved(page: Page) -> None:
    for switch in ("mirrorX", "mirrorY", "snap"):
        page.locator(f"#placing-{switch}").click()
    tool(page, "draw")
    stroke(page, (20, -30), (140, -70))
    drawn = tokens(page)[5:]
    made = {tuple(row) for row in drawn}
    assert len(made) == len(drawn) > 8  # on the grid no point is made twice
    for x, y in made:
        assert {(x, -y), (-x, y), (-x, -y)} <= {(u + 0.0, v + 0.0) for u, v in made}
    step = page.evaluate(
        """async () => {
            const {gridStep} = await import("/page/placing.js");
            const [a, b] = [0, 1].map((i) => window.attnflow.stage.place(i));
            return gridStep({scale: (a.x - b.x) / 2});
        }"""
    )
    assert np.allclose(np.array(drawn) / step, np.round(np.array(drawn) / step), atol=1e-9)
    page.evaluate("() => window.attnflow.store.undo()")
    assert tokens(page) == SOFT["tokens"]

    # A corner is moved with its three images, in one step.
    tool(page, "move")
    corner = pixels(page)[0]
    page.mouse.move(*corner)
    page.mouse.down()
    page.mouse.move(corner[0] - 47, corner[1] + 31, steps=5)
    page.mouse.up()
    settled(page)
    x, y = tokens(page)[0]
    assert (x, y) != (1.0, 1.0)
    assert np.allclose(np.array([x, y]) / step, np.round(np.array([x, y]) / step))
    assert tokens(page)[1:] == [[-x, y], [-x, -y], [x, -y], [0.5, 0.2]]
    page.evaluate("() => window.attnflow.store.undo()")
    assert tokens(page) == SOFT["tokens"]

    # A key moves by a step of the grid.
    page.locator("#stage").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("]")
    page.keyboard.press("ArrowLeft")
    settled(page)
    assert tokens(page)[0] == pytest.approx([1 - step, 1])
    assert tokens(page)[2] == pytest.approx([step - 1, -1])

    tool(page, "add")
    stroke(page, (61, 83))
    assert len(tokens(page)) == 9
