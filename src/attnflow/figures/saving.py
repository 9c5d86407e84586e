"""Figures to files, the same bytes each time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnflow.core.inputs import InputError, location
from attnflow.figures.style import look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# What each format would otherwise say of the day and of the software.
_SILENT: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def save(picture: Figure | SubFigure | Axes, path: str | Path) -> None:
    """Write a figure, or the figure that axes belong to, as PNG, SVG or PDF; equal figures give equal files.

    Dates and versions are left out.

    >>> import tempfile, attnflow as af
    >>> run = af.simulate([[2.0], [1.0], [-1.0]], af.Hardmax(), af.Layers(gamma=0.5), until=9)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(run.plot(), f"{folder}/run.svg")
    """
    target = destination(path)
    if not hasattr(getattr(picture, "figure", None), "savefig"):
        given = type(picture).__name__
        raise InputError(f"{given} is no picture, expected a figure or axes: give what a function draws, as run.plot()")
    # The figure of axes may be a part of a figure; the figure of a figure is itself.
    figure: Any = picture.figure.figure
    with look():
        figure.savefig(target, metadata=_SILENT[target.suffix.lower()])


def destination(path: str | Path, endings: Sequence[str] = tuple(_SILENT)) -> Path:
    """Check where a file is to be written: a known ending, in a folder that exists and may be written to.

    >>> destination("run.svg").suffix
    '.svg'
    """
    target = location(path, "path")
    if target.suffix.lower() not in endings:
        known = f"{', '.join(endings[:-1])} or {endings[-1]}"
        given = f"ends in {target.suffix}" if target.suffix else "has no ending"
        raise InputError(f"the file name {target.name!r} {given}, expected {known}: choose one of these")
    if not target.parent.is_dir():
        raise InputError(f"the folder {str(target.parent)!r} does not exist: create it, or give another path")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"the folder {str(target.parent)!r} may not be written to: give another path")
    return target
