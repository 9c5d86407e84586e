"""Initial clouds of tokens: plain (n, d) arrays in float64, each random one from its seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from attnflow.core.inputs import Array, InputError, number, whole
from attnflow.core.parameters import Parameter

# Arrays of NumPy have up to 64, and one is needed for the coordinates.
MOST_AXES = 63
# No memory holds more numbers than this, and NumPy cannot count them.
MOST_NUMBERS = 2**60

_Maker = TypeVar("_Maker", bound=Callable[..., Array])

_N = Parameter("n", "count", "number of tokens", least=1)
_D = Parameter("d", "count", "dimension", least=1)
_SEED = Parameter("seed", "count", "seed of the cloud", default=0, least=0)
_LOW = Parameter("low", "number", "lower end of the cube", default=-1.0)
_HIGH = Parameter("high", "number", "upper end of the cube", default=1.0)


class Cloud(NamedTuple):
    """What a cloud says of itself; `surface` is where its tokens are unless a parameter moves them elsewhere."""

    title: str
    make: Callable[..., Array]
    parameters: dict[str, Parameter]
    surface: str


CLOUDS: dict[str, Cloud] = {}


def _cloud(title: str, *parameters: Parameter, surface: str = "space") -> Callable[[_Maker], _Maker]:
    """Return a decorator that puts a function among the clouds."""

    def add(make: _Maker) -> _Maker:
        CLOUDS[make.__name__] = Cloud(title, make, {one.name: one for one in parameters}, surface)
        return make

    return add


def _draw(n: int, d: int, seed: int) -> tuple[np.random.Generator, tuple[int, int]]:
    return np.random.default_rng(whole(seed, "seed", least=0)), _fits(whole(n, "n", least=1), whole(d, "d", least=1))


def _fits(n: int, d: int) -> tuple[int, int]:
    if n * d > MOST_NUMBERS:
        raise InputError(f"n is {n:.3g} and d is {d:.3g}, which no memory holds: ask for fewer tokens")
    return n, d


@_cloud("Gaussian", _N, _D, _SEED)
def gaussian(n: int, d: int, seed: int = 0) -> Array:
    """Return n independent standard normal tokens in dimension d: x_i ~ N(0, I).

    >>> gaussian(n=3, d=2, seed=0).shape
    (3, 2)

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628).
    """
    rng, shape = _draw(n, d, seed)
    return rng.standard_normal(shape)


@_cloud("Uniform in the cube", _N, _D, _SEED, _LOW, _HIGH)
def uniform(n: int, d: int, seed: int = 0, low: float = -1.0, high: float = 1.0) -> Array:
    """Return n independent tokens, uniform in the cube [low, high]^d.

    >>> bool(abs(uniform(n=50, d=3, seed=1, low=-5, high=5)).max() <= 5)
    True

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465).
    """
    rng, shape = _draw(n, d, seed)
    if not number(low, "low") < number(high, "high"):
        raise InputError(f"low is {low:g} and high is {high:g}, expected low < high")
    return rng.uniform(low, high, shape)


@_cloud("On the sphere", _N, _D, _SEED, surface="sphere")
def sphere(n: int, d: int, seed: int = 0) -> Array:
    """Return n independent tokens, uniform on the unit sphere of R^d: x_i = g_i / |g_i|, g_i standard normal.

    >>> import numpy as np
    >>> bool(np.allclose(np.linalg.norm(sphere(n=9, d=3, seed=0), axis=1), 1))
    True

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794).
    """
    x = gaussian(n, d, seed)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@_cloud(
    "Regular polygon",
    Parameter("k", "count", "number of corners", least=1),
    Parameter("radius", "number", "distance of the corners from 0", default=1.0, above=0.0),
    Parameter("angle", "number", "angle of the first corner", default=0.0),
    surface="sphere",
)
def polygon(k: int, radius: float = 1.0, angle: float = 0.0) -> Array:
    """Return the vertices of the regular k-gon, radius (cos a_j, sin a_j), a_j = angle + 2 pi j / k.

    >>> polygon(4).round(12)
    array([[ 1.,  0.],
           [ 0.,  1.],
           [-1.,  0.],
           [-0., -1.]])

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628).
    """
    turns = number(angle, "angle") + 2 * np.pi * np.arange(whole(k, "k", least=1)) / k
    return number(radius, "radius", above=0.0) * np.column_stack([np.cos(turns), np.sin(turns)])


@_cloud("Grid", Parameter("k", "count", "grid points per axis", least=1), _D, _LOW, _HIGH)
def grid(k: int, d: int, low: float = -1.0, high: float = 1.0) -> Array:
    """Return the k^d points of a regular grid on the cube [low, high]^d.

    >>> grid(2, 2)
    array([[-1., -1.],
           [-1.,  1.],
           [ 1., -1.],
           [ 1.,  1.]])
    """
    per_axis, dimension = whole(k, "k", least=1), whole(d, "d", least=1)
    if dimension > MOST_AXES:
        raise InputError(f"d is {dimension}, but a grid has at most {MOST_AXES} axes: give a smaller d")
    _fits(per_axis**dimension, dimension)
    axis = np.linspace(number(low, "low"), number(high, "high"), per_axis)
    return np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)


@_cloud(
    "Orthogonal",
    _N,
    Parameter("d", "count", "dimension, n if it is not given", default=None, least=1),
    surface="sphere",
)
def orthogonal(n: int, d: int | None = None) -> Array:
    """Return n orthonormal tokens x_i = e_i in dimension d >= n (default n): the start of `sphere/orthogonal-start`.

    >>> orthogonal(2, 3)
    array([[1., 0., 0.],
           [0., 1., 0.]])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794).
    """
    count = whole(n, "n", least=1)
    dimension = count if d is None else whole(d, "d", least=1)
    if dimension < count:
        raise InputError(f"{count} orthogonal tokens do not fit in dimension {dimension}: give d >= n")
    return np.eye(*_fits(count, dimension))
