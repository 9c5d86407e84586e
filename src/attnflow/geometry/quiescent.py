"""Quiescent sets: groups of tokens that hear no token outside the group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.core.indices import positional, rows_of, weight_rows
from attnflow.core.inputs import Array, InputError, cloud, matrix_at, number, quoted
from attnflow.geometry.forms import form, positive_definite, score_rounding

# More influences than this are not gathered: a graph of a hundred million arcs takes over a gigabyte.
MOST_ARCS = 100_000_000


class Listening(Protocol):
    """What this module needs of a law: its weights."""

    def log_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij."""


@dataclass(frozen=True)
class Certificate:
    """A geometric reason why a set of tokens is quiescent, for localmax or hardmax with B symmetric positive definite.

    All members are within B-distance `radius` r of `centre` v, and <B v, z> <= |v|^2 - mu for all other tokens z. The
    set is quiescent if `margin` = mu - delta - 3 r R is positive, R the largest B-norm of a token; what rounding could
    do to it has been taken off. `contracts` says that all members hear each other, 2 r R <= delta; if the certificate
    holds too, the group shrinks to its centroid by exactly 1 - gamma per layer.
    """

    centre: Array
    radius: float
    margin: float
    contracts: bool

    @property
    def holds(self) -> bool:
        """Whether it proves that the set is quiescent."""
        return self.margin > 0


@dataclass(frozen=True)
class QuiescentSet:
    """A smallest closed set of the influence graph; its `certificate` is None where the law has none."""

    members: NDArray[np.int64]
    certificate: Certificate | None


def quiescent_sets(law: Listening, x: ArrayLike, t: float = 0) -> list[QuiescentSet]:
    """Return the smallest sets I of tokens that hear only members of I: P_ij > 0 and i in I imply j in I.

    These are the strongly connected components of the influence graph without an arc that leaves them; every closed
    set is a union of components that contains all it can reach. Weights of softmax are all positive, so all tokens are
    one set.

    >>> import attnflow as af
    >>> x = [[1.0, 0.0], [0.95, 0.0], [-1.0, 0.1], [-0.1, 0.0]]
    >>> for group in quiescent_sets(af.Localmax(delta=0.1), x):
    ...     print(group.members, group.certificate.holds, round(group.certificate.radius, 3))
    [0 1] True 0.025
    [2] True 0.0

    References
    ----------
    Cimetiere, Chiri, Gharesifard, *Localmax dynamics for attention in transformers and its asymptotic behavior*
    (arXiv 2509.15958), for the notion; the certificate is derived here.
    """
    tokens, t = cloud(x), number(t, "t")
    return [QuiescentSet(members, _certificate(law, tokens, members, t)) for members in closed_sets(law, tokens, t)]


def closed_sets(law: Listening, x: ArrayLike, t: float = 0) -> list[NDArray[np.int64]]:
    """Return the members of the quiescent sets, without the certificates.

    >>> import attnflow as af
    >>> closed_sets(af.Hardmax(), [[2.0], [1.0], [-1.0]])
    [array([0]), array([2])]
    """
    if isinstance(law, type) or not hasattr(law, "log_weights"):
        raise InputError(f"law is {quoted(law)}, expected a law such as Localmax(delta=0.1)")
    tokens = cloud(x)
    return _sinks(_influence(law, tokens, number(t, "t")), len(tokens))


def _influence(law: Listening, x: Array, t: float) -> NDArray[np.int64]:
    """Return the arcs i -> j with P_ij > 0, i != j, shape (2, m), in blocks of rows; heads are taken together."""
    arcs, count = [], 0
    for rows, log_p in weight_rows(law, x, t, sources=x):
        first = rows.start
        with np.errstate(over="ignore"):
            rows_of(law, log_p, x[rows], x)
        heard = np.isfinite(log_p)
        i, j = np.nonzero(heard.any(axis=0) if heard.ndim == 3 else heard)
        arcs.append(np.stack([i + first, j])[:, i + first != j])
        count += arcs[-1].shape[1]
        if count > MOST_ARCS:
            raise InputError(
                f"the influence graph of {len(x)} tokens has more than {MOST_ARCS:g} arcs: give fewer tokens"
            )
    return np.concatenate(arcs, axis=1)


def _sinks(arcs: NDArray[np.int64], n: int) -> list[NDArray[np.int64]]:
    """Return the strongly connected components that no arc leaves, in the order of their first members."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(arcs.shape[1], dtype=np.int8), (arcs[0], arcs[1])), shape=(n, n)).tocsr()
    _, component = connected_components(graph, directed=True, connection="strong")
    left = np.unique(component[arcs[0]][component[arcs[0]] != component[arcs[1]]])
    groups = (np.flatnonzero(component == c) for c in np.setdiff1d(component, left))
    return sorted(groups, key=lambda members: int(members[0]))


def _certificate(law: Any, x: Array, members: NDArray[np.int64], t: float) -> Certificate | None:
    """Try the members and their centroid as centre, and keep the one with the largest margin."""
    near = getattr(law, "neighbourhood", None)
    if near is None or not near.by_scores or near.b is not None or positional(law):
        return None
    B = form(matrix_at(near.B, t, x.shape[1], "B"), x.shape[1])
    if not positive_definite(B):
        return None
    inner, others = x[members], np.delete(x, members, axis=0)
    norms = np.sqrt(np.einsum("ia,ab,ib->i", x, B, x))
    best = np.einsum("ia,ab,jb->ij", inner, B, x).max(axis=1)
    room, relative = near.slack(t).at(inner @ B.T)
    deltas = room + relative * np.abs(best)
    centres = np.concatenate([inner, inner.mean(axis=0, keepdims=True)])
    noise = 4 * float(score_rounding(B, x, x).max())
    found = []
    for v in centres:
        arms = inner - v
        radius = float(np.sqrt(np.einsum("ia,ab,ib->i", arms, B, arms).max()))
        mu = float(v @ B @ v - (others @ (B @ v)).max(initial=-np.inf))
        reach = radius * float(norms.max())
        margin = mu - float(deltas.max()) - 3 * reach - noise
        found.append(Certificate(v, radius, margin, bool(2 * reach + noise <= deltas.min())))
    return max(found, key=lambda certificate: certificate.margin)
