"""Empty figures that pyplot knows, as it knows a user's own: windows show them, and a notebook shows each of them once.

This module imports Matplotlib: `attnflow.figures.style` loads it when a picture is drawn.
"""

from __future__ import annotations

import inspect
from typing import Any

import matplotlib.pyplot as plt
from matplotlib._pylab_helpers import Gcf
from matplotlib.axes import Axes
from matplotlib.backends.registry import BackendFilter, backend_registry
from matplotlib.figure import Figure

# Where no window shows a figure, pyplot keeps this many of ours. It would keep all of them, and warn when it has twenty
# and another is opened, be it the first of a user's own: most of the twenty are left to these.
KEPT = 4


class Sheet(Figure):
    """A figure that a notebook shows once, also if it is the value of the last line of a cell.

    Once it is drawn and has several panels, none of them is the current axes of pyplot: what a user plots after
    `run.dashboard()` would otherwise appear in its last panel. A picture with one panel is like one of pyplot's own, so
    that `plt.title` and `plt.savefig` speak of it.
    """

    # None while this library draws on the figure; then the panels that pyplot is not to draw on.
    panels: tuple[Axes, ...] | None = None
    # Whether the figure is in a file.
    written = False

    def savefig(self, fname: Any, *, transparent: Any = None, **kwargs: Any) -> None:
        """Write the figure to a file, and note that."""
        super().savefig(fname, transparent=transparent, **kwargs)
        self.written = True

    def finish(self) -> None:
        """Say that the figure is drawn, once: what its user does later stays."""
        if self.panels is None:
            apart = [ax for ax in self.axes if ax.get_label() != "<colorbar>"]
            self.panels = tuple(self.axes) if len(apart) > 1 else ()

    def gca(self) -> Axes:
        """Return the current axes; to pyplot those of a new figure, unless the user has added or chosen some of this.

        Who calls `figure.gca()` has named the figure, and gets an axes of it.
        """
        current = super().gca()
        asked = inspect.currentframe()
        by_pyplot = asked is not None and asked.f_back is not None and asked.f_back.f_globals is vars(plt)
        return plt.figure().gca() if by_pyplot and current in (self.panels or ()) else current

    def sca(self, a: Axes) -> Axes:
        """Make axes the current ones: a user may choose a panel by `plt.sca`, or add one."""
        self.panels = self.panels and ()
        return super().sca(a)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Leave the formats to IPython, and the figure to its user.

        The inline backend shows all figures that pyplot has at the end of a cell, and closes them. One that has been
        shown as the value of a line is closed now, so that it is not shown a second time.
        """
        if _inline():
            from matplotlib_inline.config import InlineBackend

            # As it does unless the user says otherwise.
            if InlineBackend.instance().close_figures:
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
    # A script on a machine with windows that only writes files: pictures that are in a file make room for others.
    if 1 <= most <= len(plt.get_fignums()) and not plt.isinteractive():
        for old in [figure for figure in _ours() if figure.written]:
            plt.close(old)
    with plt.rc_context({"figure.max_open_warning": most}):
        figure: Any = plt.figure(figsize=(width, height), layout="constrained", FigureClass=Sheet)
    assert isinstance(figure, Sheet)
    return figure


def finish() -> None:
    """Say of all figures of this library that they are drawn."""
    for figure in _ours():
        figure.finish()


def _ours() -> list[Sheet]:
    """Return the figures of this library that pyplot has, the current one last."""
    known = [manager.canvas.figure for manager in Gcf.get_all_fig_managers()]
    return [figure for figure in known if isinstance(figure, Sheet)]


def _inline() -> bool:
    """Whether pictures appear in a notebook, below their cell."""
    return "inline" in plt.get_backend()
