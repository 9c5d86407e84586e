"""Exact symmetries of flows: mirrors in coordinate planes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.enclosures.numbers import Numbers, ball


@dataclass(frozen=True)
class Mirrors:
    """A group of mirrors in coordinate planes and their products: exact symmetries of tokens, of B and of V.

    Element g changes coordinates by the signs `signs[g]` (d,) and maps token i to token `places[g, i]`. If tokens are
    symmetric once, they are so for ever. Without this knowledge errors that break the symmetry may grow without bound.

    >>> flip = Mirrors(np.array([[1.0], [-1.0]]), np.array([[0, 1, 2], [1, 0, 2]]))
    >>> flip.at_zero.ravel().tolist(), flip.tied(2, 0)
    ([False, False, True], frozenset({0, 1}))
    """

    signs: NDArray[np.float64]
    places: NDArray[np.int64]

    @classmethod
    def none(cls, n: int, d: int) -> Mirrors:
        """Return the group without mirrors."""
        return cls(np.ones((1, d)), np.arange(n)[None])

    @cached_property
    def at_zero(self) -> NDArray[np.bool_]:
        """Which coordinates (n, d) are 0 for ever: an element that keeps the token changes their sign."""
        keeps = self.places == np.arange(self.places.shape[1])
        return (keeps[:, :, None] & (self.signs == -1)[:, None, :]).any(axis=0)

    def tied(self, i: int, j: int) -> frozenset[int]:
        """Return the tokens to which token i listens for ever as much as to token j."""
        return frozenset(int(places[j]) for places in self.places if places[i] == i)

    def keep(self, tokens: Numbers, matrices: list[Numbers | None]) -> bool:
        """Say whether the mirrors map tokens to tokens and keep some matrices, without any rounding error."""
        for signs, places in zip(self.signs, self.places, strict=True):
            moved = all(
                one * int(sign) == other
                for row, others in zip(tokens, tokens[places], strict=True)
                for one, sign, other in zip(row, signs, others, strict=True)
            )
            odd = [(j, k) for j, k in np.ndindex(len(signs), len(signs)) if signs[j] != signs[k]]
            if not moved or any(M is not None and M[place] != 0 for M in matrices for place in odd):
                return False
        return True

    @cached_property
    def projection(self) -> Any:
        """The matrix of the nearest symmetric configuration, for tokens written as one vector."""
        from flint import arb_mat

        (g, n), d = self.places.shape, self.signs.shape[1]
        found = np.zeros((n * d, n * d))
        for signs, places in zip(self.signs, self.places, strict=True):
            for i, k in np.ndindex(n, d):
                found[i * d + k, places[i] * d + k] += signs[k]
        return arb_mat([[ball(int(one)) / g for one in row] for row in found])

    def symmetric(self, values: Sequence[Any]) -> list[Any]:
        """Return what is exactly symmetric, from one number for each coordinate: images are copied, with signs."""
        d = self.signs.shape[1]
        images = [(*self.image(i, k), k) for i, k in np.ndindex(self.places.shape[1], d)]
        return [values[j * d + k] * sign for j, sign, k in images]

    def image(self, i: int, k: int) -> tuple[int, int]:
        """Return (j, sign): the coordinate k of token i is always sign times that of token j, its first image."""
        g = int(self.places[:, i].argmin())
        return int(self.places[g, i]), 0 if self.at_zero[i, k] else int(self.signs[g, k])
