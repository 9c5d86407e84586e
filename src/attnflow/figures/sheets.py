"""Empty figures that pyplot knows, as it knows a user's own: windows show them, and a notebook shows each of them once.

This module imports Matplotlib: `attnflow.figures.look` loads it when a picture is drawn.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib._pylab_helpers import Gcf
from matplotlib.backends.registry import BackendFilter, backend_registry
from matplotlib.figure import Figure

# Where no window shows a figure, pyplot keeps this many of ours: it would keep all of them, and warn of the twentieth.
KEPT = 10


class Sheet(Figure):
    """A figure that a notebook shows once, also if it is the value of the last line of a cell."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Leave the formats to IPython, and the figure to its user.

        The inline backend shows all figures that pyplot has at the end of a cell, and closes them. One that has been
        shown as the value of a line is closed now, so that it is not shown a second time.
        """
        if _inline() and _closes():
            plt.close(self)
        return {}


def opened(width: float, height: float) -> Sheet:
    """Return an empty figure of the given size in inches, its panels kept apart; it is the current one of pyplot."""
    registry: Any = backend_registry
    shows = plt.get_backend().lower() not in registry.list_builtin(BackendFilter.NON_INTERACTIVE)
    if not shows:
        for old in _ours()[: 1 - KEPT]:
            plt.close(old)
    # Figures of a cell are closed at its end, so that only windows can become too many.
    most = plt.rcParams["figure.max_open_warning"] if shows and not _inline() else 0
    with plt.rc_context({"figure.max_open_warning": most}):
        figure: Any = plt.figure(figsize=(width, height), layout="constrained", FigureClass=Sheet)
    assert isinstance(figure, Sheet)
    return figure


def _ours() -> list[Figure]:
    """Return the figures of this library that pyplot has, the current one last."""
    known = [manager.canvas.figure for manager in Gcf.get_all_fig_managers()]
    return [figure for figure in known if isinstance(figure, Sheet)]


def _inline() -> bool:
    """Whether pictures appear in a notebook, below their cell."""
    return "inline" in plt.get_backend()


def _closes() -> bool:
    """Whether the inline backend closes figures at the end of a cell, as it does unless the user says otherwise."""
    from matplotlib_inline.config import InlineBackend

    return bool(InlineBackend.instance().close_figures)
