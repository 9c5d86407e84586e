"""Common noise: value matrices drawn anew in each layer, the same for all tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnflow.core import inputs
from attnflow.core.inputs import Array, InputError, Scalar
from attnflow.core.parameters import about
from attnflow.laws import Hearing
from attnflow.motions.random_steps import Draw, RandomSteps
from attnflow.motions.sphere import on_sphere


@dataclass(frozen=True, eq=False)
class RandomHeads(RandomSteps):
    """Layers on the sphere with random value matrices: x_i <- y_i / |y_i|, y_i = x_i + sqrt(dt) W m_i.

    W is a d x d matrix of independent standard normal numbers, drawn anew in each layer, the same for all tokens: they
    share their noise, so that tokens at one place stay together. As dt -> 0 with t = dt times the number of layers,
    tokens follow the diffusion dx_i = Proj_{x_i} dW m_i - (d - 1) / 2 |m_i|^2 x_i dt, in which W is a matrix of
    Brownian motions and Proj_x y = y - <x, y> x.

    With several `heads` it is (W_1 m^1_i + ... + W_H m^H_i) / sqrt(H). If `scores` are random too, head h hears by the
    scores <G_h x_i, x_j> in place of <x_i, x_j>, with entries of G_h that are independent standard normal numbers, new
    in each layer; a law with a matrix B has the scores <B G_h x_i, x_j>, and one without scores, or whose weights do
    not follow from them row by row (`HegselmannKrause`, `Sinkhorn`), is refused. Without `scores` all heads hear alike,
    and their sum has the law of one head.

    Parameters
    ----------
    dt
        Variance of the entries of sqrt(dt) W, a value or a function of the layer.
    heads
        The number of heads.
    scores
        Whether query-key matrices are random too.

    Examples
    --------
    >>> import attnflow as af
    >>> x0 = af.tokens.sphere(n=20, d=3, seed=0)
    >>> run = af.simulate(x0, af.Softmax(beta=1.0), af.RandomHeads(dt=0.02), until=3000, seed=0)
    >>> overlaps = abs(run.final @ run.final.T)
    >>> bool(overlaps.min() > 0.99)
    True

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794), for
    layers on the sphere. The diffusion is derived here: see the claim random/antipodal.
    """

    name = "random-heads"
    title = "Random heads"
    formula = "x_i <- x_i + sqrt(dt) W m_i, then to length 1"
    surface = "sphere"
    discrete = True

    dt: Scalar = field(default=0.01, metadata=about("function", "variance of the random matrices", above=0.0))
    heads: int = field(default=1, metadata=about("count", "number of heads", least=1, most=1e6))
    scores: bool = field(default=False, metadata=about("switch", "true for random query-key matrices too"))

    def prepare(self, x: Array, hearing: Hearing) -> Array:
        """Refuse heads with matrices of their own, laws without scores, and tokens that are not on the sphere."""
        if hearing.law.head_count:
            raise InputError("RandomHeads draw the matrices of their heads: give one law, and heads=2 for two heads")
        if self.scores and not hearing.law.scored:
            raise InputError(
                f"RandomHeads draw scores, but the weights of {hearing.law.short_name} do not follow from scores row "
                "by row: give another law, or scores=False"
            )
        return on_sphere(x)

    def random_step(self, hearing: Hearing, x: Array, t: Any, h: float, draw: Draw) -> Array:
        """Return y / |y| for y = x + sqrt(dt / H) sum_h W_h m^h."""
        d = x.shape[-1]
        scale = math.sqrt(inputs.number_at(self.dt, t, "dt", above=0.0) / self.heads)
        mean = None if self.scores else hearing(x, t).mean
        y = x
        for _ in range(self.heads):
            if self.scores:
                queries = x @ np.swapaxes(draw(d, d), -1, -2)
                mean = hearing(queries, t, sources=x, values=x).mean
            assert mean is not None
            y = y + scale * (mean @ np.swapaxes(draw(d, d), -1, -2))
        return y / np.sqrt((y * y).sum(axis=-1, keepdims=True))
