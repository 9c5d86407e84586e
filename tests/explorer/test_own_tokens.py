"""Tokens of one's own: files of NumPy, tables and JSON against NumPy; strokes, mirrors and the grid on the stage."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from browser import launch, serving
from modules import importing
from numpy.lib import format as npy

Page = Any

RNG = np.random.default_rng(5)


@pytest.fixture(scope="module")
def module() -> Iterator[Page]:
    with importing() as page:
        yield page


READ = """async ([text, name]) => {
    const {tokensFromFile} = await import("/page/token_files.js");
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    try {
        return {rows: tokensFromFile(bytes.buffer, name)};
    } catch (error) {
        return {said: error.message};
    }
}"""


def read(page: Page, content: bytes, name: str = "tokens") -> dict[str, Any]:
    return dict(page.evaluate(READ, [base64.b64encode(content).decode(), name]))


def saved(x: Any, version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    npy.write_array(file, np.asanyarray(x), version=version)
    return file.getvalue()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("type", ["<f8", "<f4", "<i4", "<i8"])
def test_arrays_of_numpy_are_read_number_by_number(module: Page, type: str, order: Any, version: Any) -> None:
    for shape in ((7, 2), (1, 3), (5, 1), (4,)):
        x = np.asarray(100 * RNG.standard_normal(shape), dtype=type, order=order)
        rows = read(module, saved(x, version))["rows"]
        assert np.array_equal(np.array(rows), x.reshape(len(x), -1).astype(float))


@pytest.mark.parametrize("delimiter", [" ", ",", ";", "\t"])
@pytest.mark.parametrize("header", ["", "x y"])
def test_tables_of_numpy_are_read_number_by_number(module: Page, delimiter: str, header: str) -> None:
    for d in (1, 2, 3):
        x = RNG.standard_normal((6, d)) * 10.0 ** RNG.integers(-20, 5, (6, d))
        file = io.StringIO()
        np.savetxt(file, x, delimiter=delimiter, header=header)
        assert np.array_equal(np.array(read(module, file.getvalue().encode())["rows"]), x)


def test_tables_as_people_write_them(module: Page) -> None:
    half = [[0.5, -1.0], [2.0, 3.0]]
    for text in (
        "x,y\n.5,-1\n2.,3\n",
        "x;y\r\n0,5;-1\r\n2;3,0\r\n",
        "0,5\t-1\n2\t3",
        "# a note\n\n0.5 -1 # the first\n  2   3\n",
        '"x","y"\n"0.5","-1"\n"2","3"\n',
        "5e-1, \u22121,\n2, 3,\n",
        "\ufeff0.5,-1\n2,3",
        "[[0.5, -1], [2, 3]]",
        '{"tokens": [[0.5, -1], [2, 3]]}',
    ):
        assert read(module, text.encode()) == {"rows": half}, text
    assert read(module, b"[1, 2, 3]") == {"rows": [[1], [2], [3]]}


WIDE = "take some, or the first two principal components in Python: y = x - x.mean(0); "
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b" \n", "tokens is empty: give rows of one to three numbers"),
    "words": (b"hello\n", "tokens has no numbers"),
    "not a number": (b"1,2\n3,nan\n", "Line 2 of tokens has “nan”"),
    "first not a number": (b"nan nan\n1 2\n", "Line 1 of tokens has “nan”"),
    "a word below": (b"1,2\na,b\n", "Line 2 of tokens has “a”"),
    "ragged": (b"1,2\n3\n", "Row 2 of tokens has 1 numbers and row 1 has 2"),
    "four columns": (b"1,2,3,4\n", f"tokens has 4 columns, and at most 3 can be shown: {WIDE}"),
    "wide array": (saved(np.zeros((3, 64))), f"tokens has 64 columns, and at most 3 can be shown: {WIDE}"),
    "json": (b"[[1, 2", "tokens begins like JSON, but is not"),
    "json of null": (b"[[1, null]]", "Row 1 of tokens has null, expected finite numbers."),
    "json of texts": (b'[["1", 2]]', 'Row 1 of tokens has "1"'),
    "json of lists": (b"[[[1, 2]]]", "Row 1 of tokens has [1,2]"),
    "json of nothing": (b"{}", "tokens holds no list"),
    "json without rows": (b"[]", "tokens has no tokens"),
    "json of empty rows": (b"[[]]", "Row 1 of tokens has 0 numbers"),
    "infinite": (saved([[np.inf, 0.0]]), "Row 1 of tokens has Infinity"),
    "objects": (
        b"\x93NUMPY\x01\x00\x36\x00{'descr': '|O', 'fortran_order': False, 'shape': (2,)}\n",
        "tokens holds Python objects",
    ),
    "big-endian": (saved(np.zeros((2, 2), ">f8")), "tokens holds numbers of type >f8"),
    "with names": (saved(np.zeros(2, [("x", "<f8")])), "tokens holds numbers of type with names"),
    "a run": (saved(np.zeros((2, 2, 2))), "tokens has shape (2, 2, 2)"),
    "cut": (saved(np.zeros((9, 2)))[:-8], "tokens is damaged"),
    "header alone": (saved(np.zeros((9, 2)))[:20], "tokens is damaged"),
    "archive": (b"PK\x03\x04rest", "tokens is an archive"),
    "bytes": (b"\xff\xfe\x00\x01", "tokens is no text"),
    "many": (saved(np.zeros((40001, 2), "<f4")), "tokens has 40,001 tokens, expected at most 40,000"),
    "absurd shape": (saved(np.zeros(2)).replace(b"(2,)", b"(99999999,)"[:4] + b")"), "tokens is damaged"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_refused_in_one_sentence(module: Page, name: str) -> None:
    content, said = BAD[name]
    answer = read(module, content)
    assert answer.get("said", "").startswith(said), answer
    assert answer["said"].endswith(".")
    assert "\n" not in answer["said"]


# On the page


@pytest.fixture(scope="module")
def opened() -> Iterator[Page]:
    with serving() as address, launch(viewport={"width": 1280, "height": 860}) as page:
        page.goto(address)
        yield page


SQUARE = {
    "tokens": [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.3, 0.2]],
    "law": {"name": "softmax", "beta": 4, "B": [[2.0, 0.0], [0.0, 1.0]]},
    "motion": {"name": "layers", "gamma": 0.5},
    "until": 12,
}


@pytest.fixture
def page(opened: Page) -> Iterator[Page]:
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.wait_for_function("() => window.attnflow?.store.run")
    opened.evaluate("state => window.attnflow.store.open({state})", SQUARE)
    settled(opened)
    yield opened
    opened.evaluate("() => document.querySelectorAll('#placing [aria-pressed=true]').forEach((one) => one.click())")
    opened.evaluate("() => window.attnflow.store.setView({tool: 'move'})")
    assert not wrong


def settled(page: Page) -> None:
    page.wait_for_function("() => window.attnflow.requests.idle() && window.attnflow.player.count > 1")


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
    assert tokens(page) == SQUARE["tokens"]


def test_a_text_field_keeps_what_is_pasted_into_it(page: Page) -> None:
    page.locator("#until").focus()
    assert not page.evaluate(GIVE, ["paste", "0,1\n2,3", ""])
    assert tokens(page) == SQUARE["tokens"]


def test_a_file_in_space_brings_matrices_of_its_size(page: Page) -> None:
    x = RNG.standard_normal((6, 3))
    file = {"name": "cloud.npy", "mimeType": "application/octet-stream", "buffer": saved(x)}
    page.locator("#token-file").set_input_files(file)
    page.wait_for_function("() => window.attnflow.store.run.d === 3")
    settled(page)
    assert np.array_equal(tokens(page), x)
    assert page.locator("#status").inner_text() == "6 tokens from cloud.npy."
    assert page.evaluate("() => window.attnflow.store.state.law.B?.length ?? 3") == 3
    assert page.locator("#stage-refusal").is_hidden()


def test_a_bad_file_leaves_the_tokens_and_says_why(page: Page) -> None:
    file = {"name": "wide.csv", "mimeType": "text/csv", "buffer": b"1,2,3,4"}
    page.locator("#token-file").set_input_files(file)
    page.wait_for_function("() => document.querySelector('#status').textContent.startsWith('wide.csv has 4 columns')")
    assert tokens(page) == SQUARE["tokens"]


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


def test_a_stroke_drops_tokens_evenly_and_is_undone_at_once(page: Page) -> None:
    tool(page, "draw")
    stroke(page, (-90, 40), (90, 40))
    drawn = pixels(page)[5:]
    assert len(drawn) == 11
    steps = np.linalg.norm(np.diff(drawn, axis=0), axis=1)
    assert np.allclose(steps, 18, atol=1e-6)
    page.evaluate("() => window.attnflow.store.undo()")
    assert tokens(page) == SQUARE["tokens"]


def test_a_slow_gesture_is_one_step_of_undo(page: Page) -> None:
    page.evaluate(
        "() => { window.now = performance.now; performance.now = () => window.now.call(performance) * 1000; }"
    )
    try:
        tool(page, "draw")
        stroke(page, (-90, 40), (90, 40))
        page.evaluate("() => window.attnflow.store.undo()")
        assert tokens(page) == SQUARE["tokens"]
        tool(page, "move")
        middle = pixels(page)[4]
        page.mouse.move(*middle)
        page.mouse.down()
        for far in (20, 40, 60):
            page.mouse.move(middle[0] + far, middle[1], steps=3)
            page.wait_for_function("at => window.attnflow.stage.place(4).x > at - 2", arg=middle[0] + far)
        page.mouse.up()
        page.evaluate("() => window.attnflow.store.undo()")
        assert tokens(page) == SQUARE["tokens"]
    finally:
        page.evaluate("() => (performance.now = window.now)")


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
    assert tokens(page) == SQUARE["tokens"]

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
    assert tokens(page)[1:] == [[-x, y], [-x, -y], [x, -y], [0.3, 0.2]]
    page.evaluate("() => window.attnflow.store.undo()")
    assert tokens(page) == SQUARE["tokens"]

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
