"""Masks: who may be heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attnflow.core.arrays import holds, namespace, plain
from attnflow.core.graphs import Order, edges, graph_at
from attnflow.core.indices import log_weights, weights
from attnflow.core.inputs import Array, InputError, Matrix, each_mass, quoted
from attnflow.core.parameters import about
from attnflow.laws.around import Around
from attnflow.laws.law import Law, varies
from attnflow.laws.sums import Products


@dataclass(frozen=True, eq=False)
class Masked(Around):
    """Masked attention: the weights of a law, restricted to the j that i may hear, and divided by their sum or mass.

    Several masks together leave the tokens that all of them allow. The law finds its own top scores and sums among
    these alone: under a causal mask token k hears what the last of the first k + 1 tokens would hear without the
    others. Weights that are no probabilities, as those of `Linear`, are divided by the mass of the tokens that are
    heard, in place of that of all. `Sinkhorn`, whose weights for one token depend on all tokens together, is refused.
    Tokens then have an order, 0, 1, ..., n - 1, and are never merged or sorted. A token that may hear nobody is
    refused. Masks stand around single laws, inside `Heads` too; they and `Positional` may stand around each other in
    any order.

    Parameters
    ----------
    law
        The law whose weights are restricted.
    causal
        True: token i hears the tokens j <= i.
    window
        A whole number w: token i hears the tokens |i - j| < w; with causal, 0 <= i - j < w.
    graph
        An array (n, n) of zeros and ones, with graph[i, j] = 1 where token i hears token j; a function of time, or a
        sequence over layers. It is the only array (n, n) that is kept. `attnflow.laws.species` makes one for several
        species, for cross-attention, and for contexts that rest; `attnflow.laws.graphs` has some for any n.

    Examples
    --------
    >>> import attnflow as af
    >>> af.Masked(af.Softmax(beta=0.0), causal=True).weights([[1.0], [2.0], [3.0]]).round(3)
    array([[1.   , 0.   , 0.   ],
           [0.5  , 0.5  , 0.   ],
           [0.333, 0.333, 0.333]])
    >>> af.Masked(af.Hardmax(), window=2).attend([[1.0], [2.0], [3.0]])
    array([[2.],
           [3.],
           [3.]])

    References
    ----------
    Karagodin, Polyanskiy, Rigollet, *Clustering in causal attention masking* (arXiv 2411.04990).
    """

    name: ClassVar[str] = "masked"
    title: ClassVar[str] = "Masked"
    formula: ClassVar[str] = "P_ij of the law, for the j that i may hear"
    adds: ClassVar[str] = "masks"

    law: Law = field(metadata=about("part", "the law whose weights are restricted", part=Law))
    # None, not given, is told apart from False, with which a study compares a law without a mask.
    causal: bool | None = field(default=None, metadata=about("switch", "true if token i hears the tokens j <= i alone"))
    window: int | None = field(
        default=None, metadata=about("count", "token i hears the tokens |i - j| < window", least=1, start=8)
    )
    graph: Matrix = field(default=None, metadata=about("graph", "zeros and ones, 1 where token i hears token j"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.causal is None and self.window is None and self.graph is None:
            raise InputError("Masked was given a law alone, without a mask: give causal=True, window or graph too")

    def heard(self, rows: Any, columns: Any, t: float = 0) -> Any:
        """Return which of the sources each query may hear, (m, n), by their indices."""
        apart = rows[:, None] - columns
        allowed = apart >= 0 if self.causal else apart == apart
        if self.window is not None:
            allowed = allowed & (apart < self.window) & (apart > -self.window)
        if self.graph is not None:
            allowed = allowed & edges(graph_at(self.graph, t, "graph"), rows, columns)
        return allowed

    @property
    def order(self) -> Order | None:
        """Who may be heard, where that is decided by the order of tokens."""
        inside = super().order
        if self.graph is not None or inside is None:
            return None
        windows = [one for one in (self.window, inside.window) if one is not None]
        return Order(bool(self.causal) or inside.causal, min(windows, default=None))

    def check_number(self, n: int, t: float) -> None:
        """Refuse a graph that is not one of n tokens."""
        super().check_number(n, t)
        size = n if self.graph is None else len(graph_at(self.graph, t, "graph"))
        if size != n:
            raise InputError(
                f"graph has shape ({size}, {size}), but there are {n} tokens: give {n} rows of {n} numbers"
            )

    def reach(self, first: int, last: int, n: int) -> tuple[int, int]:
        """Return the ends of a range that holds all sources which the queries first, ..., last - 1 may hear."""
        low, high = super().reach(first, last, n)
        if self.graph is not None:
            return low, high
        wide = n if self.window is None else self.window
        low, high = max(low, first - wide + 1), min(high, last if self.causal else last + wide - 1)
        # A query that may hear nobody is refused where it is looked at.
        return (low, high) if low < high else (0, n)

    def scores(self, products: Products, t: float = 0, *, rows: Any = None, columns: Any = None) -> Array:
        """Return the scores of the law inside, -inf where a source may not be heard."""
        s = super().scores(products, t, rows=rows, columns=columns)
        return _restricted(s, self.heard(rows, columns, t), rows, self._when(t))

    def restricted(self, x: Array, t: float, *, sources: Array, masses: Array | None, rows: Any, columns: Any) -> Array:
        """Return log P_ij of a law without scores: its weights divided by the sum of those that are left.

        Weights that are no probabilities are sums divided by the mass of all sources: they are multiplied by that mass
        and divided by the mass of the sources that are heard.
        """
        xp, told = namespace(x), {"rows": rows, "columns": columns}
        if not self.law.stochastic:
            found = weights(self.core, x, t, sources=sources, masses=masses, **told)
            allowed = self.may_hear(rows, columns, t)
            _need_one(allowed, rows, self._when(t))
            w = each_mass(masses, sources.shape[-2], like=sources)[..., None, :]
            mass, part = (one.sum(axis=-1, keepdims=True) for one in (w, xp.where(allowed, w, 0.0)))
            return xp.where(allowed, found * (mass / part), 0.0)
        heard = self.heard(rows, columns, t)
        logs = log_weights(self.law, x, t, sources=sources, masses=masses, **told)
        left = _restricted(logs, heard, rows, self._when(t))
        top = xp.max(left, axis=-1, keepdims=True)
        return left - top - xp.log(xp.exp(left - top).sum(axis=-1, keepdims=True))

    def may_hear(self, rows: Any, columns: Any, t: float = 0) -> Any:
        """Return which of the sources each query may hear by this mask and by those inside."""
        own, inside = self.heard(rows, columns, t), super().may_hear(rows, columns, t)
        return own if inside is None else own & inside

    def _when(self, t: float) -> str:
        """Return at which time, for a sentence, where masks depend on it."""
        return f" at t = {t:g}" if varies(self) else ""


def species(labels: Sequence[Any], hears: Mapping[Any, Sequence[Any]]) -> NDArray[np.bool_]:
    """Return the graph of tokens of several species, for `Masked`: `hears` says which species each of them hears.

    A token hears all tokens of these species. One whose species hears none hears itself alone: it rests in motions that
    average and on the sphere, and is a fixed context. So tokens of one cloud listen to another one:

    >>> import attnflow as af
    >>> labels = ["query"] * 2 + ["context"] * 3
    >>> species(labels, {"query": ["context"]}).astype(int)
    array([[0, 0, 1, 1, 1],
           [0, 0, 1, 1, 1],
           [0, 0, 1, 0, 0],
           [0, 0, 0, 1, 0],
           [0, 0, 0, 0, 1]])
    >>> x = af.tokens.gaussian(n=5, d=2, seed=0)
    >>> law = af.Masked(af.Softmax(beta=1.0), graph=species(labels, {"query": ["context"]}))
    >>> run = af.simulate(x, law, af.Layers(gamma=0.5), until=10)
    >>> bool((run.final[2:] == x[2:]).all()), bool((run.final[:2] == x[:2]).any())
    (True, False)
    """
    lists = (list, tuple, set, frozenset)
    if not isinstance(hears, Mapping) or not all(isinstance(one, lists) for one in hears.values()):
        raise InputError(
            f"hears is {hears!r}, expected a table with a list of species for each species that hears some, such as "
            '{"query": ["context"]}'
        )
    try:
        names = list(labels)
        known = set(names)
    except TypeError:
        names, known = [], set()
    if not names:
        raise InputError(
            f"labels are {quoted(labels)}, expected a list with the name of a species for each token, such as "
            '["query", "query", "context"]'
        )
    for one in (name for pair in hears.items() for name in (pair[0], *pair[1])):
        if one not in names:
            raise InputError(
                f"hears names the species {one!r}, but the labels are {sorted(map(str, known))}: use these"
            )
    heard = {name: np.array([other in hears.get(name, ()) for other in names]) for name in known}
    rows = [heard[name] if heard[name].any() else np.arange(len(names)) == i for i, name in enumerate(names)]
    return np.array(rows)


def _restricted(values: Array, allowed: Any, rows: Any, when: str) -> Array:
    """Return scores or logarithms of weights, -inf where a source may not be heard; refuse a row where none is left."""
    _need_one(allowed & (values != -np.inf), rows, when)
    return namespace(values).where(allowed, values, -np.inf)


def _need_one(heard: Any, rows: Any, when: str) -> None:
    """Refuse a row where no source is heard."""
    some = heard.sum(axis=-1) > 0
    if not holds(some):
        lost = plain(rows)[np.flatnonzero(~plain(some).reshape(-1, len(rows)).all(axis=0))[0]]
        raise InputError(f"token {lost} may hear nobody{when}: let it hear itself at least, or one of the others")
