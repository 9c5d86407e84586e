"""Where a scene is drawn: axes that fit it, their limits, the hull of the start, the sphere."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.core.inputs import Array
from attnflow.figures.scene import Scene
from attnflow.figures.style import DASHED, tone

HULL = "hull of the start"


def panel(figure: Any, place: Any, shown: Scene) -> Any:
    """Return new axes of a figure that fit a scene."""
    return figure.add_subplot(place, projection="3d" if shown.dimension == 3 else None)


def ground(ax: Any, shown: Scene) -> None:
    """Draw what does not move: axes and their names, and the hull of the start or the sphere."""
    if shown.dimension == 1:
        shown.clock.axis(ax)
        ax.set_ylabel(shown.names[0])
    else:
        for axis, name in zip("xyz", shown.names, strict=False):
            getattr(ax, f"set_{axis}label")(name)
    frame(ax, shown.extent)
    if shown.dimension == 3:
        _room(ax, empty=shown.sphere)
        if shown.normal is not None:
            edge_on(ax, shown.normal)
    if shown.sphere:
        _sphere(ax, shown.dimension)
    if shown.outline is not None and shown.outline.ndim == 2:
        ax.plot(*shown.outline.T, ls=DASHED, lw=0.8, color=tone().pencil, zorder=1, label=HULL)
    elif shown.outline is not None:
        # In space the edges of the hull are many, and are drawn thinner.
        lines(ax, shown.outline, colors=tone().pencil, linestyles=[DASHED], linewidths=0.5, zorder=1, label=HULL)


def lines(ax: Any, segments: Array, **options: Any) -> Any:
    """Draw lines (m, k, 2), or (m, k, 3) in space, within the limits of the picture."""
    if segments.shape[-1] == 3:
        from mpl_toolkits.mplot3d.art3d import Line3DCollection  # type: ignore[import-untyped]

        return ax.add_collection3d(Line3DCollection(segments, **options), autolim=False)
    from matplotlib.collections import LineCollection

    return ax.add_collection(LineCollection(list(segments), **options), autolim=False)


def frame(ax: Any, points: Array) -> None:
    """Set limits that hold the points, also when they coincide: of the vertical axis, or of all, with one scale."""
    from matplotlib.ticker import MaxNLocator, MultipleLocator

    low, high = points.min(axis=0), points.max(axis=0)
    spans = np.where(high > low, high - low, max(1.0, float(np.abs(points).max()) * 1e-3))
    # A cloud on a line, or nearly so, still gets a picture of some width; space is a cube.
    spans = np.maximum(spans, spans.max() * (1.0 if len(spans) == 3 else 0.5))
    middle, half = (low + high) / 2, 0.56 * spans
    # Ticks at a round distance, the same on all axes: about six on the longest.
    first, second, *_ = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(0.0, float(spans.max()))
    for k, axis in enumerate("y" if len(spans) == 1 else "xyz"[: len(spans)]):
        getattr(ax, f"set_{axis}lim")(middle[k] - half[k], middle[k] + half[k])
        getattr(ax, f"{axis}axis").set_major_locator(MultipleLocator(float(second - first)))
    if len(spans) == 2:
        ax.set_aspect("equal", adjustable="box")


def _room(ax: Any, *, empty: bool) -> None:
    """Draw space with bare walls and marks in front of lines; when `empty`, without walls."""
    ax.computed_zorder = False
    ax.set_box_aspect((1, 1, 1), zoom=1.35 if empty else 0.92)
    if empty:
        ax.set_axis_off()
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.set_pane_color(tone().paper)
        axis.line.set_color(tone().pencil)


def edge_on(ax: Any, normal: Array) -> None:
    """Look along planes {<normal, z> = const}, without perspective: each of them is seen as a line.

    Of the directions in the planes, that of the usual height is taken, on the side where one usually stands; planes
    that are too flat for it are looked at from as high as they allow.
    """
    x, y, z = (float(part) for part in normal)
    along = float(np.hypot(x, y))
    up = min(np.radians(ax.elev), float(np.arctan2(along, abs(z))))
    turn = float(np.arccos(np.clip(-np.tan(up) * z / along, -1.0, 1.0))) if along > 0 else 0.0
    sides = [np.degrees(np.arctan2(y, x) + sign * turn) for sign in (1, -1)]
    ax.set_proj_type("ortho")
    ax.view_init(
        elev=float(np.degrees(up)), azim=float(min(sides, key=lambda side: abs((side - ax.azim + 180) % 360 - 180)))
    )


def _sphere(ax: Any, d: int) -> None:
    """Draw the unit circle, or meridians and parallels of the unit sphere."""
    angles = np.linspace(0.0, 2 * np.pi, 181)
    cos, sin = np.cos(angles), np.sin(angles)
    if d == 2:
        ax.plot(cos, sin, lw=0.8, color=tone().pencil, zorder=1)
        return
    # Turned a little, so that no meridian is seen from its edge.
    for turn in 0.1 + np.linspace(0.0, np.pi, 6, endpoint=False):
        ax.plot(np.cos(turn) * cos, np.sin(turn) * cos, sin, lw=0.4, color=tone().wire, zorder=1)
    for height in np.linspace(-1.0, 1.0, 7)[1:-1]:
        radius = np.sqrt(1 - height**2)
        ax.plot(radius * cos, radius * sin, height, lw=0.4, color=tone().wire, zorder=1)
