"""Which of several tied sources a token follows from now on: the one whose score grows fastest, as time goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attnflow.inputs import Array
from attnflow.motions.crossings import GROWTH, Rounding, products
from attnflow.motions.following import DEGREE, Following, Indices, Piece, Row


@dataclass(frozen=True)
class Source:
    """A point among those that tie: a token that sits there, the lowest index there, and how much it counts."""

    token: int
    lowest: int
    weight: float


@dataclass(frozen=True)
class Slide:
    """A token that is sent to and fro between sources, two of which are named, `for_good` or until they settle."""

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

    A token that starts there first moves as the law says when all these tie, one under way as before. Those sources are
    then ahead whose scores grow fastest, by the first derivative in time that tells them apart; tokens follow them
    instead, and derivatives are compared again: what infinitesimal layers do one after the other. A choice that stays
    ahead is consistent, and is followed from now on; sources that no derivative tells apart stay tied for good. If
    choices repeat without settling, a token is sent to and fro: it slides along the boundary.

    Where B is symmetric positive semidefinite and leaders rest, y <- argmax_a <By, x_a> never repeats, since <By, y>
    grows. For other B, layers that change their mind more than once may end elsewhere than these derivatives say.
    """

    def __init__(
        self, following: Following, x: Array, B: Array | None, tied: Mapping[int, list[Source]], rounding: Rounding
    ) -> None:
        self.following, self.x, self.B, self.tied, self.rounding = following, x, B, tied, rounding

    def settle(self, ties: str, under_way: bool) -> Following | Slide:
        """Return who follows whom from now on; tokens under way have followed some of the tied sources until now."""
        chosen = {i: self._followed(i) if under_way else sources for i, sources in self.tied.items()}
        before: list[dict[int, list[Source]]] = []
        memory: dict[int, list[Source]] = {}
        while True:
            following, series = self._trial(chosen, ties)
            ahead = self._ahead(series, chosen)
            if all(source in ahead[i] for i in chosen for source in chosen[i]):
                # Sources that now stay tied may have been told apart, by higher derivatives, on the way here.
                ahead = {i: memory.pop(i, chosen[i]) for i in chosen}
                ahead = {i: ahead[i] if all(s in chosen[i] for s in ahead[i]) else chosen[i] for i in chosen}
                if ahead == chosen:
                    return following if len(before) < 2 or self._converges() else self._undecided(before[-1], chosen)
            else:
                changed = [i for i in chosen if ahead[i] != chosen[i]]
                # One infinitesimal layer is a straight step: of the series its first two terms.
                memory |= {i: self._fastest(series[:, :2], i, self.tied[i], DEGREE) for i in changed}
            if ahead in before:
                i = next(i for i in ahead if ahead[i] != chosen[i])
                return Slide(i, _different(chosen[i], ahead[i]))
            before.append(chosen)
            chosen = ahead

    def _converges(self) -> bool:
        """Whether B is symmetric positive semidefinite, up to rounding."""
        if self.B is None:
            return True
        room = 1e-12 * float(np.abs(self.B).max())
        return bool(np.abs(self.B - self.B.T).max() <= room and np.linalg.eigvalsh(self.B).min() >= -room)

    def _undecided(self, before: Mapping[int, list[Source]], chosen: Mapping[int, list[Source]]) -> Slide:
        i = next(i for i in chosen if chosen[i] != before[i])
        return Slide(i, _different(before[i], chosen[i]), for_good=False)

    def _ahead(self, series: Array, chosen: Mapping[int, list[Source]]) -> dict[int, list[Source]]:
        """Return the sources whose scores grow fastest.

        A token decides by a derivative only if no other decides by a lower one: that may change its own.
        """
        for order in range(1, DEGREE + 1):
            fastest = {i: self._fastest(series, i, sources, order) for i, sources in self.tied.items()}
            ahead = {i: chosen[i] if all(s in fastest[i] for s in chosen[i]) else fastest[i] for i in chosen}
            if ahead != chosen:
                return ahead
        return dict(chosen)

    def _followed(self, i: int) -> list[Source]:
        places = self.x[self.following.sources[self.following.owners == i]]
        near = [
            source
            for source in self.tied[i]
            if np.linalg.norm(places - self.x[source.token], axis=1).min() <= self.rounding.same
        ]
        return near or self.tied[i]

    def _trial(self, chosen: Mapping[int, list[Source]], ties: str) -> tuple[Following, Array]:
        following = self.following.replaced({i: row_of(sources, ties) for i, sources in chosen.items()})
        return following, Piece(0.0, self.x, following).series

    def _scores(self, series: Array, i: int, sources: Sequence[Source]) -> Array:
        """Taylor coefficients (sources, order) of the scores of these sources for token i."""
        own = series[[i] * len(sources)]
        own = own if self.B is None else own @ self.B.T
        return products(own, series[[source.token for source in sources]], DEGREE)

    def _fastest(self, series: Array, i: int, sources: list[Source], most: int) -> list[Source]:
        """Return the sources ahead by their derivatives up to an order."""
        scores = self._scores(series, i, sources)
        for order in range(1, most + 1):
            best = scores[:, order] >= scores[:, order].max() - self.rounding.slope * GROWTH[order]
            scores, sources = scores[best], [source for source, stays in zip(sources, best, strict=True) if stays]
        return sources


def _different(one: Sequence[Source], other: Sequence[Source]) -> tuple[int, int]:
    """Return a source of the first choice and one of the second that are not the same."""
    a = next((source for source in one if source not in other), one[0])
    b = next((source for source in other if source != a), other[0])
    return a.token, b.token
