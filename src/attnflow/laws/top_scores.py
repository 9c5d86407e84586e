"""Uniform attention over the sources of maximal, or nearly maximal, score: hardmax and localmax."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, replace
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attnflow import engines
from attnflow.core import inputs
from attnflow.core.arrays import foreign, namespace, place
from attnflow.core.graphs import Order
from attnflow.core.inputs import Array, InputError, Matrix, Scalar, Vector
from attnflow.core.parameters import about
from attnflow.core.query_key import QueryKey, form_at, forms_at, queries_and_keys, set_form
from attnflow.engines import dense
from attnflow.geometry.forms import score_rounding
from attnflow.laws import chunks
from attnflow.laws.descriptions import Neighbourhood, Slack
from attnflow.laws.law import COMPILED_TOKENS, Law, weighs_like
from attnflow.laws.sums import Heard, Products, Sources

TIES = ("tokens", "points", "first", "error")
THRESHOLDS = ("additive", "relative", "normalized")


class TieError(InputError):
    """Two distinct points have the same top score for a token, and the law refuses ties."""


def distinct(points: Array) -> Array:
    """Return 1 for the first token at each point and 0 for its copies, in each system on its own.

    >>> distinct(np.array([[1.0], [2.0], [1.0]]))
    array([1., 1., 0.])
    """
    order = np.lexsort(np.moveaxis(points, -1, 0))  # copies come one after the other, the first token first
    ordered = np.take_along_axis(points, order[..., None], axis=-2)
    new = np.ones(order.shape)
    new[..., 1:] = (ordered[..., 1:, :] != ordered[..., :-1, :]).any(axis=-1)
    first = np.empty(order.shape)
    np.put_along_axis(first, order, new, axis=-1)
    return first


def _one_each(near: NDArray[np.bool_], points: Array) -> NDArray[np.bool_]:
    """Return which of the true entries of each row are the first at their point, (..., m, n) for points (..., n, d).

    >>> _one_each(np.array([[True, True, True], [False, True, True]]), np.array([[1.0], [1.0], [2.0]])).astype(int)
    array([[1, 0, 1],
           [0, 1, 1]])
    """
    order = np.lexsort(np.moveaxis(points, -1, 0))
    ordered = np.take_along_axis(points, order[..., None], axis=-2)
    new = np.ones(order.shape, dtype=bool)
    new[..., 1:] = (ordered[..., 1:, :] != ordered[..., :-1, :]).any(axis=-1)
    start = np.maximum.accumulate(np.where(new, np.arange(order.shape[-1]), 0), axis=-1)[..., None, :]
    order = np.broadcast_to(order[..., None, :], near.shape)
    hits = np.take_along_axis(near, order, axis=-1)
    count: NDArray[np.int64] = np.cumsum(hits, axis=-1)
    # How many entries are true up to this one at its point.
    so_far: NDArray[np.int64] = count - np.take_along_axis(count - hits, np.broadcast_to(start, near.shape), axis=-1)
    first = np.empty_like(near)
    np.put_along_axis(first, order, hits & (so_far == 1), axis=-1)
    return first


def _candidates(engine: ModuleType, queries: Array, places: Array) -> NDArray[np.int64] | slice:
    """Return which places can have a top score, as far as the engine can say; fewer points are faster to compare."""
    kept = engine.candidates(queries, places) if hasattr(engine, "candidates") else None
    return slice(None) if kept is None else kept


class TopScores(Law):
    """The laws of this module: weight w_j on every j with s_ij >= M_i - slack, normalised; s_ij = <B x_i + b, x_j>."""

    continuous: ClassVar[bool] = False
    batched: ClassVar[bool] = True
    kind: ClassVar[str] = "near"
    query_key: ClassVar[QueryKey | None] = None  # each law sets its own
    B: Matrix
    b: Vector

    @property
    def counting(self) -> str:
        """How tied sources count: one of `TIES`."""
        return "tokens"

    @property
    def array_api(self) -> bool:  # type: ignore[override]
        """Whether arrays of any library are taken: where equal points need not be told apart."""
        return self.counting in ("tokens", "first")

    def slack(self, t: float) -> Slack:
        """How far below the top score a token still listens."""
        return Slack()

    def queries(self, x: Array, t: float, gain: float = 1.0) -> Array:
        """Return B(t) x_i + b(t), for tokens still to be multiplied by the root of a gain."""
        d = x.shape[-1]
        matrix, b = form_at(self, t, d, like=x), inputs.vector_at(self.b, t, d, "b", like=x)
        turned = x if matrix is None else dense.scores(x, matrix)
        return turned if b is None else turned + b / math.sqrt(gain)

    def counts(self, sources: Array, masses: Array | None) -> Array:
        """How much each source counts: its mass, or one per distinct point."""
        if self.counting in ("points", "error"):
            return distinct(sources)
        return inputs.each_mass(masses, sources.shape[-2], like=sources)

    def uses(self, engine: str, n: int, d: int) -> str:
        return engines.choose(engine, self.kind, n, n, d)

    def log_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij: the logarithm of w_j over the mass of the neighbourhood, -inf outside it."""
        keys = x if sources is None else sources
        queries, counts = self.queries(x, t), self.counts(keys, masses)
        near, _, leader = dense.neighbours(queries, keys, counts, *self.slack(t).at(queries))
        if self.counting == "error":
            _refuse_ties(near.sum(axis=-1) > 1, leader, t)
        if self.counting == "first":
            near = namespace(x).arange(keys.shape[-2], **place(x)) == leader[..., None]
        return dense.log_shares(near, counts)

    def products(self, x: Array, t: float = 0, *, sources: Array | None = None) -> Products:
        """Return B x_i + b and x_j; where Q and K were given, Q x_i + b_Q and K x_j, with b = K^T b_Q."""
        return Products(*queries_and_keys(self, t, x, x if sources is None else sources, dense.scores))

    def scores(self, products: Products, t: float = 0) -> Array:
        """Return the scores, summed so that they can be compared."""
        return dense.scores(*products)

    def of_scores(
        self, scores: Array, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij: the logarithm of w_j over the mass of the neighbourhood, -inf outside it."""
        places = x if sources is None else sources
        slack = self.slack(t).at(self.queries(x, t))
        near, leader = dense.near_top(scores, *slack)[::2]
        if self.counting == "first":
            near = namespace(x).arange(scores.shape[-1], **place(x)) == leader[..., None]
        if self.counting in ("points", "error"):
            near = _one_each(near, places)
        if self.counting == "error":
            _refuse_ties(near.sum(axis=-1) > 1, leader, t)
        counts = masses if self.counting in ("tokens", "first") else None
        return dense.log_shares(near, inputs.each_mass(counts, scores.shape[-1], like=places))

    def listen(self, x: Array, t: float, sources: Sources) -> Heard:
        """Average the values of the sources over the neighbourhood of each query."""
        if foreign(x):
            return super().listen(x, t, sources)
        return self._listen(self.queries(x, t, sources.gain), t, sources)

    def _listen(self, queries: Array, t: float, sources: Sources) -> Heard:
        """Do the work of `listen`."""
        room, relative = self.slack(t).at(queries, sources.gain)
        engine = engines.engine(sources.engine, self.kind, len(queries), len(sources.places), queries.shape[1])
        kept = slice(None) if self.counting in ("tokens", "first") else _candidates(engine, queries, sources.places)
        places, values = sources.places[kept], sources.values[kept]
        counts, top = self.counts(places, sources.masses), engine.top
        mean, best, leader = top(queries, places, values, counts, room, relative)
        if self.counting == "error":
            backwards = top(queries, places[::-1].copy(), values[::-1].copy(), counts[::-1].copy(), room, relative)
            tied = leader != len(places) - 1 - backwards[2]
            _refuse_ties(tied, np.arange(len(sources.places))[kept][leader], t)
        return Heard(values[leader] if self.counting == "first" else mean, sources.gain * best)

    def listen_products(self, x: Array, t: float, sources: Sources, products: Products, order: Order) -> Heard | None:
        """Average with the scores of these queries and keys; None where an order restricts whom they may hear."""
        if self.serves_products(sources.engine, len(x), products.keys.shape[1], order) == "dense":
            return None
        room, relative = self.slack(t).at(self.queries(x, t, sources.gain), sources.gain)
        keys, values = products.keys, sources.values
        chosen = engines.engine(sources.engine, self.kind, len(x), *keys.shape)
        counts = inputs.each_mass(sources.masses, len(keys))
        mean, best, leader = chosen.top(products.queries, keys, values, counts, room, relative)
        return Heard(values[leader] if self.counting == "first" else mean, sources.gain * best)

    def serves_products(self, engine: str, n: int, k: int, order: Order) -> str:
        """Return the engine for n queries and keys in k dimensions that hear each other in this order."""
        # Points that tie are told apart by where tokens are, not by their keys.
        return "dense" if any(order) or self.counting in ("points", "error") else self.uses(engine, n, k)

    def separates(self, x: Array, groups: NDArray[np.int64], t: float = 0) -> bool:
        """Say whether groups of tokens never hear each other as long as each stays in its hull.

        s(p, q) - s(p, r) is linear in each of its points, so its least value over p and q in the hull of one group and
        r in that of another is attained at tokens; it must exceed the largest slack, and what rounding could do.

        >>> import attnflow as af
        >>> x, groups = np.array([[1.0], [0.9], [-1.0]]), np.array([0, 0, 1])
        >>> af.Hardmax().separates(x, groups), af.Localmax(delta=3.0).separates(x, groups)
        (True, False)
        """
        if not weighs_like(self, TopScores):
            return False
        queries, own = self.queries(x, t), groups[:, None] == groups
        scores = dense.scores(queries, x)
        gap = np.where(own, scores, np.inf).min(axis=1) - np.where(own, -np.inf, scores).max(axis=1)
        room, relative = self.slack(t).at(queries)
        noise = score_rounding(np.eye(x.shape[1]), queries, x)
        return bool(gap.min() > room.max() + relative * np.abs(scores).max() + noise.max())

    def layers(
        self, x: Array, times: range, gammas: Array, *, masses: Array | None = None, engine: str = "auto"
    ) -> Array | None:
        """Return the states after each averaging step, from the fused engine for few tokens."""
        n, d = x.shape
        if self.b is not None or self.counting == "error" or n > COMPILED_TOKENS or self.uses(engine, n, d) != "fused":
            return None
        from attnflow.engines import fused

        slacks, forms = np.array([self.slack(t) for t in times]), forms_at(self, times, d)
        return fused.top_layers(x, forms, slacks, gammas, self.counts(x, masses), self.counting)


def _refuse_ties(tied: NDArray[np.bool_], leader: NDArray[np.int64], t: float) -> None:
    if tied.any():
        where = np.unravel_index(tied.argmax(), tied.shape)
        raise _tie(int(where[-1]), leader[where], t)


def _tie(token: int, leader: int, t: float) -> TieError:
    return TieError(
        f"token {token} ties between token {leader} and another point at time {t:g}: choose ties='tokens', 'points' or "
        "'first', or move the tokens"
    )


@dataclass(frozen=True, eq=False)
class Hardmax(TopScores):
    """Hardmax attention: uniform weights on the sources that maximise <B x_i + b, x_j>.

    A tie is exact equality of computed scores. Several sources may tie:

    - ``ties="tokens"``: every tied token counts, with its mass, as in the hardmax transformer;
    - ``ties="points"``: every tied point counts once, however many tokens or masses sit there, as in Frank-Wolfe;
    - ``ties="first"``: the token of lowest index alone;
    - ``ties="error"``: a tie between distinct points is refused with its token and time.

    B, b, Q and K are those of `Softmax`: values, functions of time or sequences over layers, B = K^T Q.
    With `B = -B_*` the leader of a token is the linear minimisation oracle of Frank-Wolfe for 1/2 <B_* x, x>.

    Examples
    --------
    >>> import attnflow as af
    >>> x = [[1.0, 1.0], [1.0, -1.0], [1.0, -1.0], [0.5, 0.0]]
    >>> af.Hardmax().attend(x)[3], af.Hardmax(ties="points").attend(x)[3]
    (array([ 1.        , -0.33333333]), array([1., 0.]))

    References
    ----------
    Alcalde, Fantuzzi, Zuazua, *Clustering in pure-attention hardmax transformers and its role in sentiment
    analysis* (arXiv 2407.01602). Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe*
    (arXiv 2508.09628).
    """

    name: ClassVar[str] = "hardmax"
    title: ClassVar[str] = "Hardmax"
    formula: ClassVar[str] = "token i hears the j that maximise <B x_i, x_j>"
    kind: ClassVar[str] = "top"
    limit_of: ClassVar[str] = "softmax"
    replays: ClassVar[str] = "fractions"

    B: Matrix = field(default=None, metadata=about("matrix", "matrix of the scores <B x_i, x_j>"))
    ties: str = field(
        default="tokens", metadata=about("choice", "how tied sources count", choices=TIES, of_model=False)
    )
    b: Vector = field(default=None, metadata=about("vector", "bias of the scores <B x_i + b, x_j>"))
    Q: InitVar[Matrix] = field(default=None, metadata=about("rectangular", "queries Q x_i, with K in place of B"))
    K: InitVar[Matrix] = field(default=None, metadata=about("rectangular", "keys K x_j, with Q in place of B"))

    def __post_init__(self, Q: Matrix, K: Matrix) -> None:
        super().__post_init__()
        set_form(self, Q, K)

    @property
    def counting(self) -> str:
        return self.ties

    @property
    def neighbourhood(self) -> Neighbourhood:
        """The sources of the top score."""
        return Neighbourhood(0.0, "additive", self.B, self.b, self.ties)

    def attend_chunks(self, x: Any, t: float) -> Any:
        """Return the barycentres of tokens in a Dask array, each of which asks the points near the hull of all tokens.

        Each chunk is read twice: for its points near the hull, and for its own means, which are computed when the
        result is. A worker needs up to 100 d bytes for each token of a chunk, and 100 d for each point near the hull,
        of which there may be 2^20. Beyond that, as on a sphere, tokens are refused. With ties="error" each chunk is
        read once more, so that the first of all tokens that ties is named before any mean is computed.
        """
        from attnflow.engines import chunks_top as top

        d = x.shape[1]
        if d > top.MOST_DIMENSIONS:
            raise InputError(chunks.too_wide(d, top.MOST_DIMENSIONS, "hardmax"))
        law = replace(self, B=form_at(self, t, d), b=inputs.vector_at(self.b, t, d, "b"))
        found = chunks.kept(_checked, chunks.added(chunks.Chunks(x).each(_candidates_of_chunk), top.merged))
        law = without_ties(law, x, found, t)
        return chunks.mapped(x, _averages_of_chunk, found, chunks.shared(law), t)


@dataclass(frozen=True, eq=False)
class Localmax(TopScores):
    """Localmax attention: uniform weights on the sources whose score is within delta of the top score M_i.

    Scores are s_ij = <B x_i + b, x_j>, with B, b, Q and K as in `Softmax`.

    N_i = {j : s_ij >= M_i - delta} with ``threshold="additive"``; the bound is M_i - delta |M_i| with
    ``"relative"`` (that is (1 - delta) M_i where scores are positive) and M_i - delta |B x_i + b| with
    ``"normalized"``. delta = 0 is hardmax; a delta beyond the spread of the scores is the uniform average.

    The published abstract fixes this much: uniform weights over a neighbourhood of hardmax relaxed by an alignment
    parameter that may vary in time. The formulas above are our reconstruction of it.

    Examples
    --------
    >>> import attnflow as af
    >>> af.Localmax(delta=0.5).weights([[1.0], [0.75], [-1.0]])[0]
    array([0.5, 0.5, 0. ])

    References
    ----------
    Cimetiere, Chiri, Gharesifard, *Localmax dynamics for attention in transformers and its asymptotic behavior*
    (arXiv 2509.15958).
    """

    name: ClassVar[str] = "localmax"
    title: ClassVar[str] = "Localmax"
    formula: ClassVar[Mapping[str, str]] = {
        "additive": "<B x_i, x_j> >= M_i - delta, M_i the largest",
        "relative": "<B x_i, x_j> >= M_i - delta |M_i|, M_i the largest",
        "normalized": "<B x_i, x_j> >= M_i - delta |B x_i|, M_i the largest",
    }
    replays: ClassVar[str] = "fractions"

    delta: Scalar = field(default=0.0, metadata=about("function", "alignment slack", least=0.0, start=0.1))
    B: Matrix = field(default=None, metadata=about("matrix", "matrix of the scores <B x_i, x_j>"))
    threshold: str = field(default="additive", metadata=about("choice", "what delta is a part of", choices=THRESHOLDS))
    b: Vector = field(default=None, metadata=about("vector", "bias of the scores <B x_i + b, x_j>"))
    Q: InitVar[Matrix] = field(default=None, metadata=about("rectangular", "queries Q x_i, with K in place of B"))
    K: InitVar[Matrix] = field(default=None, metadata=about("rectangular", "keys K x_j, with Q in place of B"))

    def __post_init__(self, Q: Matrix, K: Matrix) -> None:
        super().__post_init__()
        set_form(self, Q, K)

    @property
    def neighbourhood(self) -> Neighbourhood:
        """The sources within delta of the top score."""
        return Neighbourhood(self.delta, self.threshold, self.B, self.b)

    def slack(self, t: float) -> Slack:
        """Return delta(t) in the place that the threshold gives it."""
        return Neighbourhood(self.delta, self.threshold).slack(t)


# Tasks on the chunks of a Dask array


def _candidates_of_chunk(x: Array, start: int) -> Any:
    from attnflow.engines import chunks_top as top

    chunks.check_rows(x, start)
    return top.candidates(x, start)


def _checked(found: Any) -> Any:
    chunks.check_size(float(np.abs(found.points).max()))
    return found


def without_ties(law: Hardmax, x: Any, found: Any, t: float) -> Hardmax:
    """Return a law that need not look for ties: where they are errors, the first of all tokens that ties is refused."""
    if law.ties != "error":
        return law
    for tie in chunks.computed(chunks.Chunks(x).each(_tie_of_chunk, found, chunks.shared(law), t)):
        if tie is not None:
            row, leader = tie
            raise _tie(row, leader, t)
    return replace(law, ties="first")


def _tie_of_chunk(x: Array, start: int, found: Any, law: Hardmax, t: float) -> tuple[int, int] | None:
    """Return the first token of a chunk that ties, and the first token that it hears."""
    first, last, all_tie = leaders_of_chunk(x, start, found, law, t)
    tied = (first != last) | all_tie
    i = int(tied.argmax())
    return (start + i, 0 if all_tie[i] else int(found.first[first[i]])) if tied[i] else None


def leaders_of_chunk(x: Array, start: int, found: Any, law: Hardmax, t: float) -> tuple[Any, Any, NDArray[np.bool_]]:
    """Return the first and the last candidate that each token of a chunk hears, and whether it hears all tokens."""
    from attnflow.engines import chunks_top as top

    queries, all_tie = law.queries(x, t), np.zeros(len(x), dtype=bool)
    all_tie[_at_zero(queries, start, found, law.ties)] = True
    first, last = np.zeros((2, len(x)), dtype=np.int64)
    first[~all_tie], last[~all_tie] = top.ahead(queries[~all_tie], found)
    return first, last, all_tie


def _at_zero(queries: Array, start: int, found: Any, ties: str) -> NDArray[np.int64]:
    """Return which queries of a chunk are at 0 and hear all tokens; refuse those of which the candidates do not know.

    Of points that were left out, it is known how many tokens they are and what their mean is, but not how many points.
    """
    from attnflow.engines import chunks_top as top

    doubtful = top.doubtful(queries, found)
    faint = doubtful[queries[doubtful].any(axis=1)]
    if len(faint):
        raise InputError(
            f"token {start + faint[0]} of a Dask array has scores that leave float64: multiply the tokens by a constant"
        )
    if ties == "points" and len(doubtful):
        raise InputError(
            f"token {start + doubtful[0]} of a Dask array ties between all tokens, whose distinct points are not "
            "counted: choose ties='tokens' or 'first', or move that token"
        )
    return doubtful


def _averages_of_chunk(x: Array, found: Any, law: Hardmax, t: float, block_info: Any = None) -> Array:
    """Return what the tokens of a chunk hear, from the candidates among all tokens."""
    queries = law.queries(x, t)
    at_zero = _at_zero(queries, block_info[0]["array-location"][0][0], found, law.ties)
    if not len(at_zero):
        return _averages(queries, found, law.ties)
    mean = np.empty(x.shape)
    mean[at_zero] = found.head if law.ties == "first" else found.mean
    certain = np.delete(np.arange(len(x)), at_zero)
    if len(certain):
        mean[certain] = _averages(queries[certain], found, law.ties)
    return mean


def _averages(queries: Array, found: Any, ties: str) -> Array:
    """Return what queries hear that are not doubtful."""
    from attnflow.engines import chunks_top as top

    weights = np.ones(len(found.points)) if ties == "points" else found.copies
    mean, first = top.heard(queries, found, weights)
    return found.points[first] if ties == "first" else mean
