"""A run in one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnflow.figures.look import look, sheet
from attnflow.figures.marks import dots, key, polytope, scale, stars, starts, trails
from attnflow.figures.scene import Scene, history, scene
from attnflow.figures.stage import ground, panel
from attnflow.inputs import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnflow.trajectory import Trajectory

# How far above its axes the title of a picture of space is, in points.
IN_SPACE = 1.0


def plot(run: Trajectory, ax: Axes | None = None, t: float | None = None) -> Axes:
    """Draw a run in one picture and return its axes; the figure is ``ax.figure``.

    Tokens leave hollow dots where they start and trajectories that are fainter the older they are. Their last places
    are dots, coloured by cluster (by leader while there are more than 24 clusters), larger where more tokens met;
    leaders, as in `measure.leaders`, wear a star. The dashed line is the hull of the start. Where tokens have gathered,
    and their hull is another by then, it is drawn too, and its vertices are ringed.

    - Dimension 1: time and space; time is logarithmic from 200 steps, or units of time, on.
    - Dimension 2: the plane. Dimension 3: space. On the sphere, the sphere is drawn.
    - Higher dimensions: the first two principal components of the recorded tokens, as the axes say.
    - More than 3000 tokens: the density of the last state (in space: some of its tokens), and some of the trajectories.
      A ring around a place with a hundredth of the tokens or more says by its area how many are there.

    Parameters
    ----------
    run
        What `simulate` returned.
    ax
        Where to draw; by default a new figure. For tokens in dimension 3 it has ``projection="3d"``.
    t
        The time shown as the last, by default the end of the run.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate(af.tokens.gaussian(n=30, d=2, seed=0), af.Hardmax(), af.Layers(alpha=0.5), until=50)
    >>> ax = run.plot()
    >>> ax.get_title()
    '5 clusters, 5 leaders at step 50'
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    with look():
        shown = scene(run, *history(run, t))
        own = ax is None
        if ax is None:
            ax = panel(sheet(*size(shown)), 111, shown)
        elif (ax.name == "3d") != (shown.dimension == 3):
            wanted, given = ("3-D", "flat") if shown.dimension == 3 else ("flat", "3-D")
            raise InputError(
                f"ax is {given}, but tokens in dimension {shown.dimension} need {wanted} axes: leave ax out"
            )
        draw(ax, shown)
        entitle(ax, title(shown))
        if own:
            scale(ax.figure)
            key(ax.figure)
    return ax


def draw(ax: Any, shown: Scene) -> None:
    """Draw a whole scene on axes that fit it."""
    last = len(shown.times) - 1
    ground(ax, shown)
    starts(ax, shown)
    polytope(ax, shown)
    trails(ax, shown, 0, last)
    dots(ax, shown, last, shown.groups.met)
    stars(ax, shown)


def size(shown: Scene) -> tuple[float, float]:
    """Return the width and height, in inches, of a figure with one picture."""
    # A density has a bar beside it.
    bar = 0.8 if shown.crowded and shown.dimension != 3 else 0.0
    heights = {1: 4.4, 3: 4.8}
    return (6.4 if shown.dimension == 1 else 5.2 + bar, heights.get(shown.dimension, 5.4 + 0.1 * bar))


def title(shown: Scene) -> str:
    """Return what happened, and when."""
    return f"{shown.groups} at {shown.clock.says(shown.times[-1])}"


def entitle(ax: Any, text: str) -> None:
    """Write a title close above the picture: by itself Matplotlib puts that of space above all its walls could need."""
    space = ax.name == "3d"
    ax.set_title(text, **({"y": 1.0, "pad": IN_SPACE} if space else {})).set_in_layout(not space)
