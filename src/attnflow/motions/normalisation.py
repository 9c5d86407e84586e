"""How the norm of a token is kept: normalisation before, after, or on both sides of attention.

A token is x = r theta, theta on the unit sphere, and attention A is heard at theta. The schemes differ in the residual
step x <- x + dt A, N(x) = x / |x|, and in the flow that is its limit:

====== ======================================= ==================================
scheme layer                                   flow
====== ======================================= ==================================
post   x <- N(x + dt A)                        theta' = Proj A
pre    x <- x + dt A                           x' = A
peri   x <- x + dt N(A)                        x' = A / |A|
ngpt   x <- N(x + dt alpha (N(A) - x))         theta' = alpha Proj A / |A|
cod    x <- N(x + dt A / sqrt(t + 1))          theta' = Proj A / sqrt(t + 1)
mix    that of post until tau, then that of pre
====== ======================================= ==================================

Proj y = y - <theta, y> theta. In all of them theta' = s^{-1} Proj A with some s > 0: each token goes the way it would
go under post, at another speed. So the same configurations rest, and an energy of the directions that never decreases
because theta' is a positive multiple of its gradient, as under softmax with V = B = I, does so under every scheme.

References
----------
Karagodin, Ge, Polyanskiy, Rigollet, *Normalization in attention dynamics* (arXiv 2510.22026).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.core.arrays import holds
from attnflow.core.inputs import Array, InputError, varies_in_time
from attnflow.core.parameters import about, parameters_of
from attnflow.motions.motion import Motion
from attnflow.motions.sphere import lengths
from attnflow.motions.stepper import NoDirection

# Schemes whose tokens have a radius of their own: their states are x = r theta.
RADIAL = ("pre", "peri", "mix")
SCHEMES = ("post", "pre", "peri", "ngpt", "cod", "mix")

NORM = about("choice", "how the norm is kept", choices=SCHEMES)
TAU = about("number", "time when mix turns from post to pre", least=0.0, only_for="mix")
ALPHA = about("function", "step size of ngpt", above=0.0, only_for="ngpt")


class Normalised:
    """What motions with a parameter `norm` say of themselves."""

    norm: str
    tau: float

    def __post_init__(self) -> None:
        """Refuse parameters that would do nothing."""
        super().__post_init__()  # type: ignore[misc]
        for name, one in parameters_of(type(self)).items():
            if one.only_for in ("", self.norm):
                continue
            value = getattr(self, name)
            if varies_in_time(value) or not np.array_equal(value, one.default):
                raise InputError(
                    f"{name} was given, but does nothing with norm={self.norm!r}: leave it out, or use "
                    f"norm={one.only_for!r}"
                )

    @property
    def keeps_radii(self) -> bool:
        """Whether states are x = r theta, with a radius r for each token."""
        return self.norm in RADIAL

    @property
    def memoryless(self) -> bool:
        """Whether directions alone decide how tokens go on: not their radii, and not the time."""
        return self.norm in ("post", "ngpt")

    @property
    def scales_speed(self) -> bool:
        """Whether tokens turn at another speed than under "post"."""
        return self.norm != "post"

    @property
    def changes_at(self) -> float | None:
        """When "mix" turns from "post" to "pre"; None for all others."""
        return self.tau if self.norm == "mix" else None

    def seen(self, x: Array, t: float) -> Array:
        """Return theta, which the law hears."""
        return directions(x) if self.keeps_radii else x


def directions(x: Any) -> Any:
    """Return theta = x / |x| for each token, of the arrays of any library; 0, where every run ends, stays 0.

    >>> import numpy as np
    >>> directions(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    r = lengths(x)
    return x / (r + (r == 0))[..., None]


def sizes(x: Array, whose: str, at: str, remedy: str) -> Array:
    """Return |x| with a last axis of length one, and refuse what has no direction.

    >>> import numpy as np
    >>> sizes(np.array([[1.0], [0.0]]), "token", "t = 2", "change its start")
    Traceback (most recent call last):
    ...
    attnflow.motions.stepper.NoDirection: token 1 is 0 at t = 2 and has no direction: change its start
    """
    norms = lengths(x)
    if not holds(norms != 0):
        i = int(norms.argmin()) % norms.shape[-1]
        raise NoDirection(f"{whose} {i} is 0 at {at} and has no direction: {remedy}")
    return norms[..., None]


def token_at_zero(x: Any) -> int | None:
    """Return which token is 0, of the arrays of any library; None if there is none.

    >>> import numpy as np
    >>> token_at_zero(np.array([[1.0], [0.0]])), token_at_zero(np.array([[1.0]]))
    (1, None)
    """
    r = lengths(x)
    return None if holds(r != 0) else int(r.argmin()) % r.shape[-1]


def token_through_zero(before: Array, after: Array, reach: float | Array) -> tuple[int, float] | None:
    """Return the first token that comes within `reach` of 0 on the way between two states, and on which part of it.

    An integrator may step over 0, so what counts is the line from one state to the next.

    >>> import numpy as np
    >>> token_through_zero(np.array([[1.0], [1.0]]), np.array([[2.0], [-3.0]]), 1e-9)
    (1, 0.25)
    """
    way = after - before
    squares = (way * way).sum(axis=-1)
    part = np.clip(-(before * way).sum(axis=-1) / np.where(squares > 0, squares, 1.0), 0.0, 1.0)
    meets = lengths(before + part[..., None] * way) <= reach
    if not meets.any():
        return None
    first = int(np.where(meets, part, np.inf).argmin())
    return first % part.shape[-1], float(part.flat[first])


def no_direction(motion: Motion, token: int, at: str) -> str:
    """Say that a token met 0, and what to do."""
    instead = ", or use norm='post'" if isinstance(motion, Normalised) else ""
    return f"token {token} met 0 at {at}, where it has no direction; end earlier{instead}"


def centred(x: Array) -> Array:
    """Return each token without the mean of its coordinates.

    >>> import numpy as np
    >>> centred(np.array([[1.0, 3.0]]))
    array([[-1.,  1.]])
    """
    return x - x.sum(axis=-1)[..., None] / x.shape[-1]
