"""The workers of a server: a few processes of each role, which all pages share."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from attnflow.explorer.supervisor import Deliver, Page, Supervisor
from attnflow.explorer.worker import ROLES

# More processes of one role than this would take more memory than a laptop has to spare.
MOST_PROCESSES = 6


def sizes() -> dict[str, int]:
    """Return how many processes there are at most of each role."""
    cores = os.cpu_count() or 1
    return {"runs": min(cores, MOST_PROCESSES), "claims": min(cores, 2), "exports": 1}


@dataclass
class Place:
    """The place of a page at a worker, where the frames of its last run are."""

    supervisor: Supervisor
    page: Page

    def submit(self, id: int, do: str, text: bytes) -> None:
        """Take an order of the page."""
        self.supervisor.submit(self.page, id, do, text)

    def busy(self, do: str) -> bool:
        """Say whether an order of this kind of the page waits or is under way."""
        return self.supervisor.busy(self.page, do)

    @property
    def working(self) -> bool:
        """Whether something waits or is computed for the page."""
        return self.supervisor.working(self.page)

    def unanswered(self, do: str) -> bool:
        """Say whether an order of this kind of the page has no answer yet."""
        return self.supervisor.unanswered(self.page, do)

    async def cancel(self, sentence: str) -> None:
        """End what is done for the page and give the place back; who waits for an answer is told so."""
        await self.supervisor.cancel(self.page, sentence)

    async def leave(self) -> None:
        """Give the place back."""
        await self.supervisor.detach(self.page)


class Pool:
    """The workers of all roles; a process is started when the first page needs it, and ends with the last one."""

    def __init__(self, at_most: dict[str, int] | None = None) -> None:
        at_most = at_most or sizes()
        self.supervisors = {role: [Supervisor(role) for _ in range(at_most[role])] for role in ROLES}

    def place(self, role: str, deliver: Deliver) -> Place:
        """Return a place for a page at the worker that serves the fewest."""
        one = min(self.supervisors[role], key=lambda each: len(each.pages))
        return Place(one, one.attach(deliver))

    async def close(self) -> None:
        """End all processes."""
        await asyncio.gather(*(one.close() for each in self.supervisors.values() for one in each))
