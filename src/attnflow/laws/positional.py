"""Positions in the scores: rotated queries and keys, slopes, and biases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from attnflow.core import inputs
from attnflow.core.arrays import cast, foreign, namespace, place
from attnflow.core.graphs import scores_at
from attnflow.core.inputs import Array, InputError, Matrix, Scalar
from attnflow.core.parameters import about, frequencies
from attnflow.laws.around import Around
from attnflow.laws.law import Law, has_scores
from attnflow.laws.sums import Products


@dataclass(frozen=True, eq=False)
class Positional(Around):
    """Attention with positions: scores <R^i q_i, R^j k_j> - slope |i - j| + b_ij, where the law has <q_i, k_j>.

    The token of index p has the position p. Positions enter the scores alone, never the values that are averaged; a
    beta multiplies the whole score, slope and bias too, so that beta = 1 is the usual formula of a transformer. The law
    must have scores, as all have but `Sinkhorn` and `HegselmannKrause`; with Q and K given, the queries are Q x_i and
    the keys K x_j, otherwise B x_i and x_j. Positions and masks may stand around each other in any order.

    Parameters
    ----------
    law
        The law whose scores are changed.
    rope
        Rotary positions: the consecutive pairs of coordinates (0, 1), (2, 3), ... of queries and keys at position p
        are rotated by the angle omega p. One number omega for all pairs, a vector with one for each pair, or a function
        of time that returns either. The last of an odd number of coordinates is left as it is. Scores then depend on
        positions through i - j alone.
    alibi
        A slope: slope |i - j| is subtracted from the scores. A number, a function of time or a list, one for each
        layer.
    bias
        A matrix (n, n) of numbers b_ij that are added to the scores; a function of time, or a sequence over layers.

    Examples
    --------
    >>> import attnflow as af
    >>> law = af.Positional(af.Hardmax(), rope=np.pi / 2)
    >>> law.weights([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])  # each hears itself: turned copies are no copies
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    >>> af.Positional(af.Softmax(B=[[0.0]]), alibi=1.0).weights([[1.0], [2.0], [3.0]]).round(3)
    array([[0.665, 0.245, 0.09 ],
           [0.212, 0.576, 0.212],
           [0.09 , 0.245, 0.665]])

    References
    ----------
    Su et al., *RoFormer: enhanced transformer with rotary position embedding* (arXiv 2104.09864). Press, Smith, Lewis,
    *Train short, test long: attention with linear biases enables input length extrapolation* (arXiv 2108.12409).
    """

    name: ClassVar[str] = "positional"
    title: ClassVar[str] = "With positions"
    formula: ClassVar[str] = "<R^i q_i, R^j k_j> - slope |i - j| + b_ij in place of <q_i, k_j>"
    adds: ClassVar[str] = "positions"

    law: Law = field(metadata=about("part", "the law whose scores are changed", part=Law))
    rope: Any = field(
        default=None, metadata=about("frequencies", "angle by which queries and keys turn per position", start=0.1)
    )
    alibi: Scalar | None = field(
        default=None, metadata=about("function", "slope over the distance of positions", start=0.1)
    )
    bias: Matrix = field(default=None, metadata=about("scores", "numbers b_ij added to the scores"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.scored:
            raise self._without_scores()
        if self.rope is None and self.alibi is None and self.bias is None:
            raise InputError("Positional was given a law alone, without positions: give rope, alibi or bias too")

    @classmethod
    def parameters_around(cls, inside: type[Law]) -> tuple[str, ...]:
        """Return what it takes around laws of a class: nothing around those without scores."""
        return super().parameters_around(inside) if has_scores(inside) else ()

    @property
    def turns(self) -> bool:
        """Whether queries and keys are other than those of the law inside."""
        return self.rope is not None or super().turns

    @property
    def shifts(self) -> bool:
        """Whether scores are other than products of queries and keys."""
        return self.alibi is not None or self.bias is not None or super().shifts

    def check_number(self, n: int, t: float) -> None:
        """Refuse biases that are not those of n tokens."""
        super().check_number(n, t)
        b = scores_at(self.bias, t, "bias")
        if b is not None and len(b) != n:
            raise InputError(f"bias has shape {tuple(b.shape)}, but there are {n} tokens: give {n} rows of {n} numbers")

    def products(
        self, x: Array, t: float = 0, *, sources: Array | None = None, rows: Any = None, columns: Any = None
    ) -> Products:
        """Return the queries and keys of the law inside, rotated."""
        found = super().products(x, t, sources=sources, rows=rows, columns=columns)
        if self.rope is None:
            return found
        omega = self._frequencies(t, found.keys.shape[-1])
        return Products(rotated(found.queries, rows, omega), rotated(found.keys, columns, omega))

    def scores(self, products: Products, t: float = 0, *, rows: Any = None, columns: Any = None) -> Array:
        """Return the scores of the law inside, with slopes and biases added."""
        s = super().scores(products, t, rows=rows, columns=columns)
        if self.alibi is not None:
            slope = inputs.number_at(self.alibi, t, "alibi", like=s)
            s = s - slope * cast(abs(rows[:, None] - columns), like=s)
        b = scores_at(self.bias, t, "bias", like=s)
        return s if b is None else s + b[rows][:, columns]

    def _frequencies(self, t: float, k: int) -> Array:
        """Return the angle of each pair of k coordinates."""
        if k < 2:
            raise InputError("rope rotates pairs of coordinates, but queries and keys have one: give two at least")
        rope = self.rope
        if inputs.varies_in_time(rope):
            rope = frequencies(inputs.called(rope, t, "rope"), f"rope({t:g})")
        if not isinstance(rope, tuple):
            return np.full(k // 2, rope)
        if len(rope) != k // 2:
            raise InputError(
                f"rope holds {len(rope)} numbers, but queries and keys have {k // 2} pairs of coordinates: give one "
                "for each pair, or one number for all"
            )
        return np.array(rope)


def rotated(points: Array, positions: Any, omega: Array) -> Array:
    """Return the points with their pairs of coordinates rotated by omega times their position.

    >>> rotated(np.array([[1.0, 0.0, 5.0]]), np.array([1]), np.array([np.pi / 2])).round(12)
    array([[0., 1., 5.]])
    """
    xp, pairs = namespace(points), len(omega)
    angles = cast(positions, like=points)[:, None] * (
        xp.asarray(omega, dtype=points.dtype, **place(points)) if foreign(points) else omega
    )
    c, s = xp.cos(angles), xp.sin(angles)
    first, second = points[..., 0 : 2 * pairs : 2], points[..., 1 : 2 * pairs : 2]
    turned = xp.stack([c * first - s * second, s * first + c * second], axis=-1)
    turned = turned.reshape((*points.shape[:-1], 2 * pairs))
    return turned if 2 * pairs == points.shape[-1] else xp.concat([turned, points[..., 2 * pairs :]], axis=-1)
