"""A limit polytope on axes: lightly shaded, its vertices ringed and numbered, and the other points of S."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnflow.core.inputs import Array
from attnflow.figures.marks import hollow, signs, star
from attnflow.figures.scene import outline
from attnflow.figures.stage import lines
from attnflow.figures.style import beside, tone
from attnflow.geometry import Hull, StationaryPoints

POLYTOPE, ATTRACTS, UNSTABLE = "limit polytope", "point that attracts", "other points of $S$"
# How strong the shade is, and the area of a star that covers a ring.
SHADE, COVERING = 0.16, 95.0


def shade(ax: Any, points: Array, gid: str = "polytope", label: str = "_unnamed") -> Any:
    """Draw the convex hull of some points: a thin outline, lightly shaded; a segment where they are on a line."""
    from matplotlib.patches import Polygon

    style: dict[str, Any] = {"facecolor": (tone().pencil, SHADE), "edgecolor": tone().ink, "lw": 0.8, "zorder": 1.2}
    return ax.add_patch(Polygon(outline(points), **style, gid=gid, label=label))


def solid(ax: Any, K: Hull) -> None:
    """Draw a polytope in the plane or in space: faces lightly shaded, edges thin, those behind it faint."""
    if K.vertices.shape[1] == 2:
        shade(ax, K.vertices, label=POLYTOPE)
        return
    if K.dimension == 3:
        faces(ax, K.vertices[K.boundary()], SHADE, gid="polytope")
    front = np.array([in_front(ax, K, edge) for edge in K.edges.tolist()], dtype=bool)
    for part, ink, width, label in ((front, tone().ink, 0.9, POLYTOPE), (~front, tone().pencil, 0.6, "_behind")):
        style = {"colors": ink, "linewidths": width, "zorder": 2, "label": label, "gid": "edges"}
        lines(ax, K.vertices[K.edges[part]], **style)


def faces(ax: Any, polygons: Any, strength: float, **options: Any) -> None:
    """Shade polygons in space."""
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

    style = {"facecolors": [(tone().pencil, strength)], "edgecolors": "none", "zorder": 1}
    ax.add_collection3d(Poly3DCollection(polygons, **{**style, **options}), autolim=False)


def in_front(ax: Any, K: Hull, face: Sequence[int]) -> bool:
    """Say whether a face of a polytope in space is seen from where the picture is looked at."""
    if K.dimension < 3:
        return True
    up, around = np.radians([ax.elev, ax.azim])
    eye = np.array([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)])
    return any(a @ eye > 0 and set(face) <= set(facet) for facet, a in zip(K.facets, K.normals, strict=True))


def stations(ax: Any, S: StationaryPoints, K: Hull) -> None:
    """Draw the set S: vertices ringed and numbered, the other points as diamonds, the origin as a cross."""
    space = K.vertices.shape[1] == 3
    signs(ax, K.vertices, s=190, facecolors="none", edgecolors=tone().ink, linewidths=0.9, zorder=7, gid="vertices")
    others = [k for k, face in enumerate(S.faces) if len(face) > 1]
    if others:
        inks = [tone().ink if not space or in_front(ax, K, S.faces[k]) else tone().pencil for k in others]
        diamond = {"marker": "D", "s": 15 if space else 17, "facecolors": tone().paper, "linewidths": 0.8, "zorder": 4}
        signs(ax, S.points[others], edgecolors=inks, label=UNSTABLE, gid="feet", **diamond)
    origin = np.zeros((1, K.vertices.shape[1]))
    signs(ax, origin, marker="+", s=34, c=tone().ink, linewidths=0.9, zorder=5, gid="origin")
    number(ax, K.vertices)


def number(ax: Any, vertices: Array) -> None:
    """Write the number of each vertex beside it, away from the middle of the picture of all."""
    flat = vertices
    if vertices.shape[1] == 3:
        from mpl_toolkits.mplot3d.proj3d import proj_transform  # type: ignore[import-untyped]

        flat = np.column_stack(proj_transform(*vertices.T, ax.get_proj())[:2])
    out = flat - flat.mean(axis=0)
    out = 16 * out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-300)
    for k, (place, away) in enumerate(zip(flat, out, strict=True)):
        style = {"ha": "center", "va": "center", "fontsize": 9.5, "zorder": 8, "annotation_clip": False}
        beside(ax, f"{k + 1}", place, away, **style)


def unstable(ax: Any, found: StationaryPoints) -> Any:
    """Draw a diamond (gid "unstable") at each point of S that is not a vertex that attracts."""
    diamond = {"marker": "D", "clip_on": False, "zorder": 4.5, "label": UNSTABLE, "gid": "unstable"}
    return hollow(ax, found.points[~found.attracts], 20, **diamond)


def attracting(ax: Any, points: Array, label: str = ATTRACTS) -> Any:
    """Draw a star (gid "attractors") that covers the ring of a vertex at each point that attracts."""
    return star(ax, points, COVERING, label=label, gid="attractors")


def bare(ax: Any) -> None:
    """Leave out scales and frame, which shapes do not need."""
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    ax.spines[:].set_visible(False)
