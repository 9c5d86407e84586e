"""The server of one page, in a process of its own beside a notebook or a script: see `attnflow.explorer.notebook`.

It is not in the same process, since workers would import the script that started them, and run it again. The first line
that it reads is the state to begin with, as JSON. It answers with the address of the page, and to every later line with
the screen as it is then. It ends when there are no more lines, whatever happened to the process that wrote them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, TextIO

import uvicorn

from attnflow.core.installed import import_again
from attnflow.explorer.audience import Audience
from attnflow.explorer.hosts import address
from attnflow.explorer.server import configured, listening

HOST = "127.0.0.1"


def main() -> None:
    """Serve until standard input ends."""
    # Modules of users may print, and so may their workers: only what is said here is for the notebook.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    begin = json.loads(sys.stdin.readline())
    import_again(begin["modules"])
    audience = Audience("notebook", screen={"state": begin["state"], "view": {}})
    with listening(HOST, 0) as listener:
        port = listener.getsockname()[1]
        server = uvicorn.Server(configured(HOST, port, audience))
        server.config.load()
        _say(answers, {"address": f"{address(HOST, port)}?key={audience.key}"})
        threading.Thread(target=_answer, args=(answers, server, audience), daemon=True).start()
        server.run(sockets=[listener])


def _answer(answers: TextIO, server: uvicorn.Server, audience: Audience) -> None:
    for _ in sys.stdin:
        _say(answers, audience.screen)
    server.should_exit = True


def _say(answers: TextIO, data: Any) -> None:
    print(json.dumps(data), file=answers, flush=True)


if __name__ == "__main__":
    main()
