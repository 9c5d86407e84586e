"""The contract of a law, which says how much each token listens to each other one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from inspect import unwrap
from typing import Any, ClassVar, TypeGuard, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from attnflow.core import inputs
from attnflow.core.arrays import foreign, holds, namespace
from attnflow.core.dask_arrays import chunked, chunked_cloud
from attnflow.core.indices import (
    need_probabilities,
    not_numbers,
    refuse_hidden_order,
    takes_indices,
    weight_rows,
    weights,
)
from attnflow.core.inputs import SAMPLE, Array, InputError
from attnflow.core.parameters import check_fields, parameters_of
from attnflow.engines import Memory, in_precision
from attnflow.laws.descriptions import Exponents, Neighbourhood
from attnflow.laws.sums import Heard, Products, Sources

# An array of torch, JAX or CuPy.
Foreign = TypeVar("Foreign")

# Blocks of weights in other libraries: below 32 MiB the heap of glibc, which torch uses, becomes fragmented.
ARRAY_BYTES = 1 << 26

# A class of laws.
Kind = TypeVar("Kind", bound="Law")

# What a subclass inherits from another law only if it also inherits its weights.
FOLLOWS_WEIGHTS = frozenset((
    "listen", "listen_many", "layers", "uses", "served_by", "pull", "merges_copies", "batched", "array_api",
    "exponents", "neighbourhood", "accurate_pull", "each_system", "attend_chunks", "products", "of_scores", "scores",
))  # fmt: skip

# Up to this many tokens a compiled loop over layers beats one call per layer.
COMPILED_TOKENS = 256


def has_scores(law: type[Law]) -> bool:
    """Say whether a class writes its queries and keys, `products`."""
    return unwrap(law.products) is not unwrap(Law.products)


class Law:
    """A matrix P(x, t) over tokens, row-stochastic in most laws, and the averages it takes.

    For developers. A law is a frozen dataclass that writes

    ``log_weights(x, t, *, sources, masses) -> (m, n)``
        the definition: log P_ij for queries `x` (m, d), sources (n, d) (default x) with masses (n,) (default 1).

    Everything else then works, in blocks of rows. Each row depends on its query alone, not on where that stands among
    the others. A law whose weights depend on the indices of tokens, as masks and positions do, takes two more keywords,

    ``log_weights(x, t, *, sources, masses, rows, columns) -> (m, n)``
        where `rows` (m,) are the indices of the queries among the tokens and `columns` (n,) those of the sources, both
        always given, as arrays of the library of x; other sources than the tokens are numbered from 0. Tokens of such a
        law are never merged, sorted or dropped, and it is told the indices in every block of rows.

    A law whose weights are no probabilities, because they may be negative or do not sum to one, sets
    ``stochastic = False`` and writes in place of `log_weights`

    ``signed_weights(x, t, *, sources, masses) -> (m, n)``
        the weights themselves, any real numbers, with `rows` and `columns` as above if it needs them. Sums over sources
        are divided by their total mass (1/n), so that they have limits for many tokens. Chains, log weights, leaders
        and entropies, which need probabilities, refuse such a law.

    A law whose weights follow, row by row, from scores s_ij = <q_i, k_j> also writes

    ``products(x, t, *, sources) -> Products``
        its queries and keys;
    ``of_scores(scores, x, t, *, sources, masses) -> (m, n)``
        log P_ij (signed weights, where it has those) with these scores (m, n) in place of its own, -inf where a source
        may not be heard; each row has one that is heard. A beta multiplies in here. `log_weights` agrees with it up to
        rounding.

    Masks restrict its scores, and positions turn its queries and keys and add to its scores; `scores` may be overridden
    to say how they are summed.

    A subclass of another law that has its own `log_weights` inherits none of the faster methods. Speed is optional:
    override

    ``listen(x, t, sources) -> Heard``
        averages of the values of the `Sources`;
    ``layers(x, times, gammas, *, masses, engine) -> (steps, n, d)``
        many averaging steps in one compiled loop;
    ``uses(engine, n, d) -> str``
        the name of the engine that does it;
    ``pull(x, t, *, masses, engine) -> Heard``
        averages as seen from each token, accurate where they are tiny.

    ``served_by(x, t, engine) -> str``
        the same, where it depends on where the tokens are;
    ``attend_chunks(x, t) -> Dask array``
        barycentres of tokens (n, d) in a Dask array, of which no process holds all;
    ``separates(x, groups, t) -> bool``
        whether tokens of different groups never hear each other, now or later.

    Set ``rows_apart = False`` if the row of a query depends on sources with weight 0 too, as where columns have given
    sums: masks and positions, which change each row by itself, then refuse the law.

    Set ``continuous = False`` if P jumps as tokens move: adaptive integrators are then refused. Set ``batched = True``
    if `log_weights` takes many clouds at once, (..., n, d): chains that run side by side are then faster. Set
    ``merges_copies = True`` if tokens at one place are heard as one with their mass: then they are, once half of them
    coincide. Set ``array_api = True`` if `log_weights` takes the arrays of any library (see `attnflow.core.arrays`),
    and let `listen` leave those to this class: tokens may then be arrays of torch, JAX or CuPy.

    Cells, leaders, limits, staircases, exit rates, predictions and proofs read from these attributes what a law is, and
    from nothing else; each is optional:

    ``exponents``
        its `Exponents`, where P_ij = w_j e^{beta <B x_i + b, x_j>} / Z_i: every token then hears every other;
    ``neighbourhood``
        its `Neighbourhood`, where weights are uniform over some of the sources;
    ``heads``
        its laws, where `log_weights` stacks a matrix for each head;
    ``accurate_pull = True``
        if `pull` is accurate however small it is: then tokens that rest are followed until they move again;
    ``listen_many(x, t, sources)`` and ``each_system = ("beta",)``
        `listen` for many clouds (b, n, d) in an ensemble, and the parameters that may hold a number for each of them;
    ``limit_of = "softmax"``
        the law with a parameter that leads to this one at infinity, where menus have that one in its place;
    ``replays = "fractions"`` or ``"balls"``
        if claims may prove statements about its layers in this arithmetic, computed anew from its neighbourhood or its
        exponents. Each class says this for itself: a subclass may weigh otherwise, and a proof must not guess.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    formula: ClassVar[str | Mapping[str, str]] = ""
    alternatives: ClassVar[tuple[str, ...]] = ()
    continuous: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True
    rows_apart: ClassVar[bool] = True
    merges_copies: ClassVar[bool] = False
    batched: ClassVar[bool] = False
    array_api: ClassVar[bool] = False
    accurate_pull: ClassVar[bool] = False
    each_system: ClassVar[tuple[str, ...]] = ()
    replays: ClassVar[str] = ""
    limit_of: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.replays, cls.limit_of = vars(cls).get("replays", ""), vars(cls).get("limit_of", "")
        if "log_weights" in vars(cls) or "signed_weights" in vars(cls):
            for name in FOLLOWS_WEIGHTS - vars(cls).keys():
                setattr(cls, name, vars(Law)[name])

    def __post_init__(self, *given: Any) -> None:
        """Check the parameters by what they say of themselves."""
        check_fields(self)

    @property
    def short_name(self) -> str:
        """What a law is called before its parameters."""
        return type(self).__name__

    @property
    def positional(self) -> bool:
        """Whether the weights depend on the indices of tokens; `log_weights` then takes rows and columns."""
        return takes_indices(self)

    @property
    def exponents(self) -> Exponents | None:
        """The parameters of weights that are exponentials of scores; None for all other laws."""
        return None

    @property
    def neighbourhood(self) -> Neighbourhood | None:
        """Whom tokens listen to, if to all of them alike; None for all other laws."""
        return None

    @property
    def heads(self) -> tuple[Law, ...]:
        """The law of each head; none for a law with one matrix of weights."""
        return ()

    @property
    def head_count(self) -> int:
        """How many matrices of weights it stacks; 0 for a law with one matrix. It need not make the laws of heads."""
        return len(self.heads)

    def log_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij, shape (m, n)."""
        need_probabilities(self)
        raise InputError(f"{type(self).__name__} does not say its weights: a law must write log_weights")

    def signed_weights(
        self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return the weights (m, n) of a law with ``stochastic = False``."""
        raise InputError(f"{type(self).__name__} does not say its weights: a law must write signed_weights")

    def may_hear(self, rows: Any, columns: Any, t: float = 0) -> Any:
        """Return which of the sources each query may hear by masks, (m, n), by their indices; None if all are heard."""
        return None

    @property
    def scored(self) -> bool:
        """Whether the weights follow from scores, so that `products` and `of_scores` are written."""
        return has_scores(type(self))

    def products(self, x: Array, t: float = 0, *, sources: Array | None = None) -> Products:
        """Return the queries and keys of the scores s_ij = <q_i, k_j>."""
        raise InputError(f"{type(self).__name__} has no scores <q_i, k_j>, as Softmax and Hardmax have")

    def scores(self, products: Products, t: float = 0) -> Array:
        """Return s_ij = <q_i, k_j>, shape (m, n), or what differs from it by a constant in each row if that is enough.

        Leading axes stand for several systems.
        """
        found: Array = products.queries @ products.keys.swapaxes(-1, -2)
        return found

    def of_scores(
        self, scores: Array, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None
    ) -> Array:
        """Return log P_ij for these scores in place of the law's own, shape (m, n)."""
        raise InputError(f"{type(self).__name__} has no scores <q_i, k_j>, as Softmax and Hardmax have")

    def hear(
        self,
        x: Array,
        t: float = 0,
        *,
        sources: Array | None = None,
        values: Array | None = None,
        masses: Array | None = None,
        gain: float = 1.0,
        engine: str = "auto",
        memory: Memory | None = None,
    ) -> Heard:
        """Average the values of the sources (default: their places) with these weights; arguments are not checked."""
        places = x if sources is None else sources
        return self.listen(x, t, Sources(places, places if values is None else values, masses, gain, engine, memory))

    def listen(self, x: Array, t: float, sources: Sources) -> Heard:
        """Do the work of `hear`: here in blocks of rows of `log_weights`."""
        xp, scale = namespace(x), math.sqrt(sources.gain)
        y, most = scale * sources.places, ARRAY_BYTES // x.dtype.itemsize if foreign(x) else None
        blocks = weight_rows(self, scale * x, t, sources=y, masses=sources.masses, most=most, of=weights)
        return Heard(xp.concat([P @ sources.values for _, P in blocks]), None)

    def listen_many(self, x: Array, t: float, sources: Sources) -> Heard:
        """Do the work of `listen` for many clouds (b, n, d) at once, each of which hears itself alone."""
        y, values, masses, gain = sources[:4]
        if self.batched:
            scale = np.sqrt(gain)
            with np.errstate(over="ignore", invalid="ignore"):
                return Heard(weights(self, scale * x, t, sources=scale * y, masses=masses) @ values, None)
        each = [
            self.hear(one, t, sources=z, values=w, masses=masses, gain=gain)
            for one, z, w in zip(x, y, values, strict=True)
        ]
        return Heard(np.stack([heard.mean for heard in each]), None)

    def check_order(self, x: Array, t: float = 0, *, sources: Array | None = None, masses: Array | None = None) -> None:
        """Refuse weights that depend on the order of the tokens if `log_weights` does not take their indices."""
        if type(self).listen is Law.listen:
            refuse_hidden_order(self, x, t, sources=sources, masses=masses)

    def pull(self, x: Array, t: float = 0, *, masses: Array | None = None, engine: str = "auto") -> Heard:
        """Return sum_j P_ij (x_j - x_i) as the mean: here as accurate as a barycentre is."""
        heard = self.hear(x, t, masses=masses, engine=engine)
        return Heard(heard.mean - x, heard.log_total)

    @overload
    def weights(self, x: NDArray[Any] | Sequence[Any], t: float = 0, masses: Any = None) -> Array: ...
    @overload
    def weights(self, x: Foreign, t: float = 0, masses: Any = None) -> Foreign: ...
    def weights(self, x: Any, t: float = 0, masses: Any = None) -> Any:
        """Return the matrix P_ij, shape (n, n): for small n. Rows sum to one, unless the weights are no probabilities.

        NumPy in, NumPy out, in float64; an array of torch, JAX or CuPy comes back as one, as in `attend`.
        """
        tokens = inputs.any_cloud(x, self)
        w, t = inputs.mass_vector(masses, len(tokens), like=tokens), moment(t)
        with np.errstate(over="ignore", invalid="ignore"):
            return self._finite(weights(self, tokens, t, masses=w), tokens)

    @overload
    def attend(
        self, x: NDArray[Any] | Sequence[Any], t: float = 0, masses: Any = None, precision: str = "double"
    ) -> Array: ...
    @overload
    def attend(self, x: Foreign, t: float = 0, masses: Any = None) -> Foreign: ...
    def attend(self, x: Any, t: float = 0, masses: Any = None, precision: str = "double") -> Any:
        """Return the barycentres m_i = sum_j P_ij x_j, shape (n, d): for any n, without an array (n, n).

        NumPy in, NumPy out, in float64. An array of torch, JAX or CuPy comes back as one, on its device and in its
        precision, and can be differentiated where its library can, in the tokens, the masses and the parameters of the
        law; that takes the dense formula, in blocks of rows.

        A Dask array chunked by rows comes back as one with the same chunks, for softmax in up to three dimensions and
        moderate beta R^2, and for hardmax: see `attend_chunks` of the law.

        With precision "single" softmax sums from 4 dimensions on are computed in float32, to about 1e-6 of the diameter
        (`attnflow.engines.single` has the bound), and come back in float64: for NumPy arrays alone.
        """
        engine = in_precision("auto", precision)
        if engine == "single" and (chunked(x) or foreign(x)):
            raise InputError(f"precision is {precision!r}, but only NumPy arrays have that choice: leave it out")
        if chunked(x):
            if masses is not None:
                raise InputError("masses came with tokens in a Dask array, which all have mass one: leave them out")
            return self.attend_chunks(chunked_cloud(x), moment(t))
        tokens = inputs.any_cloud(x, self)
        w, t = inputs.mass_vector(masses, len(tokens), like=tokens), moment(t)
        with np.errstate(over="ignore", invalid="ignore"):
            return self._finite(self.hear(tokens, t, masses=w, engine=engine).mean, tokens)

    def attend_chunks(self, x: Any, t: float) -> Any:
        """Do the work of `attend` for a Dask array (n, d), chunked by rows; here, refuse it."""
        raise InputError(f"{type(self).__name__} takes no tokens in a Dask array, as Softmax and Hardmax do: {SAMPLE}")

    def _finite(self, result: Array, tokens: Array) -> Array:
        if holds(namespace(tokens).isfinite(result)):
            return result
        raise not_numbers(self, tokens)

    def layers(
        self, x: Array, times: range, gammas: Array, *, masses: Array | None = None, engine: str = "auto"
    ) -> Array | None:
        """Return the states after each step x <- x + gamma (m - x) at these times, from a compiled loop.

        None where there is no such loop: the caller then takes one step after the other.
        """
        return None

    def uses(self, engine: str, n: int, d: int) -> str:
        """Return the name of the engine that n tokens in dimension d would be served by."""
        return "dense"

    def separates(self, x: Array, groups: NDArray[np.int64], t: float = 0) -> bool:
        """Say whether P_ij = 0 for tokens i, j of different groups, wherever each is in the hull of its group.

        Groups (n,) are labels from 0. Tokens that average then stay in the hulls of their groups for ever. False where
        the law does not know.
        """
        return False

    def served_by(self, x: Array, t: float, engine: str) -> str:
        """Return the name of the engine that serves tokens at x at time t, where that depends on where they are."""
        return self.uses(engine, *x.shape)


def check_law(law: object) -> Law:
    """Return a law as it is, and refuse what is none."""
    if not isinstance(law, Law):
        raise InputError(f"law is {inputs.quoted(law)}, expected a law such as Softmax(beta=1.0)")
    return law


def moment(t: Any) -> Any:
    """Check a time; whole numbers stay whole."""
    return t if type(t) is int or foreign(t) else inputs.number(t, "t")


def weighs_like(law: object, kind: type[Kind]) -> TypeGuard[Kind]:
    """Say whether a law has the weights of this class: a subclass that writes `log_weights` anew has its own.

    >>> import attnflow as af
    >>> weighs_like(af.Softmax(), af.Softmax), weighs_like(af.Hardmax(), af.Softmax)
    (True, False)
    """
    return isinstance(law, kind) and type(law).log_weights is kind.log_weights


def varies(part: object) -> bool:
    """Say whether a parameter of a law or a motion, or of a law or layer that it holds, is a function of time.

    >>> import attnflow as af
    >>> varies(af.Softmax(beta=2.0)), varies(af.SphereFlow(V=lambda t: [[t]]))
    (False, True)
    """
    kind: Any = type(part)
    layers = [name for name, parameter in parameters_of(kind).items() if parameter.kind == "part"]
    held = [(n, value) for n, one in vars(part).items() for value in (one if isinstance(one, tuple) else (one,))]
    return any(
        varies(value) if isinstance(value, Law) or (n in layers and value is not None) else inputs.varies_in_time(value)
        for n, value in held
    )
