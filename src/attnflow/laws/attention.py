"""The attention of a trained layer: many heads, given by their weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attnflow.core.identity import digest
from attnflow.core.inputs import Array, InputError, number
from attnflow.core.parameters import frequencies
from attnflow.laws.law import Law
from attnflow.laws.masked import Masked
from attnflow.laws.positional import Positional, rotated
from attnflow.laws.softmax import Softmax
from attnflow.laws.sums import Heard, Sources

Weights = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Attention(Law):
    """Attention of H heads: sum_h O_h sum_j P^h_ij (V_h x_j + b_V) + b_O, with P^h_ij ~ e^{s <q_i, k_j>}.

    Queries and keys of head h are q_i = R^i (Q_h x_i + b_Q) and k_j = R^j (K_h x_j + b_K), R^p a rotation by position
    p, if there is one. This is the layer of a transformer, with its weights as they were trained: H heads of size k may
    share G groups of keys and values, as those of Llama do. They are held as they are given, in single precision or on
    disk, and take the precision of the tokens when they are used, one layer at a time.

    `weights` are the matrices P^h, (H, n, n); `head(h)` is the law of one head.

    Parameters
    ----------
    Q, K, V : (H, k, d), (G, k, d), (G, k, d)
        Queries, keys and values; G divides H, and head h has the group h // (H / G).
    O : (H, d, k)
        Outputs of the heads, which are added.
    b_Q, b_K, b_V, b_O : (H, k), (G, k), (G, k), (d,), optional
        Biases.
    scale
        The factor s of the scores: 1 / sqrt(k) by default.
    causal
        True: token i hears the tokens j <= i.
    rope
        Angles, one for each consecutive pair of coordinates of queries and keys, by which position p turns them p
        times; as in `Positional`.

    Examples
    --------
    >>> import attnflow as af
    >>> rng = np.random.default_rng(0)
    >>> Q, K, V = rng.standard_normal((3, 2, 4, 8))
    >>> law = af.Attention(Q, K, V, rng.standard_normal((2, 8, 4)), causal=True)
    >>> x = rng.standard_normal((5, 8))
    >>> law.weights(x).shape, law.attend(x).shape
    ((2, 5, 5), (5, 8))
    >>> bool(np.allclose(law.weights(x)[1], law.head(1).weights(x), atol=1e-14))
    True

    References
    ----------
    Vaswani et al., *Attention is all you need* (2017). Ainslie et al., *GQA: training generalized multi-query
    transformer models from multi-head checkpoints* (arXiv 2305.13245).
    """

    title: ClassVar[str] = "Attention of a trained layer"
    formula: ClassVar[str] = "sum_h O_h sum_j P^h_ij (V_h x_j + b_V) + b_O"

    Q: Weights
    K: Weights
    V: Weights
    O: Weights  # noqa: E741 (as in the formula)
    b_Q: Weights | None = None
    b_K: Weights | None = None
    b_V: Weights | None = None
    b_O: Weights | None = None
    scale: float | None = None
    causal: bool = False
    rope: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.causal, bool):
            raise InputError(f"causal is {self.causal!r}, expected True or False")
        for name in ("Q", "K", "V", "O"):
            object.__setattr__(self, name, real_weights(getattr(self, name), name))
        if np.ndim(self.Q) != 3 or np.ndim(self.K) != 3 or 0 in (*np.shape(self.Q), *np.shape(self.K)):
            raise InputError(
                f"Q has shape {np.shape(self.Q)} and K {np.shape(self.K)}, expected (heads, k, d) and (groups, k, d)"
            )
        (H, k, d), G = np.shape(self.Q), len(self.K)
        if H % G:
            raise InputError(f"{G} groups of keys came with {H} heads: give a number of groups that divides it")
        expected = {
            "Q": (H, k, d), "K": (G, k, d), "V": (G, k, d), "O": (H, d, k),
            "b_Q": (H, k), "b_K": (G, k), "b_V": (G, k), "b_O": (d,),
        }  # fmt: skip
        for name, shape in expected.items():
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, real_weights(given, name, shape))
        if self.scale is None:
            object.__setattr__(self, "scale", 1 / math.sqrt(k))
        object.__setattr__(self, "scale", number(self.scale, "scale", above=0.0))
        if self.rope is not None:
            angles = frequencies(self.rope, "rope")
            if not isinstance(angles, tuple) or 2 * len(angles) > k:
                raise InputError(f"rope is given for queries of size {k}, expected at most {k // 2} angles, one a pair")
            object.__setattr__(self, "rope", angles)

    def __repr__(self) -> str:
        H, k, d = self.Q.shape
        return f"Attention({H} head{'s' * (H > 1)} of size {k} in dimension {d})"

    @property
    def short_name(self) -> str:
        """The number of heads: their weights are too many for a line."""
        return f"{len(self.Q)} head{'s' * (len(self.Q) > 1)}"

    @property
    def group(self) -> NDArray[np.int64]:
        """The group of keys of each head."""
        return np.arange(len(self.Q)) // (len(self.Q) // len(self.K))

    @property
    def heads(self) -> tuple[Law, ...]:
        """The law of each head, made anew each time: it has a matrix (d, d) of its own."""
        return tuple(self.head(h) for h in range(len(self.Q)))

    @property
    def head_count(self) -> int:
        """The number of heads."""
        return len(self.Q)

    def _number(self, h: Any) -> int:
        """Return the number of a head, refusing one that does not exist."""
        if not isinstance(h, int | np.integer) or not -len(self.Q) <= h < len(self.Q):
            raise InputError(f"head {h!r} does not exist: give a whole number from 0 to {len(self.Q) - 1}")
        return int(h)

    @property
    def lifts(self) -> bool:
        """Whether the laws of single heads take the tokens (x, 1), as biases of keys that positions turn need it."""
        return self.rope is not None and self.b_K is not None

    def head(self, h: int) -> Law:
        """Return the law of one head: a softmax of queries and keys, with the mask and the positions of the layer.

        Where `lifts` is True it takes the tokens (x, 1), with one coordinate more.
        """
        h = self._number(h)
        Q, K = _double(self.Q[h]), _double(self.K[self.group[h]])
        bias = None if self.b_Q is None else _double(self.b_Q[h])
        if self.lifts:
            assert self.b_K is not None
            first = np.zeros(len(Q)) if bias is None else bias
            Q, K = np.column_stack([Q, first]), np.column_stack([K, _double(self.b_K[self.group[h]])])
            bias = None
        assert self.scale is not None
        law: Law = Softmax(beta=self.scale, Q=Q, K=K, b=None if bias is None else K.T @ bias)
        if self.rope is not None:
            rest = Q.shape[0] // 2 - len(self.rope)
            law = Positional(law, rope=[*self.rope, *[0.0] * rest])
        return Masked(law, causal=True) if self.causal else law

    @cached_property
    def digest(self) -> str:
        """What tells these weights from others."""
        return digest(*(getattr(self, one.name) for one in fields(self)))

    def described(self) -> dict[str, Any]:
        """Return what stores keep of this law: a digest in place of its weights."""
        return {"digest": self.digest}

    def value(self, h: int) -> Array:
        """Return V_h = O_h W_V, the matrix (d, d) by which head h multiplies what it hears."""
        h = self._number(h)
        found: Array = _double(self.O[h]) @ _double(self.V[self.group[h]])
        return found

    def log_weights(
        self,
        x: Array,
        t: float = 0,
        *,
        sources: Array | None = None,
        masses: Array | None = None,
        rows: Any = None,
        columns: Any = None,
    ) -> Array:
        """Return log P^h_ij of all heads, (H, m, n)."""
        every = self._scores(x, x if sources is None else sources, rows, columns, masses)
        return np.stack([_log_softmax(scores) for scores in every])

    def listen(self, x: Array, t: float, sources: Sources) -> Heard:
        """Return sum_h O_h sum_j P^h_ij (V_h v_j + b_V) + b_O, one head after the other."""
        root = math.sqrt(sources.gain)
        x, y = (x, sources.places) if root == 1 else (root * x, root * sources.places)
        values = _linear(sources.values, self.V, self.b_V)
        H, k = self.Q.shape[:2]
        heard = np.empty((len(x), H, k), dtype=x.dtype)
        every = self._scores(x, y, np.arange(len(x)), np.arange(len(y)), sources.masses)
        for h, (scores, g) in enumerate(zip(every, self.group, strict=True)):
            heard[:, h] = _softmax(scores) @ values[:, g]
        O = _like(self.O, x).transpose(1, 0, 2).reshape(-1, H * k)  # noqa: E741
        mean: Array = heard.reshape(len(x), -1) @ O.T
        return Heard(mean if self.b_O is None else mean + _like(self.b_O, x), None)

    def _scores(self, x: Array, y: Array, rows: Any, columns: Any, masses: Array | None) -> Iterator[Array]:
        """Yield the scores of each head, (m, n), with -inf where a source is not heard, and logarithms of masses."""
        queries, keys = _linear(x, self.Q, self.b_Q), _linear(y, self.K, self.b_K)
        if self.rope is not None:
            omega = np.array(self.rope)
            queries, keys = rotated_heads(queries, rows, omega), rotated_heads(keys, columns, omega)
        later = rows[:, None] < columns if self.causal else None
        for h, g in enumerate(self.group):
            scores: Array = queries[:, h] @ keys[:, g].T
            scores *= x.dtype.type(self.scale)
            if masses is not None:
                scores += np.log(masses)
            if later is not None:
                scores[later] = -np.inf
            yield scores


def check_attention(law: Law, what: str) -> Attention:
    """Return the law of a block, refusing one that is no `Attention` where weights of heads are needed."""
    if not isinstance(law, Attention):
        raise InputError(f"{what} needs heads with weights, but a block has {law!r:.60}: give blocks of Attention")
    return law


def rotated_heads(points: Array, positions: Any, omega: Array) -> Array:
    """Return queries or keys (n, heads, k), each turned by its position."""
    turned: Array = rotated(points.swapaxes(0, 1), positions, omega).swapaxes(0, 1)
    return turned.astype(points.dtype, copy=False)


def real_weights(given: Any, name: str, shape: tuple[int, ...] | None = None) -> Weights:
    """Return weights as they are, in their precision, refusing those of another shape or that are no real numbers."""
    try:
        array = np.asanyarray(given)
    except ValueError:
        raise InputError(f"{name} has rows of different lengths, expected an array of numbers") from None
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} holds {array.dtype}, expected real numbers")
    if shape is not None and array.shape != shape:
        other = "transpose it, or " if array.T.shape == shape else ""
        raise InputError(f"{name} has shape {array.shape}, expected {shape}: {other}give weights that fit")
    return array


def _double(weights: Weights) -> Array:
    return np.asarray(weights, dtype=np.float64)


def _like(weights: Weights, x: Array) -> Array:
    """Return weights in the precision of the tokens."""
    return np.asarray(weights, dtype=x.dtype)


def _linear(x: Array, matrix: Weights, bias: Weights | None) -> Array:
    """Return W_h x_i + b_h for all heads h, (n, H, k)."""
    H, k, d = matrix.shape
    if x.shape[-1] != d:
        raise InputError(f"tokens have dimension {x.shape[-1]}, but the heads take {d}: give tokens (n, {d})")
    out: Array = (x @ _like(matrix, x).reshape(H * k, d).T).reshape(len(x), H, k)
    return out if bias is None else out + _like(bias, x)


def _softmax(scores: Array) -> Array:
    """Return P_ij ~ e^{s_ij}, in place of the scores."""
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def _log_softmax(scores: Array) -> Array:
    apart = scores - scores.max(axis=1, keepdims=True)
    logs: Array = apart - np.log(np.exp(apart).sum(axis=1, keepdims=True))
    return logs
