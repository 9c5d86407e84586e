"""Who leads where: the form and the bias whose scores decide it, and the cells of a state of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array, InputError, matrix_at, number_at, vector_at
from attnflow.figures.cells import cells_within
from attnflow.figures.groups import Groups
from attnflow.geometry import Cells, hull
from attnflow.geometry.forms import form
from attnflow.laws import Law
from attnflow.motions import Motion

if TYPE_CHECKING:
    from attnflow.runs.trajectory import Trajectory

# More cells than these are not told apart.
MOST_CELLS = 100


def leading_query(law: Law, motion: Motion, t: float, d: int) -> tuple[Array, Array]:
    """Return the form B and the bias b whose scores <Bx + b, y> decide who leads whom among tokens as they are drawn.

    That is up to a positive factor, and with the sign of beta. In a moving frame z = E^{-1} x, E = e^{tV} or a power of
    I + dt V, the law compares <B E z_i + b, E z_j>: the form is E^T B E, the bias E^T b.

    >>> import attnflow as af
    >>> leading_query(af.Softmax(beta=-2.0, b=[3.0, 0.0]), af.Layers(gamma=0.5), 0, 2)
    (array([[-1.,  0.],
           [ 0., -1.]]), array([-3.,  0.]))
    """
    exponents, near = law.exponents, law.neighbourhood
    if near is not None and not near.by_scores:
        raise InputError("bounded confidence looks at distances, not at scores: there is nobody to follow")
    scores = exponents or near
    if scores is None:
        raise InputError(
            f"{type(law).__name__} is no law such as Softmax or Hardmax, under which the top score <Bx, y> at a point "
            "alone says who leads there: leave cells out"
        )
    B, b = form(matrix_at(scores.B, t, d, "B"), d), vector_at(scores.b, t, d, "b")
    b = np.zeros(d) if b is None else b
    if exponents is not None:
        beta = number_at(exponents.beta, t, "beta")
        if beta == 0:
            raise InputError("beta is 0, where every token hears all others alike: there is nobody to follow")
        B, b = np.sign(beta) * B, np.sign(beta) * b
    E = motion.seen(np.eye(d), t).T
    size = np.abs(E).max()
    E = E / size
    B, b = np.asarray(E.T @ B @ E), np.asarray(E.T @ b) / size
    if not B.any() and not b.any():
        raise InputError("B is 0, where every token hears all others alike: there is nobody to follow")
    return B, b + 0.0


def leading_form(law: Law, motion: Motion, t: float, d: int) -> Array:
    """Return the form of `leading_query` for a law without a bias; one that has a bias is refused.

    >>> import attnflow as af
    >>> leading_form(af.Softmax(beta=-2.0), af.Layers(gamma=0.5), 0, 2)
    array([[-1.,  0.],
           [ 0., -1.]])
    """
    B, b = leading_query(law, motion, t, d)
    if b.any():
        raise InputError("the law has a bias b, but this is shown for scores <Bx, y> without one: leave b out")
    return B


def leading_cells(run: Trajectory, x: Array, t: float, found: Groups) -> tuple[list[Array], NDArray[np.int64]]:
    """Return who leads where at time t, as polygons (m, 2), and the token at the vertex that leads in each.

    Polygons fill the hull of the start and of the state x. Of the tokens that have met, one is taken.
    """
    if run.law is None or run.motion is None:
        raise InputError("this run was loaded without its law or motion, which say who leads where: leave cells out")
    if x.shape[1] != 2:
        raise InputError(f"cells are drawn in the plane, these tokens have dimension {x.shape[1]}: leave cells out")
    some = np.unique(found.labels, return_index=True)[1] if found.gathered else np.arange(len(x))
    corners = some[hull(x[some]).indices]
    if len(corners) > MOST_CELLS:
        raise InputError(
            f"cells are drawn for at most {MOST_CELLS} vertices, this hull has {len(corners)}: give another t"
        )
    B, b = leading_query(run.law, run.motion, t, 2)
    return cells_within(Cells(x[corners], B), hull(np.concatenate([run.tokens[0], x])), b), corners
