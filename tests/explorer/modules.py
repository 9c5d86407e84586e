"""The modules of the explorer's page in Chromium, with nothing behind them but the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from browser import launch

from attnflow.explorer.server import models_and_colours

HOST = "http://page.test"
FOLDER = files("attnflow.explorer") / "page"


@contextmanager
def importing() -> Iterator[Any]:
    """Open an empty page that can import the modules from /page/."""
    with launch() as page:

        def answer(route: Any, request: Any) -> None:
            name = request.url.removeprefix(HOST).removeprefix("/page/").lstrip("/")
            if name == "catalogue.json":
                route.fulfill(body=models_and_colours(), content_type="application/json")
                return
            body = (FOLDER / name).read_text(encoding="utf-8") if name else "<!doctype html><title>modules</title>"
            route.fulfill(body=body, content_type="text/javascript" if name else "text/html")

        page.route(f"{HOST}/**", answer)
        page.goto(f"{HOST}/")
        yield page
