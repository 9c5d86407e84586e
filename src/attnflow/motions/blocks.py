"""Blocks of a transformer: attention, normalisation, a feed-forward layer, and the skips around them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from attnflow.core.identity import digest
from attnflow.core.inputs import Array, InputError, cloud, number, one_of
from attnflow.laws import Hearing, Law, check_law
from attnflow.laws.attention import Weights, real_weights

# How many norms a block has: before attention and the feed-forward layer, after, or around each.
PLACES = {"pre": 2, "post": 2, "both": 4, "none": 0}


@dataclass(frozen=True, eq=False, repr=False)
class Norm:
    """Normalisation of each token: g (x - mean x) / sqrt(var x + eps) + b, or g x / sqrt(mean x^2 + eps).

    The first is LayerNorm, kind "layer", the second RMSNorm, kind "rms".

    Examples
    --------
    >>> Norm("rms", eps=0.0)(np.array([[3.0, 4.0]])).round(3)
    array([[0.849, 1.131]])
    >>> Norm("layer", eps=0.0)(np.array([[3.0, 5.0]]))
    array([[-1.,  1.]])

    References
    ----------
    Ba, Kiros, Hinton, *Layer normalization* (arXiv 1607.06450). Zhang, Sennrich, *Root mean square layer normalization*
    (arXiv 1910.07467).
    """

    kind: str = "layer"
    gain: Weights | None = None
    bias: Weights | None = None
    eps: float = 1e-5

    def __post_init__(self) -> None:
        one_of(self.kind, ("layer", "rms"), "the kind of a norm")
        object.__setattr__(self, "eps", number(self.eps, "eps", least=0.0))
        for name in ("gain", "bias"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, real_weights(given, name, (np.size(given),)))

    def __call__(self, x: Array) -> Array:
        """Return the tokens (n, d) normalised."""
        x = _floats(x)
        if self.kind == "layer":
            x = x - x.mean(axis=-1, keepdims=True)
        size = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + x.dtype.type(self.eps))
        if not size.all():
            raise InputError(
                f"token {int((size[:, 0] == 0).argmax())} is constant and has no direction to be normalised: give eps"
            )
        y: Array = x / size
        if self.gain is not None:
            y *= _fitting(self.gain, x, "gain of the norm")
        return y if self.bias is None else y + _fitting(self.bias, x, "bias of the norm")

    def __repr__(self) -> str:
        return f"Norm({self.kind!r})"


def gelu(y: Array) -> Array:
    """Return y Phi(y), Phi the normal distribution function (Hendrycks, Gimpel, arXiv 1606.08415).

    >>> gelu(np.array([0.0, 1.0])).round(6)
    array([0.      , 0.841345])
    """
    from scipy.special import erf

    found: Array = erf(y * y.dtype.type(math.sqrt(0.5)))
    found += 1
    found *= y
    found *= y.dtype.type(0.5)
    return found


def gelu_tanh(y: Array) -> Array:
    """Return y (1 + tanh(sqrt(2 / pi) (y + .044715 y^3))) / 2, an approximation of `gelu` that GPT-2 is trained with.

    >>> gelu_tanh(np.array([0.0, 1.0])).round(6)
    array([0.      , 0.841192])
    """
    inner = np.square(y)
    inner *= y.dtype.type(0.044715)
    inner += 1
    inner *= y
    inner *= y.dtype.type(math.sqrt(2 / math.pi))
    np.tanh(inner, out=inner)
    inner += 1
    inner *= y
    inner *= y.dtype.type(0.5)
    return inner


def silu(y: Array) -> Array:
    """Return y / (1 + e^{-y}) (Elfwing, Uchibe, Doya, arXiv 1702.03118).

    >>> silu(np.array([0.0, 1.0])).round(6)
    array([0.      , 0.731059])
    """
    from scipy.special import expit

    found: Array = expit(y)
    found *= y
    return found


def relu(y: Array) -> Array:
    """Return max(y, 0).

    >>> relu(np.array([-1.0, 2.0]))
    array([0., 2.])
    """
    positive: Array = np.maximum(y, 0)
    return positive


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": gelu, "gelu-tanh": gelu_tanh, "relu": relu, "silu": silu, "tanh": np.tanh,
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Perceptron:
    """The feed-forward layer of a transformer: D sigma(U y + b_U) + b_D, or D (sigma(G y + b_G) * (U y + b_U)) + b_D.

    The second, with a gate G, is SwiGLU where sigma is "silu". Other activations: "gelu", "gelu-tanh", "relu", "tanh".

    Parameters
    ----------
    up, down : (m, d), (d, m)
        U and D.
    b_up, b_down, gate, b_gate : (m,), (d,), (m, d), (m,), optional
    activation
        sigma.

    Examples
    --------
    >>> Perceptron([[1.0], [-1.0]], [[1.0, 1.0]], activation="relu")(np.array([[-3.0], [2.0]]))
    array([[3.],
           [2.]])

    References
    ----------
    Vaswani et al., *Attention is all you need* (2017). Shazeer, *GLU variants improve transformer* (arXiv 2002.05202).
    """

    up: Weights
    down: Weights
    b_up: Weights | None = None
    b_down: Weights | None = None
    gate: Weights | None = None
    b_gate: Weights | None = None
    activation: str = "gelu"

    def __post_init__(self) -> None:
        one_of(self.activation, ACTIVATIONS, "activation")
        if np.ndim(self.up) != 2:
            raise InputError(f"up has shape {np.shape(self.up)}, expected (m, d)")
        m, d = np.shape(self.up)
        shapes = {"up": (m, d), "down": (d, m), "b_up": (m,), "b_down": (d,), "gate": (m, d), "b_gate": (m,)}
        for name, shape in shapes.items():
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, real_weights(given, name, shape))

    def __call__(self, y: Array) -> Array:
        """Return what each token is moved by."""
        y = _floats(y)
        sigma = ACTIVATIONS[self.activation]
        wide = _affine(y, self.up, self.b_up)
        wide = sigma(wide) if self.gate is None else wide * sigma(_affine(y, self.gate, self.b_gate))
        return _affine(wide, self.down, self.b_down)

    def __repr__(self) -> str:
        return f"Perceptron({self.up.shape[1]} to {self.up.shape[0]}, {self.activation})"


@dataclass(frozen=True, eq=False)
class Block:
    """One block of a transformer: attention A and a feed-forward layer F, each with a skip and norms N_1, N_2, ...

    - norm "pre": y = x + A(N_1 x), then y + F(N_2 y);
    - norm "post": y = N_1(x + A(x)), then N_2(y + F(y));
    - norm "both": y = x + N_2 A(N_1 x), then y + N_4 F(N_3 y);
    - norm "none": y = x + A(x), then y + F(y).

    With ``parallel=True`` both are taken at x: x + A(N_1 x) + F(N_2 x), as in GPT-NeoX. Without a feed-forward layer
    the block ends at y, and has the norms of attention alone.

    Parameters
    ----------
    heads
        `Attention`, or any law, such as `Heads` or ``Masked(Softmax(), causal=True)``: A(x) is its `attend`.
    norm
        Where norms are.
    feed_forward
        A `Perceptron`, or any function of tokens (n, d).
    norms
        One `Norm` for each place, or one for all of them; LayerNorm by default.
    parallel
        Whether both layers are taken at x.
    skips
        False leaves "x +" and "y +" out.

    Examples
    --------
    >>> import attnflow as af
    >>> block = Block(af.Softmax(beta=0.0), norm="none")
    >>> block.step(np.array([[1.0], [3.0]]))
    array([[3.],
           [5.]])

    References
    ----------
    Vaswani et al., *Attention is all you need* (2017). Xiong et al., *On layer normalization in the transformer
    architecture* (arXiv 2002.04745).
    """

    heads: Law
    norm: str = "pre"
    feed_forward: Callable[[Array], Array] | None = None
    norms: tuple[Norm, ...] | Norm = field(default=())
    parallel: bool = False
    skips: bool = True

    def __post_init__(self) -> None:
        check_law(self.heads)
        places = PLACES[one_of(self.norm, PLACES, "norm")] // (2 if self.feed_forward is None else 1)
        if self.feed_forward is not None and not callable(self.feed_forward):
            raise InputError(f"feed_forward is {self.feed_forward!r}, expected a Perceptron or a function of tokens")
        taken = {
            np.shape(part)[-1]
            for part in (getattr(self.heads, "Q", None), getattr(self.feed_forward, "up", None))
            if part is not None
        }
        if len(taken) > 1:
            raise InputError(
                f"the heads and the feed-forward layer of a block take tokens of dimension {min(taken)} and "
                f"{max(taken)}: give both the same"
            )
        if self.parallel and (self.norm not in ("pre", "none") or self.feed_forward is None):
            raise InputError('parallel=True needs norm="pre" or "none", and a feed_forward layer beside attention')
        norms = self.norms
        if isinstance(norms, Norm):
            norms = (norms,) * places
        norms = tuple(norms) or (Norm(),) * places
        if len(norms) != places or not all(isinstance(one, Norm) for one in norms):
            raise InputError(
                f"a block with norm={self.norm!r} was given {len(norms)} norms, expected {places}, each a Norm"
            )
        object.__setattr__(self, "norms", norms)

    def attended(self, x: Array) -> Array:
        """Return the tokens as attention hears them: N_1 x, or x where no norm comes before."""
        return self._norm(0)(x) if self.norm in ("pre", "both") else x

    def step(self, x: Array, t: float = 0) -> Array:
        """Return the tokens after this block, in the precision of x."""
        return self.moved(Hearing(self.heads), _floats(x), t)

    def moved(self, hearing: Callable[..., Any], x: Array, t: float) -> Array:
        """Return the tokens after this block, where attention is heard through `hearing(x, t).mean`."""
        A = hearing(self.attended(x), t).mean
        if self.feed_forward is None:
            return self._added(x, A, 0)
        if self.parallel:
            F = self._fed(self._norm(1)(x) if self.norm == "pre" else x)
            return x + A + F if self.skips else A + F
        y, second = self._added(x, A, 0), len(self._norms) // 2
        before = self._norm(second)(y) if self.norm in ("pre", "both") else y
        return self._added(y, self._fed(before), second)

    def _fed(self, y: Array) -> Array:
        """Return what the feed-forward layer makes of tokens, refusing another shape from a function of one's own."""
        assert self.feed_forward is not None
        found = self.feed_forward(y)
        if np.shape(found) != y.shape:
            raise InputError(
                f"feed_forward returned an array of shape {np.shape(found)}, expected that of the tokens, {y.shape}"
            )
        return found

    def _added(self, x: Array, move: Array, first: int) -> Array:
        """Return x + move, with the norms from the one with number `first` on that come after."""
        if self.norm == "both":
            move = self._norm(first + 1)(move)
        total = x + move if self.skips else move
        return self._norm(first)(total) if self.norm == "post" else total

    @property
    def _norms(self) -> tuple[Norm, ...]:
        assert isinstance(self.norms, tuple)
        return self.norms

    def _norm(self, k: int) -> Norm:
        return self._norms[k]

    @cached_property
    def digest(self) -> str:
        """What tells this block from others."""
        return digest(*(getattr(self, one.name) for one in fields(self)))


def _floats(x: Array) -> Array:
    """Return tokens as they are in single or double precision, others as float64."""
    single = isinstance(x, np.ndarray) and x.dtype == np.float32
    return x if single else cloud(x)


def _affine(y: Array, matrix: Weights, bias: Weights | None) -> Array:
    """Return W y + b for each row, in the precision of y."""
    if y.shape[-1] != matrix.shape[1]:
        raise InputError(f"tokens have dimension {y.shape[-1]}, but the feed-forward layer takes {matrix.shape[1]}")
    found: Array = y @ np.asarray(matrix, dtype=y.dtype).T
    if bias is not None:
        found += np.asarray(bias, dtype=y.dtype)
    return found


def _fitting(weights: Weights, x: Array, name: str) -> Array:
    if len(weights) != x.shape[-1]:
        raise InputError(f"{name} has {len(weights)} numbers, but tokens have dimension {x.shape[-1]}: give one each")
    return np.asarray(weights, dtype=x.dtype)
