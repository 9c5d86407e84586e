"""Which of several tied sources a token follows from now on: the one whose score grows fastest, as time goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attnflow.core.inputs import Array
from attnflow.geometry.forms import positive_semidefinite
from attnflow.motions.solvers.crossings import GROWTH, Rounding, products
from attnflow.motions.solvers.leader_graph import DEGREE, Indices, LeaderGraph, Piece, Row

# Infinitesimal layers are expanded to order ORDER of their step size. At most LAYERS of them are taken, and at most
# CHANGES changes of choice are waited for.
ORDER, LAYERS, CHANGES = 3, 200, 40


@dataclass(frozen=True)
class Source:
    """A point among those that tie: a token that sits there, the lowest index there, and how much it counts."""

    token: int
    lowest: int
    weight: float


@dataclass(frozen=True)
class Slide:
    """A token that keeps changing between sources, two of which are named, `for_good` or until they settle."""

    token: int
    sources: tuple[int, int]
    for_good: bool = True


def points(x: Array, i: int, tied: Indices, scores: Array, masses: Array | None, rounding: Rounding) -> list[Source]:
    """Return the distinct points among the tied tokens of token i; those within rounding of each other are one.

    A point is represented by i itself if it sits there, else by the token of largest score. It has the mass of the
    tokens that coincide with that one: others nearby are followers, which have not quite arrived.
    """
    found = []
    while len(tied):
        near = np.linalg.norm(x[tied] - x[tied[0]], axis=1) <= rounding.same
        group, tied = tied[near], tied[~near]
        token = i if i in group else int(group[scores[group].argmax()])
        copies = group[np.linalg.norm(x[group] - x[token], axis=1) <= rounding.copy]
        weight = float(len(copies) if masses is None else masses[copies].sum())
        found.append(Source(token, int(group[0]), weight))
    return found


def row_of(sources: Sequence[Source], ties: str) -> Row:
    """Return the sources a token listens to when these tie, with their shares."""
    if ties == "first":
        sources = [min(sources, key=lambda source: source.lowest)]
    weights = np.array([source.weight if ties == "tokens" else 1.0 for source in sources])
    return np.array([source.token for source in sources]), weights / weights.sum()


class Settlement:
    """The search for a consistent choice at an instant when some tokens have tied sources.

    A token that starts there first moves as the law says when all these tie, one under way as before. A choice is
    consistent if its scores grow fastest, by the first derivative in time that tells sources apart, when it is
    followed; sources that no derivative tells apart stay tied for good. Until a choice is, layers of an infinitesimal
    step size h are taken, positions being polynomials in h, and tokens follow the source that is then ahead. If the
    choices keep changing, the token slides along the boundary.

    Where B is symmetric positive semidefinite and leaders rest, y <- argmax_a <By, x_a> never repeats, since <By, y>
    grows. For other B, layers that change the choice more than once, or choose among three sources or more, may end
    elsewhere than these derivatives say: then nothing is decided.
    """

    def __init__(
        self, following: LeaderGraph, x: Array, B: Array | None, tied: Mapping[int, list[Source]], rounding: Rounding
    ) -> None:
        self.following, self.x, self.B, self.tied, self.rounding = following, x, B, tied, rounding

    def settle(self, ties: str, under_way: bool) -> LeaderGraph | Slide:
        """Return which sources tokens follow from now on; moving tokens have followed some tied sources until now."""
        chosen = {i: self._followed(i) if under_way else sources for i, sources in self.tied.items()}
        terms = np.concatenate([self.x[:, None], np.zeros((len(self.x), ORDER, self.x.shape[1]))], axis=1)
        left: list[tuple[int, Source]] = []
        before, changes, returned = chosen, 0, False
        two_way = all(len(sources) <= 2 for sources in self.tied.values())
        for layer in range(1, LAYERS):
            following = self.following.replaced({i: row_of(sources, ties) for i, sources in chosen.items()})
            if self._stays_ahead(following, chosen):
                if changes == 0 or (changes == 1 and two_way) or self.B is None or positive_semidefinite(self.B):
                    return following
                break
            flat = terms.reshape(len(terms), -1)
            terms[:, 1:] += (following.mean(flat) - flat).reshape(terms.shape)[:, :-1]
            noise = self.rounding.slope * GROWTH[: ORDER + 1] * float(layer) ** np.arange(ORDER + 1)
            ahead = {i: self._fastest(terms, i, sources, noise) for i, sources in self.tied.items()}
            if ahead != chosen:
                left += [(i, source) for i in chosen for source in chosen[i] if source not in ahead[i]]
                returned = returned or any((i, source) in left for i in ahead for source in ahead[i])
                before, chosen, changes = chosen, ahead, changes + 1
            if changes > CHANGES:
                break
        i = next((i for i in chosen if chosen[i] != before[i]), next(iter(chosen)))
        return Slide(i, _different(before[i], chosen[i]), for_good=returned)

    def _stays_ahead(self, following: LeaderGraph, chosen: Mapping[int, list[Source]]) -> bool:
        """Say whether what is followed has the fastest growing scores."""
        series = Piece(0.0, self.x, following).series
        noise = self.rounding.slope * GROWTH[: DEGREE + 1]
        ahead = {i: self._fastest(series, i, sources, noise) for i, sources in self.tied.items()}
        return all(source in ahead[i] for i in chosen for source in chosen[i])

    def _followed(self, i: int) -> list[Source]:
        places = self.x[self.following.sources[self.following.owners == i]]
        near = [
            source
            for source in self.tied[i]
            if np.linalg.norm(places - self.x[source.token], axis=1).min() <= self.rounding.same
        ]
        return near or self.tied[i]

    def _fastest(self, series: Array, i: int, sources: list[Source], noise: Array) -> list[Source]:
        """Return the sources ahead by the first Taylor coefficient of their scores that tells them apart."""
        own = series[[i] * len(sources)]
        own = own if self.B is None else own @ self.B.T
        scores = products(own, series[[source.token for source in sources]], series.shape[1] - 1)
        for order in range(1, len(noise)):
            best = scores[:, order] >= scores[:, order].max() - noise[order]
            scores, sources = scores[best], [source for source, stays in zip(sources, best, strict=True) if stays]
        return sources


def _different(one: Sequence[Source], other: Sequence[Source]) -> tuple[int, int]:
    """Return a source of the first choice and one of the second that are not the same."""
    a = next((source for source in one if source not in other), one[0])
    b = next((source for source in other if source != a), other[0])
    return a.token, b.token
