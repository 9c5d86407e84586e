"""Who opens the pages of a server: anybody alike, a class with its teacher, or a notebook with one page.

A page that leads, that of the teacher or of the notebook, has a key in its address. It tells the server what is on its
screen; other pages open on that screen.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from dataclasses import dataclass, field
from typing import Any

from attnflow.core.inputs import InputError
from attnflow.explorer.state import read

# What a page that leads may ask the server itself for.
LEADING = ("screen", "allow")
# The view that belongs to a screen is a few numbers and switches.
LONGEST_VIEW = 20_000
# An address that no machine has: a socket that points there knows by which of its addresses others see this machine.
ELSEWHERE = ("192.0.2.1", 9)


@dataclass
class Audience:
    """The pages of a server: what they are to each other, and the screen that they open on."""

    kind: str = "alone"  # or "class", or "notebook"
    key: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    # Where pupils find their page.
    link: str = ""
    screen: dict[str, Any] | None = None
    # How often the screen has changed.
    version: int = 0
    # Whether pupils may change the law and the motion.
    open: bool = False

    def leads(self, key: str) -> bool:
        """Say whether a page with this key leads; how long that takes says nothing about the key."""
        return self.kind != "alone" and secrets.compare_digest(key.encode(), self.key.encode())

    def about(self, key: str) -> dict[str, Any]:
        """Return what a page is told about itself."""
        roles = {"alone": ("alone", "alone"), "class": ("pupil", "teacher"), "notebook": ("alone", "notebook")}
        role = roles[self.kind][self.leads(key)]
        if role == "alone":
            return {"role": role, "screen": None}
        return {"role": role, "screen": self.screen, "link": self.link, **self.news()}

    def news(self) -> dict[str, Any]:
        """Return what pages are told when it changes."""
        return {"kind": "audience", "id": None, "version": self.version, "open": self.open}

    async def take(self, key: str, do: str, message: dict[str, Any]) -> None:
        """Do what a page that leads asks for; refuse others, and screens that cannot be shown."""
        if not self.leads(key):
            raise InputError(f"'{do}' was asked for by a page that does not lead: open the teacher's own address")
        if do == "allow":
            if not isinstance(message.get("open"), bool):
                raise InputError("'allow' does not say whether settings are open: give true or false")
            self.open = message["open"]
            return
        screen = await asyncio.to_thread(checked, message.get("screen"))
        if screen != self.screen:
            self.screen = screen
            self.version += 1


def checked(screen: Any) -> dict[str, Any]:
    """Return a screen, a state with a view and perhaps what it is compared with, or refuse it in one sentence.

    >>> checked({"state": {}, "view": 3})
    Traceback (most recent call last):
    ...
    attnflow.InputError: a screen is not a table of a state and a small view: send what the page shows
    """
    view = screen.get("view", {}) if isinstance(screen, dict) else None
    try:
        # What is no number would break the page of everybody who is shown this screen.
        small = isinstance(view, dict) and len(json.dumps(view, allow_nan=False)) <= LONGEST_VIEW
    except ValueError:
        raise InputError("the view of a screen holds a number that is infinite or none: send finite numbers") from None
    if not small:
        raise InputError("a screen is not a table of a state and a small view: send what the page shows")
    state, other = read(screen.get("state")), screen.get("other")
    if other is None:
        return {"state": state.data, "view": view}
    if not isinstance(other, dict) or other.keys() != {"law", "motion"}:
        raise InputError("what a screen is compared with is not a law and a motion: give {'law': ..., 'motion': ...}")
    beside = read({**state.data, **other}).data
    return {"state": state.data, "view": view, "other": {key: beside[key] for key in ("law", "motion")}}


def own_address() -> str:
    """Return the address by which others in the same network reach this machine, or its name if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        try:
            # Nothing is sent.
            line.connect(ELSEWHERE)
            return str(line.getsockname()[0])
        except OSError:
            return socket.gethostname()


def code_of(link: str) -> Any:
    """Return a link as a QR code."""
    try:
        import segno
    except ImportError:
        raise InputError("the QR code of a class needs segno: pip install 'attnflow[web]'") from None
    return segno.make(link, error="m", micro=False)


def drawn(link: str) -> bytes:
    """Return the QR code of a link as an SVG image, black on white."""
    import io

    body = io.BytesIO()
    code_of(link).save(body, kind="svg", scale=8, border=3, light="#fff")
    return body.getvalue()


def printed(link: str, encoding: str | None = None) -> str:
    """Return the QR code of a link in the letters of a terminal, or nothing if its encoding does not have them.

    It has the colours of paper, black on white, whatever those of the terminal are: not every phone reads the inverse.
    """
    rows = [[bool(one) for one in row] for row in code_of(link).matrix_iter(border=2)]
    if len(rows) % 2:
        rows.append([False] * len(rows[0]))
    # Two rows of squares are one line: the upper one is the letter, the lower one what is behind it.
    ink = {False: (97, 107), True: (30, 40)}
    lines = [
        "".join(f"\x1b[{ink[up][0]};{ink[low][1]}m▀" for up, low in zip(*pair, strict=True)) + "\x1b[0m"
        for pair in zip(rows[::2], rows[1::2], strict=True)
    ]
    code = "\n".join((*lines, ""))
    try:
        code.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ""
    return code
