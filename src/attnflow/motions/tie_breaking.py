"""Which of several tied sources a token follows from now on: the one whose score grows fastest, as time goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy as np

from attnflow.inputs import Array
from attnflow.motions.crossings import GROWTH, Rounding, products
from attnflow.motions.following import DEGREE, Following, Indices, Piece, Row

# If the average of the tied sources does not lead to a consistent choice, so many others are tried.
CHOICES = 64


@dataclass(frozen=True)
class Source:
    """A point among those that tie: a token that sits there, the lowest index there, and how much it counts."""

    token: int
    lowest: int
    weight: float


@dataclass(frozen=True)
class Slide:
    """A token that each of two sources pushes back to the other."""

    token: int
    sources: tuple[int, int]


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

    Tokens first move towards the average of their tied sources. Of these, only those stay whose score grows fastest,
    by the first derivative in time that tells them apart; the average is then that of fewer sources, and derivatives
    are compared again. Sources that no derivative tells apart stay tied for good. ``ties="first"`` takes the lowest
    index that stays ahead when followed. A choice is consistent if it is still ahead just after: if none is, the token
    slides along the boundary.
    """

    def __init__(
        self, following: Following, x: Array, B: Array | None, tied: Mapping[int, list[Source]], rounding: Rounding
    ) -> None:
        self.following, self.x, self.B, self.tied, self.rounding = following, x, B, tied, rounding

    def by_average(self, ties: str) -> Following | Slide:
        """Return who follows whom from now on, starting from the averages of all tied sources."""
        chosen = {i: list(sources) for i, sources in self.tied.items()}
        while True:
            following, series = self._trial(chosen, ties)
            kept = {i: self._fastest(series, i, sources) for i, sources in chosen.items()}
            if all(len(kept[i]) == len(chosen[i]) for i in chosen):
                break
            chosen = kept
        slide = self._pushed_back(series, chosen)
        return following if slide is None else self._other_choice(chosen, ties, slide)

    def by_index(self) -> Following | Slide:
        """Return who follows whom from now on, trying the tied sources in the order of their indices."""
        waiting = {i: sorted(sources, key=lambda source: source.lowest) for i, sources in self.tied.items()}
        while True:
            chosen = {i: sources[:1] for i, sources in waiting.items()}
            following, series = self._trial(chosen, "first")
            slide = self._pushed_back(series, chosen)
            if slide is None:
                return following
            if len(waiting[slide.token]) == 1:
                return slide
            waiting[slide.token].pop(0)

    def _trial(self, chosen: Mapping[int, list[Source]], ties: str) -> tuple[Following, Array]:
        following = self.following.replaced({i: row_of(sources, ties) for i, sources in chosen.items()})
        return following, Piece(0.0, self.x, following).series

    def _scores(self, series: Array, i: int, sources: Sequence[Source]) -> Array:
        """Taylor coefficients (sources, order) of the scores of these sources for token i."""
        own = series[[i] * len(sources)]
        own = own if self.B is None else own @ self.B.T
        return products(own, series[[source.token for source in sources]], DEGREE)

    def _fastest(self, series: Array, i: int, sources: list[Source]) -> list[Source]:
        if len(sources) == 1:
            return sources
        scores = self._scores(series, i, sources)
        for order in range(1, DEGREE + 1):
            ahead = scores[:, order] >= scores[:, order].max() - self.rounding.tie[i] * GROWTH[order]
            if not ahead.all():
                return [source for source, stays in zip(sources, ahead, strict=True) if stays]
        return sources

    def _pushed_back(self, series: Array, chosen: Mapping[int, list[Source]]) -> Slide | None:
        """Return a token whose choice does not stay ahead of the other tied sources just after."""
        for i, kept in chosen.items():
            others = [source for source in self.tied[i] if source not in kept]
            if not others:
                continue
            scores = self._scores(series, i, [kept[0], *others])
            lead = (scores[:1] - scores[1:])[:, 1 : DEGREE + 1]
            clear = np.abs(lead) > self.rounding.tie[i] * GROWTH[1 : DEGREE + 1]
            first = lead[np.arange(len(others)), clear.argmax(axis=1)]
            behind = clear.any(axis=1) & (first < 0)
            if behind.any():
                return Slide(i, (kept[0].token, others[int(behind.argmax())].token))
        return None

    def _other_choice(self, chosen: dict[int, list[Source]], ties: str, slide: Slide) -> Following | Slide:
        """Try single sources, for all tokens that had a choice."""
        open_rows = [i for i, sources in self.tied.items() if len(sources) > 1]
        for singles in islice(product(*(self.tied[i] for i in open_rows)), CHOICES):
            trial = {**chosen, **{i: [source] for i, source in zip(open_rows, singles, strict=True)}}
            following, series = self._trial(trial, ties)
            if self._pushed_back(series, trial) is None:
                return following
        return slide
