"""Initial clouds of tokens: plain (n, d) arrays in float64, each random one from its seed.

With `chunks` a random cloud is a Dask array, drawn chunk by chunk when it is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

from attnflow.core.dask_arrays import dask_array, row_counts
from attnflow.core.inputs import Array, InputError, number, whole
from attnflow.core.parameters import Parameter

# Arrays of NumPy have up to 64, and one is needed for the coordinates.
MOST_AXES = 63
# No memory holds more numbers than this, and NumPy cannot count them.
MOST_NUMBERS = 2**60
# Rows that one generator draws, where tokens come in chunks.
BLOCK = 1 << 16

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


# A number of rows, or the rows of each chunk.
Chunks = int | tuple[int, ...]
# A function of a generator and the shape (n, d) that draws rows one after the other.
Draw = Callable[[np.random.Generator, tuple[int, int]], Array]


def _drawn(draw: Draw, n: int, d: int, seed: int, chunks: Any) -> Any:
    """Return n rows that are drawn from a seed, in chunks if there are any."""
    seed, (n, d) = whole(seed, "seed", least=0), _fits(whole(n, "n", least=1), whole(d, "d", least=1))
    if chunks is None:
        return draw(np.random.default_rng(seed), (n, d))
    lazy = dask_array()
    return lazy.map_blocks(partial(_chunk, draw, d, seed), dtype=np.float64, chunks=(row_counts(chunks, n), (d,)))


def _chunk(draw: Draw, d: int, seed: int, block_info: Any = None) -> Array:
    """Return the rows of one chunk: parts of blocks with a generator each, so that no bit depends on the chunks."""
    first, last = block_info[None]["array-location"][0]
    parts = []
    for block in range(first // BLOCK, -(-last // BLOCK)):
        begin, end = max(first - block * BLOCK, 0), min(last - block * BLOCK, BLOCK)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block,)))
        parts.append(draw(rng, (end, d))[begin:])
    return np.concatenate(parts)


def _fits(n: int, d: int) -> tuple[int, int]:
    if n * d > MOST_NUMBERS:
        raise InputError(f"n is {n:.3g} and d is {d:.3g}, which no memory holds: ask for fewer tokens")
    return n, d


@overload
def gaussian(n: int, d: int, seed: int = 0, chunks: None = None) -> Array: ...
@overload
def gaussian(n: int, d: int, seed: int = 0, *, chunks: Chunks) -> Any: ...
@_cloud("Gaussian", _N, _D, _SEED)
def gaussian(n: int, d: int, seed: int = 0, chunks: Chunks | None = None) -> Any:
    """Return n independent standard normal tokens in dimension d: x_i ~ N(0, I).

    With `chunks`, a number of rows or the rows of each chunk, they are a Dask array, for clouds that one process cannot
    hold. Its bits are the same for all chunks, but other than those without.

    >>> gaussian(n=3, d=2, seed=0).shape
    (3, 2)
    >>> gaussian(n=10**8, d=2, seed=0, chunks=10**6).numblocks
    (100, 1)

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628).
    """
    return _drawn(np.random.Generator.standard_normal, n, d, seed, chunks)


@overload
def uniform(n: int, d: int, seed: int = 0, low: float = -1.0, high: float = 1.0, chunks: None = None) -> Array: ...
@overload
def uniform(n: int, d: int, seed: int = 0, low: float = -1.0, high: float = 1.0, *, chunks: Chunks) -> Any: ...
@_cloud("Uniform in the cube", _N, _D, _SEED, _LOW, _HIGH)
def uniform(n: int, d: int, seed: int = 0, low: float = -1.0, high: float = 1.0, chunks: Chunks | None = None) -> Any:
    """Return n independent tokens, uniform in the cube [low, high]^d; with `chunks` a Dask array, as `gaussian`.

    >>> bool(abs(uniform(n=50, d=3, seed=1, low=-5, high=5)).max() <= 5)
    True

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465).
    """
    if not number(low, "low") < number(high, "high"):
        raise InputError(f"low is {low:g} and high is {high:g}, expected low < high")
    return _drawn(partial(_in_cube, low, high), n, d, seed, chunks)


def _in_cube(low: float, high: float, rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.uniform(low, high, shape)


@overload
def sphere(n: int, d: int, seed: int = 0, chunks: None = None) -> Array: ...
@overload
def sphere(n: int, d: int, seed: int = 0, *, chunks: Chunks) -> Any: ...
@_cloud("On the sphere", _N, _D, _SEED, surface="sphere")
def sphere(n: int, d: int, seed: int = 0, chunks: Chunks | None = None) -> Any:
    """Return n independent tokens, uniform on the unit sphere of R^d: x_i = g_i / |g_i|, g_i standard normal.

    With `chunks` they are a Dask array, as those of `gaussian`.

    >>> import numpy as np
    >>> bool(np.allclose(np.linalg.norm(sphere(n=9, d=3, seed=0), axis=1), 1))
    True

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794).
    """
    return _drawn(_directions, n, d, seed, chunks)


def _directions(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    x = rng.standard_normal(shape)
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
