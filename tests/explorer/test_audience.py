"""Pages that lead and pages that follow: what each may ask for, and which screens are taken."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from refusals import refused
from served import SOFT

from attnflow.explorer import audience
from attnflow.explorer.audience import Audience

OTHER = {"law": {"name": "softmax", "beta": "inf"}, "motion": {"name": "layers", "gamma": 0.5}}


def asked(of: Audience, key: str, do: str, **message: Any) -> None:
    # In another thread: that of the tests may have the event loop of a browser.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, of.take(key, do, message)).result()


def test_only_a_page_that_leads_may_ask() -> None:
    room = Audience("class")
    for do in audience.LEADING:
        with refused(f"'{do}' was asked for by a page that does not lead: open the teacher's own address"):
            asked(room, "guessed", do, open=True)
    assert (room.open, room.version, room.screen) == (False, 0, None)
    with refused("was asked for by a page that does not lead"):
        asked(Audience("alone"), "", "allow", open=True)


def test_codes_are_for_terminals_that_have_their_letters() -> None:
    link = "http://192.168.0.7:8080/"
    assert audience.printed(link, "utf-8").count("\n") > 10
    assert (
        audience.printed(link, "ascii")
        == audience.printed(link, "latin-1")
        == audience.printed(link, "none such")
        == ""
    )


def test_the_picture_of_a_code_has_its_squares() -> None:
    """Each dark stretch of a row is one line of the path, as long as it has squares."""
    link = "http://192.168.0.7:8080/"
    svg = audience.drawn(link).decode()
    squares = sum(map(sum, audience.code_of(link).matrix_iter(border=0)))
    assert sum(map(int, re.findall(r"h(\d+)", re.findall(r'd="([^"]*)"', svg)[-1]))) == squares


def test_a_teacher_opens_the_settings_and_shows_a_screen() -> None:
    room = Audience("class", link="http://here/")
    asked(room, room.key, "allow", open=True)
    assert room.about("guessed") == {
        "role": "pupil", "screen": None, "link": "http://here/", "kind": "audience", "id": None, "version": 0,
        "open": True,
    }  # fmt: skip
    with refused("'allow' does not say whether settings are open: give true or false"):
        asked(room, room.key, "allow", open=1)
    for _ in range(2):  # the second time it is the same screen
        asked(room, room.key, "screen", screen={"state": SOFT, "view": {"t": 1}, "other": OTHER})
    assert room.version == 1
    shown = room.about(room.key)["screen"]
    assert shown["view"] == {"t": 1}
    assert shown["other"]["law"]["beta"] == "inf"


def test_screens_that_cannot_be_compared_are_refused() -> None:
    for other in (3, {"law": OTHER["law"]}, {**OTHER, "until": 3}):
        with refused("what a screen is compared with is not a law and a motion"):
            audience.checked({"state": SOFT, "other": other})
    with refused("the view of a screen holds a number that is infinite or none: send finite numbers"):
        audience.checked({"state": SOFT, "view": {"t": float("nan")}})


def test_a_machine_without_a_network_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nowhere(socket.socket):
        def connect(self, address: Any) -> None:
            raise OSError("network is unreachable")

    monkeypatch.setattr(socket, "socket", Nowhere)
    assert audience.own_address() == socket.gethostname()


def test_a_code_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "segno", None)
    with refused("the QR code of a class needs segno: pip install 'attnflow\\[web\\]'"):
        audience.code_of("http://here/")
