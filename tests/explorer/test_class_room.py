"""A class in Chromium: pages that begin with the teacher's screen, what they may change, and who is the teacher."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.request import urlopen

import pytest
import segno
import uvicorn
from browser import launch, serving
from larger import details, larger
from websockets.sync.client import connect

from attnflow.core.inputs import InputError
from attnflow.explorer.audience import Audience, checked, code_of, drawn, printed
from attnflow.explorer.server import serve

pytestmark = details

Page = Any
STATE: dict[str, Any] = {
    "tokens": [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.5, 0.2]],
    "law": {"name": "softmax", "beta": 7},
    "motion": {"name": "layers", "gamma": 0.5},
    "until": 12,
}


@pytest.fixture(scope="module")
def teacher_address() -> Iterator[str]:
    with serving(None, "--class", "--host", "127.0.0.1") as where:
        yield where


@pytest.fixture(scope="module")
def address(teacher_address: str) -> str:
    return teacher_address.partition("?")[0]


def visited(page: Page, where: str, role: str) -> Page:
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.goto(where)
    page.wait_for_function(f"() => window.attnflow?.classRoom.role === '{role}' && attnflow.requests.idle()")
    page.wrong = wrong
    return page


@pytest.fixture(scope="module")
def teacher(teacher_address: str) -> Iterator[Page]:
    with launch(viewport={"width": 1280, "height": 720}) as page:
        yield visited(page, teacher_address, "teacher")
        assert not page.wrong


def show(teacher: Page, state: dict[str, Any]) -> None:
    """Put a state on the teacher's screen, and wait until the server has it."""
    teacher.evaluate("(state) => attnflow.store.setState(state)", state)
    teacher.wait_for_function("() => attnflow.classRoom.told")


def state_of(page: Page) -> dict[str, Any]:
    return page.evaluate("() => attnflow.store.state")


def test_the_class_begins_with_the_teachers_screen_and_comes_back_to_it(teacher: Page, address: str) -> None:
    assert "key" not in teacher.url
    show(teacher, STATE)
    with launch() as page:
        pupil = visited(page, address, "pupil")
        assert state_of(pupil) == state_of(teacher)
        assert pupil.locator("#class-back").is_hidden()
        # Tokens can be dragged, by keys as by a pointer.
        pupil.focus("#stage")
        pupil.keyboard.press("]")
        pupil.keyboard.press("ArrowRight")
        pupil.wait_for_function("() => attnflow.store.state.tokens[0][0] !== 1")
        settings = pupil.evaluate(
            "() => [...document.querySelectorAll('#controls :is(input, select, button)')]"
            ".map((one) => [one.id, one.matches(':disabled')])"
        )
        assert {"law", "motion", "until"} <= {id for id, off in settings if off}
        assert {"cloud", "n", "new-seed"} <= {id for id, off in settings if not off}
        assert len([id for id, off in settings if off]) > 6
        assert pupil.locator("#preset").is_disabled()
        assert pupil.locator("#cloud").is_enabled()
        assert pupil.locator("#class-locked").is_visible()
        # News of another screen change nothing by themselves.
        dragged = state_of(pupil)
        show(teacher, {"law": {"name": "softmax", "beta": 2}})
        pupil.wait_for_function("() => document.querySelector('#class-back').classList.contains('news')")
        assert state_of(pupil) == dragged
        pupil.click("#class-back")
        pupil.wait_for_function("() => attnflow.store.state.law.beta === 2")
        assert state_of(pupil) == state_of(teacher)
        assert not pupil.evaluate("() => document.querySelector('#class-back').classList.contains('news')")
        # The teacher lets the class change everything.
        teacher.click("#class-open")
        assert teacher.locator("#class-dialog a").inner_text() == address
        assert teacher.evaluate("() => document.querySelector('#class-dialog img').decode().then(() => true)")
        teacher.check("#class-allow")
        pupil.wait_for_function("() => !document.querySelector('#law').matches(':disabled')")
        assert pupil.locator("#class-locked").is_hidden()
        teacher.uncheck("#class-allow")
        pupil.wait_for_function("() => document.querySelector('#law').matches(':disabled')")
        teacher.click("#class-dialog form button")
        assert not pupil.wrong


def test_a_link_to_the_teachers_screen_has_no_key(teacher: Page, teacher_address: str) -> None:
    key = teacher_address.partition("=")[2]
    assert len(key) > 20
    teacher.click("#copy-link")
    text = teacher.wait_for_selector("#text[open] textarea, #status:not(:empty)")
    assert text is not None
    assert key not in teacher.content()
    # After a reload it is the teacher's page still.
    teacher.reload()
    teacher.wait_for_function("() => window.attnflow?.classRoom.role === 'teacher'")


def asked(address: str, key: str, **message: Any) -> dict[str, Any]:
    with connect(f"ws{address[4:]}ws?key={key}", compression=None) as socket:
        socket.send(json.dumps({"id": 5, **message}))
        while (told := json.loads(socket.recv(timeout=300)))["id"] != 5:
            pass
        return told


def test_only_the_key_makes_a_teacher(teacher: Page, address: str, teacher_address: str) -> None:
    key = teacher_address.partition("=")[2]
    before = json.loads(urlopen(f"{address}audience.json").read())
    for wrong in ("", key[:-1], key + "A", "%C3%A9", key.swapcase()):
        for message in ({"do": "screen", "screen": {"state": STATE, "view": {}}}, {"do": "allow", "open": True}):
            answer = asked(address, wrong, **message)
            assert answer["kind"] == "refused"
            assert "does not lead" in answer["sentence"]
        assert json.loads(urlopen(f"{address}audience.json?key={wrong}").read()) == before
    assert before["role"] == "pupil"
    assert key not in json.dumps(before)
    for screen in (None, 3, {}, {"state": STATE, "view": {"x": "y" * 30_000}}, {"state": {**STATE, "until": -1}}):
        assert asked(address, key, do="screen", screen=screen)["kind"] == "refused"
    assert asked(address, key, do="allow", open=1)["kind"] == "refused"
    assert json.loads(urlopen(f"{address}audience.json").read()) == before


def test_a_server_without_a_class_has_no_teacher() -> None:
    alone = Audience()
    assert not alone.leads(alone.key)
    assert alone.about(alone.key) == {"role": "alone", "screen": None}
    assert Audience("class").key != Audience("class").key
    assert checked({"state": STATE})["state"]["law"] == STATE["law"]


def test_the_code_in_the_terminal_is_that_of_the_link() -> None:
    link = "http://192.168.1.7:8765/"
    rows = list(code_of(link).matrix_iter(border=2))
    lines = printed(link, "utf-8").splitlines()
    squares = [line.removesuffix("\x1b[0m").split("▀")[:-1] for line in lines]
    shown: list[list[bool]] = []
    for line in squares:
        shown += [["30;" in one for one in line], [";40m" in one for one in line]]
    assert shown[: len(rows)] == [[bool(one) for one in row] for row in rows]
    assert printed(link, "ascii") == printed(link, "no such encoding") == ""
    # Not only Unicode has these letters.
    assert printed(link, "cp437") == printed(link, "utf-8")
    assert code_of(link) == segno.make(link, error="m", micro=False)
    assert drawn(link).startswith(b"<?xml")


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_is_shown_the_code(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    serve("127.0.0.1", 0, browser=False, for_class=True)
    said = capsys.readouterr().out
    assert "The class opens http://" in said
    assert ("\x1b[" in said) == ("▀" in said) == terminal


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN"])
def test_a_view_without_finite_numbers_is_refused(number: str) -> None:
    """Every page of the class would be sent it, in JSON that browsers do not read."""
    screen = json.loads(f'{{"view": {{"camera": [{{"t": {number}}}]}}}}') | {"state": STATE}
    with pytest.raises(InputError, match="the view of a screen holds a number that is infinite or none"):
        checked(screen)


def test_a_page_that_rests_says_so_and_goes_on_when_it_is_used(teacher: Page) -> None:
    teacher.evaluate("() => attnflow.store.setView({})")
    assert teacher.locator("#rested").is_hidden()
    # As when the page was hidden for long.
    teacher.evaluate("() => attnflow.socket.rest()")
    teacher.wait_for_selector("#rested:not([hidden])")
    assert "rested" in teacher.inner_text("#rested")
    assert not teacher.evaluate("() => attnflow.socket.open")
    teacher.mouse.click(640, 20)
    teacher.wait_for_selector("#rested", state="hidden")
    teacher.wait_for_function("() => attnflow.socket.open && attnflow.requests.idle()")


@larger
def test_forty_pages_of_chromium_drag_at_once(teacher: Page, address: str) -> None:
    show(teacher, STATE)
    with ExitStack() as pages:
        pupils = [visited(pages.enter_context(launch()), address, "pupil") for _ in range(40)]
        for step in range(3):
            for pupil in pupils:
                pupil.evaluate(
                    "(x) => attnflow.store.setState({tokens: attnflow.store.state.tokens.map((row, k) => "
                    "k ? row : [x, 1])}, {label: 'drag token 0'})",
                    step + 2,
                )
            for pupil in pupils:
                pupil.wait_for_function(f"() => attnflow.store.run.tokens[0][0] === {step + 2}")
        assert not any(pupil.wrong for pupil in pupils)
