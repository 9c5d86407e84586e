"""Where a run of the rescaled flow is going: leaders that later times cannot change, and the limit they imply.

Scores grow like e^{2 lambda t}. Once each token's leader is ahead by a scaled gap far above 1, attention is Boolean up
to e^{-gap}, and the tokens move by the linear equation y' = V Q y - lambda y, Q the matrix of the leaders. If the gaps
keep growing along that solution, the leaders are final: the rest of the motion is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attnflow.claims.emergence.symmetry import Group, StepLimited
from attnflow.core.inputs import Array, Matrix, constant_matrix, matrix_at
from attnflow.core.parameters import about
from attnflow.geometry.forms import score_rounding
from attnflow.laws import Hearing
from attnflow.motions.flows import TOLERANCE, RescaledFlow
from attnflow.motions.motion import apply, gain_of, grown

Heard = NDArray[np.bool_]

# Attention is Boolean up to e^{-GAP}.
GAP = 40.0
# Tokens this close, relative to the cloud, are one point.
SAME_POINT = 1e-13
# The linear motion is followed over AHEAD units of 1 / lambda, in STEPS steps, and no further than LAST.
AHEAD, STEPS, LAST = 8.0, 16, 29.0
# Two looks at a run lie this many units of 1 / lambda apart.
WINDOW = 3.0


@dataclass(frozen=True, eq=False)
class Discounted(StepLimited):
    """The flow x_i' = V sum_j P_ij x_j in the variables y = e^{-lambda t} x: y_i' = V sum_j P_ij y_j - lambda y_i.

    With lambda the largest real part of an eigenvalue nothing grows, and the left eigenvector of lambda takes the same
    values on y as on z = e^{-tV} x. Scores are e^{2 lambda t} <B y_i, y_j>, a gain.
    """

    V: Matrix = None
    growth: float = field(default=1.0, metadata=about("number", "the lambda of the frame", of_model=False))
    rtol: float = field(default=1e-9, metadata=TOLERANCE)
    same_system = "Flow"
    hint: ClassVar[str] = "shorten the run"

    def __post_init__(self) -> None:
        object.__setattr__(self, "V", constant_matrix(self.V, "V"))

    def velocity(self, hearing: Hearing, x: Array, t: float) -> Array:
        """Return V m - lambda y."""
        mean = hearing(x, t, gain=gain_of(2 * self.growth * t)).mean
        return apply(matrix_at(self.V, t, x.shape[1], "V"), mean) - self.growth * x

    def seen(self, x: Array, t: float) -> Array:
        """Return x = e^{lambda t} y."""
        return grown(x, gain_of(2 * self.growth * t))


@dataclass(frozen=True, eq=False)
class Rescaled(StepLimited, RescaledFlow):
    """The rescaled flow, ended where scores tie up to rounding."""

    same_system = "Flow"


@dataclass(frozen=True)
class Frame:
    """The matrices of an instance: form B, values V, growth lambda = the largest real part, and its group."""

    B: Array
    V: Array
    growth: float
    group: Group


@dataclass(frozen=True)
class Final:
    """Leaders that stay: `heard` (n, n) says which token listens to which, and `limit` (n, d) is lim y for V = I."""

    heard: Heard
    limit: Array


def leaders(y: Array, frame: Frame) -> Heard:
    """Return what each token hears in the limit: its top score, and what ties with it by symmetry or coincidence."""
    n, group = len(y), frame.group
    scores = (y @ frame.B.T) @ y.T
    size = float(np.abs(y).max())
    same = np.abs(y[:, None] - y[None]).max(axis=2) <= SAME_POINT * size
    heard = np.zeros((n, n), dtype=bool)
    for i, top in enumerate(scores.argmax(axis=1)):
        if group.centred(i):
            heard[i] = True
        else:
            heard[i] = same[group.places[group.stabiliser(i), top]].any(axis=0)
    return heard


def gaps(y: Array, heard: Heard, frame: Frame, t: float) -> tuple[Array, Array]:
    """Return by how much each token's leaders are ahead of the others, in scaled scores, and the rounding of that."""
    gain = gain_of(2 * frame.growth * t)
    queries = y @ frame.B.T
    target = rows(heard) @ y
    ahead = np.einsum("nd,nmd->nm", queries, target[:, None] - y[None])
    behind: Array = np.where(heard, np.inf, ahead).min(axis=1, initial=np.inf)
    return gain * behind, gain * score_rounding(frame.B, y, y)


def rows(heard: Heard) -> Array:
    """Return the limiting attention matrix: uniform on the tokens that each token hears."""
    P: Array = heard / heard.sum(axis=1, keepdims=True)
    return P


def final(y: Array, frame: Frame, t: float) -> Final | None:
    """Return the leaders if they are final at time t, or None: their gaps are large and grow along the linear motion.

    >>> frame = Frame(np.eye(1), np.eye(1), 1.0, Group.generated(None, 3, 1))
    >>> final(np.array([[-1.0], [0.5], [2.0]]), frame, 6.0).limit.ravel().round(12)
    array([-1.,  2.,  2.])
    """
    heard = leaders(y, frame)
    first = _clear(y, heard, frame, t)
    if first is None:
        return None
    ahead = min(AHEAD, max(LAST - frame.growth * t, 1.0)) / frame.growth
    step, last = propagator(heard, frame, ahead / STEPS), first
    state = y
    for k in range(1, STEPS + 1):
        state = (step @ state.ravel()).reshape(y.shape)
        found = _clear(state, heard, frame, t + k * ahead / STEPS)
        if found is None:
            return None
        last = found
    if (last < first).any():
        return None
    limit = (propagator(heard, frame, 60 / frame.growth) @ y.ravel()).reshape(y.shape)
    return Final(heard, limit)


def _clear(y: Array, heard: Heard, frame: Frame, t: float) -> Array | None:
    behind, noise = gaps(y, heard, frame, t)
    return behind if (behind >= GAP + 2 * noise).all() else None


def propagator(heard: Heard, frame: Frame, s: float) -> Array:
    """Return the matrix that takes y(t) to y(t + s) when y' = V Q y - lambda y, Q uniform on the leaders."""
    from scipy.linalg import expm

    n, d = len(heard), len(frame.V)
    generator = np.kron(rows(heard), frame.V) - frame.growth * np.eye(n * d)
    matrix: Array = expm(s * generator)
    return matrix


def remaining(now: Array, before: Array, decay: float) -> Array:
    """Return a bound, per token, of the motion still to come, from two looks with the same final leaders.

    What decays by the factor e^{-decay} between two looks moves on by 1 / (e^{decay} - 1) of what it moved: doubled.
    """
    moved = np.linalg.norm(np.atleast_2d(now - before), axis=1)
    return np.where(moved == 0, 0.0, 2 * moved / np.expm1(decay))
