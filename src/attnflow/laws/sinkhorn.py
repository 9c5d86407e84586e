"""Sinkhorn attention: doubly stochastic weights."""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, field
from typing import ClassVar

import numpy as np

from attnflow import engines
from attnflow.core.inputs import Array, InputError, Matrix, Scalar, each_mass
from attnflow.core.progress import tick
from attnflow.core.query_key import QueryKey, set_form
from attnflow.engines import dense
from attnflow.laws.law import Law
from attnflow.laws.scored import BETA, FORM, KEYS, QUERIES
from attnflow.laws.softmax import Softmax
from attnflow.laws.sums import Heard, Sources

# Columns have their sums up to PRECISE, where the sums of softmax are exact up to rounding, and up to FAST where these
# err by 1e-10; in both cases up to the rounding of the largest potential.
PRECISE, FAST = 1e-14, 1e-9
# This many scalings are tried; then, for at most NEWTON_TOKENS tokens, this many steps of Newton's method.
MOST_SCALINGS, NEWTON_TOKENS, MOST_NEWTON, MOST_HALVINGS = 300, 1024, 60, 40
# Newton's matrix is this far from singular. Sums of columns that err by no more than ENOUGH are accepted.
RIDGE, ENOUGH = 1e-14, 1e-9


@dataclass(frozen=True, eq=False)
class Sinkhorn(Law):
    """Sinkhorn attention: P_ij = w_j e^{beta s_ij + f_i + g_j}, s_ij = <B x_i, x_j>, with sum_i w_i P_ij = w_j.

    The numbers f_i and g_j are such that sum_j P_ij = 1 and sum_i w_i P_ij = w_j. With masses 1, P is doubly
    stochastic. So sum_i w_i sum_j P_ij x_j = sum_j w_j x_j: averaging layers keep the barycentre. A bias b of the
    scores would be part of g_j, and change nothing; for B = I, only distances count: s_ij may be -|x_i - x_j|^2 / 2.

    The potentials g_j are those of the sources alone, which hear each other. Any query x then hears source j with
    weight w_j e^{beta <B x, x_j> + g_j}, divided by the sum of these. Each scaling takes the sums of `Softmax`, with
    its fast engines: sums of columns err by 1e-14 (1e-9 where engines err by 1e-10) and the rounding of beta s_ij.
    With symmetric beta B the potentials are averaged with the scaled ones, which halves the error in each scaling if
    beta B is positive semidefinite. Otherwise convergence is slow where groups of tokens hardly hear each other:
    then Newton's method goes on, for up to 1024 tokens. Where sums of columns are not reached, tokens are refused.
    `Masked` and `Positional` refuse this law, since its weights for one token depend on all tokens together.

    Examples
    --------
    >>> import numpy as np
    >>> import attnflow as af
    >>> af.Sinkhorn(beta=np.log(3.0)).weights([[1.0], [1.0 + 2**0.5]])  # beta |x_1 - x_2|^2 / 2 = log 3
    array([[0.75, 0.25],
           [0.25, 0.75]])

    References
    ----------
    Sander, Ablin, Blondel, Peyre, *Sinkformers: transformers with doubly stochastic attention* (arXiv 2110.11773).
    """

    name: ClassVar[str] = "sinkhorn"
    title: ClassVar[str] = "Sinkhorn"
    formula: ClassVar[str] = "P_ij = w_j e^{beta <B x_i, x_j> + f_i + g_j}, sum_i w_i P_ij = w_j"
    merges_copies: ClassVar[bool] = True
    rows_apart: ClassVar[bool] = False  # the potentials are those of all sources together
    query_key: ClassVar[QueryKey | None] = None  # each law sets its own

    beta: Scalar = field(default=1.0, metadata=BETA)
    B: Matrix = field(default=None, metadata=FORM)
    Q: InitVar[Matrix] = field(default=None, metadata=QUERIES)
    K: InitVar[Matrix] = field(default=None, metadata=KEYS)

    def __post_init__(self, Q: Matrix, K: Matrix) -> None:
        super().__post_init__()
        set_form(self, Q, K)

    def softmax(self) -> Softmax:
        """Return softmax with the same scores."""
        return Softmax(beta=self.beta, B=self.B)

    def log_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij for queries that hear the sources with the potentials of these."""
        keys = x if sources is None else sources
        queries, gain = self.softmax().queries(x, t)
        return dense.log_softmax(queries, keys, self.potentials(keys, t, masses, 1.0, "precise"), gain)[0]

    def listen(self, x: Array, t: float, sources: Sources) -> Heard:
        """Average the values of the sources with the weights."""
        places, values, masses, outer_gain, engine, _ = sources
        logs = self.potentials(places, t, masses, outer_gain, engine)
        queries, gain = self.softmax().queries(x, t, outer_gain)
        sums = engines.engine(engine, "softmax", len(x), len(places), x.shape[1]).softmax
        return Heard(sums(queries, places, values, logs, gain * outer_gain)[0], None)

    def potentials(self, y: Array, t: float, masses: Array | None, outer_gain: float, engine: str) -> Array:
        """Return log w_j + g_j (n,) of tokens y, up to a constant."""
        (form, gain), (n, d) = self.softmax().form(t, y), y.shape
        gain, queries = gain * outer_gain, y if form is None else y @ form.T
        log_w, name = np.log(each_mass(masses, n)), engines.choose(engine, "softmax", n, n, d)
        sums, nothing = engines.module(name).softmax, np.zeros((n, 1))

        def rows(g: Array) -> Array:
            """Return the f with rows that sum to one."""
            tick()
            f: Array = -sums(queries, y, nothing, log_w + g, gain)[1]
            return f

        def columns(f: Array) -> Array:
            """Return the g with columns that have their sums."""
            g: Array = -sums(y, queries, nothing, log_w + f, gain)[1]
            return g

        least = PRECISE if name in ("dense", "fused", "blocked") else FAST
        symmetric = form is None or (form == form.T).all()
        g, error = np.zeros(n), math.inf
        for _ in range(MOST_SCALINGS):
            f = rows(g)
            new = (f + g) / 2 if symmetric else columns(f)
            # The sums of columns are w_j e^{g - columns(f)}; if f = g for symmetric scores, rows and columns are alike.
            error = float(np.abs(f - g if symmetric else new - g).max())
            g = new
            if error <= least + 8 * np.finfo(np.float64).eps * float(np.abs(f).max()):
                return log_w + g
        if n <= NEWTON_TOKENS:
            g, error = _newton(queries, y, g, log_w, gain)
        if error > ENOUGH:
            raise InputError(
                f"the sums of columns of {type(self).__name__} are only reached up to a factor of 1 + {error:.1g}, "
                "because groups of tokens hardly hear each other: take a smaller beta"
            )
        return log_w + g


def _newton(queries: Array, y: Array, g: Array, log_w: Array, gain: float) -> tuple[Array, float]:
    """Return the g with the largest sum_j w_j g_j - sum_i w_i log sum_j w_j e^{g_j + s_ij}, and the error of columns.

    Where that has its maximum, columns have their sums.
    """
    w = np.exp(log_w)

    def at(g: Array) -> tuple[Array, float, Array, float]:
        log_p, log_total = dense.log_softmax(queries, y, log_w + g, gain)
        P = np.exp(log_p)
        columns = w @ P
        with np.errstate(divide="ignore"):
            return P, float(w @ (g - log_total)), columns, float(np.abs(np.log(columns / w)).max())

    P, value, columns, error = at(g)
    best = g, error
    for _ in range(MOST_NEWTON):
        # Constants change nothing: their direction gets a curvature of its own, and so do groups that are apart.
        curvature = np.diag(columns + RIDGE * w) - P.T @ (w[:, None] * P) + np.outer(w, w) / w.sum()
        step = np.linalg.solve(curvature, w - columns)
        for halvings in range(MOST_HALVINGS):
            tried = at(g + 0.5**halvings * step)
            if tried[1] >= value or tried[3] < error:
                break
        else:
            break
        g, (P, value, columns, error) = g + 0.5**halvings * step, tried
        if error < best[1]:
            best = g, error
        elif best[1] < ENOUGH:
            break
    return best
