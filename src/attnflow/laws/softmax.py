"""Softmax attention."""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from attnflow import engines
from attnflow.core import inputs
from attnflow.core.arrays import foreign, identity, namespace, sign
from attnflow.core.blocks import row_blocks
from attnflow.core.graphs import Order
from attnflow.core.inputs import SAMPLE, Array, InputError, Matrix, Scalar, Vector
from attnflow.core.parameters import about
from attnflow.core.query_key import QueryKey, form_at, forms_at, queries_and_keys, set_form
from attnflow.engines import dense
from attnflow.engines.centring import centre, ends, from_centre
from attnflow.geometry.copies import Copies, copies
from attnflow.laws import chunks
from attnflow.laws.descriptions import Exponents
from attnflow.laws.law import COMPILED_TOKENS, Law
from attnflow.laws.sums import Heard, Products, Sources

# Up to ALL_DIFFERENCES tokens, all differences of two tokens fit in the cache and are formed. Up to FAINT_DIFFERENCES
# tokens, they are formed for those whose pull is FAINT: at most this part of the cloud's size.
ALL_DIFFERENCES, FAINT_DIFFERENCES, FAINT = 32, 2048, 1e-6
# For CROWD pairs or more it is worth asking whether tokens coincide.
CROWD = 1 << 22
# Arrays of more numbers are printed by their shape.
MOST_NUMBERS = 25


@dataclass(frozen=True, eq=False)
class Softmax(Law):
    """Softmax attention: P_ij = w_j e^{beta s_ij} / sum_k w_k e^{beta s_ik}, s_ij = <B x_i + b, x_j>.

    Parameters
    ----------
    beta
        Inverse temperature: any real number, a function of time, or a list of numbers, one for each layer. No beta is
        too large for the sums. (A NumPy array has one number for each system of an `ensemble`.)
    B
        Any real matrix, symmetric or not, a function of time, a sequence over layers (a list of matrices, or an array
        (L, d, d)), or None for the identity.
    b
        A vector (d,) that is added to B x_i, so that scores are <B x_i + b, x_j>; a function of time, a sequence over
        layers, or None for 0. Of the biases of a trained layer, scores <Q x_i + b_Q, K x_j + b_K>, it is
        b = K^T b_Q; the bias of the keys adds the same to all scores of a token, and changes nothing.
    Q, K
        Matrices (k, d) in place of B: B = K^T Q, with scores <Q x_i, K x_j>; as B, functions of time or sequences
        over layers.

    Examples
    --------
    >>> import attnflow as af
    >>> law = af.Softmax(beta=1e6)
    >>> law.weights([[1.0, 0.0], [0.0, 1.0]])
    array([[1., 0.],
           [0., 1.]])
    >>> law.attend([[2.0], [-1.0]])
    array([[ 2.],
           [-1.]])

    References
    ----------
    Vaswani et al., *Attention is all you need* (2017). Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence
    of clusters in self-attention dynamics* (arXiv 2305.05465).
    """

    name: ClassVar[str] = "softmax"
    title: ClassVar[str] = "Softmax"
    formula: ClassVar[str] = "P_ij ~ w_j e^{beta <B x_i, x_j>}"
    batched: ClassVar[bool] = True
    merges_copies: ClassVar[bool] = True
    array_api: ClassVar[bool] = True
    accurate_pull: ClassVar[bool] = True
    each_system: ClassVar[tuple[str, ...]] = ("beta",)
    replays: ClassVar[str] = "balls"
    query_key: ClassVar[QueryKey | None] = None  # each law sets its own

    beta: Scalar = field(
        default=1.0, metadata=about("function", "inverse temperature", start=4, limit="hardmax", at_zero="plain mean")
    )
    B: Matrix = field(default=None, metadata=about("matrix", "matrix of the scores <B x_i, x_j>"))
    b: Vector = field(default=None, metadata=about("vector", "bias of the scores <B x_i + b, x_j>"))
    Q: InitVar[Matrix] = field(default=None, metadata=about("rectangular", "queries Q x_i, with K in place of B"))
    K: InitVar[Matrix] = field(default=None, metadata=about("rectangular", "keys K x_j, with Q in place of B"))

    def __post_init__(self, Q: Matrix, K: Matrix) -> None:
        super().__post_init__()
        set_form(self, Q, K)

    def __repr__(self) -> str:
        shown = ((name, getattr(self, name)) for name in ("beta", "B", "b"))
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(value)}' for name, value in shown)})"

    @property
    def exponents(self) -> Exponents:
        """Return beta, B and b."""
        return Exponents(self.beta, self.B, self.b)

    def form(self, t: float, x: Array) -> tuple[Array | None, float]:
        """Return (F, g) with beta B = g F and g >= 0, for tokens x; None for F stands for the identity.

        The size of beta goes into the gain, which multiplies only after the row maximum has been subtracted.
        """
        d = x.shape[-1]
        beta = inputs.number_at(self.beta, t, "beta", like=x)
        matrix = form_at(self, t, d, like=x)
        if not foreign(beta) and beta >= 0:
            return matrix, beta
        matrix = sign(beta) * (identity(d, like=x) if matrix is None else matrix)
        return matrix, sign(beta) * beta

    def queries(self, x: Array, t: float, outer_gain: float = 1.0) -> tuple[Array, float]:
        """Return (q, g) with beta <B x_i + b, x_j> = g <q_i, x_j> and g >= 0; x itself if that is so.

        Tokens that are to be multiplied by the root of an outer gain are given without it.
        """
        matrix, gain = self.form(t, x)
        b = inputs.vector_at(self.b, t, x.shape[-1], "b", like=x)
        if b is None:
            return x if matrix is None else x @ matrix.T, gain
        towards = sign(inputs.number_at(self.beta, t, "beta", like=x)) / math.sqrt(outer_gain)
        return (x if matrix is None else x @ matrix.T) + towards * b, gain

    def uses(self, engine: str, n: int, d: int) -> str:
        return engines.choose(engine, "softmax", n, n, d)

    def served_by(self, x: Array, t: float, engine: str) -> str:
        """Return the name of the engine that serves tokens at x: of a fast one, which of those it chooses from."""
        bodies = _bodies(x, len(x), engine)
        places = x if bodies is None else x[bodies.first]
        name = self.uses(engine, *places.shape)
        if name not in ("fast", "separable", "tree"):
            return name
        queries, gain = self.queries(places, t)
        chosen: Any = engines.engine(name, "softmax", len(places), len(places), x.shape[1])
        served: str = chosen.name(*from_centre(queries, places, gain)[:2], gain)
        return served

    def log_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij = beta s_ij + log w_j - log sum_k w_k e^{beta s_ik}, s_ij = <B x_i + b, x_j>."""
        queries, gain = self.queries(x, t)
        return dense.log_softmax(queries, x if sources is None else sources, _log(masses), gain)[0]

    def products(self, x: Array, t: float = 0, *, sources: Array | None = None) -> Products:
        """Return B x_i + b and x_j; where Q and K were given, Q x_i + b_Q and K x_j, with b = K^T b_Q."""
        return Products(*queries_and_keys(self, t, x, x if sources is None else sources, lambda y, A: y @ A.T))

    def scores(self, products: Products, t: float = 0) -> Array:
        """Return the scores, as seen from the centre of keys that are far from the origin."""
        beta = inputs.number_at(self.beta, t, "beta", like=products.keys)
        return dense.scores_about_centre(products.queries, products.keys, sign(beta) * beta)[0]

    def of_scores(
        self, scores: Array, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij = beta s_ij + log w_j - log sum_k w_k e^{beta s_ik} for these scores."""
        beta = inputs.number_at(self.beta, t, "beta", like=x)
        return dense.log_softmax_of_scores(scores, _log(masses), beta)[0]

    def listen(self, x: Array, t: float, sources: Sources) -> Heard:
        """Average the values of the sources with the softmax weights."""
        if foreign(x):
            c = centre(sources.values)
            return Heard(super().listen(x, t, sources._replace(values=sources.values - c)).mean + c, None)
        places, values, masses, outer_gain, engine = sources[:5]
        if sources.lists is None and values is places and (bodies := _bodies(places, len(x), engine)) is not None:
            few, label = places[bodies.first], bodies.label
            added = Sources(few, few, bodies.added(masses), outer_gain, engine)
            heard = self.listen(few if x is places else x, t, added)
            assert heard.log_total is not None
            return Heard(heard.mean[label], heard.log_total[label]) if x is places else heard
        queries, gain = self.queries(x, t, outer_gain)
        return _sums(Products(queries, places), sources, gain)

    def listen_products(self, x: Array, t: float, sources: Sources, products: Products, order: Order) -> Heard | None:
        """Average with the scores of these queries and keys, which need not be those of x and of the sources.

        An order says whom queries may hear. None where no engine does it.
        """
        queries, keys = products
        beta = inputs.number_at(self.beta, t, "beta")
        turned = Products(sign(beta) * queries if beta < 0 else queries, keys)
        name = self.serves_products(sources.engine, len(queries), queries.shape[1], order)
        if name == "causal":
            from attnflow.engines import causal

            gain = abs(beta) * sources.gain
            precise = sources.engine not in (*engines.AUTOMATIC, "fast", "separable", "tree", "pruned")
            sums = causal.softmax(*turned, sources.values, _log(sources.masses), gain, order.window, precise)
            return Heard(*sums)
        return None if name == "dense" else _sums(turned, sources, abs(beta))

    def serves_products(self, engine: str, n: int, k: int, order: Order) -> str:
        """Return the engine for n queries and keys in k dimensions that hear each other in this order."""
        if order.causal and engines.choose(engine, "softmax", n, n, k) != "dense":
            return "causal"
        return "dense" if any(order) else self.uses(engine, n, k)

    def listen_many(self, x: Array, t: float, sources: Sources) -> Heard:
        """Average in each of many clouds (b, n, d), of which each may have a beta of its own."""
        from attnflow.engines import fused

        beta: Any = self.beta
        places, values, masses, gain = sources[:4]
        B, b = form_at(self, t, x.shape[2]), inputs.vector_at(self.b, t, x.shape[2], "b")
        betas = beta if isinstance(beta, np.ndarray) else np.full(len(x), inputs.number_at(beta, t, "beta"))
        queries = x if B is None else x @ B.T
        if b is not None:
            queries = queries + b / np.sqrt(gain)
        if (betas < 0).any():
            queries = np.sign(betas)[:, None, None] * queries
        return Heard(*fused.softmax_many(queries, places, values, _log(masses), np.abs(betas) * gain))

    def pull(self, x: Array, t: float = 0, *, masses: Array | None = None, engine: str = "auto") -> Heard:
        """Return sum_j P_ij (x_j - x_i), to full relative accuracy where it is tiny, be it e^{-100}: up to 2048 tokens.

        A barycentre minus the token would lose what is below a rounding error of the token.
        """
        n = len(x)
        if engine == "dense" or (n <= ALL_DIFFERENCES and engine in engines.AUTOMATIC):
            return self._accurate_pull(x, x, t, masses)
        heard = super().pull(x, t, masses=masses, engine=engine)
        faint = np.abs(heard.mean).max(axis=1) < FAINT * np.abs(x).max()
        if n <= FAINT_DIFFERENCES and faint.any():
            heard.mean[faint] = self._accurate_pull(x[faint], x, t, masses).mean
        return heard

    def _accurate_pull(self, x: Array, sources: Array, t: float, masses: Array | None) -> Heard:
        n, d = sources.shape
        (queries, gain), log_masses = self.queries(x, t), _log(masses)
        blocks = [dense.pull(queries[rows], x[rows], sources, log_masses, gain) for rows in row_blocks(len(x), n * d)]
        return Heard(*blocks[0]) if len(blocks) == 1 else Heard(*map(np.concatenate, zip(*blocks, strict=True)))

    def attend_chunks(self, x: Any, t: float) -> Any:
        """Return the barycentres of tokens in a Dask array: sums over chunks meet on one grid.

        Each chunk is read three times: for the box around all tokens, for its moments on the grid of that box, and for
        its own means, which are computed when the result is. The grid has 16 ceil(kappa / 2) numbers on each axis,
        kappa = beta H^2 for half-widths H of the box (H_x H_Bx with a matrix B). A worker needs up to 100 d bytes for
        each token of a chunk, one grid, and in one worker for a moment two more. Before that, moments wait for those of
        their neighbours: of m chunks, a worker that is alone keeps up to 2 + log2 m sums, with only boxes that hold
        tokens; several workers share them. Beyond 2^25 numbers, where kappa is about 700 in the plane and 40 in space,
        tokens are refused.
        """
        from attnflow.engines import chunks_softmax as sums

        n, d = x.shape
        if d > sums.MOST_DIMENSIONS:
            raise InputError(chunks.too_wide(d, sums.MOST_DIMENSIONS, "softmax"))
        beta, form = inputs.number_at(self.beta, t, "beta"), form_at(self, t, d)
        law = replace(self, beta=beta, B=form, b=inputs.vector_at(self.b, t, d, "b"))
        tokens, shared = chunks.Chunks(x), chunks.shared(law)
        found = chunks.computed(tokens.each(_corners, shared))
        keys = _around([one for one, _ in found])
        queries = keys if found[0][1] is None else _around([one for _, one in found])
        chunks.check_size(float(np.abs(keys).max()))
        grid = sums.common_grid(queries, keys, n, abs(beta))
        if grid is None:
            sizes = [float(np.abs(corners[1] - corners[0]).max()) / 2 for corners in (keys, queries)]
            raise InputError(
                f"|beta| = {abs(beta):g} is too large for tokens in a Dask array of half-width {sizes[0]:.3g}, whose "
                f"queries have half-width {sizes[1]:.3g} and coordinates up to {np.abs(queries).max():.3g}: take a "
                f"smaller beta, or {SAMPLE}"
            )
        plan = chunks.shared(grid)
        total = chunks.added(tokens.each(_moments, plan), sums.added)
        field = chunks.kept(sums.propagated, plan, total)
        return chunks.mapped(x, _means, field, shared)

    def layers(
        self, x: Array, times: range, gammas: Array, *, masses: Array | None = None, engine: str = "auto"
    ) -> Array | None:
        """Return the states after each averaging step, from the fused engine for few tokens."""
        n, d = x.shape
        if n > COMPILED_TOKENS or self.uses(engine, n, d) != "fused":
            return None
        from attnflow.engines import fused

        betas, forms = inputs.numbers_at(self.beta, times, "beta"), forms_at(self, times, d)
        biases = inputs.vectors_at(self.b, times, d, "b")
        if (betas < 0).any():
            signs = np.sign(betas) if inputs.varies_in_time(self.beta) else np.sign(betas[:1])
            forms, biases = signs[:, None, None] * (forms if len(forms) else np.eye(d)), signs[:, None] * biases
        return fused.softmax_layers(x, forms, biases, np.abs(betas), gammas, _log(masses))


def _bodies(places: Array, queries: int, engine: str) -> Copies | None:
    """Return which sources coincide, if most do and adding up their masses saves time."""
    if engine not in engines.AUTOMATIC or queries * len(places) < CROWD:
        return None
    return copies(places, at_a_glance=places.shape[1] <= engines.SEPARABLE_DIMENSION)


def _sums(products: Products, sources: Sources, gain: float) -> Heard:
    """Average the values of the sources, in an engine that is chosen for these queries and keys."""
    queries, keys = products
    name = engines.choose(sources.engine, "softmax", len(queries), len(keys), keys.shape[1])
    if sources.lists is not None:
        name = "listed"
    remembered = (sources.memory,) if name in engines.REMEMBERS else ()
    sums = engines.module(name).softmax
    return Heard(*sums(queries, keys, sources.values, _log(sources.masses), gain * sources.gain, *remembered))


def _log(masses: Array | None) -> Array | None:
    return None if masses is None else namespace(masses).log(masses)


# Tasks on the chunks of a Dask array, whose first rows have the number `start`


def _corners(x: Array, start: int, law: Softmax) -> tuple[Array, Array | None]:
    """Return the corners of the boxes around the tokens of a chunk and around their queries, if these are others."""
    chunks.check_rows(x, start)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused with all others
        queries = law.queries(x, 0)[0]
    return np.stack(ends(x)), None if queries is x else np.stack(ends(queries))


def _around(corners: list[Any]) -> Array:
    """Return the corners of the box around several boxes."""
    return np.stack([np.min([low for low, _ in corners], axis=0), np.max([high for _, high in corners], axis=0)])


def _moments(x: Array, start: int, grid: Any) -> Any:
    from attnflow.engines import chunks_softmax as sums

    return sums.moments(grid, x)


def _means(x: Array, field: Any, law: Softmax) -> Array:
    from attnflow.engines import chunks_softmax as sums

    return sums.means(field, law.queries(x, 0)[0])


def _shown(value: Any) -> str:
    """Write a parameter: matrices of trained heads have too many numbers, and are written by their shape.

    >>> Softmax(beta=2.0, B=np.eye(64))
    Softmax(beta=2.0, B=<array (64, 64)>, b=None)
    """
    return f"<array {value.shape}>" if isinstance(value, np.ndarray) and value.size > MOST_NUMBERS else repr(value)
