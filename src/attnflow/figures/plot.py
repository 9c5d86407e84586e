"""A run in one picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.core.dask_arrays import chunked
from attnflow.core.inputs import Array, InputError
from attnflow.figures.cells import draw_cells
from attnflow.figures.leading import leading_cells
from attnflow.figures.marks import dots, key, polytope, scale, shade_bar, stars, starts, trails
from attnflow.figures.samples import sample
from attnflow.figures.scene import CROWD, Projection, Scene, chosen, history, scene, scene_at
from attnflow.figures.stage import ground, panel
from attnflow.figures.style import colours, look, seen_ramp, sheet, typeset
from attnflow.runs.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# How far above its axes the title of a picture of space is, in points.
IN_SPACE = 1.0
# The distance of the lines of a title, in heights of a line.
LINES = 1.1


def plot(
    run: Trajectory,
    ax: Axes | None = None,
    t: float | None = None,
    *,
    cells: bool = False,
    coords: Sequence[int] | None = None,
    color: Any = None,
    title: str | None = None,
) -> Axes:
    """Draw a run in one picture and return its axes; the figure is ``ax.figure``.

    Tokens leave hollow dots where they start and trajectories that are fainter the older they are. Their last places
    are dots, coloured by cluster (by leader while there are more than 24 clusters), larger where more tokens met;
    leaders, as in `measure.leaders`, wear a star. The dashed line is the hull of the start. Where tokens have gathered,
    and their hull is another by then, it is drawn too, and its vertices are ringed.

    - Dimension 1: time and space; time is logarithmic from 200 steps, or units of time, on.
    - Dimension 2: the plane. Dimension 3: space. On the sphere, the sphere is drawn.
    - Dimension 3, in a rescaled motion whose V has a positive, simple and strictly dominant eigenvalue: tokens tend to
      planes {phi_1* = c}, phi_1* its left eigenvector. One looks along these planes, without perspective, so that
      each is seen as a line, and a token has the colour of its plane.
    - Higher dimensions: the first two principal components of the recorded tokens, as the axes say.
    - More than 3000 tokens: the density of the last state (in space: some of its tokens), and some of the trajectories.
      A ring around a place with a hundredth of the tokens or more says by its area how many are there.
    - Runs of a Dask array with more than 131,072 tokens: that many of them, drawn at random, as the title says. Counts
      and hulls are then those of this sample.

    Parameters
    ----------
    run
        What `simulate` returned.
    ax
        Where to draw; by default a new figure. For tokens in dimension 3 it has ``projection="3d"``.
    t
        The time shown as the last, by default the end of the run.
    cells
        Whether to draw who leads where, in the plane: the cells {x : <Bx, v_j> <= <Bx, v_i> for all j} of the vertices
        v_i of the last hull, continued to the hull of the start, each in the colour of its vertex.
    coords
        The two or three coordinates to show, counted from 0, as (0, 2); by default as above.
    color
        A colour for all tokens, as "red" or (1, 0, 0). A list of colours, one per token. A whole number per token,
        which chooses from the colours of all figures. A real number per token, which becomes a shade: a bar beside
        the picture, if it is a new figure, says which. All these for at most 3000 tokens. Or another run of the same
        tokens: clusters that share tokens with clusters of that run have the colours these have there.
    title
        What to write above the picture, by default the law and what happened; "" for nothing.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate(af.tokens.gaussian(n=30, d=2, seed=0), af.Hardmax(), af.Layers(alpha=0.5), until=50)
    >>> ax = run.plot(cells=True)
    >>> print(ax.get_title())
    Hardmax
    5 clusters, 5 leaders at step 50
    """
    if title is not None and not isinstance(title, str):
        raise InputError(f"title is {title!r}, expected a text: leave it out, or give one")
    if not isinstance(cells, bool | np.bool_):
        raise InputError(f"cells is {cells!r}, expected True or False: run.plot(cells=True) draws those of the run")
    if ax is not None and not hasattr(ax, "add_collection"):
        raise InputError(f"ax is {ax!r}, expected axes of Matplotlib: leave ax out for a new figure")
    few = ""
    if isinstance(run, Trajectory) and chunked(run.tokens):
        run, few = sample(run)
    if few and cells:
        raise InputError("cells need all tokens, but only a sample of a Dask array is drawn: leave cells out")
    with look():
        times, states = history(run, t)
        onto = None if coords is None else chosen(coords, states.shape[-1])
        shown = scene(run, times, states, onto=onto)
        values = numbers(color, len(run.final))
        shown = coloured(shown, color if values is None else values)
        own = ax is None
        if ax is None:
            ax = panel(sheet(*size(shown, values is not None)), 111, shown)
        elif (ax.name == "3d") != (shown.dimension == 3):
            wanted, given = ("3-D", "flat") if shown.dimension == 3 else ("flat", "3-D")
            raise InputError(
                f"ax is {given}, but tokens in dimension {shown.dimension} need {wanted} axes: leave ax out"
            )
        draw(ax, shown)
        if cells:
            _lead(ax, run, shown, states[-1], onto)
        entitle(ax, headed(run, happened(shown)) + (few and f"\n{few}") if title is None else title)
        if own:
            scale(ax.figure, counts="tokens of the sample" if few else "tokens")
            if values is not None:
                shade_bar(ax.figure, shading(values), ax)
            key(ax.figure)
    return ax


def coloured(shown: Scene, color: Any) -> Scene:
    """Return a scene with the colours that a user chose, or those of the clusters of another run."""
    if color is None:
        return shown
    n = len(shown.groups.labels)
    if not isinstance(color, Trajectory):
        return replace(shown, inks=inks(color, n))
    if len(color.final) != n:
        raise InputError(
            f"color is a run of {len(color.final)} tokens, expected one of {n}: give a run of these tokens"
        )
    return replace(shown, groups=shown.groups.matched(scene_at(color).groups))


def numbers(color: Any, n: int) -> Array | None:
    """Return what a user gave as the colours of n tokens if these are real numbers, one per token, and not all whole.

    >>> numbers([0, 0.5], 2), numbers([0, 1], 2), numbers((0.1, 0.2, 0.3), 3)
    (array([0. , 0.5]), None, None)
    """
    each = _each(color)
    if isinstance(color, tuple) or len(each) != n or any(np.ndim(one) for one in each):
        return None
    if not all(isinstance(one, int | float | np.integer | np.floating) for one in each) or all(map(_whole, each)):
        return None
    wrong = ""
    try:
        values = np.array(each, dtype=np.float64)
    except OverflowError:
        wrong = "beyond the range of float64"
    else:
        if not np.isfinite(values).all():
            wrong = "not finite"
        elif not math.isfinite(float(values.max()) - float(values.min())):
            wrong = "too far apart for float64"
    if wrong:
        raise InputError(f"color has numbers that are {wrong}, expected one real number per token: replace them")
    return values


def shading(values: Array) -> Any:
    """Return the scale of shades for real numbers, over the range that they cover."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    low, high = float(values.min()), float(values.max())
    # Equal numbers are in the middle of a range.
    return ScalarMappable(Normalize(low, high) if low < high else Normalize(low - 1, high + 1), seen_ramp())


def _each(color: Any) -> list[Any]:
    """Return the entries of a list, a tuple or an array, none of anything else."""
    listed = isinstance(color, list | tuple) or (isinstance(color, np.ndarray) and color.ndim > 0)
    return list(color) if listed else []


def _whole(one: Any) -> bool:
    return isinstance(one, int | np.integer | np.bool_)


def inks(color: Any, n: int) -> list[str]:
    """Return the colours of n tokens from what a user gave: one colour, one per token, or a number per token.

    >>> inks("red", 2), inks(["red", (0, 0, 1, 0.5)], 2), inks([0, 1], 2)
    (['#ff0000ff', '#ff0000ff'], ['#ff0000ff', '#0000ff80'], ['#0072B2', '#D55E00'])
    """
    from matplotlib.colors import is_color_like, to_hex

    if n > CROWD:
        raise InputError(f"color is for at most {CROWD} tokens, more are drawn as a density: leave it out")
    if isinstance(color, str | tuple) and is_color_like(color):
        return [to_hex(color, keep_alpha=True)] * n
    values = numbers(color, n)
    if values is not None:
        return [to_hex(shade) for shade in shading(values).to_rgba(values)]
    each = _each(color)
    if len(each) == n and all(map(_whole, each)):
        return colours([int(one) for one in each])
    if len(each) != n or not all(is_color_like(one) for one in each):
        given = f"{len(each)} values" if each else repr(color)
        raise InputError(
            f"color is {given}, expected one colour, or a list of {n}, one per token: names, hex codes or numbers"
        )
    return [to_hex(one, keep_alpha=True) for one in each]


def _lead(ax: Any, run: Trajectory, shown: Scene, x: Array, onto: Projection | None) -> None:
    """Draw who leads where at the end of what is shown, each cell in the colour of the vertex that leads there."""
    shapes, corners = leading_cells(run, x, float(shown.times[-1]), shown.groups)
    if onto is not None:
        shapes = [shape @ onto.matrix for shape in shapes]
    own = None if shown.inks is None else [shown.inks[k] for k in corners]
    draw_cells(ax, shapes, None if shown.crowded else shown.groups.labels[corners].tolist(), own)


def draw(ax: Any, shown: Scene) -> None:
    """Draw a whole scene on axes that fit it."""
    last = len(shown.times) - 1
    ground(ax, shown)
    starts(ax, shown)
    polytope(ax, shown)
    trails(ax, shown)
    dots(ax, shown, last, shown.groups.met)
    stars(ax, shown)


def size(shown: Scene, shaded: bool = False) -> tuple[float, float]:
    """Return the width and height, in inches, of a figure with one picture."""
    # A density has a bar beside it, and so have numbers that are shades.
    bar = 0.8 if shaded or (shown.crowded and shown.dimension != 3) else 0.0
    heights = {1: 4.4, 3: 4.8}
    return (6.4 if shown.dimension == 1 else 5.2 + bar, heights.get(shown.dimension, 5.4 + 0.1 * bar))


def happened(shown: Scene) -> str:
    """Return what happened, and when."""
    return f"{shown.groups} at {shown.clock.says(shown.times[-1])}"


def headed(run: Trajectory, said: str) -> str:
    """Return what is said of a run, under the law it follows if that is known."""
    return said if run.law is None else f"{typeset(run.law)}\n{said}"


def entitle(ax: Any, text: str) -> None:
    """Write a title close above the picture: by itself Matplotlib puts that of space above all its walls could need."""
    space = ax.name == "3d"
    title = ax.set_title(text, **({"y": 1.0, "pad": IN_SPACE} if space else {}))
    title.set_in_layout(not space)
    spaced(title)


def spaced(title: Any) -> None:
    """Set the lines of a title close; one line keeps the height that Matplotlib gives it."""
    if "\n" in title.get_text():
        title.set_linespacing(LINES)
