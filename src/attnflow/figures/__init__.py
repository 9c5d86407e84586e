"""Pictures of runs, `plot`, `compare`, `animate`, `dashboard`, of long times, `staircase`, `exits`, `phases`; `save`.

Matplotlib is loaded when a picture is drawn, not before.
"""

from attnflow.figures.long_times import exits, phases, staircase
from attnflow.figures.look import look
from attnflow.figures.movie import animate
from attnflow.figures.page import dashboard
from attnflow.figures.portrait import plot
from attnflow.figures.saving import destination, save
from attnflow.figures.side_by_side import compare

__all__ = [
    "animate", "compare", "dashboard", "destination", "exits", "look", "phases", "plot", "save", "staircase",
]  # fmt: skip
